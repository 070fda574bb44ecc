"""Sizes that the program makes."""

from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._arguments import within
from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule


@rule("dynamic_size")
def dynamic_size(ctx: Context, value: Operand, *, dim: Any, bound: Any) -> Any:
    """`i32[] -> i32[k]`: from here on `k` is what the value says; never more than `bound`."""
    (name,) = _compat.variables(dim)
    line = _compat.source_line()

    def explain(value: Any, row: str) -> str:
        return f"{line}: a run-time size{row} is {value}, out of range: it runs from 0 to {ctx.sizes.bound(bound)}."

    true = within(value.data, 0, ctx.sizes.bound(bound), explain)
    ctx.sizes.define(name, jnp.minimum(true, ctx.true(bound)) if ctx.is_ragged(bound) else true)
    return jax.lax.iota(jnp.int32, ctx.padded_out[0])
