"""Batches of rows of similar length, from a list and as a grain transformation."""

import dataclasses
import itertools
import pickle

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grain.experimental import assert_equal_output_after_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import maskax as mx
from maskax.grain import BatchIterDataset

SIZES = (4, 9, 16)


def rows_of(lengths):
    """Rows that know their number, inside and beside the ragged array."""
    return [{"x": np.full((n, 2), i, np.float32), "id": i} for i, n in enumerate(lengths)]


def ids_of(batches):
    return [batch["id"].tolist() for batch in batches]


def check_rows(batch, lengths):
    """Every row of the batch is the one that its number says."""
    for number, row in zip(batch["id"], batch["x"].to_list()):
        assert np.array_equal(row, np.full((lengths[number], 2), number))


BUDGETS = st.sampled_from(
    [{"rows_per_batch": 4}, {"tokens_per_batch": 40}, {"rows_per_batch": 3, "tokens_per_batch": 36}]
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 16), min_size=1, max_size=60), BUDGETS, st.booleans(), st.booleans(), st.booleans())
def test_every_row_once_within_budget_in_few_shapes(lengths, budget, shuffle, fill, drop):
    batches = mx.batches(
        rows_of(lengths), buckets=mx.Buckets(SIZES), shuffle=shuffle, fill=fill, drop_remainder=drop, **budget
    )
    seen, partial, shapes, tokens = [], 0, set(), 0
    for batch in batches:
        batch, real = batch if fill else (batch, np.ones(len(batch["id"]), bool))
        count, extent = batch["x"].data.shape[:2]
        most = budget.get("rows_per_batch", 99)
        assert extent in SIZES and count <= most and count * extent <= budget.get("tokens_per_batch", 9999)
        full = min(most, budget.get("tokens_per_batch", 9999) // extent)
        assert count == full or not fill
        assert np.all(batch["x"].lengths[~real] == 0) and np.all(real[:-1] >= real[1:])
        partial += real.sum() < full
        shapes.add((count, extent))
        tokens += count * extent
        real_rows = jax.tree.map(lambda leaf, real=real: leaf[real], batch)
        check_rows(real_rows, lengths)
        seen += real_rows["id"].tolist()
    assert partial <= (not drop)
    assert len(shapes) <= len(SIZES) + (not fill)
    assert len(set(seen)) == len(seen) and (drop or len(seen) == len(lengths))
    assert sorted(shapes) == batches.shapes
    assert batches.waste == pytest.approx(1 - sum(lengths[i] for i in seen) / max(tokens, 1))


def test_dropped_rows_are_fewer_than_a_batch():
    lengths = np.random.default_rng(0).integers(1, 17, 101)
    kept = mx.batches(rows_of(lengths), rows_per_batch=8, buckets=mx.Buckets(SIZES), drop_remainder=True)
    assert sum(map(len, ids_of(kept))) == 96


def test_order():
    rows = rows_of(np.random.default_rng(1).integers(1, 17, 40))
    order = lambda **kwargs: ids_of(mx.batches(rows, rows_per_batch=4, **kwargs))
    assert order() == order() == order(seed=0, epoch=0)
    assert len({str(order(seed=s, epoch=e)) for s in range(3) for e in range(3)}) == 9
    still = mx.batches(rows, rows_per_batch=4, shuffle=False)
    assert [batch["x"].data.shape[1] for batch in still] == sorted(batch["x"].data.shape[1] for batch in still)
    assert pickle.loads(pickle.dumps(still))[3]["id"].tolist() == still[3]["id"].tolist()
    assert ids_of(still[2:4]) == ids_of(still)[2:4]


def test_buckets_are_fitted_by_default():
    lengths = np.random.default_rng(2).lognormal(3, 1, 500).astype(int) + 1
    batches = mx.batches(rows_of(lengths), rows_per_batch=10)
    assert {extent for _, extent in batches.shapes} == set(mx.Buckets.fit(lengths, 8).sizes)


def test_thousand_lengths_compile_a_handful_of_programs():
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 400, 1000)
    rows = [{"x": rng.normal(size=(n, 3)).astype(np.float32), "id": i} for i, n in enumerate(lengths)]
    batches = mx.batches(rows, tokens_per_batch=4096, buckets=mx.Buckets.geometric(25, 400, 2), fill=True)

    @jax.jit
    def spread(xs):
        return mx.vmap(lambda x: (jnp.cumsum(x, axis=0), (x * x).sum(axis=0)))(xs)

    found = {}
    with mx.testing.count_compilations("spread") as compilations:
        for batch, real in batches:
            poisoned = dataclasses.replace(batch["x"], data=batch["x"].to_padded(np.nan))
            sums, squares = jax.device_get(spread(poisoned))
            found |= dict(zip(batch["id"][real].tolist(), zip(sums.to_list(), squares)))
    assert compilations.count == len(batches.shapes) == 4, compilations
    assert len(found) == 1000
    for row in rows:
        sums, squares = found[row["id"]]
        np.testing.assert_allclose(sums, np.cumsum(row["x"], axis=0), atol=1e-4)
        np.testing.assert_allclose(squares, (row["x"] ** 2).sum(axis=0), rtol=1e-5, atol=1e-6)


def test_added_rows_do_not_count():
    rows = [{"x": np.full(n, 2.0), "y": 3.0} for n in (2, 3, 5)]
    total = mx.Mean()
    for batch, real in mx.batches(rows, rows_per_batch=2, fill=True):
        total += mx.mean(batch["y"] + 1, per="row", where=real)
    assert float(total.value) == 4 and float(total.count) == 3


def test_dimensions_are_those_of_all_rows():
    rows = [(np.zeros((h, w)), h) for h, w in ((2, 3), (2, 3), (5, 7), (5, 7), (5, 8))]  # widths agree in each batch
    batches = mx.batches(rows, rows_per_batch=2, buckets={"n": mx.Buckets([2, 5]), "m": mx.Buckets([3, 8])})
    assert {x.dims for x, _ in batches} == {("n", "m")}
    assert batches.shapes == [(1, 5, 8), (2, 2, 3), (2, 5, 8)]
    assert sorted(h for _, heights in batches for h in heights) == [2, 2, 5, 5, 5]


def test_several_dimensions_share_a_token_budget():
    rng = np.random.default_rng(4)
    rows = [{"x": np.full(shape, i), "id": i} for i, shape in enumerate(rng.integers(1, 17, (80, 2)))]
    batches = mx.batches(rows, tokens_per_batch=512, buckets=mx.Buckets((4, 16)))
    assert sorted(itertools.chain(*ids_of(batches))) == list(range(80))
    for batch in batches:
        assert batch["x"].data.size <= 512
        assert set(batch["x"].data.shape[1:]) <= {4, 16}
        assert all(np.all(row == i) and row.shape == rows[i]["x"].shape for i, row in zip(batch["id"], batch["x"]))


class Files:
    """Rows that are read when they are asked for."""

    def __init__(self, lengths):
        self.lengths, self.read = lengths, []

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        self.read.append(int(i))
        return np.full((self.lengths[i], 2), i)


def test_known_lengths_leave_rows_unread():
    files = Files([3, 9, 4, 2])
    batches = mx.batches(files, rows_per_batch=2, lengths=files.lengths, buckets=mx.Buckets([4, 16]), dims="t, _")
    assert batches.shapes == [(2, 4), (2, 16)] and files.read == []
    batch = batches[0]
    assert len(files.read) == 2 and batch.dims == ("t", "_")
    assert [row[0, 0] for row in batch.to_list()] == files.read


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda rows: mx.batches(rows), mx.SpecError, "one of them is needed"),
        (lambda rows: mx.batches([], rows_per_batch=2), mx.SpecError, "at least one is needed"),
        (lambda rows: mx.batches(rows, tokens_per_batch=8), mx.SpecError, "8 do not hold one row padded to (9,)"),
        (lambda rows: mx.batches([0, 1], rows_per_batch=2), mx.SpecError, "nothing in them is ragged"),
        (lambda rows: mx.batches(rows, rows_per_batch=0), mx.SpecError, "at least one row"),
        (lambda rows: mx.batches(rows, rows_per_batch=2, buckets=mx.Buckets([8])), mx.SizeError, "9 is above"),
        (lambda rows: mx.batches(rows, rows_per_batch=2, buckets={"m": None}), mx.SpecError, "no dimension 'm'"),
        (
            lambda rows: mx.batches([*rows, np.zeros(2)], rows_per_batch=2),
            mx.SpecError,
            "another structure",
        ),
        (lambda rows: mx.batches(rows, rows_per_batch=2, lengths=[1]), mx.SizeError, "must be 2 integers"),
        (
            lambda rows: mx.batches(rows, rows_per_batch=2, lengths=[3, 8])[0],
            mx.SizeError,
            "8 for row 1, which has",
        ),
        (lambda rows: mx.batches(rows, rows_per_batch=2, lengths={"m": [3, 9]})[0], mx.SpecError, "no dimension 'm'"),
    ],
)
def test_errors(wrong, error, words):
    with pytest.raises(error) as raised:
        wrong(rows_of([3, 9]))
    assert words in str(raised.value)


# --- grain ---------------------------------------------------------------------------------------------------------


def stream(lengths, **kwargs):
    source = grain.MapDataset.source(rows_of(lengths)).shuffle(seed=5).to_iter_dataset()
    return BatchIterDataset(source, mx.Buckets(SIZES), **kwargs)


def test_grain_gives_every_row_once():
    lengths = np.random.default_rng(6).integers(0, 17, 203)
    data = stream(lengths, rows_per_batch=8, window=60)  # windows of 64
    batches = list(data)
    for batch in batches:
        check_rows(batch, lengths)
    assert sorted(itertools.chain(*ids_of(batches))) == list(range(203))
    assert sorted(len(batch["id"]) for batch in batches) == [3] + 25 * [8]
    assert {batch["x"].data.shape[1] for batch in batches} == set(SIZES)
    assert ids_of(data) == ids_of(batches)
    assert ids_of(stream(lengths, rows_per_batch=8, window=60, seed=1)) != ids_of(batches)


def test_grain_windows_have_orders_of_their_own():
    source = grain.MapDataset.source(rows_of(np.full(16, 3))).repeat(2).to_iter_dataset()
    order = ids_of(BatchIterDataset(source, mx.Buckets(SIZES), rows_per_batch=4, window=16))
    assert sorted(itertools.chain(*order[:4])) == sorted(itertools.chain(*order[4:])) == list(range(16))
    assert order[:4] != order[4:]


def test_grain_budget_filled_up():
    lengths = np.random.default_rng(7).integers(0, 17, 100)
    batches = list(stream(lengths, tokens_per_batch=64, window=30, fill=True))
    assert {batch["x"].data.shape[:2] for batch, _ in batches} <= {(16, 4), (7, 9), (4, 16)}
    assert sorted(np.concatenate([batch["id"][real] for batch, real in batches])) == list(range(100))


def test_grain_drops_only_what_is_left():
    batches = list(stream(np.full(21, 3), rows_per_batch=8, drop_remainder=True, window=16))
    assert [len(batch["id"]) for batch in batches] == [8, 8]


def test_grain_iterators_are_restored():
    lengths = np.random.default_rng(8).integers(0, 17, 50)
    numbers = lambda data: data.map(lambda batch: batch["id"].tolist())
    assert_equal_output_after_checkpoint(numbers(stream(lengths, rows_per_batch=4, window=12)))
    assert_equal_output_after_checkpoint(numbers(stream(lengths, rows_per_batch=7, window=7, drop_remainder=True)))


def test_batches_are_a_grain_source():
    batches = mx.batches(rows_of(range(1, 17)), rows_per_batch=4)
    data = grain.MapDataset.source(batches).map(lambda batch: batch["id"].tolist())
    assert list(data) == ids_of(batches)


def test_grain_errors():
    with pytest.raises(mx.SpecError, match="one of them is needed"):
        stream([3])
    with pytest.raises(mx.SizeError, match="the size 17 is above the largest bucket, 16"):
        list(stream([3, 17], rows_per_batch=2))
    with pytest.raises(mx.SpecError, match="window: -3"):
        stream([3], rows_per_batch=2, window=-3)
    source = grain.MapDataset.source([np.zeros((2, 3)), np.zeros((2, 4))]).to_iter_dataset()
    with pytest.raises(mx.SpecError, match="name it"):
        list(BatchIterDataset(source, mx.Buckets(SIZES), rows_per_batch=2))
    with pytest.raises(mx.SpecError, match="nothing in them is ragged"):
        list(BatchIterDataset(grain.MapDataset.range(3), mx.Buckets(SIZES), rows_per_batch=2))
    with pytest.raises(mx.SpecError, match="buckets: none for dimension 'm'"):
        list(BatchIterDataset(source, {"n": mx.Buckets(SIZES)}, rows_per_batch=2, dims="n, m"))
