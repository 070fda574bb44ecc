"""`Buckets`: the few padded sizes that a program is compiled for."""

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._ragged._batch import Ragged
from maskax._ragged._dims import STATIC, evaluate, read, resize, variables
from maskax._scope import entries

_COSTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"linear": lambda n: n, "quadratic": lambda n: n * n}
Cost = str | Callable[[np.ndarray], Any]


@dataclasses.dataclass(frozen=True)
class Buckets:
    """Padded sizes, smallest first. Rows are padded to the next one, so that few shapes are ever compiled.

    Wherever buckets are taken, a dict of them by the name of the dimension is, too: `{"h": ..., "w": ...}`.

    Attributes:
        sizes: the padded sizes, ascending, each once.

    Raises:
        SpecError: no size, or one that is no positive integer.

    Example:
        >>> import maskax as mx, numpy as np
        >>> buckets = mx.Buckets([8, 16, 32])
        >>> buckets.round(9)
        16
        >>> mx.ragged([np.zeros(3), np.zeros(11)], buckets=buckets)
        Ragged(f64[2, n<=16], n=[3, 11])
        >>> round(buckets.waste([3, 8, 11, 30]), 3)  # the share of padding: 12 of 64
        0.188
    """

    sizes: tuple[int, ...]

    def __init__(self, sizes: Iterable[int]):
        given = list(sizes) if isinstance(sizes, Iterable) else []
        if not given or not all(_is_integer(size) and size >= 1 for size in given):
            raise SpecError(f"sizes: one or more positive integers are needed, not {sizes!r}: mx.Buckets([8, 16, 32]).")
        object.__setattr__(self, "sizes", tuple(sorted({int(size) for size in given})))

    @classmethod
    def geometric(cls, lo: int, hi: int, ratio: float = 1.5) -> "Buckets":
        """From `lo` to `hi`, each at most `ratio` times the one before: a row longer than `lo` grows by less than that.

        Raises:
            SpecError: not `1 <= lo <= hi`, or a ratio that is not greater than 1.

        Example:
            >>> import maskax as mx
            >>> mx.Buckets.geometric(8, 64, ratio=2).sizes
            (8, 16, 32, 64)
        """
        if not (_is_integer(lo) and _is_integer(hi) and 1 <= lo <= hi and ratio > 1):
            raise SpecError(
                f"geometric: lo={lo!r}, hi={hi!r}, ratio={ratio!r}; integers 1 <= lo <= hi and ratio > 1 are needed."
            )
        sizes = [lo]
        while sizes[-1] < hi:
            sizes.append(min(hi, max(sizes[-1] + 1, int(sizes[-1] * ratio))))
        return cls(sizes)

    @classmethod
    def multiples(cls, of: int, hi: int) -> "Buckets":
        """The multiples of `of` up to the first that is not below `hi`.

        Raises:
            SpecError: `of` or `hi` is not positive.

        Example:
            >>> import maskax as mx
            >>> mx.Buckets.multiples(of=128, hi=500).sizes
            (128, 256, 384, 512)
        """
        if not (_is_integer(of) and _is_integer(hi) and of >= 1 and hi >= 1):
            raise SpecError(f"multiples: of={of!r}, hi={hi!r}; positive integers are needed.")
        return cls(range(of, hi + of, of))

    @classmethod
    def fit(cls, lengths: Any, k: int, cost: Cost = "linear") -> "Buckets":
        """The (at most) `k` sizes to which rows of these lengths are padded with the least work.

        Exact, in O(k m) for m different lengths: 100 000 lengths take a moment.

        Args:
            lengths: integers, a sample of the lengths to come. The longest of them is the largest size.
            k: how many sizes, which is how many compilations.
            cost: the work of one padded row: `"linear"` in its size (a recurrent network), `"quadratic"` (attention),
                or a function from an array of sizes to their costs, which must not fall.

        Raises:
            SpecError: no lengths, no sizes to choose, an unknown cost or one that falls.

        Example:
            >>> import maskax as mx
            >>> mx.Buckets.fit([3, 4, 4, 5, 30, 31, 90], k=3).sizes
            (5, 31, 90)
        """
        values = _integers(lengths, "lengths").ravel()
        if not values.size or not _is_integer(k) or k < 1:
            raise SpecError(f"fit: {values.size} lengths, k={k!r}; one or more of both are needed.")
        sizes, rows = np.unique(np.maximum(values, 1), return_counts=True)
        costs = _costs(cost, sizes)
        if np.any(np.diff(costs) < 0):
            raise SpecError("cost: a longer row must not cost less than a shorter one.")
        return cls(sizes[_best(rows, costs, min(k, len(sizes)))])

    def round(self, n: Any) -> Any:
        """The smallest size that holds `n`, an integer or an array of them.

        Raises:
            SizeError: larger than the largest size; not an integer from 0; or not known, under `jit`.
        """
        values = _integers(n, "n")
        if values.size and values.max() > self.sizes[-1]:
            raise SizeError(
                f"n: the size {values.max()} is above the largest bucket, {self.sizes[-1]}. Add a bucket that holds "
                "it, or cut or leave out such rows."
            )
        rounded = np.asarray(self.sizes)[np.searchsorted(self.sizes, values)]
        return rounded if values.ndim else int(rounded)

    def trim(self, batch: Any) -> Any:
        """The same rows, padded to the size of the longest one: what is padded further is cut, what is less, padded.

        For batches that come padded to the longest row of a data set. It looks at lengths, so it runs on the host.

        Args:
            batch: a `Ragged`, or a pytree in which some are; arrays in it stay.

        Raises:
            SizeError: a row is longer than the largest size; or lengths are not known, under `jit`.

        Example:
            >>> import maskax as mx, numpy as np
            >>> xs = mx.Ragged.from_padded(np.zeros((2, 512)), np.array([3, 11]))
            >>> mx.Buckets([8, 16, 32]).trim(xs)
            Ragged(f64[2, n<=16], n=[3, 11])
        """
        is_ragged = lambda leaf: isinstance(leaf, Ragged)
        return jax.tree.map(lambda leaf: self._trim(leaf) if is_ragged(leaf) else leaf, batch, is_leaf=is_ragged)

    def _trim(self, batch: Ragged) -> Ragged:
        if isinstance(batch.data, Ragged):
            raise SpecError(f"trim: {batch!r} is a batch of batches; trim those before they are stacked.")
        known = {name: _integers(size, f"sizes[{name!r}]") for name, size in batch.sizes.items()}
        longest = {name: np.asarray(self.round(size.max(initial=0))) for name, size in known.items()}
        row = batch.data.shape[batch.data.ndim - len(batch.dims) :]
        row = [size if dim == STATIC else int(evaluate(dim, longest)) for dim, size in zip(batch.dims, row)]
        shape = (*batch.data.shape[: -len(row)], *row)
        return dataclasses.replace(batch, data=resize(batch.data, shape))

    def shapes(
        self, dims: str, *, rows_per_batch: int | None = None, tokens_per_batch: int | None = None
    ) -> list[tuple[int, ...]]:
        """All shapes that a batch can have, to compile for them before they come.

        Args:
            dims: the axes of a row, numbers where they are not ragged: `"n, 80"`. Every name takes every size.
            rows_per_batch: the rows of a batch, and
            tokens_per_batch: the padded positions of one, as in `mx.batches`; without both, shapes of rows.

        Raises:
            SpecError: an axis that is `_`: its size is needed. Or a size that does not fit into `tokens_per_batch`.

        Example:
            >>> import maskax as mx
            >>> mx.Buckets([8, 32]).shapes("n, 80", tokens_per_batch=128)
            [(16, 8, 80), (4, 32, 80)]
        """
        axes = read(dims, len(entries(dims)), "dims")
        assert axes is not None
        if STATIC in axes:
            raise SpecError(f"dims: {dims!r} leaves the size of an axis open; write a number instead of '_'.")
        names = variables(axes)
        found = []
        for sizes in itertools.product(self.sizes, repeat=len(names)):
            known = dict(zip(names, map(np.asarray, sizes)))
            row = tuple(int(evaluate(dim, known)) for dim in axes)
            some = rows_per_batch is not None or tokens_per_batch is not None
            found.append((rows_that_fit(sizes, rows_per_batch, tokens_per_batch), *row) if some else row)
        return found

    def waste(self, lengths: Any, cost: Cost = "linear") -> float:
        """The share of padding, from 0 to 1, in the work on rows of these lengths: `1 - true / padded`.

        Args:
            lengths: integers.
            cost: the work of one row, as in `fit`.

        Raises:
            SizeError: a length is above the largest size.
        """
        values = _integers(lengths, "lengths")
        work, padded = (float(np.sum(_costs(cost, sizes))) for sizes in (values, self.round(values)))
        return 1 - work / padded if padded else 0.0


def rows_that_fit(extents: Iterable[int], rows_per_batch: int | None, tokens_per_batch: int | None) -> int:
    """How many rows, padded to `extents`, a batch can have."""
    extents = tuple(map(int, extents))
    if rows_per_batch is None and tokens_per_batch is None:
        raise SpecError("rows_per_batch, tokens_per_batch: one of them is needed.")
    for name, value in {"rows_per_batch": rows_per_batch, "tokens_per_batch": tokens_per_batch}.items():
        if value is not None and not _is_integer(value):
            raise SpecError(f"{name}: an integer is needed, not {value!r}.")
    tokens = int(np.prod(extents))
    if tokens_per_batch is not None and tokens > tokens_per_batch:
        raise SpecError(
            f"tokens_per_batch: {tokens_per_batch} do not hold one row padded to {extents}, {tokens} tokens. Raise it, "
            "or cut or leave out such rows."
        )
    fits = [n for n in (rows_per_batch, tokens_per_batch and tokens_per_batch // tokens) if n is not None]
    if min(fits) < 1:
        raise SpecError(f"rows_per_batch: {rows_per_batch}; a batch has at least one row.")
    return min(fits)


def _is_integer(value: Any) -> bool:
    return np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.integer)


def _integers(value: Any, what: str) -> np.ndarray:
    """Integers from 0, on the host."""
    if not _compat.is_concrete(value):
        raise SizeError(
            f"{what}: the size is not known while tracing. Buckets choose shapes: use them on the host, before the "
            "compiled function is called."
        )
    values = np.asarray(value)
    if values.size and (not np.issubdtype(values.dtype, np.integer) or values.min() < 0):
        raise SizeError(f"{what}: integers from 0 are needed, not {value!r}.")
    return values.astype(np.int64)


def _costs(cost: Cost, sizes: np.ndarray) -> np.ndarray:
    if isinstance(cost, str) and cost not in _COSTS:
        raise SpecError(f"cost: {cost!r}; it is 'linear', 'quadratic' or a function of sizes.")
    return np.asarray((_COSTS[cost] if isinstance(cost, str) else cost)(sizes))


def _best(rows: np.ndarray, costs: np.ndarray, k: int) -> list[int]:
    """Indices of the `k` sizes with the least `sum(rows * cost of the next size)`.

    `best[j]`, the least work on all rows up to size j when j is a bucket, is one step of the recurrence

        best'[j] = min over i < j of  best[i] + (below[j] - below[i]) * costs[j],

    where `below` counts rows. For a fixed i this is a line in `costs[j]` of slope `-below[i]`. Lines come with falling
    slopes and are asked at rising costs, so that a queue holds the lower envelope and every line enters and leaves it
    once. Python's integers keep it exact.
    """
    below = np.cumsum(rows).tolist()
    costs = costs.tolist()
    best = [n * c for n, c in zip(below, costs)]
    previous: list[list[int]] = []
    for _ in range(k - 1):
        lines: deque[int] = deque()
        value = lambda i, c, best=best: best[i] - below[i] * c
        new, choice = list(best), [-1] * len(best)
        for j, cost in enumerate(costs):
            while len(lines) > 1 and value(lines[1], cost) <= value(lines[0], cost):
                lines.popleft()
            if lines and (work := value(lines[0], cost) + below[j] * cost) < best[j]:
                new[j], choice[j] = work, lines[0]
            while len(lines) > 1 and _above(lines[-2], lines[-1], j, best, below):
                lines.pop()
            lines.append(j)
        best = new
        previous.append(choice)
    chosen = [len(costs) - 1]
    for choice in reversed(previous):
        if choice[chosen[-1]] >= 0:
            chosen.append(choice[chosen[-1]])
    return chosen


def _above(a: int, b: int, c: int, best: list[Any], below: list[int]) -> bool:
    """Whether line `b` is nowhere the lowest of three lines whose slopes, `-below`, fall."""
    return (best[c] - best[a]) * (below[b] - below[a]) <= (best[b] - best[a]) * (below[c] - below[a])
