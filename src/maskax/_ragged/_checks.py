"""What a `Ragged` is made from, checked."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged._dims import STATIC, evaluate, resize, variables
from maskax._shapes import names_in


def as_array(value: Any) -> Any:
    """Any array as it is, all else as a NumPy array."""
    return value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)


def as_sizes(lengths: Any, dims: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """The size of every name in `dims`, within the padded shape of the data."""
    names = variables(dims)
    if not isinstance(lengths, dict):
        if len(names) != 1:
            raise SpecError(f"lengths: dims {dims} has the names {list(names)}; give a dict, one array per name.")
        lengths = {names[0]: lengths}
    if set(lengths) != set(names):
        raise SpecError(f"lengths: names {sorted(lengths)}, but dims {dims} has {sorted(names)}.")
    sizes = {name: as_lengths(lengths[name], f"lengths[{name!r}]", shape[0]) for name in names}
    for axis, dim in enumerate(dims, 1):
        if dim in names:
            sizes[dim] = _within(sizes[dim], shape[axis], dim)
        elif dim != STATIC:
            _within(evaluate(dim, sizes), shape[axis], dim)
    return sizes


def as_lengths(value: Any, name: str, rows: int) -> Any:
    """One length per row, as int32."""
    value = as_array(value)
    if value.shape != (rows,) or not jnp.issubdtype(value.dtype, jnp.integer):
        raise SizeError(f"{name} must be {rows} integers, one per row, not {value.dtype}{value.shape}.")
    if _compat.is_concrete(value) and rows and int(np.max(value)) > np.iinfo(np.int32).max:
        raise SizeError(f"{name} has {int(np.max(value))}, which no array is long enough for.")
    return value.astype(np.int32)


def _within(lengths: Any, extent: int, dim: str) -> Any:
    """Lengths within the padded extent; where their values are not known clamped, and checked under checkify."""
    if not _compat.is_concrete(lengths):
        text = f"lengths: a row has size {{size}} in dimension {dim!r}, but the data is padded to {extent}."
        return jnp.clip(_compat.size_check(lengths, 0, extent, text), 0, extent)
    values = np.asarray(lengths)
    if len(rows := np.flatnonzero((values > extent) | (values < 0))):
        raise SizeError(
            f"lengths: row {rows[0]} has size {values[rows[0]]} in dimension {dim!r}, but the data is padded to "
            f"{extent}."
        )
    return lengths


def as_fill(fill: Any, dtype: Any) -> Any:
    """The fill, a scalar, in the dtype of the data, which must be able to hold it."""
    if isinstance(fill, Tracer):
        return fill.astype(dtype)
    given = np.asarray(fill)
    with np.errstate(invalid="ignore"):
        value = (given if jnp.issubdtype(dtype, jnp.complexfloating) else given.real).astype(dtype)
    rounded = jnp.issubdtype(dtype, jnp.inexact) and np.isrealobj(given)
    if given.ndim or not (rounded or np.array_equal(value, given)):
        raise SpecError(f"fill: {fill!r} is not a value of dtype {dtype}.")
    return value


def check_names(names: Mapping[str, str], batch: Any) -> None:
    """Old names that are there, and new ones under which nothing else stands."""
    if unknown := sorted(names.keys() - batch.sizes.keys()):
        raise SpecError(f"rename: there is no dimension {unknown[0]!r} in {batch!r}.")
    new = [names.get(name, name) for name in batch.sizes]
    for name in names.values():
        if names_in(name) != [name] or new.count(name) > 1:
            raise SpecError(f"rename: {name!r} is no name, or one that is taken, in {batch!r}.")


def padded_alike(batches: Sequence[Any]) -> list[Any]:
    """`batches` with equal padded sizes in all ragged axes."""
    flat = [b.data.shape[len(b._batch_shape) :] for b in batches]
    for axis in range(len(flat[0])):
        extents = {shape[axis] for shape in flat}
        if batches[0].dims[axis] == STATIC and len(extents) > 1:
            raise SpecError(f"rows: axis {axis} is not ragged ('_'), but its sizes are {sorted(extents)}.")
    row = tuple(map(max, zip(*flat)))
    return [dataclasses.replace(b, data=resize(b.data, (*b._batch_shape, *row))) for b in batches]
