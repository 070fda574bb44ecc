"""Primitives that have no masked form where something ragged meets them: why, and what to do instead."""

from typing import Any, NoReturn

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule

COLLECTIVE = (
    "Along the mapped axis every row has an array of its own size, so elements of different rows do not correspond.",
    "Reduce to a static shape first, for instance psum(x.sum(0)) and psum(x.shape[0]); or gather outside of the mask.",
)
_GENERATOR = (
    "What this generator draws, and its next state, depend on the padded shape.",
    "Draw with jax.random and the default generator: it draws what the unpadded call draws.",
)
_SCALED = (
    "The hardware's kernels for scaled dtypes want blocks of static size.",
    "Multiply by the scales, in a wider dtype, and use an ordinary matrix product.",
)
_REFERENCE = (
    "A mutable array has no logical shape of its own to hold a ragged value at.",
    "Return the new value instead, or carry it through a scan.",
)

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["all_gather", "all_gather_invariant", "all_to_all", "pbroadcast", "ppermute"], COLLECTIVE),
    **dict.fromkeys(["psum_invariant", "ragged_all_to_all", "reduce_scatter"], COLLECTIVE),
    **dict.fromkeys(["rng_bit_generator", "rng_uniform"], _GENERATOR),
    **dict.fromkeys(["scaled_dot", "scaled_matmul", "scaled_matmul_wrapper"], _SCALED),
    "cholesky_update": (
        "JAX cannot batch this update, and a mask is for batches.",
        "Factor the updated matrix: jnp.linalg.cholesky(r.T @ r + jnp.outer(w, w)).T.",
    ),
    "linear_call": (
        "Its transpose is a program that JAX does not show before it runs.",
        "Say the same with jax.custom_vjp, or leave the transposition to JAX.",
    ),
    **dict.fromkeys(["addupdate", "get", "new_ref", "swap"], _REFERENCE),
}
"""Per primitive the reason and the alternative."""


@rule(*REFUSED)
def refuse(ctx: Context, *operands: Operand, **_: Any) -> NoReturn:
    """Always an error; it is only asked where something is ragged."""
    raise ctx.unmaskable(*REFUSED[ctx.eqn.primitive.name])
