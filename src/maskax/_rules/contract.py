"""Contractions: sums of products over ragged axes."""

from typing import Any

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule


@rule("dot_general")
def dot_general(ctx: Context, lhs: Operand, rhs: Operand, *, dimension_numbers: Any, **_: Any) -> Any:
    """`f32[a, n], f32[n, b] -> f32[a, b]`: both sides are 0 in the contracted padding; one is not enough, 0 * inf."""
    (lhs_axes, rhs_axes), _batch = dimension_numbers
    return ctx.bind(lhs.fill(0, lhs_axes), rhs.fill(0, rhs_axes))


@rule("ragged_dot_general")
def ragged_dot_general(ctx: Context, lhs: Operand, rhs: Operand, group_sizes: Operand, **_: Any) -> Any:
    """`f32[n, d], f32[g, d, k], i32[g] -> f32[n, k]`: groups end within the true rows, and 0 is in no sum."""
    return ctx.bind(lhs.fill(0), rhs.fill(0), group_sizes.fill(0))
