"""Collectives: over rows of unequal size elements do not correspond; over an axis of the program they do."""

from collections.abc import Callable
from typing import Any

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.reduce import highest, lowest
from maskax._rules.refuse import COLLECTIVE


@rule("psum", identity=lambda dtype: 0)
@rule("pmax", identity=lowest)
@rule("pmin", identity=highest)
def over_axes(ctx: Context, x: Operand, *, axes: tuple[int | str, ...], identity: Callable, **_: Any) -> Any:
    """`f32[n, d] -> f32[d]`: what was mapped over inside the program is an axis, by number, and a plain reduction."""
    inside = [axis for axis in axes if isinstance(axis, int)]
    if len(inside) < len(axes) and not set(x.ragged) <= set(inside):
        raise ctx.unmaskable(*COLLECTIVE)
    return ctx.bind(x.fill(identity(x.dtype), inside))
