"""Reshape: true elements keep their order, so where padding sits between them they move."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand, Padded
from maskax._registry import rule
from maskax._shapes import Dim, Sizes

Group = tuple[tuple[int, int], tuple[int, int]]


@rule("reshape")
def reshape_rule(ctx: Context, x: Operand, *, dimensions: Sequence[int] | None, **_: Any) -> Any:
    """`f32[n, 3] -> f32[3*n]` stays a reshape; `f32[n, m] -> f32[n*m]` gathers by the logical linear index."""
    order = range(len(x.shape)) if dimensions is None else dimensions
    if size(x.shape) != size(ctx.out_shape):
        raise ctx.unmaskable(
            "The two shapes have the same number of elements at some sizes only.",
            "Write the new shape in terms of the old one: x.reshape(2, x.shape[0] // 2) for a dimension '2*k'.",
        )
    data, moved = reshape(jnp.transpose(x.data, order), [x.shape[a] for a in order], ctx.out_shape, ctx.sizes)
    return ctx.clean(data) if moved else Padded(data, pad=x.pad)


def reshape(data: Any, old: Sequence[Dim], new: Sequence[Dim], sizes: Sizes) -> tuple[Any, bool]:
    """Reshapes padded `data` from logical shape `old` to `new`; also says whether elements moved."""
    if 0 in new:
        return jnp.zeros(sizes.padded(new), data.dtype), True
    moved = False
    done: tuple[Dim, ...] = ()
    for (start, stop), (new_start, new_stop) in _groups(old, new):
        before, after = old[start:stop], new[new_start:new_stop]
        rest = sizes.padded(old[stop:])
        axis = len(done)
        flat = data.reshape(*done, size(sizes.padded(before)), *rest)
        if _aligned(before, sizes) and _aligned(after, sizes):
            flat, cut = _resize(flat, axis, size(sizes.padded(before)), size(sizes.padded(after)))
            moved |= cut
        else:
            flat = jnp.take(flat, _source(before, after, sizes), axis=axis, mode="clip")
            moved = True
        done = (*done, *sizes.padded(after))
        data = flat.reshape(*done, *rest)
    return data, moved


def _groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[Group]:
    """The shortest runs of dimensions, from the left, whose products agree."""
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ends = [(a, b) for a in range(i, len(old) + 1) for b in range(j, len(new) + 1) if (a, b) != (i, j)]
        ends.sort(key=sum)
        a, b = next(((a, b) for a, b in ends if size(old[i:a]) == size(new[j:b])), (len(old), len(new)))
        groups.append(((i, a), (j, b)))
        i, j = a, b
    return groups


def size(shape: Sequence[Any]) -> Any:
    """Number of elements of a shape of ints, symbolic dimensions or integer scalars."""
    return math.prod(shape)


def _aligned(shape: Sequence[Dim], sizes: Sizes) -> bool:
    """Whether a logical linear index is also the padded one: only the leading dimension may be ragged."""
    ragged = sizes.ragged_axes(shape)
    return not ragged or all(isinstance(d, int) and d == 1 for d in shape[: ragged[-1]])


def _resize(data: Any, axis: int, old: Dim, new: Dim) -> tuple[Any, bool]:
    if old == new:
        return data, False
    missing = _compat.max_dim(new - old, 0)
    zeros = jnp.zeros((*data.shape[:axis], missing, *data.shape[axis + 1 :]), data.dtype)
    return jax.lax.slice_in_dim(jnp.concatenate([data, zeros], axis), 0, new, axis=axis), True


def _source(old: Sequence[Dim], new: Sequence[Dim], sizes: Sizes) -> Any:
    """For each padded position of `new`, the padded position of `old` where its element is."""
    dtype = _compat.dimension_dtype()
    logical: Any = 0
    for axis, dim in enumerate(new):
        shape = sizes.padded(new)
        position = jax.lax.broadcasted_iota(dtype, shape, axis)
        logical = logical * sizes.true(dim) + position
    source: Any = 0
    stride: Any = 1
    for dim in reversed(old):
        extent = jnp.maximum(sizes.true(dim), 1)
        source = source + (logical % extent) * stride
        logical = logical // extent
        stride = stride * sizes.bound(dim)
    return source.reshape(-1)
