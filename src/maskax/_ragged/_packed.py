"""Rows laid end to end, and back."""

from typing import Any, NamedTuple

import numpy as np

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged._checks import as_lengths
from maskax._ragged._dims import like, numpy_of, on_host


class Packed(NamedTuple):
    """Rows laid end to end, as grain and the packed-attention kernels have them.

    Attributes:
        values: `(total, ...)`, 0 where no row is.
        segment_ids: `(total,)` integers: 1 for the first row, 2 for the second, 0 where no row is.
        positions: `(total,)` integers: the place within the row, from 0.
    """

    values: Any
    segment_ids: Any
    positions: Any


def pack(data: Any, lengths: Any, size: int | None) -> Packed:
    """`(rows, n, ...)` and `(rows,)` to packed values."""
    lengths = on_host(lengths)
    xp = numpy_of(data, lengths)
    ends = numpy_of(lengths).cumsum(lengths)
    total = ends[-1] if len(lengths) else 0
    if size is None:
        if not _compat.is_concrete(total):
            raise SpecError(
                "to_packed: the number of values is not known under jit; give it room: to_packed(size=...)."
            )
        size = int(total)
    elif _compat.is_concrete(total) and total > size:
        raise SizeError(f"to_packed: size={size} is too small for {total} values.")
    place = xp.arange(size)
    row = xp.searchsorted(ends, place, side="right").astype(np.int32)
    real = place < total
    row = xp.where(real, row, 0)
    position = xp.where(real, place - (ends - lengths)[row], 0).astype(np.int32) if len(lengths) else place * 0
    values = data[row, position] if data.size else xp.zeros((size, *data.shape[2:]), data.dtype)
    keep = real.reshape(-1, *[1] * (values.ndim - 1))
    return Packed(
        xp.where(keep, values, xp.zeros((), data.dtype)), xp.where(real, row + 1, 0).astype(np.int32), position
    )


def unpack(values: Any, lengths: Any, segment_ids: Any, rows: int | None, size: int | None) -> tuple[Any, Any]:
    """Packed values to `(rows, n, ...)` and `(rows,)`."""
    if (lengths is None) == (segment_ids is None):
        raise SpecError("from_packed: give either lengths or segment_ids.")
    if segment_ids is not None:
        ids = on_host(as_lengths(segment_ids, "segment_ids", len(values)))
        xp = numpy_of(ids)
        count = int(_known(ids, "rows", "the number of rows").max(initial=0)) if rows is None else rows
        ids = xp.where((ids > 0) & (ids <= count), ids, count + 1)
        values = values[xp.argsort(ids, stable=True)]
        lengths = (ids[None] == xp.arange(1, count + 1)[:, None]).sum(axis=1)
    else:
        lengths = on_host(as_lengths(lengths, "lengths", len(lengths)))
        xp = numpy_of(lengths)
        if xp is np and (lengths.min(initial=0) < 0 or lengths.sum() > len(values)):
            raise SizeError(
                f"from_packed: lengths are from {lengths.min(initial=0)} and add up to {lengths.sum()}, but there are "
                f"{len(values)} values."
            )
    starts = xp.cumsum(lengths) - lengths
    lengths = xp.clip(lengths, 0, xp.maximum(len(values) - starts, 0))
    if size is None:
        size = int(_known(lengths, "size", "the longest row").max(initial=0))
    index = starts[:, None] + xp.arange(size)
    if not len(values):
        return numpy_of(values).zeros((*index.shape, *values.shape[1:]), values.dtype), like(lengths, values)
    return values[xp.minimum(index, len(values) - 1)], like(lengths, values)


def _known(array: Any, argument: str, what: str) -> np.ndarray:
    if not _compat.is_concrete(array):
        raise SpecError(f"from_packed: {what} is not known under jit; give {argument}=...")
    return np.asarray(array)
