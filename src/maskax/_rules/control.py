"""Programs inside programs: calls, conditionals, linear solves."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand, Padded, select
from maskax._registry import rule
from maskax._shapes import Sizes


def arrays(values: Sequence[Padded]) -> list[Any]:
    """The padded arrays, with nothing said about their padding."""
    return [value.data for value in values]


_NAN_IF_EMPTY = ("cov", "nanquantile")
"""Functions of JAX that are nan where they see that an array is empty, which they cannot of a run-time size."""


@rule("jit", "pjit", "call", "closed_call", "core_call", "eval_jaxpr", "custom_vmap_call", "composite")
@rule("remat_opt", "xla_metadata_call")
def call(ctx: Context, *operands: Operand, **params: Any) -> list[Padded]:
    """A call is transparent: its body is interpreted in place."""
    body = next(params[k] for k in ("jaxpr", "call_jaxpr", "call", "fwd_jaxpr") if k in params)
    out = ctx.interpret(body, *[x.value for x in operands], inline=True)
    if params.get("name") not in _NAN_IF_EMPTY:
        return out
    some = jnp.array([ctx.true(dim) > 0 for x in operands for dim in x.shape], bool).all()
    return [Padded(select(some, value.data, jnp.nan)) for value in out]


@rule("checkpoint", "remat", "remat2")
def checkpoint(ctx: Context, *operands: Operand, jaxpr: Any, prevent_cse: Any, policy: Any, **_: Any) -> list[Any]:
    """Stays a checkpoint, with the same policy, around the masked body."""

    def body(*values: Any) -> list[Any]:
        return arrays(ctx.interpret(jaxpr, *ctx.inputs(values)))

    return jax.checkpoint(body, prevent_cse=prevent_cse, policy=policy)(*[x.data for x in operands])


@rule("cond")
def cond(ctx: Context, which: Operand, *operands: Operand, branches: Sequence[Any], **_: Any) -> list[Any]:
    """`lax.cond` and `lax.switch`."""
    size_values, _ = spread(ctx.sizes)

    def masked(branch: Any) -> Any:
        def run(*values: Any) -> list[Any]:
            out = arrays(ctx.interpret(branch, *ctx.inputs(values)))
            return list(_compat.varying_alike([*out, *values, *size_values])[: len(out)])

        return run

    return jax.lax.switch(which.data, [masked(b) for b in branches], *[x.data for x in operands])


@rule("custom_linear_solve")
def custom_linear_solve(ctx: Context, *operands: Operand, const_lengths: Any, jaxprs: Any, **_: Any) -> list[Any]:
    """Stays one, so that its derivatives are the user's; the right-hand side is 0 in the padding."""
    consts, rest = {}, list(operands)
    for name in ("matvec", "vecmat", "solve", "transpose_solve"):
        count = getattr(const_lengths, name)
        consts[name], rest = [x.data for x in rest[:count]], rest[count:]

    def masked(name: str) -> Any:
        return lambda x: arrays(ctx.interpret(getattr(jaxprs, name), *consts[name], *x))

    return jax.lax.custom_linear_solve(
        masked("matvec"),
        [b.fill(0) for b in rest],
        lambda _, b: masked("solve")(b),
        None if jaxprs.transpose_solve is None else lambda _, b: masked("transpose_solve")(b),
        symmetric=jaxprs.vecmat is not None and jaxprs.vecmat is jaxprs.matvec,
    )


def spread(sizes: Sizes) -> tuple[list[Any], Any]:
    """The run-time parts of `sizes` as a list of arrays, and a function that puts such a list back.

    Functions with their own derivatives or batching must not close over traced values, so they take these as arguments.
    """
    names, dtype = list(sizes.values), _compat.dimension_dtype()
    values = [jnp.asarray(sizes.values[name], dtype) for name in names]
    alive = [] if sizes.alive is None else [sizes.alive]

    def restore(flat: Sequence[Any]) -> Sizes:
        return sizes.replace(values=dict(zip(names, flat)), alive=flat[len(names)] if alive else None)

    return [*values, *alive], restore
