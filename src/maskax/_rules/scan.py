"""Scans. Over a ragged length each row's carry freezes at its own end, and the loop stops at the longest row's.

Past a row's end the body still runs, on whatever is there. Its results are thrown away, and `Sizes.alive` is false, so
that singular primitives in it get harmless operands: a row's frozen carry may well be a pole of the next step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context, programs
from maskax._loops import Layout, shrinking_scan
from maskax._operand import Operand, select, split, zeros
from maskax._registry import rule
from maskax._rules.control import arrays, spread
from maskax._shapes import Dim, Shrink, Sizes
from maskax._watch import watch

Step = Callable[[Sizes, list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]]
"""`(sizes, consts, carry, x) -> (carry, y)`."""


@jax.custom_batching.custom_vmap
def longest(size: Any) -> Any:
    """The size itself; under `vmap`, of any depth, the largest of the batch, which is then not batched.

    A loop bound that is not batched is what lets the loop stop.
    """
    return size


@longest.def_vmap
def _(axis_size: int, in_batched: list[bool], size: Any) -> tuple[Any, bool]:
    return longest(jnp.max(size, axis=0, initial=0) if in_batched[0] else size), False


@rule("scan")
def scan(ctx: Context, *operands: Operand, jaxpr: Any, length: Dim, reverse: bool, unroll: int, **_: Any) -> list[Any]:
    """`carry, f32[n, d] -> carry, f32[n, d]`."""
    n_consts, n_carry = _compat.scan_counts(ctx.eqn.params)
    consts, carry, xs = split([x.data for x in operands], n_consts, n_consts + n_carry)

    def step(sizes: Sizes, consts: list[Any], carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        values: list[Any] = list(ctx.inputs([*consts, *carry, *x]))
        values[n_consts : n_consts + n_carry] = carry  # a step may reduce
        new, y = split(arrays(ctx.interpret(jaxpr, *values, sizes=sizes)), n_carry)
        return new, y

    carry, ys = loop(ctx, step, jaxpr, consts, carry, xs, length, reverse, unroll)
    return [*carry, *ys]


def loop(
    ctx: Context,
    step: Step,
    program: Any,
    consts: list[Any],
    carry: list[Any],
    xs: list[Any],
    length: Dim,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[list[Any], list[Any]]:
    """`jax.lax.scan(step, carry, xs)` over a length that may depend on a run-time size; `program` is the body's."""
    size_values, restore = spread(ctx.sizes)
    carry = list(_compat.varying_alike([*carry, *consts, *xs, *size_values])[: len(carry)])
    if not ctx.is_ragged(length):
        static = lambda carry, x: step(ctx.sizes, consts, carry, x)
        return jax.lax.scan(static, carry, xs, length=length, reverse=reverse, unroll=unroll)

    padded = ctx.sizes.bound(length)

    def masked(sizes: Sizes, consts: list[Any], alive: Any, carry: list[Any], x: list[Any]) -> Any:
        """One step, of which nothing is kept where not `alive`."""
        sizes = sizes.replace(alive=alive if sizes.alive is None else alive & sizes.alive)
        # Past its end a row's carry may be anything that no further step was meant to see: it would overflow, say.
        new, y = step(sizes, consts, [select(alive, c, 0) for c in carry], x)
        return [jnp.where(alive, after, before) for after, before in zip(new, carry)], y

    def rolled(size_values: Any, consts: Any, carry: Any, xs: Any) -> Any:
        """Every padded step, as `lax.scan`: has derivatives, and is what hand-written masks do."""
        sizes = restore(size_values)
        steps = sizes.true(length)
        positions = jax.lax.iota(_compat.dimension_dtype(), padded)
        one = lambda carry, item: masked(sizes, consts, item[0] < steps, carry, item[1])
        return jax.lax.scan(one, carry, (positions, xs), length=padded, reverse=reverse, unroll=unroll)

    if ctx.sizes.shrink:
        watch().note("runs ever fewer rows")
        return _shrinking(ctx, ctx.sizes.shrink, masked, consts, carry, xs, length, reverse)
    if _resists(program):
        watch().note("runs all padded steps: there is a branch, or a derivative of the user's, in it")
        return rolled(size_values, consts, carry, xs)

    @jax.custom_jvp
    def early(size_values: Any, consts: Any, carry: Any, xs: Any) -> Any:
        """Only as many steps as the longest row has."""
        sizes = restore(size_values)
        steps = sizes.true(length)
        last = longest(steps)

        def one(state: Any) -> Any:
            count, carry, ys = state
            i = last - 1 - count if reverse else count
            x = [jax.lax.dynamic_index_in_dim(x, i, keepdims=False) for x in xs]
            carry, y = masked(sizes, consts, i < steps, carry, x)
            return count + 1, carry, [jax.lax.dynamic_update_index_in_dim(all_, new, i, 0) for all_, new in zip(ys, y)]

        y_types = jax.eval_shape(lambda: rolled(size_values, consts, carry, xs))[1]
        ys = list(_compat.varying_alike([*map(zeros, y_types), *carry, *xs, *size_values])[: len(y_types)])
        state = jnp.zeros_like(last), carry, ys
        _, carry, ys = jax.lax.while_loop(lambda state: state[0] < last, one, state)
        return carry, ys

    def derivative(primals: Any, tangents: Any) -> Any:
        """A while loop has no reverse mode; differentiated, the scan takes its place."""
        (carry, ys), slopes = jax.jvp(rolled, primals, tangents)
        return (carry, list(map(_batched_along_first, ys))), slopes

    early.defjvp(derivative)
    watch().note("stops at the end of the longest row; with a gradient it runs all padded steps")
    return early(size_values, consts, carry, xs)


def _shrinking(
    ctx: Context,
    shrink: Shrink,
    masked: Any,
    consts: list[Any],
    carry: list[Any],
    xs: list[Any],
    length: Dim,
    reverse: bool,
) -> tuple[list[Any], list[Any]]:
    """The loop as one that runs ever fewer rows; here for a batch of one, which `vmap` makes one of many."""
    size_values, restore = spread(ctx.sizes.replace(shrink=Shrink(1)))

    def per_row(in_rows: Sequence[bool]) -> Any:
        axes = [0 if mapped else None for mapped in in_rows]

        def row(alive: Any, consts: list[Any], carry: list[Any], x: list[Any]) -> Any:
            values, consts = split(consts, len(size_values))
            return masked(restore(values), consts, alive, carry, x)

        return lambda *values: (*jax.vmap(row, (0, axes, 0, 0))(*values), [])

    shared = [jnp.asarray(x) for x in (*size_values, *consts)]
    one_step = lambda consts, carry, xs: masked(
        restore(size_values), consts, jnp.asarray(True), carry, [x[0] for x in xs]
    )
    types = jax.eval_shape(one_step, consts, carry, xs)[1]
    layout = Layout(
        consts=(False,) * len(shared),
        carry=len(carry),
        xs=(False,) * len(xs),
        ys=tuple((y, False) for y in types),
        sums=(),
        steps=ctx.sizes.bound(length),
        reverse=reverse,
        prefixes=shrink.prefixes,
        ordered=_grows_with(length, shrink.by),
    )
    rows = [jnp.asarray(x)[None] for x in (*carry, *xs)]
    step = per_row(layout.consts)
    lengths = ctx.true(length)[None]
    out = shrinking_scan(step, layout, lengths, [*shared, *rows], per_row=per_row)
    new, ys = split([x[0] for x in out], len(carry))
    return new, ys


def _grows_with(length: Dim, name: str) -> bool:
    """Whether `length` is one of `name`, `n - 1` say, that puts rows in the same order."""
    match _compat.linear_parts(length):
        case (variable, factor, _):
            return variable == name and factor > 0
        case _:
            return False


def _resists(program: Any) -> bool:
    """Whether JAX cannot differentiate a body inside the rule of a `custom_jvp`: it then runs all padded steps."""
    return any(
        eqn.primitive.name in ("custom_vjp_call", "cond") or any(map(_resists, programs(eqn)))
        for eqn in _compat.open_jaxpr(program)[0].eqns
    )


def _batched_along_first(x: Any) -> Any:
    """`x`, which under `vmap` is batched along its first axis from here on.

    A while loop has its batch axis there, and a scan's `ys` have not. JAX differentiates a jitted `vmap` of a
    `custom_jvp` as if function and derivative agreed on that axis; where they do not, it takes another axis for it.
    """
    return jax.lax.reshape(jax.lax.reshape(x, (1, *x.shape)), x.shape)
