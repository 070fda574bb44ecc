"""Sorting and ranking along a ragged axis."""

from typing import Any

import jax
import jax.numpy as jnp

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.reduce import highest, lowest


@rule("sort")
def sort(ctx: Context, *operands: Operand, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """`f32[n] -> f32[n]`: "is padding" is the first key, so that nan, inf and ties among true values stay right."""
    first = operands[0]
    keep = first.keep([dimension])
    if keep is None:
        return ctx.bind(*[x.data for x in operands])
    is_padding = jnp.broadcast_to(~keep, first.data.shape).astype(jnp.uint8)
    arrays = (is_padding, *[x.data for x in operands])
    _, *out = jax.lax.sort(arrays, dimension=dimension, is_stable=is_stable, num_keys=num_keys + 1)
    return out


@rule("top_k")
def top_k(ctx: Context, x: Operand, *, k: Any, **params: Any) -> Any:
    """`f32[n] -> f32[k]`: padding is the lowest value and comes after true values equal to it."""
    axis = params.get("axis", params.get("operand_axis", len(x.shape) - 1))
    best, index = ctx.bind(x.fill(lowest(x.dtype), [axis]), k=ctx.sizes.bound(k))
    return [ctx.clean(best) if ctx.is_ragged(k) else best, index]


@rule("approx_top_k")
def approx_top_k(ctx: Context, x: Operand, *, reduction_dimension: int, is_max_k: bool, **_: Any) -> Any:
    """`f32[n] -> f32[k]`: as near to the best as promised, for padding is the worst."""
    worst = (lowest if is_max_k else highest)(x.dtype)
    return ctx.bind(x.fill(worst, [reduction_dimension % len(x.shape)]))
