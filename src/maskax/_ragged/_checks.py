"""What a `Ragged` is made from, checked."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged._dims import STATIC, resize


def as_array(value: Any) -> Any:
    """Any array as it is, all else as a NumPy array."""
    return value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)


def as_lengths(value: Any, name: str, rows: int) -> Any:
    """One length per row, as int32."""
    value = as_array(value)
    if value.shape != (rows,) or not jnp.issubdtype(value.dtype, jnp.integer):
        raise SizeError(f"lengths[{name!r}] must be {rows} integers, one per row, not {value.dtype}{value.shape}.")
    return value.astype(np.int32)


def check_range(lengths: Any, extent: int, dim: str) -> None:
    """Lengths within the padded extent, where their values are known."""
    if not _compat.is_concrete(lengths):
        return
    if len(rows := np.flatnonzero(np.asarray(lengths) > extent)):
        raise SizeError(
            f"lengths: row {rows[0]} has size {lengths[rows[0]]} in dimension {dim!r}, but the data is padded to "
            f"{extent}."
        )


def as_fill(fill: Any, dtype: Any) -> Any:
    """The fill in the dtype of the data, which must be able to hold it."""
    with np.errstate(invalid="ignore"):
        value = np.asarray(fill).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer) and not np.array_equal(value, fill):
        raise SpecError(f"fill: {fill!r} is not a value of dtype {dtype}.")
    return value


def padded_alike(batches: Sequence[Any]) -> list[Any]:
    """`batches` with equal padded sizes in all ragged axes."""
    flat = [b.data.shape[len(b._batch_shape) :] for b in batches]
    for axis in range(len(flat[0])):
        extents = {shape[axis] for shape in flat}
        if batches[0].dims[axis] == STATIC and len(extents) > 1:
            raise SpecError(f"rows: axis {axis} is not ragged ('_'), but its sizes are {sorted(extents)}.")
    row = tuple(map(max, zip(*flat)))
    return [dataclasses.replace(b, data=resize(b.data, (*b._batch_shape, *row))) for b in batches]
