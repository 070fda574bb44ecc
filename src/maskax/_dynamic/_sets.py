"""NumPy's set functions, whose results have as many elements as the data has different ones."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from maskax import _compat
from maskax._dynamic._places import places, take
from maskax._dynamic._select import compress
from maskax._dynamic._size import anywhere, size_of


def _sorted(x: Any) -> tuple[Any, Any, Any]:
    """`x` in order, `(n,)`, the positions it came from, and which elements differ from the one before."""
    order = jnp.argsort(x, stable=True)
    x = x[order]
    nan = jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.zeros(x.shape, bool)
    before, is_nan = jnp.roll(x, 1), nan & jnp.roll(nan, 1)  # all nan are one, as for NumPy
    return x, order, ((x != before) & ~is_nan) | (jnp.arange(x.shape[0]) == 0)


@anywhere
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    max_size: Any = None,
) -> Any:
    """`numpy.unique` of the flattened array: its different elements, in order.

    Args:
        ar: an array of any shape.
        return_index: whether to return where each is first, `(k,)`.
        return_inverse: whether to return which of them each element is, in the shape of `ar`.
        return_counts: whether to return how often each comes, `(k,)`.
        max_size: up to how many there can be; by default as many as there are elements.

    Returns:
        The elements, `(k,)`, or a tuple of them and what else was asked for.

    Raises:
        SizeError: there are more than `max_size`; under `jit` only with `checkify`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([3, 1, 3]), jnp.array([2])])
        >>> tokens, counts = mx.vmap(lambda x: mx.unique(x, return_counts=True))(xs)
        >>> [row.tolist() for row in tokens.to_list()], [row.tolist() for row in counts.to_list()]
        ([[1, 3], [2]], [[1, 2], [1]])
    """
    ar = jnp.asarray(ar)
    x, order, first = _sorted(jnp.ravel(ar))
    starts = places(first, max_size)
    results = [take(x, starts)]
    which = jnp.cumsum(first, dtype=jnp.int32) - 1
    if return_index:
        results.append(take(order, starts).astype(jnp.int32))
    if return_inverse:
        results.append(jnp.zeros(x.shape, jnp.int32).at[order].set(which).reshape(ar.shape))
    if return_counts:
        results.append(jnp.zeros(starts.shape, jnp.int32).at[which].add(1, mode="drop"))
    return tuple(results) if len(results) > 1 else results[0]


@anywhere
def union1d(ar1: Any, ar2: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.union1d`: what is in either array, once and in order, `(k,)`; see `unique`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.union1d(jnp.array([3, 1]), jnp.array([1, 2])).tolist()
        [1, 2, 3]
    """
    return unique(jnp.concatenate([jnp.ravel(jnp.asarray(ar1)), jnp.ravel(jnp.asarray(ar2))]), max_size=max_size)


@anywhere
def intersect1d(ar1: Any, ar2: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.intersect1d`: what is in both arrays, once and in order, `(k,)`; see `unique`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.intersect1d(jnp.array([3, 1, 2]), jnp.array([1, 3, 5])).tolist()
        [1, 3]
    """
    dtype = jnp.result_type(ar1, ar2)
    ar1, ar2 = unique(jnp.asarray(ar1, dtype)), unique(jnp.asarray(ar2, dtype))
    return compress(jnp.any(ar1[:, None] == ar2[None], axis=1), ar1, max_size=max_size)


@anywhere
def setdiff1d(ar1: Any, ar2: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.setdiff1d`: what is in the first array and not in the second, once and in order, `(k,)`; see `unique`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.setdiff1d(jnp.array([3, 1, 2]), jnp.array([1, 5])).tolist()
        [2, 3]
    """
    ar1, ar2 = unique(ar1), jnp.ravel(jnp.asarray(ar2))
    return compress(~jnp.any(ar1[:, None] == ar2[None], axis=1), ar1, max_size=max_size)


@anywhere
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, max_size: Any = None) -> jax.Array:
    """`numpy.bincount`: how often each number comes, as far as the largest of them.

    Args:
        x: integers of at least 0, `(n,)`.
        weights: how much each counts, `(n,)`.
        minlength: how long the result is at least.
        max_size: up to how long it can get: one more than the largest number there may be. Needed unless `x` is known.

    Returns:
        The counts, `(k,)`.

    Raises:
        SizeError: a number is negative or not less than `max_size`; under `jit` only with `checkify`.
        TypeError: `x` has no integers.
        ValueError: `x` is not `(n,)`, `weights` is not of its shape, or `max_size` is needed.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.bincount(jnp.array([0, 3, 3]), max_size=10).tolist()
        [1, 0, 0, 2]
    """
    x = jnp.asarray(x)
    weights = jnp.ones(x.shape, jnp.int32) if weights is None else jnp.asarray(weights)
    if x.ndim != 1 or weights.shape != x.shape:
        raise ValueError(f"bincount: x and weights must be (n,), but have the shapes {x.shape}, {weights.shape}.")
    if not (x.dtype == bool or jnp.issubdtype(x.dtype, jnp.integer)):
        raise TypeError(f"bincount: integers are needed, not {x.dtype}.")
    x = x.astype(_compat.dimension_dtype())
    size = jnp.where(jnp.any(x < 0), -1, jnp.maximum(jnp.max(x, initial=-1) + 1, minlength))  # -1 is no size
    if max_size is None:
        if isinstance(size, Tracer):
            raise ValueError("bincount: max_size is needed: nothing else says how long the result can get.")
        max_size = int(size)
    k = size_of(size, max_size)
    return jnp.zeros((k,), weights.dtype).at[x].add(weights, mode="drop")


@anywhere
def run_lengths(x: Any, *, max_size: Any = None) -> tuple[jax.Array, jax.Array]:
    """Run-length coding: the value of every run of equal elements, and how long it is; `repeat` is the way back.

    Args:
        x: the array, `(n,)`.
        max_size: up to how many runs there can be; by default as many as there are elements.

    Returns:
        Values and lengths, `(k,)` each.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> values, lengths = mx.run_lengths(jnp.array([5, 5, 7, 5]))
        >>> values.tolist(), lengths.tolist()
        ([5, 7, 5], [2, 1, 1])
    """
    x = jnp.asarray(x)
    first = (x != jnp.roll(x, 1)) | (jnp.arange(x.shape[0]) == 0)
    starts = places(first, max_size)
    run = jnp.cumsum(first, dtype=jnp.int32) - 1
    return take(x, starts), jnp.zeros(starts.shape, jnp.int32).at[run].add(1, mode="drop")
