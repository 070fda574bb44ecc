"""Batches from and to awkward arrays (extra `maskax[awkward]`)."""

from typing import Any

import numpy as np

from maskax._errors import SpecError
from maskax._ragged._batch import Ragged
from maskax._ragged._make import ragged


def _awkward() -> Any:
    try:
        import awkward
    except ImportError:
        raise ImportError("Awkward arrays need the package awkward: pip install 'maskax[awkward]'.") from None
    return awkward


def to_awkward(batch: Ragged) -> Any:
    """A `Ragged`, or a batch of batches, as an `awkward.Array` of its true values, on the host.

    Raises:
        ImportError: awkward is not installed.

    Example:
        >>> import numpy as np, maskax as mx
        >>> mx.to_awkward(mx.ragged([np.arange(2), np.arange(3)]))
        <Array [[0, 1], [0, 1, 2]] type='2 * var * int64'>
    """
    awkward = _awkward()
    if isinstance(batch.data, Ragged):
        return awkward.concatenate([to_awkward(row)[np.newaxis] for row in batch]) if len(batch) else awkward.Array([])
    first = batch.dims[0] != "_" and len(batch.dims) - batch.dims.count("_") == 1
    if first:
        return awkward.unflatten(np.asarray(batch.to_packed().values), np.asarray(batch.lengths))
    return awkward.Array([np.asarray(row) for row in batch])


def from_awkward(array: Any, dims: Any = None, buckets: Any = None) -> Any:
    """Rows from an `awkward.Array`: what is rectangular within a row is an array, what is not a batch of batches.

    Args:
        array: one row per entry, of numbers, of any depth.
        dims: names for the axes of a row, see `ragged`; for the innermost rows of a batch of batches.
        buckets: rounds padded sizes up, see `ragged`.

    Returns:
        A `Ragged` of NumPy arrays.

    Raises:
        ImportError: awkward is not installed.
        SpecError: no rows, or records or strings where numbers are needed.

    Example:
        >>> import awkward, maskax as mx
        >>> mx.from_awkward(awkward.Array([[1.0, 2.0], [], [3.0]]))
        Ragged(f64[3, n<=2], n=[2, 0, 1])
    """
    awkward = _awkward()
    array = awkward.Array(array)
    if array.fields or array.ndim < 2:
        raise SpecError(f"array: rows of numbers are needed, not {array.type}; take one field: array['x'].")
    inner, depth = array, 1
    while (rows := _rectangular(inner)) is None:
        inner, depth = awkward.flatten(inner, axis=1), depth + 1
    if depth == 1:
        return ragged(rows, dims, buckets)
    empty = [ragged(rows[:1], dims)[:0]]
    for _ in range(depth - 2):
        empty.append(ragged(empty[-1:])[:0])

    def batch(array: Any, depth: int) -> Any:
        if not len(array):
            return empty[depth - 1]
        return ragged(_rectangular(array), dims) if depth == 1 else ragged(batches(array, depth))

    def batches(array: Any, depth: int) -> list[Any]:
        return [batch(row, depth - 1) for row in array]

    return ragged(batches(array, depth), None, buckets)


def _rectangular(array: Any) -> Any:
    """The rows as NumPy arrays, if each of them is rectangular; else `None`."""
    try:
        rows = [_awkward().to_numpy(row, allow_missing=False) for row in array]
    except ValueError:
        return None
    return [row.astype(np.float64) if row.dtype == object else row for row in rows]
