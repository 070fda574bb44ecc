"""What a `Ragged` is made from, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged._dims import STATIC, evaluate, innermost, resize, row_dims, variables
from maskax._scope import names_in

NO_ARRAY = (
    "is no array: its rows have unequal sizes. Use mx.vmap(f)(xs) to compute with it, or "
    "xs.to_padded(fill), xs.to_list(), xs.to_packed() to convert it."
)


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
    longest = int(np.asarray(value).max(initial=0)) if _compat.is_concrete(value) else 0
    if longest > np.iinfo(np.int32).max:
        raise SizeError(f"{name} has {longest}, which no array is long enough for.")
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


def check_parts(batch: Any, where: str = "") -> None:
    """That data, sizes and dims of a `Ragged` that somebody put together by hand go together."""
    names, shape = variables(batch.dims), batch.data.shape
    if set(names) != set(batch.sizes) or len(shape) < len(batch.dims):
        raise SpecError(
            f"{where}Ragged: data of shape {shape}, sizes of {sorted(batch.sizes)} and dims={batch.dims} do not go "
            "together: dims has an entry per axis of a row, sizes an array per name in it. See Ragged.from_padded."
        )
    rows = shape[: len(shape) - len(batch.dims)]
    for name, size in batch.sizes.items():
        if np.shape(size) != rows or not jnp.issubdtype(size.dtype, jnp.integer):
            raise SizeError(
                f"{where}sizes[{name!r}] must be integers {rows}, one per row, not {size.dtype}{np.shape(size)}."
            )


def as_index(index: Any, batch: Any) -> Any:
    """What picks rows: an integer, a slice, or an array of integers or booleans."""
    if isinstance(index, slice):
        return index
    rows, array = len(batch), np.zeros(0, int) if isinstance(index, list) and not index else as_array(index)
    ranks = {"b": (1,), "i": (0, 1), "u": (0, 1)}.get(array.dtype.kind, ())
    if isinstance(index, tuple) or array.ndim not in ranks:
        raise TypeError(
            f"{batch!r} is indexed by rows only: xs[i] is a row, an array; a slice, integers or booleans pick several, "
            f"not {index!r}."
        )
    if array.dtype == bool and array.shape != (rows,):
        raise IndexError(f"index: {len(array)} booleans for the {rows} rows of {batch!r}.")
    if not _compat.is_concrete(array):
        if array.dtype == bool:
            raise SizeError(
                "index: how many rows a mask picks is not known while tracing. Keep all of them and leave some out of "
                "what follows: mx.mean(..., where=mask)."
            )
    elif array.dtype != bool and len(wrong := [i for i in np.ravel(np.asarray(array)) if not -rows <= i < rows]):
        raise IndexError(f"There is no row {wrong[0]} in {batch!r}.")
    return int(array) if array.ndim == 0 and _compat.is_concrete(array) else array


def padded_alike(batches: Sequence[Any], buckets: Any = None) -> list[Any]:
    """`batches`, which may be batches of batches, with equal padded sizes in all ragged axes."""
    names = row_dims(batches[0])
    rows = innermost(batches[0]).ndim - len(names)
    extents = []
    for axis, (name, sizes) in enumerate(zip(names, zip(*(innermost(b).shape[rows:] for b in batches)))):
        if name == STATIC and len(set(sizes)) > 1:
            raise SpecError(f"rows: axis {axis} is not ragged ('_'), but its sizes are {sorted(set(sizes))}.")
        extents.append(rounded(max(sizes), name, buckets))
    # Leaves have the same axes in front: the sizes of words are padded to as many sentences as the words are.
    alike = lambda leaf: resize(leaf, (*leaf.shape[:rows], *extents[: leaf.ndim - rows]))
    return [jax.tree.map(alike, b) for b in batches]


def rounded(extent: int, name: str, buckets: Any) -> int:
    """A padded size, rounded up to the bucket for a dimension of this name, if there is one."""
    rounding = buckets.get(name) if isinstance(buckets, Mapping) else buckets
    return extent if rounding is None or names_in(name) != [name] else int(rounding.round(extent))


def check_buckets(buckets: Any, names: Sequence[str] | None = None) -> None:
    """One `Buckets`, or a dict of them by name; if `names` are all there are, by one of those."""
    by_name = isinstance(buckets, Mapping)
    if not all(given is None or hasattr(given, "round") for given in (buckets.values() if by_name else [buckets])):
        raise SpecError(
            f"buckets: a Buckets is needed, or a dict of them by name, not {buckets!r}: mx.Buckets([8, 16, 32])."
        )
    if by_name and names is not None and (unknown := sorted(set(buckets) - set(names))):
        raise SpecError(f"buckets: there is no dimension {unknown[0]!r} in the rows, but {sorted(set(names))}.")
