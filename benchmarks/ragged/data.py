"""Rows of unequal length, and the ways to make batches of them."""

import dataclasses

import numpy as np
from benchmarks.ragged.programs import Program

import maskax as mx

LENGTHS = ("skewed", "uniform", "equal")


@dataclasses.dataclass(frozen=True)
class Data:
    """Rows `(n, d)` and a weight for each, by which it counts in the sum whose gradient is taken."""

    rows: list[np.ndarray]
    weights: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Of every row."""
        return np.array([len(row) for row in self.rows])


@dataclasses.dataclass(frozen=True)
class Batch:
    """Padded rows `(b, size, d)`, their lengths, weights (0 for one that is there twice) and numbers, each `(b,)`."""

    xs: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    picked: np.ndarray


def make(program: Program, kind: str) -> Data:
    """Data with `kind` of lengths; skewed ones are about a third of the largest, on average."""
    rng = np.random.default_rng(1)
    size, rows = program.size, program.rows
    lengths = {
        "skewed": np.clip(rng.lognormal(np.log(size / 4), 0.75, rows).round(), 1, size).astype(int),
        "uniform": rng.integers(1, size + 1, rows),
        "equal": np.full(rows, size),
    }[kind]
    lengths[0] = size
    data = [rng.normal(size=(n, program.features)).astype(np.float32) for n in lengths]
    return Data(data, np.ones(rows, np.float32))


def batch(data: Data, picked: np.ndarray, size: int, padding: float) -> Batch:
    """The rows of these numbers, padded to `size`."""
    xs = np.full((len(picked), size, data.rows[0].shape[1]), padding, np.float32)
    for i, row in enumerate(picked):
        xs[i, : len(data.rows[row])] = data.rows[row]
    first = np.zeros(len(picked), bool)
    first[np.unique(picked, return_index=True)[1]] = True
    return Batch(xs, data.lengths[picked].astype(np.int32), data.weights[picked] * first, picked)


def in_order(program: Program, data: Data, padding: float) -> list[Batch]:
    """Batches of rows as they come, all padded to the largest length."""
    numbers = np.arange(len(data.rows)).reshape(-1, program.batch)
    return [batch(data, picked, program.size, padding) for picked in numbers]


def in_buckets(program: Program, data: Data, buckets: mx.Buckets, padding: float) -> list[Batch]:
    """Batches of rows that share a bucket, of no more elements than those of `in_order`; one shape per bucket."""
    batches = []
    for size in buckets.sizes:
        if len(numbers := np.flatnonzero(buckets.round(data.lengths) == size)):
            parts = -(-len(numbers) * size // (program.batch * program.size))
            each = -(-len(numbers) // parts)
            full = np.concatenate([numbers, np.repeat(numbers[-1:], parts * each - len(numbers))])
            batches += [batch(data, picked, size, padding) for picked in full.reshape(parts, each)]
    return batches


def by_length(data: Data, lengths: np.ndarray) -> list[Batch]:
    """A batch for each of these lengths, without padding."""
    return [batch(data, np.flatnonzero(data.lengths == n), n, 0) for n in lengths]


def dense(program: Program, data: Data, parts: int) -> tuple[list[Batch], float]:
    """So many dense batches of as much true work, and by what their time is to be multiplied (sizes are rounded).

    Rows of one length `(sum of n**2) / (sum of n)` have as many pairs as the true rows, if there are as many elements.
    """
    elements = data.lengths.sum()
    size = round((data.lengths**2).sum() / elements if program.pairs else data.lengths.mean())
    each = max(1, round(elements / (parts * size)))
    xs = np.random.default_rng(2).normal(size=(each, size, program.features)).astype(np.float32)
    one = Batch(xs, np.full(each, size, np.int32), np.ones(each, np.float32), np.arange(each))
    return [one] * parts, elements / (parts * each * size)


def work(program: Program, lengths: np.ndarray) -> np.ndarray:
    """What a row of each length costs, up to a factor: for attention over d features, 24 n d**2 + 4 n**2 d."""
    return lengths * (1 + lengths / (6 * program.features) * program.pairs)


def some_lengths(data: Data, count: int) -> np.ndarray:
    """A few of the lengths that occur, from the shortest to the longest."""
    found = np.unique(data.lengths)
    return found[np.unique(np.linspace(0, len(found) - 1, count).round().astype(int))]


def buckets(program: Program, count: int) -> mx.Buckets:
    """The sizes of least padded work for skewed lengths."""
    return mx.Buckets.fit(make(program, "skewed").lengths, count, cost=lambda n: work(program, n))
