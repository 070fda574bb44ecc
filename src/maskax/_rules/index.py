"""Gather, scatter and dynamic slices: indices are clipped, filled and dropped by the logical size.

Indices that lie in padding read position 0 and write nowhere. Where the array that is read has a true size of 0, there
is nothing to read and the result is 0.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import GatherScatterMode

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand, Padded, select
from maskax._registry import rule
from maskax._rules.reduce import highest, lowest
from maskax._rules.shape import cut
from maskax._shapes import Dim


def _limits(ctx: Context, x: Operand, window: Sequence[Dim], axes: Sequence[int]) -> list[Any]:
    """Per axis the last start at which the window still lies inside the true array; negative if it never does."""
    return [ctx.sizes.value(x.shape[a] - window[a]) if _whole(x, window, a) is False else 0 for a in axes]


def _whole(x: Operand, window: Sequence[Dim], axis: int) -> bool:
    return bool(window[axis] == x.shape[axis])


def _room(ctx: Context, x: Operand, window: Sequence[Dim], value: Any = 0) -> Any:
    """The array, longer where a ragged window is narrower than it: XLA would shift a window that sticks out."""
    config = [
        (0, ctx.sizes.bound(w) if ctx.is_ragged(w) and not _whole(x, window, a) else 0, 0) for a, w in enumerate(window)
    ]
    return jax.lax.pad(x.data, jnp.asarray(value, x.dtype), config) if any(hi != 0 for _, hi, _ in config) else x.data


def _wide(index: Any) -> Any:
    """Indices in a dtype that also holds sizes and the -1 of an empty array."""
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(index.dtype, jnp.int32))
    most = jnp.iinfo(dtype).max
    return (jnp.minimum(index, most) if most < jnp.iinfo(index.dtype).max else index).astype(dtype)


def _trim(data: Any, shape: Sequence[int]) -> Any:
    return data if data.shape == tuple(shape) else jax.lax.slice(data, [0] * data.ndim, shape)


def _concerns(ctx: Context, x: Operand, window: Sequence[Dim], axes: Sequence[int]) -> bool:
    return ctx.is_ragged(*[d for a in axes for d in (x.shape[a], window[a])])


@rule("gather")
def gather(
    ctx: Context, x: Operand, indices: Operand, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, **_: Any
) -> Any:
    """`f32[n, d], i32[k, 1] -> f32[k, d]`."""
    axes = dimension_numbers.start_index_map
    if _is_slice(ctx, x, indices, dimension_numbers, slice_sizes, mode):
        data = x.data
        for axis, start in zip(axes, np.asarray(indices.data).tolist()):
            data = cut(ctx, data, axis, start, slice_sizes[axis])
        data = jax.lax.squeeze(data, dimension_numbers.collapsed_slice_dims)
        return ctx.clean(data) if ctx.is_ragged(*[slice_sizes[a] for a in axes]) else Padded(data, pad=x.pad)
    index = _wide(indices.fill(0, range(len(indices.shape) - 1)))
    window = ctx.padded(slice_sizes)
    if not _concerns(ctx, x, slice_sizes, axes):
        out = ctx.bind(x.data, index, slice_sizes=window)
        return ctx.clean(out) if indices.ragged else out
    limits = _vector(_limits(ctx, x, slice_sizes, axes), index.dtype)
    missing = None
    if GatherScatterMode.from_any(mode) == GatherScatterMode.FILL_OR_DROP:
        inside = jnp.all((index >= 0) & (index <= limits), axis=-1, keepdims=True)
        padding = indices.keep(range(len(indices.shape) - 1))
        inside = inside if padding is None else inside | ~padding
        index = jnp.where(inside, index, -1)
    else:
        index = jnp.clip(index, 0, jnp.maximum(limits, 0))
        missing = jnp.any(limits < 0)
        mode = GatherScatterMode.CLIP
    out = ctx.bind(_room(ctx, x, slice_sizes), index, slice_sizes=window, mode=mode)
    return ctx.clean(out if missing is None else select(~missing, out, 0))


def _is_slice(ctx: Context, x: Operand, indices: Operand, numbers: Any, window: Sequence[Dim], mode: Any) -> bool:
    """Whether a gather is what JAX makes of `x[1:]`: one window, as long as a size says, from places written down."""
    return (
        GatherScatterMode.from_any(mode) != GatherScatterMode.FILL_OR_DROP
        and indices.shape == (len(numbers.start_index_map),)
        and numbers.offset_dims == tuple(range(len(x.shape) - len(numbers.collapsed_slice_dims)))
        and _compat.is_concrete(indices.data)
        and all(ctx.is_ragged(window[a]) or not ctx.is_ragged(x.shape[a]) for a in numbers.start_index_map)
    )


def _vector(values: Sequence[Any], dtype: Any) -> Any:
    return jnp.stack([jnp.asarray(v).astype(dtype) for v in values])


@rule("dynamic_slice")
def dynamic_slice(ctx: Context, x: Operand, *starts: Operand, slice_sizes: Any, **_: Any) -> Any:
    """`f32[n], i32[] -> f32[2]`: the start is clamped so that the window ends at the true end."""
    axes = range(len(x.shape))
    limits = _limits(ctx, x, slice_sizes, axes)
    clamped = [jnp.clip(s.data, 0, jnp.maximum(limit, 0)).astype(s.dtype) for s, limit in zip(starts, limits)]
    out = jax.lax.dynamic_slice(_room(ctx, x, slice_sizes), clamped, ctx.padded(slice_sizes))
    missing = [limit < 0 for limit in limits if not isinstance(limit, int)]
    return ctx.clean(select(~jnp.any(jnp.stack(missing)), out, 0) if missing else out)


@rule("dynamic_update_slice")
def dynamic_update_slice(ctx: Context, x: Operand, update: Operand, *starts: Operand) -> Any:
    """`f32[n], f32[m], i32[] -> f32[n]`: only the true part of the update is written."""
    axes = range(len(x.shape))
    limits = _limits(ctx, x, update.shape, axes)
    clamped = [jnp.clip(s.data, 0, jnp.maximum(limit, 0)).astype(s.dtype) for s, limit in zip(starts, limits)]
    written = jax.lax.dynamic_update_slice(_room(ctx, x, update.shape), update.data, clamped)
    written = _trim(written, x.data.shape)
    inside = [limit >= 0 for limit in limits if not isinstance(limit, int)]
    for axis in update.ragged:
        if not _whole(x, update.shape, axis):
            position = jax.lax.broadcasted_iota(clamped[axis].dtype, x.data.shape, axis) - clamped[axis]
            inside.append((position >= 0) & (position < ctx.true(update.shape[axis])))
    for mask in inside:
        written = jnp.where(mask, written, x.data)
    return ctx.tame(written, x, update)


_NEUTRAL = {
    "scatter-add": lambda dtype: 0,
    "scatter-sub": lambda dtype: 0,
    "scatter-mul": lambda dtype: 1,
    "scatter-min": highest,
    "scatter-max": lowest,
}


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def scatter(
    ctx: Context, x: Operand, indices: Operand, updates: Operand, *, dimension_numbers: Any, mode: Any, **_: Any
) -> Any:
    """`f32[n, d], i32[k, 1], f32[k, d] -> f32[n, d]`."""
    numbers = dimension_numbers
    axes = numbers.scatter_dims_to_operand_dims
    fixed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter(numbers.update_window_dims)
    window = [1 if axis in fixed else updates.shape[next(sizes)] for axis in range(len(x.shape))]
    for axis in numbers.operand_batching_dims:
        window[axis] = x.shape[axis]
    batch_axes = range(len(indices.shape) - 1)
    real = indices.keep(batch_axes)
    partial = [a for a, w in enumerate(window) if ctx.is_ragged(w) and not _whole(x, window, a)]
    if real is None and not partial and not _concerns(ctx, x, window, axes):
        return ctx.tame(ctx.bind(x.data, indices.data, updates.data), x, updates)

    index = _wide(indices.data)
    limits = _vector(_limits(ctx, x, window, axes), index.dtype)
    if GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP:
        index = jnp.clip(index, 0, jnp.maximum(limits, 0))
    inside = jnp.all((index >= 0) & (index <= limits), axis=-1, keepdims=True)
    inside = inside if real is None else inside & real
    # Out of range in every mode that is left: dropped.
    index = jnp.where(inside, index, jnp.iinfo(index.dtype).max)
    drop = {"mode": GatherScatterMode.FILL_OR_DROP, "indices_are_sorted": False}
    name = ctx.eqn.primitive.name
    if not partial:
        return ctx.tame(ctx.bind(x.data, index, updates.data, **drop), x, updates)
    if name in _NEUTRAL:
        neutral = _NEUTRAL[name](x.dtype)
        data = ctx.bind(_room(ctx, x, window, neutral), index, updates.fill(neutral), **drop)
        return ctx.tame(_trim(data, x.data.shape), x, updates)
    if any(size != 1 for size in index.shape[:-1]):
        raise ctx.unmaskable(
            "Several windows of run-time width are written at once: the padding of one would overwrite another.",
            "Write them one after the other, or write single positions: x.at[indices].set(values).",
        )
    room = _room(ctx, x, window)
    written = ctx.bind(room, index, updates.data, **drop)
    keep = jnp.broadcast_to(updates.keep(), updates.data.shape)
    touched = jax.lax.scatter(jnp.zeros(room.shape, bool), index, keep, numbers, mode=drop["mode"])
    written = jnp.where(_trim(touched, x.data.shape), _trim(written, x.data.shape), x.data)
    return ctx.tame(written, x, updates)
