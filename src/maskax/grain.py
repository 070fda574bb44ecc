"""Batches of rows of similar length as a transformation of a `grain` data set (extra `maskax[grain]`).

Rows that are in memory need no transformation: `grain.MapDataset.source(mx.batches(rows, ...))` will do.
"""

import copy
import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import grain
import numpy as np

from maskax._batches import Batches, Policy, by_name, layout
from maskax._buckets import Buckets, rows_that_fit
from maskax._errors import SpecError
from maskax._ragged._make import as_rows


class BatchIterDataset(grain.IterDataset):
    """Batches of rows of similar length, in few shapes, from a `grain.IterDataset` of rows.

    Reads a window of rows, makes batches of them as `mx.batches` does, and goes on to the next. Every row is in exactly
    one batch. Its iterators can be saved and restored, in the middle of a window too.

    Args:
        parent: the rows: NumPy arrays or pytrees of them.
        buckets: the sizes to pad to (by name, if it is a dict): equal in all windows.
        rows_per_batch: how many rows a batch has, and
        tokens_per_batch: how many padded positions it has at most, as in `mx.batches`; at least one is needed.
        dims: names for the axes of a row, as in `mx.ragged`; what is not mentioned is not ragged.
        window: how many rows are looked at together; by default those of 32 full batches. More group better. It is
            rounded up to whole batches, so that with `rows_per_batch` only the last window has one that is not full.
        shuffle: puts the batches of a window in random order; otherwise short rows come first. Rows are best shuffled
            before.
        seed: of the random order.
        drop_remainder: leaves out what is less than a full batch.
        fill: fills batches that are not full up with empty rows and gives pairs `(batch, real)`, as in `mx.batches`.

    Raises:
        SpecError: neither budget is given; a window of no rows; a row is larger than `tokens_per_batch`; or as in
            `mx.ragged`.
        SizeError: a row is longer than the largest bucket.

    Example:
        >>> import grain, maskax as mx, numpy as np
        >>> from maskax.grain import BatchIterDataset
        >>> rows = grain.MapDataset.source([np.zeros(n) for n in (3, 9, 4, 2, 10, 3)])
        >>> data = BatchIterDataset(rows.to_iter_dataset(), mx.Buckets([4, 10]), rows_per_batch=2, shuffle=False)
        >>> for batch in data:
        ...     print(batch)
        Ragged(f64[2, n<=4], n=[3, 4])
        Ragged(f64[2, n<=4], n=[2, 3])
        Ragged(f64[2, n<=10], n=[9, 10])
    """

    def __init__(
        self,
        parent: grain.IterDataset,
        buckets: Buckets | Mapping[str, Buckets],
        *,
        rows_per_batch: int | None = None,
        tokens_per_batch: int | None = None,
        dims: Any = "n",
        window: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_remainder: bool = False,
        fill: bool = False,
    ):
        super().__init__(parent)
        smallest = [b.sizes[0] for b in (buckets.values() if isinstance(buckets, Mapping) else [buckets])]
        whole = rows_per_batch or 1
        most = rows_that_fit(smallest, rows_per_batch, tokens_per_batch)
        window = 32 * most if window is None else window
        if window < 1:
            raise SpecError(f"window: {window}; one row or more is needed.")
        self._window = -(-window // whole) * whole
        self._buckets, self._dims = buckets, dims
        self._seed = seed if shuffle else None
        self._policy = functools.partial(
            Policy,
            rows_per_batch=rows_per_batch,
            tokens_per_batch=tokens_per_batch,
            drop_remainder=drop_remainder,
            fill=fill,
        )

    def __iter__(self) -> grain.DatasetIterator:
        """Starts at the first window."""
        return _BatchIterator(iter(self._parent), self)  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        return f"BatchIterDataset(buckets={self._buckets}, window={self._window})"

    def _read(self, rows: Iterator[Any], number: int) -> Batches:
        """The batches of the window of this number, the next `rows`; none at the end."""
        window = as_rows(list(itertools.islice(rows, self._window)))
        if not window:
            raise StopIteration
        dims, sizes = layout(window, self._dims)
        rng = None if self._seed is None else np.random.default_rng([self._seed, number])
        policy = self._policy(by_name(self._buckets, sizes, fit=False))
        return Batches(window, policy.plan(sizes, rng), sizes, dims, True, policy)


class _BatchIterator(grain.DatasetIterator):
    """The batches of one window after the other; a window is read again where an iterator is restored."""

    def __init__(self, parent: grain.DatasetIterator, dataset: BatchIterDataset):
        super().__init__(parent)
        self._dataset = dataset
        self._start, self._number, self._given = parent.get_state(), 0, 0
        self._batches: Batches | None = None

    def __next__(self) -> Any:
        while self._batches is None or self._given >= len(self._batches):
            if self._batches is not None:
                self._start, self._number, self._given = self._parent.get_state(), self._number + 1, 0
                self._batches = None
            self._batches = self._dataset._read(self._parent, self._number)
        self._given += 1
        return self._batches[self._given - 1]

    def get_state(self) -> dict[str, Any]:
        return {"start": copy.deepcopy(self._start), "window": self._number, "given": self._given}

    def set_state(self, state: dict[str, Any]) -> None:
        self._start, self._number, self._given = copy.deepcopy(state["start"]), state["window"], state["given"]
        self._parent.set_state(copy.deepcopy(self._start))
        self._batches = None
