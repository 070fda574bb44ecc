"""Reductions and running reductions: padding must not count, so it is the identity of the operation."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax._interpret import Context
from maskax._operand import Operand, Padded
from maskax._registry import rule
from maskax._rules import softmax
from maskax._rules.shape import positions, take


def _zero(dtype: Any) -> Any:
    return 0


def _one(dtype: Any) -> Any:
    return 1


def _all_ones(dtype: Any) -> Any:
    return True if dtype == jnp.bool_ else -1 if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.iinfo(dtype).max


def _extreme(dtype: Any, sign: int, infinite: bool) -> Any:
    if dtype == jnp.bool_:
        return sign > 0
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).max if sign > 0 else jnp.iinfo(dtype).min
    largest = jnp.inf if infinite and np.isinf(np.asarray(np.inf).astype(dtype)) else float(jnp.finfo(dtype).max)
    return sign * largest


def lowest(dtype: Any) -> Any:
    """The identity of max: `-inf`, or the least value of a dtype without it."""
    return _extreme(dtype, -1, infinite=True)


def highest(dtype: Any) -> Any:
    """The identity of min: `inf`, or the greatest value of a dtype without it."""
    return _extreme(dtype, 1, infinite=True)


def lowest_finite(dtype: Any) -> Any:
    """Acts as the identity of logaddexp without the nan slope of `-inf - -inf`."""
    return _extreme(dtype, -1, infinite=False)


@rule("reduce_and", identity=_all_ones)
@rule("reduce_or", identity=_zero)
@rule("reduce_xor", identity=_zero)
@rule("argmax", identity=lowest)
@rule("argmin", identity=highest)
def reduce(ctx: Context, x: Operand, *, axes: tuple[int, ...], identity: Callable, **_: Any) -> Any:
    """`f32[n, d] -> f32[d]`. A true value equal to the identity wins a tie in argmax: it comes first."""
    return _finite(ctx, x, axes, ctx.bind(x.fill(identity(x.dtype), axes)))


def _finite(ctx: Context, x: Operand, axes: Sequence[int], out: Any, result: int = 0) -> Any:
    """The result with finite padding: over an axis with no element only true elements may be infinite."""
    ragged = set(x.ragged)
    partly = ragged & set(axes) and ragged - set(axes)
    return ctx.clean(out, result).data if partly and jnp.issubdtype(out.dtype, jnp.floating) else out


@rule("reduce_sum")
def reduce_sum(ctx: Context, x: Operand, *, axes: tuple[int, ...], **_: Any) -> Padded:
    """`f32[n, d] -> f32[d]`."""
    return softmax.total(x, axes, ctx.bind(x.fill(0, axes)))


@rule("reduce_max")
def reduce_max(ctx: Context, x: Operand, *, axes: tuple[int, ...], **_: Any) -> Padded:
    """`f32[n, d] -> f32[d]`."""
    filled = x.fill(lowest(x.dtype), axes)
    out = _extremes(ctx, x, filled, axes)
    return softmax.peak(ctx, x, filled, axes, _finite(ctx, x, axes, out), out)


@rule("reduce_min")
def reduce_min(ctx: Context, x: Operand, *, axes: tuple[int, ...], **_: Any) -> Any:
    """`f32[n, d] -> f32[d]`."""
    return _finite(ctx, x, axes, _extremes(ctx, x, x.fill(highest(x.dtype), axes), axes))


def _extremes(ctx: Context, x: Operand, filled: Any, axes: tuple[int, ...]) -> Any:
    """The greatest or the least elements. Those that tie share the derivative, but not with what fills the padding."""
    keep = x.keep(axes)
    if keep is None or not jnp.issubdtype(x.dtype, jnp.inexact):
        return ctx.bind(filled)

    @jax.custom_jvp
    def extremes(filled: Any, keep: Any) -> Any:
        return ctx.bind(filled)

    @extremes.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (filled, keep), (tangent, _) = primals, tangents
        out = extremes(filled, keep)
        ties = (filled == jnp.expand_dims(out, axes)) & keep
        count = jnp.where(jnp.any(keep, axes), jnp.sum(ties, axes, dtype=tangent.dtype), 1)
        return out, jnp.sum(jnp.where(ties, tangent, 0), axes) / count

    return extremes(filled, keep)


@rule("reduce_prod")
def reduce_prod(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[n, d] -> f32[d]`: 1 in all padding, since products over padding of other axes may overflow."""
    return ctx.bind(x.fill(1))


@rule("cumsum", identity=_zero)
@rule("cumprod", identity=_one)
def cumulative(ctx: Context, x: Operand, *, axis: int, identity: Callable, **_: Any) -> Any:
    """`f32[n] -> f32[n]`, in either direction: a reverse one meets the padding first, and leaves the identity there."""
    return ctx.bind(x.fill(identity(x.dtype)))


@rule("cummax", identity=lowest)
@rule("cummin", identity=highest)
@rule("cumlogsumexp", identity=lowest_finite)
def extreme_so_far(ctx: Context, x: Operand, *, axis: int, reverse: bool, identity: Callable, **_: Any) -> Any:
    """`f32[n] -> f32[n]`. A reverse one runs over each row from its own end: infinite elements tie with an identity."""
    data = x.fill(identity(x.dtype))
    if not (reverse and axis in x.ragged):
        return ctx.clean(ctx.bind(data))
    index = ctx.true(x.shape[axis]) - 1 - positions(data.shape[axis])
    turned = lambda data: take(data, axis, index, index >= 0)
    return ctx.clean(turned(ctx.bind(turned(data), reverse=False)))


@rule("reduce")
def generic_reduce(ctx: Context, *operands: Operand, dimensions: tuple[int, ...], **_: Any) -> Any:
    """`lax.reduce` with any function: XLA requires the initial value to be its identity, so that is the fill."""
    arrays, inits = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    out = ctx.bind(*[x.fill(init.data, dimensions) for x, init in zip(arrays, inits)], *[i.data for i in inits])
    return [_finite(ctx, x, dimensions, o, i) for i, (x, o) in enumerate(zip(arrays, out))]
