"""A scan over rows of unequal length that runs ever fewer of them.

Rows are ordered by length, longest first. A chain of while loops runs over ever shorter static prefixes of the batch: as
soon as all rows past a prefix are at their ends, the next loop goes on without them. Backwards the chain runs the other
way around. Of the forward pass the carries are kept, each written once; a step is computed again where it is needed.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from maskax import _compat
from maskax._operand import zeros

Step = Callable[[Any, list[Any], list[Any], list[Any]], tuple[list[Any], list[Any], list[Any]]]
"""`(alive, consts, carry, x) -> (carry, y, sums)`, of a few rows; `alive` says which of them have such a step.

Where a row is not alive, its carry passes through, and nothing is added to the sums.
"""


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a scan takes and gives.

    Attributes:
        consts: whether each constant is in rows; else it is shared by all.
        carry: the number of carries.
        xs: per input whether it is kept by step, rows in order of length, `(steps, rows, ...)`. Only the history of the
            carries is; else it is `(rows, steps, ...)`.
        ys: per output its type per row and step, and the same.
        sums: types of what is summed over rows and steps.
        steps: the padded number of steps.
        reverse: whether it runs from the last step to the first.
        prefixes: how many prefixes of the batch there are.
    """

    consts: tuple[bool, ...]
    carry: int
    xs: tuple[bool, ...]
    ys: tuple[tuple[jax.ShapeDtypeStruct, bool], ...]
    sums: tuple[jax.ShapeDtypeStruct, ...]
    steps: int
    reverse: bool
    prefixes: int

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Constants, carries, inputs."""
        a, b = len(self.consts), len(self.consts) + self.carry
        return list(values[:a]), list(values[a:b]), list(values[b:])

    def y_shape(self, i: int, rows: int) -> tuple[int, ...]:
        """The shape of an output."""
        y, by_step = self.ys[i]
        return (self.steps, rows, *y.shape) if by_step else (rows, self.steps, *y.shape)


def shrinking_scan(step: Step, layout: Layout, lengths: Any, values: Sequence[Any], **known: Any) -> list[Any]:
    """Runs `step` for as many steps as each row has.

    Args:
        step: what to run.
        layout: what it takes and gives.
        lengths: `(rows,)`, the number of steps of each row.
        values: constants, carries `(rows, ...)`, inputs.
        known: what only derivatives say: `linear`, the positions in `values` that all results are linear in; and
            what only a program says that was not differentiated: `per_row`, which makes a step for other constants in rows.

    Returns:
        Carries, outputs, sums.
    """
    values = _compat.varying_alike([lengths, *values])
    known = {"linear": (), "per_row": None} | known
    return _shrink_p.bind(*values, step=step, layout=layout, **known)


_shrink_p = Primitive("shrinking_scan")
_shrink_p.multiple_results = True


def _run(
    lengths: Any, *values: Any, step: Step, layout: Layout, shrinking: bool = True, **_: Any
) -> list[Any]:
    """The scan as loops; where not `shrinking`, as a `lax.scan` of all rows, which JAX can differentiate."""
    rows = lengths.shape[0]
    order = jnp.argsort(-lengths, stable=True)
    consts, carry, xs = layout.split(values)
    consts = [c[order] if in_rows else c for c, in_rows in zip(consts, layout.consts)]
    lengths, carry = lengths[order], [c[order] for c in carry]
    ys = [zeros(jax.ShapeDtypeStruct((layout.steps, rows, *y.shape), y.dtype)) for y, _ in layout.ys]
    sums = [jnp.zeros(s.shape, _wide(s.dtype)) for s in layout.sums]
    fresh = _compat.varying_alike([*ys, *sums, lengths, *values])
    ys, sums = list(fresh[: len(ys)]), list(fresh[len(ys) : len(ys) + len(sums)])

    def at(i: Any, size: int, carry: list[Any], sums: list[Any]) -> Any:
        """Step `i` of the first `size` rows."""
        x = [x[i, :size] if by_step else x[order[:size], i] for x, by_step in zip(xs, layout.xs)]
        held = [c[:size] if in_rows else c for c, in_rows in zip(consts, layout.consts)]
        carry, y, more = step(i < lengths[:size], held, carry, x)
        return carry, y, [a + b.astype(a.dtype) for a, b in zip(sums, more)]

    def every_row(state: Any, i: Any) -> Any:
        carry, y, sums = at(i, rows, *state)
        return (carry, sums), y

    if shrinking:
        sizes = sorted({-(-rows * (i + 1) // layout.prefixes) for i in range(layout.prefixes)}, reverse=True)
        ends = [*[lengths[size] for size in sizes[1:]], lengths[0]]  # of the longest row that the next prefix leaves out
        chain = list(zip(sizes, [jnp.zeros_like(lengths[0]), *ends[:-1]], ends))
        for size, start, end in reversed(chain) if layout.reverse else chain:
            carry, ys, sums = _steps(at, size, start, end, layout.reverse, carry, ys, sums)
    else:
        (carry, sums), ys = jax.lax.scan(every_row, (carry, sums), jnp.arange(layout.steps), reverse=layout.reverse)

    back = jnp.argsort(order)
    carry = [c[back] for c in carry]
    ys = [y if by_step else jnp.moveaxis(y[:, back], 0, 1) for y, (_, by_step) in zip(ys, layout.ys)]
    return [*carry, *ys, *[s.astype(t.dtype) for s, t in zip(sums, layout.sums)]]


def _steps(at: Any, size: int, start: Any, end: Any, reverse: bool, carry: Any, ys: Any, sums: Any) -> Any:
    """Steps `start..end` of the first `size` rows, as a while loop."""

    def one(state: Any) -> Any:
        count, carry, ys, sums = state
        i = end - 1 - count if reverse else start + count
        carry, y, sums = at(i, size, carry, sums)
        ys = [jax.lax.dynamic_update_slice(all_, y[None], (i, *[0] * y.ndim)) for all_, y in zip(ys, y)]
        return count + 1, carry, ys, sums

    state = (jnp.zeros_like(start), [c[:size] for c in carry], ys, sums)
    _, part, ys, sums = jax.lax.while_loop(lambda state: state[0] < end - start, one, state)
    return [jnp.concatenate([new, old[size:]]) for new, old in zip(part, carry)], ys, sums


def _wide(dtype: Any) -> Any:
    """Sums over many steps: half precision is summed up in single."""
    return jnp.float32 if jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32 else dtype


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.inexact)


@_shrink_p.def_abstract_eval
def _(lengths: Any, *values: Any, layout: Layout, **_: Any) -> list[Any]:
    carry = layout.split(values)[1]
    shapes = [(c.shape, c.dtype) for c in carry]
    shapes += [(layout.y_shape(i, lengths.shape[0]), y.dtype) for i, (y, _) in enumerate(layout.ys)]
    shapes += [(s.shape, s.dtype) for s in layout.sums]
    return [jax.core.ShapedArray(*shape, manual_axis_type=lengths.manual_axis_type) for shape in shapes]


@_shrink_p.def_impl
def _(*values: Any, **params: Any) -> Any:
    return jax.jit(lambda *values: _run(*values, **params))(*values)


mlir.register_lowering(_shrink_p, mlir.lower_fun(_run, multiple_results=True))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, step: Step, layout: Layout, **_: Any) -> Any:
    """The scan, with a history of its carries; and the scan of the step's derivative along it, which is linear."""
    lengths, *values = primals
    consts, carry, xs = layout.split(values)
    d_consts, d_carry, d_xs = layout.split(tangents[1:])
    moving_consts, moving_xs = ([i for i, t in enumerate(ts) if type(t) is not ad.Zero] for ts in (d_consts, d_xs))
    floats = [i for i, c in enumerate(carry) if _is_float(c)]
    float_ys = [i for i, (y, _) in enumerate(layout.ys) if _is_float(y)]
    float_sums = [i for i, s in enumerate(layout.sums) if _is_float(s)]

    def with_history(alive: Any, consts: list[Any], carry: list[Any], x: list[Any]) -> Any:
        new, y, sums = step(alive, consts, carry, x)
        return new, [*y, *carry], sums

    history = tuple((jax.ShapeDtypeStruct(c.shape[1:], c.dtype), True) for c in carry)
    outs = shrinking_scan(with_history, dataclasses.replace(layout, ys=layout.ys + history), lengths, values)
    n_results = layout.carry + len(layout.ys)
    kept = outs[n_results : n_results + layout.carry]
    outs = [*outs[:n_results], *outs[n_results + layout.carry :]]

    def slope(alive: Any, consts: list[Any], d_carry: list[Any], x: list[Any]) -> Any:
        fixed, d_consts = consts[: len(layout.consts)], consts[len(layout.consts) :]
        n = len(layout.xs)
        xs, carry, d_xs = x[:n], x[n : n + layout.carry], x[n + layout.carry :]

        def of_moving(consts: list[Any], carry: list[Any], xs: list[Any]) -> Any:
            new_carry, y, sums = step(
                alive, _put(fixed, moving_consts, consts), _put(kept_carry, floats, carry), _put(all_xs, moving_xs, xs)
            )
            return [new_carry[i] for i in floats], [y[i] for i in float_ys], [sums[i] for i in float_sums]

        kept_carry, all_xs = carry, xs
        primals = ([fixed[i] for i in moving_consts], [carry[i] for i in floats], [xs[i] for i in moving_xs])
        return jax.jvp(of_moving, primals, (list(d_consts), list(d_carry), list(d_xs)))[1]

    d_values = [
        *[*consts, *[d_consts[i] for i in moving_consts]],
        *[ad.instantiate_zeros(d_carry[i]) for i in floats],
        *[*xs, *kept, *[d_xs[i] for i in moving_xs]],
    ]
    d_layout = dataclasses.replace(
        layout,
        consts=(*layout.consts, *[layout.consts[i] for i in moving_consts]),
        carry=len(floats),
        xs=(*layout.xs, *[True] * layout.carry, *[layout.xs[i] for i in moving_xs]),
        ys=tuple(layout.ys[i] for i in float_ys),
        sums=tuple(layout.sums[i] for i in float_sums),
    )
    a, b = len(d_layout.consts), len(d_layout.consts) + d_layout.carry
    linear = (*range(len(consts), a), *range(a, b), *range(b + len(xs) + len(carry), len(d_values)))
    slopes = shrinking_scan(slope, d_layout, lengths, d_values, linear=linear)
    d_outs = [ad.Zero(jax.typeof(out).to_tangent_aval()) for out in outs]
    places = [*floats, *[layout.carry + i for i in float_ys], *[n_results + i for i in float_sums]]
    return outs, _put(d_outs, places, slopes)


def _put(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    """`values` with others in some places."""
    out = list(values)
    for i, value in zip(places, new, strict=True):
        out[i] = value
    return out


ad.primitive_jvps[_shrink_p] = _jvp


def _transpose(
    cts: Sequence[Any], lengths: Any, *values: Any, step: Step, layout: Layout, linear: Sequence[int], **_: Any
) -> Any:
    """The scan the other way around, of the step's transpose."""
    a, b = len(layout.consts), len(layout.consts) + layout.carry
    fixed_consts, moving_consts = ([i for i in range(a) if (i in linear) == moving] for moving in (False, True))
    fixed_xs, moving_xs = ([i for i in range(b, len(values)) if (i in linear) == moving] for moving in (False, True))
    shared, in_rows = ([i for i in moving_consts if layout.consts[i] == rows] for rows in (False, True))
    aval = lambda x: x.aval if ad.is_undefined_primal(x) else jax.typeof(x)
    cts = list(map(ad.instantiate_zeros, cts))
    ct_carry, ct_ys, ct_sums = (
        cts[: layout.carry],
        cts[layout.carry :][: len(layout.ys)],
        cts[len(cts) - len(layout.sums) :],
    )

    def pullback(alive: Any, consts: list[Any], carry: list[Any], x: list[Any]) -> Any:
        rows = alive.shape[0]
        held, ct_sums = consts[: len(fixed_consts)], consts[len(fixed_consts) :]
        ct_carry, so_far = carry[: layout.carry], carry[layout.carry :]
        known_x, ct_y = x[: len(fixed_xs)], x[len(fixed_xs) :]
        known = dict(zip(fixed_consts, held)) | dict(zip(fixed_xs, known_x))

        def of_linear(*moving: Any) -> Any:
            new = known | dict(zip([*moving_consts, *range(a, b), *moving_xs], moving))
            return step(alive, *layout.split([new[i] for i in range(len(values))]))

        def struct(i: int) -> jax.ShapeDtypeStruct:
            x = aval(values[i])
            if i < a and not layout.consts[i]:
                return jax.ShapeDtypeStruct(x.shape, x.dtype)
            return jax.ShapeDtypeStruct((rows, *x.shape[2 if i >= b else 1 :]), x.dtype)

        structs = [struct(i) for i in [*moving_consts, *range(a, b), *moving_xs]]
        found = jax.linear_transpose(of_linear, *structs)((list(ct_carry), list(ct_y), list(ct_sums)))
        pulled = dict(zip([*moving_consts, *range(a, b), *moving_xs], found))
        totals = [total + pulled[i] for total, i in zip(so_far, in_rows)]
        return [*[pulled[i] for i in range(a, b)], *totals], [pulled[i] for i in moving_xs], [pulled[i] for i in shared]

    of_step = lambda i: (jax.ShapeDtypeStruct(aval(values[i]).shape[2:], aval(values[i]).dtype), layout.xs[i - b])
    back = dataclasses.replace(
        layout,
        consts=(*[layout.consts[i] for i in fixed_consts], *[False] * len(ct_sums)),
        carry=layout.carry + len(in_rows),
        xs=(*[layout.xs[i - b] for i in fixed_xs], *[by_step for _, by_step in layout.ys]),
        ys=tuple(map(of_step, moving_xs)),
        sums=tuple(jax.ShapeDtypeStruct(aval(values[i]).shape, aval(values[i]).dtype) for i in shared),
        reverse=not layout.reverse,
    )
    nothing = [zeros(aval(values[i])) for i in in_rows]
    operands = [
        *[values[i] for i in fixed_consts],
        *ct_sums,
        *ct_carry,
        *nothing,
        *[values[i] for i in fixed_xs],
        *ct_ys,
    ]
    found = shrinking_scan(pullback, back, lengths, operands)
    places = [*range(a, b), *in_rows, *moving_xs, *shared]
    out = _put([None] * len(values), places, found)
    return [None, *[ct if ad.is_undefined_primal(x) else None for ct, x in zip(out, values)]]


ad.primitive_transposes[_shrink_p] = _transpose


def _batched(args: Sequence[Any], dims: Sequence[Any], *, step: Step, layout: Layout, linear: Any, per_row: Any) -> Any:
    """Rows of rows are rows, unless each batch has its own sums or its own history."""
    count = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    front = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    mapped = [d is not None for d in dims]
    joined = tuple(in_rows or m for in_rows, m in zip(layout.consts, mapped[1:]))
    by_step = any(layout.xs) or any(kept for _, kept in layout.ys)
    if layout.sums or by_step or (joined != layout.consts and per_row is None):
        axes = [0 if m else None for m in mapped]
        outs = jax.vmap(lambda *values: tuple(_run(*values, step=step, layout=layout, shrinking=False)), axes)(*front)
        return outs, [0] * len(outs)
    rows = args[0].shape[-1] if not mapped[0] else front[0].shape[1]

    def merged(x: Any, is_mapped: bool) -> Any:
        x = x if is_mapped else jnp.broadcast_to(x, (count, *x.shape))
        return x.reshape(count * rows, *x.shape[2:])

    def const(x: Any, is_mapped: bool, in_rows: bool) -> Any:
        if in_rows or not is_mapped:
            return merged(x, is_mapped) if in_rows else x
        return jnp.repeat(x, rows, axis=0)

    n = len(layout.consts)
    consts = [const(*each) for each in zip(front[1:], mapped[1:], layout.consts)]
    rest = [merged(x, m) for x, m in zip(front[1 + n :], mapped[1 + n :])]
    step = step if joined == layout.consts else per_row(joined)
    wider = dataclasses.replace(layout, consts=joined)
    outs = shrinking_scan(step, wider, merged(front[0], mapped[0]), [*consts, *rest], linear=linear, per_row=per_row)
    return [out.reshape(count, rows, *out.shape[1:]) for out in outs], [0] * len(outs)


batching.primitive_batchers[_shrink_p] = _batched
