"""Bucket sizes: chosen, rounded to, trimmed to, listed."""

import itertools
import pickle

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maskax as mx

COSTS = {"linear": lambda n: n, "quadratic": lambda n: n**2, "steps": lambda n: 10 + 7 * (n // 3)}


def work(sizes, lengths, cost):
    """Padded work by the definition: every row costs as much as the smallest size that holds it."""
    return sum(int(COSTS[cost](min(s for s in sizes if s >= n))) for n in lengths)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 6), st.sampled_from(list(COSTS)))
def test_fit_is_the_best_of_all_choices(lengths, k, cost):
    found = mx.Buckets.fit(lengths, k, COSTS["steps"] if cost == "steps" else cost)
    assert len(found.sizes) <= k
    assert found.sizes[-1] == max(1, *lengths)
    top, lower = max(1, *lengths), sorted({max(n, 1) for n in lengths} - {max(lengths)})
    choices = itertools.chain.from_iterable(itertools.combinations(lower, r) for r in range(k))
    assert work(found.sizes, lengths, cost) == min(work((*some, top), lengths, cost) for some in choices)


def test_fit_of_many_lengths_against_a_plain_recurrence():
    lengths = np.random.default_rng(0).lognormal(4, 1, 100_000).astype(int) + 1
    sizes, rows = np.unique(lengths, return_counts=True)
    below = np.r_[0, np.cumsum(rows)]
    best = np.r_[0, np.full(len(sizes), np.inf)]
    for _ in range(8):  # all pairs at once, in floats that hold these integers exactly
        table = best[None, :-1] + (below[1:, None] - below[None, :-1]) * sizes[:, None] ** 2.0
        best = np.r_[0, np.where(np.tri(len(sizes), dtype=bool), table, np.inf).min(axis=1)]
    padded = mx.Buckets.fit(lengths, 8, "quadratic").round(lengths).astype(float)
    assert np.sum(padded**2) == best[-1]


def test_geometric_and_multiples():
    sizes = mx.Buckets.geometric(3, 100, 1.5).sizes
    assert sizes[0] == 3 and sizes[-1] == 100
    for n in range(4, 101):
        padded = mx.Buckets(sizes).round(n)
        assert padded < 1.5 * n or padded == n
    assert mx.Buckets.geometric(1, 4, 1.01).sizes == (1, 2, 3, 4)
    assert mx.Buckets.multiples(8, 24).sizes == (8, 16, 24)
    assert mx.Buckets.multiples(8, 25).sizes == (8, 16, 24, 32)


def test_value():
    buckets = mx.Buckets(np.array([32, 8, 8, 16]))
    assert buckets.sizes == (8, 16, 32)
    assert buckets == mx.Buckets([8, 16, 32]) == pickle.loads(pickle.dumps(buckets))
    assert len({buckets, mx.Buckets((8, 16, 32))}) == 1
    with pytest.raises(AttributeError):
        buckets.sizes = (1,)


def test_round():
    buckets = mx.Buckets([2, 5])
    assert [buckets.round(n) for n in range(6)] == [2, 2, 2, 5, 5, 5]
    assert type(buckets.round(np.int32(3))) is int
    assert buckets.round(np.array([[0, 3], [5, 2]])).tolist() == [[2, 5], [5, 2]]
    assert buckets.round(np.zeros(0, int)).shape == (0,)


def test_waste():
    buckets = mx.Buckets([4, 10])
    assert buckets.waste([1, 4, 5, 10]) == pytest.approx(1 - 20 / 28)
    assert buckets.waste([1, 4, 5, 10], "quadratic") == pytest.approx(1 - 142 / 232)
    assert buckets.waste([4, 10]) == 0


def test_trim():
    rows = [np.full((n, 2), n, np.float32) for n in (3, 6, 0)]
    xs = mx.ragged(rows)
    wide = mx.Ragged.from_padded(np.pad(xs.data, ((0, 0), (0, 50), (0, 0)), constant_values=np.nan), xs.lengths)
    for batch in (xs, wide):  # padded, and cut
        trimmed = mx.Buckets([4, 8, 16]).trim(batch)
        assert trimmed.data.shape == (3, 8, 2)
        assert isinstance(trimmed.data, np.ndarray)
        assert all(np.array_equal(a, b) for a, b in zip(trimmed.to_list(), rows))


def test_trim_of_several_dimensions_expressions_and_trees():
    images = mx.ragged([np.ones((3, 9, 1)), np.ones((5, 2, 1))])
    steps = mx.Ragged(np.arange(60.0).reshape(2, 30), {"n": np.array([4, 6])}, ("n - 1",))
    labels = np.array([0, 1])
    trimmed = mx.Buckets([4, 8, 16]).trim({"images": images, "steps": steps, "labels": labels})
    assert trimmed["images"].data.shape == (2, 8, 16, 1)
    assert trimmed["steps"].data.shape == (2, 7)
    assert [row.tolist() for row in trimmed["steps"].to_list()] == [row.tolist() for row in steps.to_list()]
    assert trimmed["labels"] is labels


def test_shapes():
    buckets = mx.Buckets([4, 8])
    assert buckets.shapes("n") == [(4,), (8,)]
    assert buckets.shapes("n, m, 3") == [(4, 4, 3), (4, 8, 3), (8, 4, 3), (8, 8, 3)]
    assert buckets.shapes("2*n, n - 1", rows_per_batch=5) == [(5, 8, 3), (5, 16, 7)]
    assert buckets.shapes("n, m", tokens_per_batch=70) == [(4, 4, 4), (2, 4, 8), (2, 8, 4), (1, 8, 8)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda b: mx.Buckets([]), mx.SpecError, "positive integers are needed"),
        (lambda b: mx.Buckets([0, 4]), mx.SpecError, "positive integers are needed"),
        (lambda b: mx.Buckets([2.5]), mx.SpecError, "positive integers are needed"),
        (lambda b: mx.Buckets.geometric(8, 64, 1), mx.SpecError, "ratio > 1"),
        (lambda b: mx.Buckets.multiples(0, 8), mx.SpecError, "of=0"),
        (lambda b: mx.Buckets.fit([], 3), mx.SpecError, "0 lengths"),
        (lambda b: mx.Buckets.fit([3], 0), mx.SpecError, "k=0"),
        (lambda b: mx.Buckets.fit([3], 1, "cubic"), mx.SpecError, "'linear', 'quadratic'"),
        (lambda b: mx.Buckets.fit([3, 4], 1, lambda n: -n), mx.SpecError, "must not cost less"),
        (lambda b: b.round(9), mx.SizeError, "the size 9 is above the largest bucket, 8. Add a bucket"),
        (lambda b: b.round(-1), mx.SizeError, "integers from 0"),
        (lambda b: b.round(1.5), mx.SizeError, "integers from 0"),
        (lambda b: b.waste([3, 12]), mx.SizeError, "12 is above the largest bucket"),
        (lambda b: b.trim(mx.ragged([np.zeros(12)])), mx.SizeError, "12 is above the largest bucket"),
        (lambda b: b.trim(mx.ragged([mx.ragged([np.zeros(2)])])), mx.SpecError, "batch of batches"),
        (lambda b: b.shapes("n, _"), mx.SpecError, "a number instead of '_'"),
        (lambda b: b.shapes("n", tokens_per_batch=6), mx.SpecError, "6 do not hold one row padded to (8,)"),
        (lambda b: b.shapes("n", rows_per_batch=0), mx.SpecError, "at least one row"),
        (lambda b: jax.jit(b.round)(3), mx.SizeError, "on the host, before the compiled function"),
        (lambda b: jax.jit(b.trim)(mx.ragged([np.zeros(2)])), mx.SizeError, "sizes['n']"),
    ],
)
def test_errors(wrong, error, words):
    with pytest.raises(error) as raised:
        wrong(mx.Buckets([4, 8]))
    assert words in str(raised.value)
