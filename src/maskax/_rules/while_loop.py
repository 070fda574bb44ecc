"""While loops, and those among them that count: `fori_loop` to a run-time size."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.control import arrays
from maskax._rules.scan import loop
from maskax._shapes import Dim, Sizes


@rule("while")
def while_loop(
    ctx: Context, *operands: Operand, cond_jaxpr: Any, cond_nconsts: int, body_jaxpr: Any, body_nconsts: int, **_: Any
) -> list[Any]:
    """A loop that goes on while its condition holds and the row is alive.

    A `jax.vmap` inside the function makes one condition per element of them all: the loop goes on while any holds, and
    elements that are done keep their values.
    """
    values = [x.data for x in operands]
    if (count := _trip_count(ctx, operands, cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts)) is not None:

        def counted(sizes: Sizes, consts: list[Any], carry: list[Any], _: list[Any]) -> tuple[list[Any], list[Any]]:
            fixed = ctx.inputs([*consts, *carry])[: len(consts)]
            return arrays(ctx.interpret(body_jaxpr, *fixed, *carry, sizes=sizes)), []

        return loop(ctx, counted, body_jaxpr, values[:body_nconsts], values[body_nconsts:], [], count)[0]

    cond_consts, body_consts = values[:cond_nconsts], values[cond_nconsts : cond_nconsts + body_nconsts]
    (condition,) = _compat.open_jaxpr(cond_jaxpr)[0].outvars

    def unfinished(carry: list[Any]) -> Any:
        (go_on,) = ctx.interpret(cond_jaxpr, *cond_consts, *carry)
        go_on = Operand(go_on, condition.aval, ctx.sizes).fill(False)
        return go_on if ctx.sizes.alive is None else go_on & ctx.sizes.alive

    def step(carry: list[Any]) -> list[Any]:
        fixed = ctx.inputs([*body_consts, *carry])[:body_nconsts]
        new = arrays(ctx.interpret(body_jaxpr, *fixed, *carry))
        if not condition.aval.shape:
            return new
        go_on = unfinished(carry)
        along = lambda x: jax.lax.expand_dims(go_on, range(go_on.ndim, jnp.ndim(x)))
        return [jnp.where(along(after), after, before) for after, before in zip(new, carry)]

    return jax.lax.while_loop(lambda carry: jnp.any(unfinished(carry)), step, values[cond_nconsts + body_nconsts :])


def _trip_count(
    ctx: Context, operands: Sequence[Operand], cond: Any, cond_nconsts: int, body: Any, skip: int
) -> Dim | None:
    """The number of trips of `fori_loop(lower, upper, ...)` as a dimension, if it depends on a run-time size.

    At a static size JAX makes such a loop a scan, which has a reverse mode; tracing at a symbolic one it cannot. The
    form looked for is `while i < upper` with `i + 1` and the same `upper` on the next trip.
    """
    (cond, _), (body, _) = _compat.open_jaxpr(cond), _compat.open_jaxpr(body)
    if cond_nconsts or len(cond.eqns) != 1 or cond.eqns[0].primitive.name != "lt":
        return None
    position = {var: index for index, var in enumerate(cond.invars)}
    if not all(not _compat.is_literal(atom) and atom in position for atom in cond.eqns[0].invars):
        return None
    counter, upper = (position[atom] for atom in cond.eqns[0].invars)
    if body.outvars[upper] is not body.invars[skip + upper]:
        return None
    steps = [e for e in body.eqns if body.outvars[counter] in e.outvars and e.primitive.name == "add"]
    if not steps or steps[0].invars[0] is not body.invars[skip + counter] or not _is_one(steps[0].invars[1]):
        return None
    stop, start = (_dimension(operands[skip + index]) for index in (upper, counter))
    if stop is None or start is None or not ctx.is_ragged(stop - start):
        return None
    return stop - start


def _is_one(atom: Any) -> bool:
    return _compat.is_literal(atom) and atom.val == 1


def _dimension(x: Operand) -> Dim | None:
    """The dimension or number that a scalar is the value of, if that is known."""
    return x.value.dim if x.value.dim is not None else None if x.pad is None else int(x.pad)
