"""`Ragged`: a batch of rows of unequal size as one value."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged import _checks, _show
from maskax._ragged._checks import NO_ARRAY, as_array, as_fill, as_index, as_sizes, check_names, check_parts
from maskax._ragged._dims import (
    STATIC,
    default_name,
    evaluate,
    innermost,
    is_key,
    like,
    numpy_of,
    on_host,
    read,
    resize,
    variables,
)
from maskax._ragged._packed import Packed, pack, unpack


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data", "sizes"], meta_fields=["dims"])
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Rows of unequal size: padded data, true sizes, named dimensions. A pytree; all its leaves have the rows in front.

    Made by `mx.ragged`, or by the `from_...` methods; read by `to_list`, `to_padded`, `to_packed`; mapped over by
    `mx.vmap`. What the padding holds does not matter. NumPy rows stay on the host until they are used.

    A batch of batches (documents of sentences of words) is a `Ragged` whose `data` and `sizes` are `Ragged` themselves.

    Attributes:
        data: the padded array, `(rows, *padded row)`.
        sizes: the true size of each name, an integer array `(rows,)`.
        dims: a name or an expression (`"n - 1"`) for each axis of a row, `"_"` where it is not ragged.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.ones((2, 8)), jnp.ones((3, 8))])
        >>> xs
        Ragged(f32[2, n<=3, 8], n=[2, 3])
        >>> xs.mask
        Array([[ True,  True, False],
               [ True,  True,  True]], dtype=bool)
    """

    data: Any
    sizes: dict[str, Any]
    dims: tuple[str, ...]

    # --- made from ---------------------------------------------------------------------------------------------

    @classmethod
    def from_padded(cls, data: Any, lengths: Any, dims: str | Sequence[str | None] | None = None) -> "Ragged":
        """Rows from padded data and their lengths.

        Args:
            data: `(rows, *padded row)`.
            lengths: `(rows,)` integers, or a dict of them, one per name in `dims`.
            dims: the row's axes, as a shape string or a sequence of names; by default the first is ragged.

        Raises:
            SpecError: `dims` does not fit the data, or names another dimension than `lengths`.
            SizeError: lengths that are not integers of shape `(rows,)`, or out of range. Under `jit` they are clamped,
                and checked where the caller uses checkify.
        """
        data = as_array(data)
        if data.ndim < 2:
            raise SpecError(f"data: rows of at least one axis are needed, (rows, n, ...), not shape {data.shape}.")
        axes = read(dims, data.ndim - 1, "dims") or (default_name(0), *[STATIC] * (data.ndim - 2))
        return cls(data, as_sizes(lengths, axes, data.shape), axes)

    @classmethod
    def from_mask(cls, data: Any, mask: Any, dims: str | Sequence[str | None] | None = None) -> "Ragged":
        """Rows from data and a boolean mask, True where it is real. Holes are closed up; the order is kept.

        Args:
            data: `(rows, n, ...)`.
            mask: `(rows, n)` booleans.
            dims: the row's axes; by default the first is ragged.

        Raises:
            SpecError: a mask that is not boolean or not of the shape `(rows, n)`.
        """
        data, mask = as_array(data), as_array(mask)
        if mask.dtype != bool or mask.ndim != 2 or mask.shape != data.shape[:2]:
            shape = data.shape[:2]
            raise SpecError(f"mask must be booleans {shape}, True where real, not {mask.dtype}{mask.shape}.")
        xp = numpy_of(data, mask)
        order = xp.argsort(~mask, axis=1, stable=True)
        moved = data[xp.arange(data.shape[0])[:, None], order]
        return cls.from_padded(moved, mask.sum(axis=1).astype(np.int32), dims)

    @classmethod
    def from_packed(
        cls,
        values: Any,
        lengths: Any = None,
        *,
        segment_ids: Any = None,
        rows: int | None = None,
        size: int | None = None,
        dims: str | Sequence[str | None] | None = None,
    ) -> "Ragged":
        """Rows from values laid end to end.

        Args:
            values: `(total, ...)`; what lies past the last row is ignored.
            lengths: `(rows,)` integers; or else
            segment_ids: `(total,)` integers, in any order: 1 for the first row, 0 for what belongs to none.
            rows: the number of rows, with segment ids; by default the largest id. Needed under `jit`.
            size: the padded size; by default the longest row's. Needed under `jit`.
            dims: the row's axes; by default the first is ragged.

        Raises:
            SpecError: not exactly one of `lengths` and `segment_ids`, or a size that is needed under `jit`.
            SizeError: lengths or ids that are no integers, are negative, or do not fit the values.
        """
        data, lengths = unpack(as_array(values), lengths, segment_ids, rows, size)
        return cls.from_padded(data, lengths, dims)

    @staticmethod
    def concatenate(batches: Sequence["Ragged"]) -> "Ragged":
        """The rows of several batches, padded alike, as one batch.

        Raises:
            SpecError: no batch, or batches with other dimensions, dtypes or static sizes.
        """
        some = batches and all(isinstance(b, Ragged) for b in batches)
        if not some or len({(jax.tree.structure(b), innermost(b).dtype) for b in batches}) > 1:
            raise SpecError(f"batches: one or more of equal dimensions and dtype are needed, not {batches!r}.")
        batches = _checks.padded_alike(batches)
        return jax.tree.map(lambda *leaves: numpy_of(*leaves).concatenate(leaves), *batches)

    # --- read as -----------------------------------------------------------------------------------------------

    @property
    def lengths(self) -> Any:
        """The length of every row, `(rows,)` integers, where one axis is ragged.

        Raises:
            SpecError: several are; `sizes` has them by name.
        """
        if len(self._ragged_axes) != 1:
            raise SpecError(f"lengths: several axes of {self!r} are ragged; read .sizes['{variables(self.dims)[0]}'].")
        return self._flat()._true(self._ragged_axes[0])

    @property
    def mask(self) -> Any:
        """Booleans, True where the data is real: `(rows, ...)` up to and with the last ragged axis."""
        flat = self._flat()
        batch, last = flat._batch_shape, max(flat._ragged_axes)
        inside = numpy_of(*flat.sizes.values()).ones((), bool)
        for axis in flat._ragged_axes:
            extent = flat.data.shape[len(batch) + axis]
            positions = np.arange(extent).reshape(-1, *[1] * (last - axis))
            inside = inside & (positions < flat._true(axis).reshape(*batch, *[1] * (last + 1)))
        shape = flat.data.shape[: len(batch) + last + 1]
        return numpy_of(inside).broadcast_to(inside, shape)

    def to_padded(self, fill: Any = 0) -> Any:
        """The data, `(rows, *padded row)`, with `fill` in the padding.

        Raises:
            SpecError: a fill that the dtype cannot hold.
        """
        data, mask = self._flat().data, self.mask
        mask = mask.reshape(*mask.shape, *[1] * (data.ndim - mask.ndim))
        if is_key(data):
            return jnp.where(mask, data, resize(data[:0], data.shape))
        return numpy_of(data, mask).where(mask, data, as_fill(fill, data.dtype))

    def to_list(self) -> list[Any]:
        """The rows as a list of arrays without padding; of lists, for a batch of batches."""
        return [row.to_list() if isinstance(row, Ragged) else row for row in self]

    def to_packed(self, size: int | None = None) -> Packed:
        """The rows laid end to end, with segment ids and positions; what they do not fill is 0.

        Args:
            size: how many values to make room for; by default as many as there are. Needed under `jit`.

        Raises:
            SpecError: more than one ragged axis, or one that is not first; or no size under `jit`.
            SizeError: `size` is too small.
        """
        if self._ragged_axes != (0,) or len(self._batch_shape) != 1:
            raise SpecError(f"to_packed: rows with one ragged axis, the first, are needed, not {self!r}.")
        return pack(self.data, self.lengths, size)

    def same_sizes(self, other: "Ragged") -> bool:
        """Whether the rows of both have equal sizes, by value (never under `jit`, where values are not known)."""
        names = variables(self.dims)
        return set(names) == set(variables(other.dims)) and all(
            np.array_equal(np.asarray(self._flat().sizes[n]), np.asarray(other._flat().sizes[n])) for n in names
        )

    def rename(self, **names: str) -> "Ragged":
        """The same rows with other names of dimensions: `xs.rename(n="m")`.

        Raises:
            SpecError: a name that is not there, or a new one that is no name or taken.
        """
        check_names(names, self)
        dims = tuple(_show.renamed(dim, names) for dim in self.dims)
        return Ragged(self.data, {names.get(n, n): size for n, size in self.sizes.items()}, dims)

    # --- as a sequence of rows ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        if isinstance(self.data, Ragged):
            return len(self.data)
        if not self._batch_shape:
            raise TypeError(f"{self!r} is one row, not a batch of rows.")
        return self._batch_shape[0]

    def __iter__(self) -> Iterator[Any]:
        leaf, rows = jax.tree.leaves(self)[0], jax.tree.map(on_host, self)
        return (jax.tree.map(lambda row: like(row, leaf), rows[i]) for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """One row, as an array without padding, or several (a slice, integers, booleans) as a `Ragged`.

        Raises:
            SizeError: one row whose size is not known, under `jit`.
        """
        index = as_index(index, self)
        if isinstance(self.data, Ragged):
            return jax.tree.map(lambda leaf: leaf[index], self, is_leaf=is_batch)
        if isinstance(index, slice) or np.ndim(index):
            return jax.tree.map(lambda leaf: leaf[index], self)
        sizes = {name: on_host(size)[index] for name, size in self.sizes.items()}
        return Ragged(self.data[index], sizes, self.dims)._unpadded()

    # --- inside ------------------------------------------------------------------------------------------------

    @property
    def _batch_shape(self) -> tuple[int, ...]:
        return (shape := innermost(self).shape)[: len(shape) - len(self.dims)]

    @property
    def _ragged_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, dim in enumerate(self.dims) if dim != STATIC)

    def _true(self, axis: int) -> Any:
        return evaluate(self.dims[axis], self.sizes)

    def _flat(self) -> "Ragged":
        """A batch of batches as one array with several axes of rows, where rows that are padding have size 0."""
        if not isinstance(self.data, Ragged):
            check_parts(self)
            return self
        sizes = {n: size.to_padded() if isinstance(size, Ragged) else size for n, size in self.sizes.items()}
        dims, outer = list(self.dims), self.data._flat()
        for axis, (own, of_outer) in enumerate(zip(self.dims, outer.dims[1:])):
            if own == STATIC and of_outer != STATIC:  # ragged by a size of the outer row
                true, dims[axis] = outer._true(axis + 1)[..., None], f"outer{axis}"
                sizes[dims[axis]] = numpy_of(true).broadcast_to(true, self._batch_shape)
        return Ragged(outer.data, sizes, tuple(dims))

    def _unpadded(self) -> Any:
        sizes = [self._true(axis) for axis in self._ragged_axes]
        if self._batch_shape or not all(map(_compat.is_concrete, sizes)):
            raise SizeError(
                f"The size of a row of {self!r} is not known while tracing: take rows as a batch, xs[i:i+1], or map "
                "over them with mx.vmap."
            )
        true = iter(sizes)
        cut = tuple(slice(None) if dim == STATIC else slice(0, int(next(true))) for dim in self.dims)
        return like(on_host(self.data)[cut], self.data)

    _repr_html_, __treescope_repr__, plot = _show.as_html, _show.as_treescope, _show.plot

    def __repr__(self) -> str:
        return _show.text(self)

    def _no_array(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self!r} {NO_ARRAY}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Ragged has no {name!r}: a Ragged {NO_ARRAY}" if hasattr(jax.Array, name) else name)

    __array__ = __jax_array__ = __neg__ = __abs__ = __invert__ = __ge__ = _no_array
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_array
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __floordiv__ = __mod__ = __lt__ = __le__ = __gt__ = _no_array


def is_batch(value: Any) -> bool:
    """Whether `value` is a `Ragged` of arrays (not one of `Ragged`)."""
    return isinstance(value, Ragged) and not isinstance(value.data, Ragged)
