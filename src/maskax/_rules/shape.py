"""Primitives that place elements: broadcast, transpose, concatenate, split, pad, reverse, slice, iota."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand, Padded, known_equal, select
from maskax._registry import rule
from maskax._rules import softmax
from maskax._shapes import Dim


def take(x: Any, axis: int, index: Any, valid: Any = None) -> Any:
    """`x` at positions `index` (`i32[k]`) along `axis`; 0 where not `valid`."""
    out = jnp.take(x, index, axis=axis, mode="clip")
    if valid is None:
        return out
    return select(jax.lax.expand_dims(valid, [a for a in range(out.ndim) if a != axis]), out, 0)


def positions(size: Dim) -> Any:
    """`0, 1, ..., size - 1`."""
    return jax.lax.iota(_compat.dimension_dtype(), size)


@rule("dim_as_value")
def dim_as_value(ctx: Context, *, dim: Dim) -> Padded:
    """`-> i32[]`: here the true size enters the program."""
    return Padded(jnp.asarray(ctx.sizes.value(dim), _compat.dimension_dtype()), dim=dim)


@rule("iota")
def iota(ctx: Context, *, dtype: Any, dimension: int, **_: Any) -> Any:
    """`-> i32[n]`."""
    return ctx.bind(shape=ctx.padded_out)


@rule("empty")
def empty(ctx: Context, **_: Any) -> Any:
    """`-> f32[n]`: of any values, so zeros."""
    return jnp.zeros(ctx.padded_out, ctx.eqn.outvars[0].aval.dtype)


@rule("broadcast_in_dim")
def broadcast_in_dim(ctx: Context, x: Operand, *, broadcast_dimensions: Sequence[int], **_: Any) -> Padded:
    """`f32[d] -> f32[n, d]`: padding along a new axis is a copy of true values."""
    new_ragged = [a for a in ctx.sizes.ragged_axes(ctx.out_shape) if a not in broadcast_dimensions]
    stretched = [a for a, dim in zip(broadcast_dimensions, x.shape) if dim != ctx.out_shape[a]]
    copies = ctx.is_ragged(*[ctx.out_shape[a] for a in [*new_ragged, *stretched]])
    known = x.shape == () or not copies

    def respread(data: Any) -> Any:
        return ctx.bind(x.value.respread(data) if x.value.respread else data, shape=ctx.padded_out)

    out = ctx.bind(x.data, shape=ctx.padded_out)
    note = softmax.kept(ctx, x.value.note, broadcast_dimensions)
    return Padded(out, x.pad if known else None, note=note, spread=x.value.spread or x, respread=respread)


@rule("transpose", "squeeze")
def keeps_padding(ctx: Context, x: Operand, **_: Any) -> Padded:
    """`f32[n, m] -> f32[m, n]`: padding travels with its axis."""
    return Padded(ctx.bind(x.data), pad=x.pad)


@rule("stack")
def stack(ctx: Context, *pieces: Operand, **_: Any) -> Padded:
    """`f32[n], f32[n] -> f32[2, n]`."""
    pads = [x.pad for x in pieces]
    return Padded(
        ctx.bind(*[x.data for x in pieces]), pad=pads[0] if all(known_equal(p, pads[0]) for p in pads) else None
    )


@rule("unstack")
def unstack(ctx: Context, x: Operand, **_: Any) -> list[Padded]:
    """`f32[2, n] -> f32[n], f32[n]`."""
    return [Padded(piece, pad=x.pad) for piece in ctx.bind(x.data)]


@rule("tile")
def tile(ctx: Context, x: Operand, *, reps: Sequence[int], **_: Any) -> Any:
    """`f32[n] -> f32[2*n]`: copies lie next to each other, so padding between them goes."""
    data = x.data
    for axis, (dim, out) in enumerate(zip(x.shape, ctx.out_shape)):
        if dim != out:
            index = positions(ctx.sizes.bound(out)) % jnp.maximum(ctx.true(dim), 1)
            data = take(data, axis, index)
    return ctx.clean(data)


@rule("concatenate")
def concatenate(ctx: Context, *pieces: Operand, dimension: int) -> Any:
    """`f32[n], f32[m] -> f32[n + m]`: true parts become adjacent."""
    joined = jax.lax.concatenate([x.data for x in pieces], dimension)
    bounds = [ctx.sizes.bound(x.shape[dimension]) for x in pieces]
    bound = ctx.padded_out[dimension]
    if not ctx.is_ragged(*[x.shape[dimension] for x in pieces[:-1]]):
        return ctx.tame(jax.lax.slice_in_dim(joined, 0, bound, axis=dimension), *pieces)
    position, offset, start = positions(bound), 0, 0
    source = position
    for x, size in zip(pieces, bounds):
        source = jnp.where(position >= offset, position - offset + start, source)
        offset, start = offset + ctx.true(x.shape[dimension]), start + size
    return ctx.clean(take(joined, dimension, source))


@rule("split")
def split(ctx: Context, x: Operand, *, sizes: Sequence[Dim], axis: int) -> list[Any]:
    """`f32[n] -> f32[1], f32[n - 1]`: each piece starts at the true end of the one before."""
    if not ctx.is_ragged(*sizes):
        return ctx.bind(x.data)
    out, start = [], 0
    for size in sizes:
        out.append(ctx.clean(cut(ctx, x.data, axis, start, size), len(out)))
        start = start + size
    return out


def cut(ctx: Context, data: Any, axis: int, start: Dim, size: Dim, stride: Dim = 1) -> Any:
    """`size` elements from `start` on, any of them dimensions; 0 where they run out of the array."""
    bound = ctx.sizes.bound(size)
    if not ctx.is_ragged(start, stride):
        stop = start + (bound - 1) * stride + 1
        if (
            not any(map(jax.export.is_symbolic_dim, (stop, data.shape[axis])))
            and bound > 0
            and stop <= data.shape[axis]
        ):
            return jax.lax.slice_in_dim(data, start, stop, stride, axis)
    index = ctx.sizes.value(start) + positions(bound) * ctx.sizes.value(stride)
    return take(data, axis, index, (index >= 0) & (index < data.shape[axis]))


@rule("slice")
def slice_rule(ctx: Context, x: Operand, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    """`f32[n] -> f32[n - 1]`: starts, limits and strides may depend on n."""
    data = x.data
    for axis, (start, dim, size) in enumerate(zip(start_indices, x.shape, ctx.out_shape)):
        stride = 1 if strides is None else strides[axis]
        if ctx.is_ragged(start, dim, size, limit_indices[axis]) or start != 0 or size != dim:
            data = cut(ctx, data, axis, start, size, stride)
    return ctx.clean(data)


@rule("rev")
def rev(ctx: Context, x: Operand, *, dimensions: Sequence[int]) -> Any:
    """`f32[n] -> f32[n]`: each row is reversed within its own length; padding stays at the end."""
    static = [axis for axis in dimensions if axis not in x.ragged]
    data = jax.lax.rev(x.data, static) if static else x.data
    for axis in set(dimensions) - set(static):
        data = take(data, axis, ctx.true(x.shape[axis]) - 1 - positions(data.shape[axis]))
    return ctx.clean(data)


@rule("pad")
def pad(ctx: Context, x: Operand, value: Operand, *, padding_config: Sequence[tuple[Dim, Dim, int]]) -> Any:
    """`f32[n] -> f32[lo + n + hi]`: amounts may be negative or depend on n; interior padding too."""
    data = x.fill(value.data)
    for axis, ((lo, hi, interior), size) in enumerate(zip(padding_config, ctx.out_shape)):
        if isinstance(lo, int) and isinstance(hi, int) and (lo, hi, interior) == (0, 0, 0):
            continue
        data = place(ctx, data, axis, lo, interior, ctx.sizes.bound(size), value.data)
    return ctx.tame(data, value)


def place(ctx: Context, data: Any, axis: int, lo: Dim, interior: int, size: Dim, value: Any) -> Any:
    """`size` elements: `lo` times `value`, then `data` with `interior` values between its elements, then `value`.

    `lo` may be negative or depend on run-time sizes; then all is built for its greatest value and shifted.
    """
    most = ctx.sizes.bounds(lo)[1]
    shift = most - ctx.sizes.value(lo) if ctx.is_ragged(lo) else 0
    length = size + (most - ctx.sizes.bounds(lo)[0] if ctx.is_ragged(lo) else 0)
    extent = data.shape[axis]
    spread = _compat.max_dim(extent + (extent - 1) * interior, 0)
    config = [(0, 0, 0)] * data.ndim
    config[axis] = (most, length - most - spread, interior)
    out = jax.lax.pad(data, jnp.asarray(value, data.dtype), config)
    return jax.lax.dynamic_slice_in_dim(out, shift, size, axis) if ctx.is_ragged(lo) else out
