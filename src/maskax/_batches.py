"""`batches`: rows of similar length together, in few shapes."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from maskax._buckets import Buckets, rows_that_fit
from maskax._errors import SizeError, SpecError
from maskax._ragged._checks import as_lengths, check_buckets
from maskax._ragged._dims import default_name, resize, variables
from maskax._ragged._make import Layout, as_rows

_SHAPES = 8  # about so many, where the caller leaves buckets to us


class Group(NamedTuple):
    """One batch before its rows are read."""

    rows: np.ndarray  # their numbers
    shape: tuple[int, ...]  # how many rows there is room for, and the padded size of each dimension


@dataclasses.dataclass(frozen=True)
class Policy:
    """How rows become batches."""

    buckets: Mapping[str, Buckets]
    rows_per_batch: int | None
    tokens_per_batch: int | None
    drop_remainder: bool
    fill: bool

    def plan(self, sizes: Mapping[str, np.ndarray], rng: np.random.Generator | None) -> list[Group]:
        """Groups rows by their padded sizes.

        Rows that are left over in one shape fill up batches of the next that holds them, so that with one ragged
        dimension no batch but the last is less than full.
        """
        padded = np.stack([self.buckets[name].round(size) for name, size in sizes.items()], axis=1)
        order = np.arange(len(padded)) if rng is None else rng.permutation(len(padded))
        cells, cell = np.unique(padded[order], axis=0, return_inverse=True)
        order = order[np.argsort(cell.ravel(), kind="stable")]
        plan: list[Group] = []
        rest, shape = order[:0], (0,)
        for extents, rows in zip(cells, np.split(order, np.cumsum(np.bincount(cell.ravel()))[:-1])):
            if np.any(padded[rest] > extents):  # several dimensions: larger in one, smaller in another
                plan.append(Group(rest, shape))
                rest = rest[:0]
            shape = (rows_that_fit(extents, self.rows_per_batch, self.tokens_per_batch), *extents.tolist())
            rows = np.concatenate([rest, rows])
            full = len(rows) // shape[0] * shape[0]
            plan += [Group(batch, shape) for batch in rows[:full].reshape(-1, shape[0])]
            rest = rows[full:]
        plan += [Group(rest, shape)] if len(rest) else []
        plan = [group for group in plan if len(group.rows) == group.shape[0] or not self.drop_remainder]
        return plan if rng is None else [plan[i] for i in rng.permutation(len(plan))]

    def stack(self, rows: Sequence[Any], dims: Any, shape: tuple[int, ...]) -> Any:
        """The batch of `rows`, whose dimensions `dims` is a tree like a row."""
        batch = Layout.of([{"row": row} for row in rows], {"row": dims}).stacked(dict(zip(self.buckets, shape[1:])))[
            "row"
        ]
        if not self.fill:
            return batch
        batch = jax.tree.map(lambda leaf: resize(leaf, (shape[0], *leaf.shape[1:])), batch)
        return batch, np.arange(shape[0]) < len(rows)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Batches(Sequence):
    """What `mx.batches` returns: a sequence of batches, each stacked when it is asked for.

    Attributes:
        rows: what it is made of.
        groups: row numbers and shape of each batch.
    """

    rows: Sequence[Any]
    groups: Sequence[Group]
    _sizes: Mapping[str, np.ndarray]
    _dims: Any
    _read: bool  # whether all rows were read: then `_dims` is their layout, else what the caller says of them
    _policy: Policy

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: Any) -> Any:
        """One batch; or some, for a slice."""
        if isinstance(index, slice):
            return dataclasses.replace(self, groups=self.groups[index])
        group = self.groups[index]
        rows = as_rows([self.rows[i] for i in group.rows])
        return self._policy.stack(rows, self._dims if self._read else self._layout(rows, group), group.shape)

    def _layout(self, rows: Sequence[Any], group: Group) -> Any:
        """The layout of rows that are read only now, whose sizes must be the announced ones."""
        dims, sizes = layout(rows, self._dims)
        for name, size in self._sizes.items():
            if name not in sizes:
                raise SpecError(f"lengths: there is no dimension {name!r} in the rows, but {sorted(sizes)}; see dims.")
            if len(wrong := np.flatnonzero(sizes[name] != size[group.rows])):
                i = group.rows[wrong[0]]
                raise SizeError(
                    f"lengths: {name!r} is {size[i]} for row {i}, which has the size {sizes[name][wrong[0]]}: give the "
                    "lengths of these rows, in their order."
                )
        return dims

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes that occur, rows and the padded size of each dimension: what will be compiled for."""
        return sorted({(self._count(group), *group.shape[1:]) for group in self.groups})

    @property
    def waste(self) -> float:
        """The share of padding, from 0 to 1, in all padded positions."""
        row = np.prod(list(self._sizes.values()), axis=0, dtype=np.int64)
        true = sum(int(row[group.rows].sum()) for group in self.groups)
        padded = sum(self._count(group) * math.prod(group.shape[1:]) for group in self.groups)
        return 1 - true / max(padded, 1)

    def _count(self, group: Group) -> int:
        return group.shape[0] if self._policy.fill else len(group.rows)

    def __repr__(self) -> str:
        count = sum(len(group.rows) for group in self.groups)
        return f"Batches({len(self)} of {count} rows, {len(self.shapes)} shapes, {self.waste:.0%} padding)"


def batches(
    rows: Sequence[Any],
    *,
    rows_per_batch: int | None = None,
    tokens_per_batch: int | None = None,
    buckets: Buckets | Mapping[str, Buckets] | None = None,
    dims: Any = None,
    lengths: Any = None,
    shuffle: bool = True,
    seed: int = 0,
    epoch: int = 0,
    drop_remainder: bool = False,
    fill: bool = False,
) -> Batches:
    """Batches of rows of similar length, in few shapes, every row exactly once.

    Rows that are padded to the same size go together; those left over go with the next larger size, so that (with one
    ragged dimension) one batch is less than full. The same arguments give the same batches.

    Args:
        rows: arrays, or pytrees of them, as `mx.ragged` takes them; at least a sequence with a length.
        rows_per_batch: how many rows a batch has, and
        tokens_per_batch: how many padded positions (rows times padded sizes) at most; one of both is needed.
        buckets: the sizes to pad to (by name, if it is a dict). By default about eight that fit best.
        dims: names for the axes of a row, as in `mx.ragged`.
        lengths: `(rows,)` integers, or a dict of them by name, where they are known. Then no row is read before its
            batch is, and axes that `dims` does not name are not ragged.
        shuffle: puts rows and batches in random order; otherwise short rows come first.
        seed: of the random order, and
        epoch: count it up for another order every time.
        drop_remainder: leaves out what is less than a full batch.
        fill: fills batches that are not full up with empty rows, of size 0, so that their shape is that of full ones.
            Batches then come as pairs `(batch, real)`, with booleans `(rows,)`, False for a row that was added: what is
            not ragged (a label) is 0 there and must not count: `mx.mean(losses, per="row", where=real)`.

    Returns:
        A sequence of what `mx.ragged` returns, or of pairs. Batches are stacked when they are asked for, so that
        `grain.MapDataset.source(batches)` and `tqdm` take it as it is. `.shapes` lists the shapes, `.waste` is the
        share of padding.

    Raises:
        SpecError: neither budget is given, or a row is larger than `tokens_per_batch`; or as in `mx.ragged`.
        SizeError: a row is longer than the largest bucket; or `lengths` are not those of the rows.

    Example:
        >>> import maskax as mx, numpy as np
        >>> rows = [np.zeros(n) for n in (3, 9, 4, 2, 10, 3, 4)]
        >>> mx.batches(rows, rows_per_batch=2, buckets=mx.Buckets([4, 10]))
        Batches(4 of 7 rows, 3 shapes, 24% padding)
        >>> for batch in mx.batches(rows, tokens_per_batch=20, buckets=mx.Buckets([4, 10]), shuffle=False):
        ...     print(batch)
        Ragged(f64[5, n<=4], n=[3, 4, 2, 3, 4])
        Ragged(f64[2, n<=10], n=[9, 10])
    """
    if lengths is None:
        rows = as_rows(rows)
        dims, sizes = layout(rows, dims)
    else:
        dims = default_name(0) if dims is None else dims
        name = next(iter(variables(jax.tree.leaves(dims))), "")
        known = lengths if isinstance(lengths, Mapping) else {name: lengths}
        sizes = {name: np.asarray(as_lengths(values, name, len(rows))) for name, values in known.items()}
    policy = Policy(by_name(buckets, sizes), rows_per_batch, tokens_per_batch, drop_remainder, fill)
    rng = np.random.default_rng([seed, epoch]) if shuffle else None
    return Batches(rows, policy.plan(sizes, rng), sizes, dims, lengths is None, policy)


def by_name(buckets: Any, sizes: Mapping[str, np.ndarray], fit: bool = True) -> dict[str, Buckets]:
    """Buckets for every dimension; those that are not given are fitted, if they may be."""
    if not sizes:
        raise SpecError("rows: nothing in them is ragged; there is no length to batch by. Name an axis with dims=.")
    check_buckets(buckets, list(sizes))
    given = buckets if isinstance(buckets, Mapping) else dict.fromkeys(sizes, buckets)
    if not fit and (missing := [name for name in sizes if not given.get(name)]):
        raise SpecError(f"buckets: none for dimension {missing[0]!r}; give a Buckets for each of {list(sizes)}.")
    k = round(_SHAPES ** (1 / len(sizes)))
    return {name: given.get(name) or Buckets.fit(values, k) for name, values in sizes.items()}


def layout(rows: Sequence[Any], dims: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The dimensions of every leaf, as a tree of shape strings, and the size of each name in each row.

    It is found from all rows, since what differs in the data set need not differ in every batch.
    """
    found = Layout.of(rows, dims)
    return jax.tree.unflatten(found.tree, [", ".join(names) for names in found.axes]), found.sizes
