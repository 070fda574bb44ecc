"""Parts of arrays that the data decides: NumPy's functions whose results JAX has no shape for."""

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._dynamic._places import places, take, true
from maskax._dynamic._size import anywhere, size_of
from maskax._extent import holds, is_symbolic
from maskax.numpy import searchsorted


@anywhere
def nonzero(a: Any, *, max_size: Any = None) -> tuple[jax.Array, ...]:
    """`numpy.nonzero`: where an array is not 0.

    Args:
        a: an array of any shape.
        max_size: up to how many there can be; by default as many as there are elements.

    Returns:
        Per axis the indices, `(k,)`, in row-major order.

    Raises:
        SizeError: there are more than `max_size`; under `jit` only with `checkify`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1, 0, 2]), jnp.array([0, 3])])
        >>> [index.tolist() for index in mx.vmap(lambda x: mx.nonzero(x)[0])(xs).to_list()]
        [[0, 2], [1]]
    """
    a = jnp.asarray(a)
    if a.ndim == 0:
        raise ValueError("nonzero: an array of at least one dimension is needed; of a scalar, use jnp.atleast_1d.")
    found, axes = places(true(a), max_size), []
    for size in a.shape[:0:-1]:
        size = jnp.asarray(size, jnp.int32)
        axes.append(found % size)
        found = found // size
    return (found, *axes[::-1])


@anywhere
def flatnonzero(a: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.flatnonzero`: where the flattened array is not 0, `(k,)`; see `nonzero`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.flatnonzero(jnp.array([0, 5, 6])).tolist()
        [1, 2]
    """
    return places(true(jnp.asarray(a)), max_size)


@anywhere
def argwhere(a: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.argwhere`: the indices of what is not 0, `(k, axes)`; see `nonzero`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.argwhere(jnp.eye(2)).tolist()
        [[0, 0], [1, 1]]
    """
    return jnp.stack(nonzero(a, max_size=max_size), axis=-1)


@anywhere
def where(condition: Any, x: Any = None, y: Any = None, *, max_size: Any = None) -> Any:
    """`numpy.where`: of one argument `nonzero`, of three `jax.numpy.where`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.where(jnp.array([True, False, True]))
        (Array([0, 2], dtype=int32),)
    """
    if (x is None) != (y is None):
        raise ValueError("where: give a condition only, or a condition and two arrays.")
    return nonzero(condition, max_size=max_size) if x is None else jnp.where(condition, x, y)


@anywhere
def compress(condition: Any, a: Any, axis: int | None = None, *, max_size: Any = None) -> jax.Array:
    """`numpy.compress`: the slices of an array for which a condition holds.

    Gradients go back to the slices; none goes through the choice.

    Args:
        condition: booleans `(n,)`, at most as many as there are slices.
        a: the array.
        axis: along which; `None`: of the flattened array.
        max_size: up to how many slices there can be; by default all.

    Returns:
        The array with `k` slices along `axis`.

    Raises:
        SizeError: there are more than `max_size`; under `jit` only with `checkify`.
        ValueError: `condition` is not one-dimensional, or longer than there are slices.

    Example:
        >>> import jax, jax.numpy as jnp, maskax as mx
        >>> def mean_of_positive(x):  # x: (n,)
        ...     return mx.compress(x > 0, x).mean()
        >>> xs = mx.ragged([jnp.array([1.0, -1.0, 3.0]), jnp.array([5.0])])
        >>> jax.jit(mx.vmap(mean_of_positive))(xs)
        Array([2., 5.], dtype=float32)
    """
    a, condition = jnp.asarray(a), jnp.asarray(condition)
    if condition.ndim != 1:
        raise ValueError(f"compress: condition must be (n,), but has the shape {condition.shape}.")
    a = jnp.ravel(a) if axis is None else a
    if holds(operator.gt, condition.shape[0], a.shape[axis or 0]):
        raise ValueError(
            f"compress: condition has the shape {condition.shape}, but there are {a.shape[axis or 0]} slices."
        )
    return take(a, places(true(condition), max_size), axis or 0)


@anywhere
def extract(condition: Any, arr: Any, *, max_size: Any = None) -> jax.Array:
    """`numpy.extract`: the elements at which a condition of the same shape holds, `(k,)`; see `compress`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.extract(jnp.eye(2) > 0, jnp.array([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    return compress(jnp.ravel(jnp.asarray(condition)), jnp.ravel(jnp.asarray(arr)), max_size=max_size)


@anywhere
def delete(arr: Any, obj: Any, axis: int | None = None, *, max_size: Any = None) -> jax.Array:
    """`numpy.delete`: an array without some of its slices.

    Args:
        arr: the array.
        obj: which: an index, indices `(m,)`, a slice, or booleans `(n,)`. Indices may be there twice, or be negative;
            those that are out of range are an error where they are known, else nothing is deleted for them.
        axis: along which; `None`: of the flattened array.
        max_size: up to how many slices can be left; by default all.

    Returns:
        The array with what is left of `axis`.

    Raises:
        ValueError: there are not as many booleans as slices.
        IndexError: an index is out of range.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.delete(jnp.arange(5), jnp.array([1, 3, 3])).tolist()
        [0, 2, 4]
    """
    arr = jnp.asarray(arr)
    arr, axis = (jnp.ravel(arr), 0) if axis is None else (arr, range(arr.ndim)[axis])
    size = arr.shape[axis]
    gone = jnp.arange(size)[obj] if isinstance(obj, slice) else jnp.asarray(obj)
    gone = gone if gone.size else gone.astype(int)
    if gone.dtype != bool:
        outside = jnp.any((gone < -size) | (gone >= size))
        if _compat.is_concrete(outside) and outside:
            raise IndexError(f"delete: {obj} is out of range for {size} slices.")
        gone = jnp.zeros(size, bool).at[gone].set(True, mode="drop")
    elif gone.shape != (size,):
        raise ValueError(f"delete: booleans of the shape {gone.shape}, but there are {size} slices.")
    return compress(~gone, arr, axis, max_size=max_size)


@anywhere
def trim_zeros(filt: Any, trim: str = "fb", *, max_size: Any = None) -> jax.Array:
    """`numpy.trim_zeros` of a `(n,)` array: without the zeros in front (`"f"`) and behind (`"b"`).

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.trim_zeros(jnp.array([0, 1, 0, 2, 0])).tolist()
        [1, 0, 2]
    """
    filt = jnp.asarray(filt)
    if filt.ndim != 1 or not set(trim.lower()) <= set("fb"):
        raise ValueError(f"trim_zeros: an array (n,) and 'f', 'b' or 'fb' are needed, not {filt.shape} and {trim!r}.")
    seen = jnp.cumsum(filt != 0) if "f" in trim.lower() else jnp.ones(filt.shape, jnp.int32)
    left = jnp.cumsum(filt != 0, axis=0) if "b" in trim.lower() else None
    keep = seen > 0
    if left is not None:
        keep &= (jnp.sum(filt != 0) - left + (filt != 0)) > 0
    return compress(keep, filt, max_size=max_size)


@anywhere
def repeat(a: Any, repeats: Any, axis: int | None = None, *, max_size: Any = None) -> jax.Array:
    """`numpy.repeat`, as often as an array says.

    Args:
        a: the array.
        repeats: how often each slice comes: an int, or counts `(n,)`.
        axis: along which; `None`: of the flattened array.
        max_size: up to how long it can get. Needed unless `repeats` is an int or a known array.

    Returns:
        The array with `sum(repeats)` slices along `axis`.

    Raises:
        ValueError: `max_size` is needed, or known counts are negative.
        TypeError: the counts are no integers.
        SizeError: there are more than `max_size`, or a count is negative; under `jit` only with `checkify`.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> mx.repeat(jnp.array([7, 8]), jnp.array([2, 1])).tolist()
        [7, 7, 8]
    """
    a = jnp.asarray(a)
    a, axis = (jnp.ravel(a), 0) if axis is None else (a, range(a.ndim)[axis])
    if isinstance(repeats, int) or is_symbolic(repeats):
        return jnp.repeat(a, repeats, axis)
    counts, size = repeats if isinstance(repeats, jax.Array) else np.asarray(repeats), a.shape[axis]
    if not jnp.issubdtype(counts.dtype, jnp.integer):
        raise TypeError(f"repeat: counts must be integers, not {counts.dtype}.")
    if max_size is None:
        if not (_compat.is_concrete(counts) and isinstance(size, int)):
            raise ValueError("repeat: max_size is needed: nothing else says how long the result can get.")
        counts = np.broadcast_to(np.asarray(counts, int), (size,))
        if np.any(counts < 0):
            raise ValueError("repeat: counts must not be negative.")
        return jnp.repeat(a, counts, axis, total_repeat_length=int(counts.sum()))
    counts = jnp.broadcast_to(jnp.asarray(counts, _compat.dimension_dtype()), (size,))
    ends = jnp.cumsum(counts)
    total = jnp.where(jnp.any(counts < 0), -1, jnp.sum(counts))  # -1 is no size
    k = size_of(total, max_size)
    return take(a, searchsorted(ends, jnp.arange(k), side="right"), axis)


@anywhere
def split(ary: Any, indices: Sequence[Any] | int, axis: int = 0) -> list[jax.Array]:
    """`numpy.split` at points that the data decides.

    Args:
        ary: the array.
        indices: where to split, in order; integer scalars, or one array `(m,)` of a static number. An int: into so
            many parts of equal size.
        axis: along which.

    Returns:
        One more array than there are points.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> [part.tolist() for part in mx.split(jnp.arange(5), jnp.array([1, 3]))]
        [[0], [1, 2], [3, 4]]
    """
    ary = jnp.asarray(ary)
    if isinstance(indices, int):
        return jnp.split(ary, indices, axis)
    axis, size = range(ary.ndim)[axis], ary.shape[range(ary.ndim)[axis]]
    points = [jnp.asarray(i) for i in indices]
    edge = lambda i: jnp.clip(jnp.where(i < 0, i + size, i), 0, size)
    edges = [jnp.asarray(0), *map(edge, points), jnp.asarray(size)]
    parts = []
    for start, stop in zip(edges, edges[1:]):
        k = size_of(jnp.maximum(stop - start, 0), size)
        parts.append(take(ary, start + jnp.arange(k), axis))
    return parts
