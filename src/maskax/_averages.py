"""Means and moments that add up: over partial batches, accumulated gradients and devices."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from maskax._errors import SpecError
from maskax._ragged import Ragged

_PER = ("token", "row", "batch")


@functools.partial(jax.tree_util.register_dataclass, data_fields=["total", "count"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean as sum and count. The means of two parts add up to that of the whole: `a + b`, `sum(parts, mx.Mean())`.

    Attributes:
        total: the sum of what is averaged.
        count: how many there are, or the sum of their weights.
    """

    total: Any = 0
    count: Any = 0

    @property
    def value(self) -> Any:
        """The mean, `total / count`; of nothing nan, as NumPy's."""
        return self.total / self.count

    def __add__(self, other: "Mean") -> "Mean":
        return Mean(self.total + other.total, self.count + other.count) if isinstance(other, Mean) else NotImplemented


@functools.partial(jax.tree_util.register_dataclass, data_fields=["count", "mean", "squares"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Moments:
    """Mean and variance of a part; those of two parts add up: `a + b`, `sum(parts, mx.Moments())`.

    Merged as in Chan, Golub, LeVeque (1983), "Algorithms for computing the sample variance".

    Attributes:
        count: how many there are.
        mean: their mean, 0 of nothing.
        squares: the sum of squared distances from the mean.
    """

    count: Any = 0
    mean: Any = 0
    squares: Any = 0

    @property
    def var(self) -> Any:
        """The variance, `squares / count`; of nothing nan, as NumPy's."""
        return self.squares / self.count

    @property
    def std(self) -> Any:
        """The standard deviation."""
        return jnp.sqrt(self.var)

    def __add__(self, other: "Moments") -> "Moments":
        if not isinstance(other, Moments):
            return NotImplemented
        count = self.count + other.count
        share = other.count / jnp.maximum(count, 1)
        apart = other.mean - self.mean
        return Moments(
            count, self.mean + apart * share, self.squares + other.squares + _square(apart) * self.count * share
        )


def mean(values: Any, *, per: str, where: Any = None, weights: Any = None, axis_name: Any = None) -> Mean:
    """The mean of a batch as sum and count, so that batches, shards and accumulation steps of unequal size add up.

    What is averaged must be said, since all three are in use and differ:

    - `per="token"`: every true value counts alike, so long rows count more;
    - `per="row"`: every row's own mean counts alike; rows without a value do not count;
    - `per="batch"`: the mean over the tokens of this batch (with `axis_name`: of this shard) counts once.

    Args:
        values: `Ragged`, or an array `(rows, ...)`: losses, hits, anything.
        per: what is averaged.
        where: booleans `(rows,)`, False for rows that only fill up the batch. Empty rows of a `Ragged` never count.
        weights: numbers `(rows,)`: how much each row, or each value in it, counts.
        axis_name: sum over this mapped or sharded axis too.

    Returns:
        The `Mean`; its `value` is the number. Booleans are summed exactly, integers and half precision in float32.

    Raises:
        SpecError: an unknown `per`; `where` or `weights` that do not have one entry per row; a `where` that is not
            boolean.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> losses = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([5.0, 5.0, 5.0, 5.0])])
        >>> mx.mean(losses, per="token").value, mx.mean(losses, per="row").value
        (Array(4., dtype=float32), Array(3.5, dtype=float32))
        >>> halves = mx.mean(losses[:1], per="token") + mx.mean(losses[1:], per="token")
        >>> halves
        Mean(total=Array(24., dtype=float32), count=Array(6, dtype=int32))
    """
    if per not in _PER:
        raise SpecError(f"per: one of {', '.join(map(repr, _PER))} is needed, not {per!r}.")
    totals, counts = _rows(*_true(values, where))
    if per == "row":
        totals, counts = totals / jnp.maximum(counts, 1), (counts > 0).astype(jnp.int32)
    if weights is not None:
        weights = _per_row(weights, "weights", len(counts))
        weights = jnp.where(counts > 0, weights, 0)  # of a row that does not count it may be anything
        totals, counts = totals * weights, counts * weights
    total, count = totals.sum(), counts.sum()
    if per == "batch":
        total, count = jnp.where(count != 0, total / jnp.where(count != 0, count, 1), 0), (count != 0).astype(jnp.int32)
    return Mean(*((total, count) if axis_name is None else jax.lax.psum((total, count), axis_name)))


def moments(values: Any, *, where: Any = None, axis_name: Any = None) -> Moments:
    """Mean and variance over all true values of a batch, so that batches and shards add up.

    Args:
        values: `Ragged`, or an array `(rows, ...)`.
        where: booleans `(rows,)`, False for rows that only fill up the batch.
        axis_name: over this mapped or sharded axis too.

    Returns:
        The `Moments`: `mean`, `var`, `std`, `count`.

    Raises:
        SpecError: a `where` that does not have one boolean per row.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([5.0])])
        >>> part = mx.moments(xs)
        >>> part.mean, part.var
        (Array(3., dtype=float32), Array(2.6666667, dtype=float32))
    """
    data, keep = _true(values, where)
    totals, counts = _rows(data, keep)
    total, count = totals.sum(), counts.sum()
    if axis_name is not None:
        total, count = jax.lax.psum((total, count), axis_name)
    center = total / jnp.maximum(count, 1)
    away = jnp.where(keep, data - center, 0)
    squares = _square(away).sum()
    return Moments(count, center, squares if axis_name is None else jax.lax.psum(squares, axis_name))


def _rows(data: Any, keep: Any) -> tuple[Any, Any]:
    """Sum and number of the true values of each row."""
    axes = tuple(range(1, data.ndim))
    return data.sum(axis=axes), jnp.broadcast_to(keep, data.shape).sum(axis=axes, dtype=jnp.int32)


def _true(values: Any, where: Any) -> tuple[Any, Any]:
    """The values, 0 where they are not real, and what is real."""
    keep = values.mask if isinstance(values, Ragged) else None
    data = jnp.asarray(values.to_padded(0) if isinstance(values, Ragged) else values)
    keep = jnp.ones(data.shape[:1], bool) if keep is None else keep
    if where is not None:
        real = _per_row(where, "where", data.shape[0])
        if real.dtype != bool:
            raise SpecError(f"where: booleans are needed, True for real rows, not {real.dtype}.")
        keep = keep & real.reshape(-1, *[1] * (keep.ndim - 1))
    keep = keep.reshape(*keep.shape, *[1] * (data.ndim - keep.ndim))
    if data.dtype != bool:  # integers too: their sums would wrap
        wide = jnp.float32 if jnp.issubdtype(data.dtype, jnp.inexact) else jnp.result_type(float)
        data = data.astype(jnp.promote_types(data.dtype, wide))
    return jnp.where(keep, data, 0), keep


def _per_row(value: Any, name: str, rows: int) -> Any:
    value = jnp.asarray(value)
    if value.shape != (rows,):
        raise SpecError(f"{name}: one entry per row is needed, shape ({rows},), not {value.shape}.")
    return value


def _square(x: Any) -> Any:
    return jnp.real(x * jnp.conj(x))
