"""Softmax, recognised by its steps: `e = exp(x - max(x))`, then `e / sum(e)`.

Step by step, each of the four would fill its operand. Known as a whole, one fill is enough: with -inf in the padding
the shifted operand is -inf there, `e` is exactly 0, and the sum is at least 1 unless the row is empty. That is what the
best hand-written masks do, and compilers fuse it, where a second select between the steps stops them.

Each value carries what is known of it as `Padded.note`. A note holds arrays of its own, which only the next step uses:
the values themselves keep finite padding, for whoever else reads them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax._interpret import Context
from maskax._operand import Operand, Padded
from maskax._registry import rule
from maskax._shapes import Dim


@dataclasses.dataclass(frozen=True)
class Peak:
    """The greatest element of `of` along `axes`, which was found in `filled`: `of` with -inf in their padding.

    `data` is the peak, 0 where there are no elements.
    """

    of: Padded
    filled: Any
    axes: tuple[int, ...]
    dims: tuple[Dim, ...]
    data: Any


@dataclasses.dataclass(frozen=True)
class Shifted:
    """Something minus its peak: never above 0, and -inf in the padding of `axes`."""

    axes: tuple[int, ...]
    dims: tuple[Dim, ...]
    data: Any


@dataclasses.dataclass(frozen=True)
class Exponential:
    """The exponential of that: never above 1, and 0 in the padding of `axes`."""

    axes: tuple[int, ...]
    dims: tuple[Dim, ...]


@dataclasses.dataclass(frozen=True)
class Total:
    """The sum of that over `axes`: at least 1, unless one of the axes is empty."""

    axes: tuple[int, ...]
    dims: tuple[Dim, ...]
    data: Any


def peak(ctx: Context, x: Operand, filled: Any, axes: Sequence[int], out: Any, data: Any) -> Padded:
    """The result `out` of `reduce_max`, which is `data` but for its padding: there too a peak must be one."""
    if not any(axis in x.ragged for axis in axes) or not jnp.issubdtype(x.dtype, jnp.floating):
        return Padded(out)
    dims = tuple(x.shape[axis] for axis in axes)
    # The peak of nothing is -inf; 0 instead, where there is nothing, keeps `-inf - peak` from being nan. Here, before
    # the reduced axes come back: between those and the subtraction it would stop fusion.
    occupied = jnp.all(jnp.stack([ctx.true(dim) > 0 for dim in dims if ctx.is_ragged(dim)]))
    floor = jnp.broadcast_to(jnp.where(occupied, -jnp.inf, 0).astype(data.dtype), data.shape)
    return Padded(out, note=Peak(x.value, filled, tuple(axes), dims, jax.lax.max(data, floor)))


def total(x: Operand, axes: Sequence[int], out: Any) -> Padded:
    """The result of `reduce_sum`."""
    match x.value.note:
        case Exponential(over, dims) if set(over) == set(axes):
            return Padded(out, note=Total(over, dims, out))
    return Padded(out)


def kept(ctx: Context, note: Any, broadcast_dimensions: Sequence[int]) -> Any:
    """The note of a peak or total that gets its reduced axes back, with size 1."""
    if isinstance(note, Peak | Total):
        shape = ctx.padded_out
        others = tuple(axis for axis in range(len(shape)) if axis not in note.axes)
        if tuple(broadcast_dimensions) == others and all(shape[axis] == 1 for axis in note.axes):
            return dataclasses.replace(note, data=ctx.bind(note.data, shape=shape))
    return None


@rule("max")
def maximum(ctx: Context, *operands: Operand, **_: Any) -> Padded:
    """Elementwise; the peak stays one when it is compared with -inf, as `jnp.max(initial=-inf)` does."""
    out = ctx.bind(*ctx.broadcast(operands))
    notes = [x.value.note for x in operands if isinstance(x.value.note, Peak)]
    trivial = any(x.pad is not None and x.shape == () and x.pad == -jnp.inf for x in operands)
    return Padded(out, note=notes[0] if notes and trivial else None)


@rule("stop_gradient")
def stop_gradient(ctx: Context, x: Operand, **_: Any) -> Padded:
    """Elementwise; a peak stays one."""
    out = ctx.bind(x.data)
    note = x.value.note
    return Padded(
        out, pad=x.pad, note=dataclasses.replace(note, data=ctx.bind(note.data)) if isinstance(note, Peak) else None
    )


@rule("sub")
def sub(ctx: Context, x: Operand, y: Operand, **_: Any) -> Padded:
    """Elementwise; something minus its own peak is noted as such."""
    out = ctx.bind(*ctx.broadcast([x, y]))
    match y.value.note:
        case Peak(of, filled, axes, dims, data) if of is x.value and jnp.ndim(data) == len(x.shape):
            return Padded(out, note=Shifted(axes, dims, filled - data))
    return Padded(out)


def exponential(ctx: Context, x: Operand) -> Padded | None:
    """The result of `exp`, if its operand is known to be shifted."""
    match x.value.note:
        case Shifted(axes, dims, data):
            return Padded(ctx.bind(data), pad=0, pad_axes=axes, note=Exponential(axes, dims))
    return None


def denominator(y: Operand, shape: Sequence[Dim]) -> Any:
    """A total as a denominator that is never 0, if `y` is one and the quotient has no element where it would be 0."""
    match y.value.note:
        case Total(_, dims, data) if jnp.ndim(data) == len(shape) and all(
            dim in shape for dim in dims if y.sizes.is_ragged(dim)
        ):
            return jnp.maximum(data, 0.5)  # strictly below 1: at a tie half of the gradient would be lost
    return None
