"""Derivatives and batching of a scan that shrinks.

Backwards the chain of loops runs the other way around. Of the forward pass the carries are kept, each written once; a
step is computed again where it is needed.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from maskax._loops._shrink import Layout, Step, run, shrink_p, shrinking_scan
from maskax._loops._types import transpose_of
from maskax._operand import zeros


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.inexact)


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


ad.primitive_jvps[shrink_p] = _jvp


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
        found = transpose_of(of_linear, structs, [alive, *consts, *carry, *x])(
            (list(ct_carry), list(ct_y), list(ct_sums))
        )
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


ad.primitive_transposes[shrink_p] = _transpose


def _batched(args: Sequence[Any], dims: Sequence[Any], *, step: Step, layout: Layout, linear: Any, per_row: Any) -> Any:
    """Rows of rows are rows, unless each batch has its own sums or its own history."""
    count = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    front = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    mapped = [d is not None for d in dims]
    joined = tuple(in_rows or m for in_rows, m in zip(layout.consts, mapped[1:]))
    by_step = any(layout.xs) or any(kept for _, kept in layout.ys)
    if layout.sums or by_step or (joined != layout.consts and per_row is None):
        axes = [0 if m else None for m in mapped]
        outs = jax.vmap(lambda *values: tuple(run(*values, step=step, layout=layout, shrinking=False)), axes)(*front)
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
    wider = dataclasses.replace(layout, consts=joined, ordered=False)
    outs = shrinking_scan(step, wider, merged(front[0], mapped[0]), [*consts, *rest], linear=linear, per_row=per_row)
    return [out.reshape(count, rows, *out.shape[1:]) for out in outs], [0] * len(outs)


batching.primitive_batchers[shrink_p] = _batched
