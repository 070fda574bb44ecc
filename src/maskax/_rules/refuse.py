"""Primitives that have no masked form where something ragged meets them: why, and what to do instead."""

from typing import Any

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
_ASYNCHRONOUS = """
    all_gather_done all_gather_reduced all_gather_reduced_start all_gather_start all_to_all_done all_to_all_start
    pbroadcast_done pbroadcast_dynamic pbroadcast_start ppermute_done ppermute_start precv preduced psend psum_done
    psum_invariant_start psum_start reduce_scatter_done reduce_scatter_start reduced_vary_cast reduced_vary_cast_p
    unreduced_pmax unreduced_pmin unreduced_psum unreduced_psum_start unreduced_reduce_scatter
    unreduced_reduce_scatter_start vary_unreduced_cast vary_unreduced_cast_p
""".split()  # noqa: SIM905
_ATTENTION = """
    cudnn_fusion dot_product_attention_bwd dot_product_attention_bwd_wrapper dot_product_attention_fp8_bwd
    dot_product_attention_fp8_bwd_wrapper dot_product_attention_fp8_fwd dot_product_attention_fp8_fwd_wrapper
    dot_product_attention_fwd dot_product_attention_fwd_wrapper
""".split()  # noqa: SIM905
_REFERENCES = """
    accum_grad_in_ref addupdate box_get box_set create_linear empty_ref free_ref freeze get log_extend log_read new_box
    new_log new_ref pin run_scoped run_state swap unpin
""".split()  # noqa: SIM905
_FOREIGN = (
    "What it computes is not a program of JAX's, so its steps cannot be masked.",
    "Call jax.pure_callback, whose arrays are cut to their true size; or write a rule: maskax.register_rule.",
)
_KERNEL = (
    "This kernel of one hardware takes no sizes from a mask.",
    "Use the implementation in plain JAX: implementation='xla' in jax.nn.dot_product_attention.",
)
_PLACED = (
    "Where it runs is said of a program at static shapes.",
    "Put it around the masked function instead of inside.",
)

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["all_gather", "all_gather_invariant", "all_to_all", "pbroadcast", "ppermute"], COLLECTIVE),
    **dict.fromkeys(["pmax_scatter", "pmin_scatter", "psum_invariant", "pxor"], COLLECTIVE),
    **dict.fromkeys(["ragged_all_to_all", "reduce_scatter"], COLLECTIVE),
    **dict.fromkeys(["rng_bit_generator", "rng_uniform"], _GENERATOR),
    **dict.fromkeys(["scaled_dot", "scaled_matmul", "scaled_matmul_wrapper"], _SCALED),
    **dict.fromkeys(_ASYNCHRONOUS, COLLECTIVE),
    **dict.fromkeys(["buffer_callback", "ffi_call", "pallas_call", "tpu_custom_call"], _FOREIGN),
    **dict.fromkeys(_ATTENTION, _KERNEL),
    **dict.fromkeys(["compute_on", "custom_partitioning", "program_order"], _PLACED),
    "call_exported": (
        "An exported program no longer shows its steps.",
        "Mask the function before it is exported.",
    ),
    "call_hi_primitive_linearized": (
        "Its derivative is a program that JAX does not show before it runs.",
        "Say the same with jax.custom_jvp or jax.custom_vjp, or differentiate outside of the mask.",
    ),
    "check": (
        "The numbers in the message of a check have shapes that are known.",
        "Report a number, x.max() for instance.",
    ),
    "shard_map": (
        "A mesh divides sizes that are known, and the sizes here differ from row to row.",
        "Put shard_map around the masked function, over the rows of a batch.",
    ),
    "geqp3": (
        "Columns are chosen by their size, and padding has columns too.",
        "Use jnp.linalg.svd.",
    ),
    "cholesky_update": (
        "JAX cannot batch this update, and a mask is for batches.",
        "Factor the updated matrix: jnp.linalg.cholesky(r.T @ r + jnp.outer(w, w)).T.",
    ),
    "linear_call": (
        "Its transpose is a program that JAX does not show before it runs.",
        "Say the same with jax.custom_vjp, or leave the transposition to JAX.",
    ),
    **dict.fromkeys(_REFERENCES, _REFERENCE),
}
"""Per primitive the reason and the alternative."""


@rule(*REFUSED)
def refuse(ctx: Context, *operands: Operand, **_: Any) -> Any:
    """An error, unless nothing in it is ragged: primitives that hold programs are asked then too."""
    if not ctx.meets_ragged:
        return ctx.bind(*[x.data for x in operands])
    raise ctx.unmaskable(*REFUSED[ctx.eqn.primitive.name])
