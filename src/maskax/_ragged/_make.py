"""`ragged`: a batch from a list of rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from maskax._arguments import broadcast_prefix
from maskax._errors import SpecError
from maskax._ragged._batch import Ragged
from maskax._ragged._checks import as_array, check_buckets, padded_alike, rounded
from maskax._ragged._dims import STATIC, default_name, is_key, like, numpy_of, on_host, read, resize, row_dims
from maskax._scope import names_in


def ragged(rows: Sequence[Any], dims: Any = None, buckets: Any = None) -> Any:
    """Stacks rows of unequal size.

    Args:
        rows: arrays of equal rank and dtype, or equal pytrees of arrays. Rows of NumPy arrays give a batch of NumPy
            arrays. Rows that are `Ragged` themselves give a batch of batches.
        dims: names for the axes of a row, as a shape string (`"h, w, _"`) or a sequence of names (`("m",)`); for
            pytrees also a tree of such strings (`None`: nothing is ragged), which a sequence is for rows that are
            tuples or lists: `("n, _", None)`. Axes that are not mentioned are not ragged.
            By default the first axis, and every other that differs between rows, is ragged; by position their names are
            n, m, k, l, ...
        buckets: rounds padded sizes up (`Buckets`), for all dimensions or as a dict by name, those of rows in rows
            among them. By default they are those of the longest row.

    Returns:
        A `Ragged`; for pytrees a tree of them, in which what is not ragged (a label, say) is stacked to a plain array.

    Raises:
        SpecError: no rows; rows of different structure, rank or dtype; sizes that differ where they must not.

    Example:
        >>> import numpy as np, maskax as mx
        >>> mx.ragged([np.zeros((3, 8), "f"), np.zeros((5, 8), "f"), np.zeros((2, 8), "f")])
        Ragged(f32[3, n<=5, 8], n=[3, 5, 2])
        >>> mx.ragged([{"x": np.arange(2), "y": 0.5}, {"x": np.arange(4), "y": 1.5}])
        {'x': Ragged(i64[2, n<=4], n=[2, 4]), 'y': array([0.5, 1.5])}
    """
    rows = as_rows(rows, buckets)
    layout = Layout.of(rows, dims)
    check_buckets(buckets, [*layout.sizes, *(dim for part in _batches_in(rows[0]) for dim in row_dims(part))])
    return layout.stacked({name: rounded(int(sizes.max()), name, buckets) for name, sizes in layout.sizes.items()})


class Layout(NamedTuple):
    """Rows as arrays.

    Attributes:
        tree: the structure of a row.
        columns: per leaf its arrays, one per row.
        axes: per leaf the dimension of each axis.
        sizes: per name the size in each row.
    """

    tree: Any
    columns: list[list[Any]]
    axes: list[tuple[str, ...]]
    sizes: dict[str, np.ndarray]

    @classmethod
    def of(cls, rows: Sequence[Any], dims: Any) -> "Layout":
        """What `dims` and the rows themselves say."""
        if not rows:
            raise SpecError("rows: at least one is needed; Ragged.from_padded makes a batch of none.")
        paths, tree = tree_flatten_with_path(rows[0])
        for i, row in enumerate(rows):
            if (other := jax.tree.structure(row)) != tree:
                raise SpecError(f"rows[{i}] has another structure than rows[0]:\n  {other}\n  {tree}")
        if not paths:
            raise SpecError(f"rows[0] is {rows[0]!r}, without an array: rows are arrays or trees of them.")
        where = [keystr(path) for path, _ in paths]
        columns = [[as_array(leaf) for leaf in column] for column in zip(*map(jax.tree.leaves, rows))]
        specs = _specs(dims, tree, rows[0])
        axes = [_axes(column, spec, name) for column, spec, name in zip(columns, specs, where)]
        return cls(tree, columns, axes, _sizes(columns, axes, where))

    def stacked(self, extents: Mapping[str, int]) -> Any:
        """The batch, padded to `extents`."""
        batches = [_stack(column, dims, self.sizes, extents) for column, dims in zip(self.columns, self.axes)]
        return jax.tree.unflatten(self.tree, batches)


def as_rows(rows: Any, buckets: Any = None) -> list[Any]:
    """A list of rows.

    A list or tuple of Python numbers is a row, not a pytree of scalars; an empty one has the dtype of the others. What
    is a batch in each row is padded alike, up to `buckets`.
    """
    if not isinstance(rows, Iterable) or isinstance(rows, str | Mapping):
        raise SpecError(
            f"rows: a sequence of arrays, or of trees of them, is needed, not {rows!r}: mx.ragged([a, b, c])."
        )
    numbers = lambda row: all(isinstance(leaf, bool | int | float | complex) for leaf in jax.tree.leaves(row))
    rows = [np.asarray(r) if isinstance(r, list | tuple) and len(r) and numbers(r) else r for r in rows]
    dtype = next((row.dtype for row in rows if isinstance(row, np.ndarray)), None)
    rows = [np.asarray(r, dtype) if isinstance(r, list | tuple) and not len(r) else r for r in rows]
    if not rows or not _batches_in(rows[0]) or len(set(map(jax.tree.structure, rows))) > 1:
        return rows
    check_buckets(buckets)
    parts, (tree, *_) = zip(*(jax.tree.flatten(row, is_leaf=_is_ragged) for row in rows))
    alike = [padded_alike(column, buckets) if _is_ragged(column[0]) else column for column in zip(*parts)]
    return [jax.tree.unflatten(tree, row) for row in zip(*alike)]


def _is_ragged(value: Any) -> bool:
    return isinstance(value, Ragged)


def _batches_in(row: Any) -> list[Ragged]:
    return [part for part in jax.tree.leaves(row, is_leaf=_is_ragged) if _is_ragged(part)]


def _specs(dims: Any, tree: Any, row: Any) -> list[Any]:
    """What `dims` says of each leaf: a string, names, `""` for nothing ragged, or `None` for the default."""
    is_names = isinstance(dims, tuple | list) and all(d is None or isinstance(d, str) for d in dims)
    if is_names and type(row) in (tuple, list):
        dims, is_names = type(row)(dims), False  # one string for each part of the row
    if dims is None or isinstance(dims, str) or is_names:
        return [dims] * tree.num_leaves
    is_spec = lambda spec: spec is None or isinstance(spec, str)
    try:
        specs = broadcast_prefix(dims, row, is_spec)
    except (ValueError, TypeError, KeyError):
        specs = [dims]
    if not all(map(is_spec, specs)):
        raise SpecError(f"dims does not have the structure of a row.\n  dims: {dims!r}\n  row: {tree}") from None
    return [spec or "" for spec in specs]


def _axes(column: Sequence[Any], spec: Any, where: str) -> tuple[str, ...]:
    """The dimension of each axis of one leaf."""
    rank, dtype = column[0].ndim, column[0].dtype
    if not is_key(column[0]) and np.dtype(dtype).kind in "OSUMm":
        raise SpecError(f"rows[0]{where} is an array of dtype {dtype}: numbers, booleans or keys are needed.")
    for i, array in enumerate(column):
        if array.ndim != rank or array.dtype != dtype:
            raise SpecError(
                f"rows[{i}]{where} is {array.dtype}{array.shape}, but rows[0]{where} is {dtype}{column[0].shape}: rows "
                "must have equal ranks and dtypes."
            )
    differs = [len({array.shape[axis] for array in column}) > 1 for axis in range(rank)]
    if spec is None:
        return tuple(default_name(a) if a == 0 or d else STATIC for a, d in enumerate(differs))
    axes = read(spec, rank, f"dims{where}") if rank else ()
    assert axes is not None
    for axis, dim in enumerate(axes):
        if dim != STATIC and names_in(dim) != [dim]:
            raise SpecError(
                f"dims{where}: {dim!r} is no name; rows have names such as 'n', and '_' where nothing is ragged."
            )
        if dim == STATIC and differs[axis]:
            a, b = sorted({array.shape[axis] for array in column})[:2]
            raise SpecError(f"dims{where}: axis {axis} is '_', not ragged, but rows have sizes {a} and {b}: name it.")
    return axes


def _sizes(columns: Sequence[Any], axes: Sequence[tuple[str, ...]], where: Sequence[str]) -> dict[str, np.ndarray]:
    """The size of each name in each row; leaves must agree."""
    sizes: dict[str, np.ndarray] = {}
    first: dict[str, str] = {}
    for column, dims, path in zip(columns, axes, where):
        for axis, name in enumerate(dims):
            if name == STATIC:
                continue
            new = np.asarray([array.shape[axis] for array in column], np.int32)
            old = sizes.setdefault(name, new)
            place = first.setdefault(name, f"axis {axis} of {path or 'the array'}")
            if len(wrong := np.flatnonzero(old != new)):
                raise SpecError(
                    f"rows[{wrong[0]}]: {name!r} is {old[wrong[0]]} by {place}, but {new[wrong[0]]} by axis {axis} of "
                    f"{path or 'the array'}. Name them apart, or '_' what is not ragged, with dims=."
                )
    return sizes


def _stack(
    column: Sequence[Any], dims: tuple[str, ...], sizes: Mapping[str, np.ndarray], extents: Mapping[str, int]
) -> Any:
    shape = tuple(size if dim == STATIC else extents[dim] for dim, size in zip(dims, column[0].shape))
    padded = [resize(on_host(array), shape) for array in column]
    data = like(numpy_of(*padded).stack(padded), next((a for a in column if not isinstance(a, np.ndarray)), column[0]))
    own = {dim: like(sizes[dim], data) for dim in dims if dim != STATIC}
    return Ragged(data, own, dims) if own else data
