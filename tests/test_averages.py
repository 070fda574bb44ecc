"""Means and moments add up: over parts of a batch, steps of accumulation, and devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

RNG = np.random.default_rng(3)
ROWS = [RNG.normal(size=(n, 2)).astype(np.float32) for n in (3, 1, 0, 5, 2)]


def poisoned(rows, dtype=np.float32):
    xs = mx.ragged([np.asarray(row, dtype) for row in rows])
    data = np.full((len(rows), max(map(len, rows)) + 2, *rows[0].shape[1:]), np.nan).astype(dtype)
    data[:, : xs.data.shape[1]] = np.where(xs.mask[..., None], xs.data, np.nan)
    return mx.Ragged.from_padded(jnp.asarray(data), jnp.asarray(xs.lengths))


def test_each_mean_by_name():
    xs, values = poisoned(ROWS), np.concatenate(ROWS)
    token, row, batch = (mx.mean(xs, per=per) for per in ("token", "row", "batch"))
    np.testing.assert_allclose(token.value, values.mean(), rtol=1e-5)
    assert token.count == values.size
    np.testing.assert_allclose(row.value, np.mean([r.mean() for r in ROWS if len(r)]), rtol=1e-5)
    assert row.count == 4
    np.testing.assert_allclose(batch.value, values.mean(), rtol=1e-5)
    assert batch.count == 1


@pytest.mark.parametrize("per", ["token", "row"])
def test_parts_add_up_to_the_whole(per):
    xs = poisoned(ROWS)
    parts = [mx.mean(xs[start:stop], per=per) for start, stop in ((0, 2), (2, 3), (3, 5))]
    whole, added = mx.mean(xs, per=per), sum(parts, mx.Mean())
    assert added.count == whole.count
    np.testing.assert_allclose(added.total, whole.total, rtol=1e-6)


def test_accumulated_gradients_are_those_of_the_whole_batch():
    w = jnp.array([0.5, -1.0])

    def loss(w, xs):
        errors = mx.vmap(lambda x: (jnp.tanh(x) @ w - 1) ** 2)(xs)
        mean = mx.mean(errors, per="token")
        return mean.total, mean

    xs = poisoned(ROWS)
    parts = [jax.grad(loss, has_aux=True)(w, xs[i : i + 1]) for i in range(len(xs))]
    mean = sum((m for _, m in parts), mx.Mean())
    accumulated = sum(g for g, _ in parts) / mean.count
    whole = jax.grad(lambda w: mx.vmap(lambda x: (jnp.tanh(x) @ w - 1) ** 2)(xs).to_padded().sum() / 11)(w)
    plain = jax.grad(lambda w: jnp.mean((jnp.tanh(np.concatenate(ROWS)) @ w - 1) ** 2))(w)
    np.testing.assert_allclose(accumulated, whole, rtol=1e-5)
    np.testing.assert_allclose(accumulated, plain, rtol=1e-5)


def test_rows_that_only_fill_up_a_batch_do_not_count():
    losses = jnp.array([1.0, 2.0, jnp.nan, jnp.nan])
    real = jnp.array([True, True, False, False])
    assert mx.mean(losses, per="row", where=real) == mx.Mean(3.0, 2)
    gradient = jax.grad(lambda x: mx.mean(x, per="row", where=real).value)(losses)
    assert gradient.tolist() == [0.5, 0.5, 0, 0]


def test_weights():
    losses = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([5.0])])
    mean = mx.mean(losses, per="token", weights=jnp.array([1.0, 2.0]))
    assert (mean.total, mean.count) == (14.0, 4.0)


def test_across_mapped_and_sharded_axes():
    xs = poisoned([*ROWS, *ROWS[:3]])
    whole = mx.mean(xs, per="token"), mx.moments(xs)
    shards = jax.tree.map(lambda leaf: leaf.reshape(4, 2, *leaf.shape[1:]), xs)
    inside = lambda part: (mx.mean(part, per="token", axis_name="d"), mx.moments(part, axis_name="d"))
    mapped = jax.vmap(inside, axis_name="d")(shards)
    mesh = jax.make_mesh((4,), ("d",))
    rows, nothing = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()
    placed = jax.device_put(xs, jax.sharding.NamedSharding(mesh, rows))
    sharded = jax.shard_map(inside, mesh=mesh, in_specs=rows, out_specs=nothing)(placed)
    for got in jax.tree.map(lambda leaf: leaf[0], mapped), sharded:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, whole)


def test_moments_add_up():
    xs, values = poisoned(ROWS), np.concatenate(ROWS)
    parts = sum([mx.moments(xs[i : i + 1]) for i in range(5)], mx.Moments())
    for got in parts, mx.moments(xs):
        np.testing.assert_allclose([got.mean, got.var, got.std], [values.mean(), values.var(), values.std()], rtol=1e-5)
        assert got.count == values.size


def test_exact_counts_and_wide_sums():
    hits = mx.mean(mx.ragged([jnp.array([True, False]), jnp.array([True])]), per="token")
    assert hits.total.dtype == hits.count.dtype == jnp.int32 and (hits.total, hits.count) == (2, 3)
    many = mx.mean(jnp.ones((1000, 3), jnp.bfloat16), per="token")
    assert many.total.dtype == jnp.float32 and many.value == 1


def test_nothing_real_gives_nan_and_harms_no_other_shard():
    nothing = poisoned([ROWS[2]])
    assert np.isnan(mx.mean(nothing, per="token").value)
    assert (mx.mean(nothing, per="token") + mx.mean(poisoned(ROWS[:1]), per="token")).count == 6
    assert mx.mean(nothing, per="batch") == mx.Mean(0, 0)


def test_what_does_not_count_may_have_any_weight():
    xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.zeros(0)])
    for per in "token", "row", "batch":
        for bad in np.nan, np.inf:
            assert mx.mean(xs, per=per, weights=jnp.array([1.0, bad])).value == 2
    assert mx.mean(xs, per="batch", weights=jnp.array([-1.0, 0.0])).value == 2


def test_integers_do_not_wrap():
    assert mx.mean(mx.ragged([np.full(3, 2**30, np.int32)]), per="token").value == 2**30


def test_moments_of_complex_numbers_add_up():
    xs = mx.ragged([np.array([1 + 1j], np.complex64), np.array([3 - 2j, 1j], np.complex64)])
    for got in mx.moments(xs), mx.moments(xs[:1]) + mx.moments(xs[1:]):
        np.testing.assert_allclose(got.var, np.var([1 + 1j, 3 - 2j, 1j]), rtol=1e-6)


def test_batches_of_batches_ragged_by_a_size_of_the_outer_row():
    xs = mx.ragged([np.ones(1), np.ones(3)], dims="q")
    documents = mx.ragged([mx.ragged([np.ones(2)]), mx.ragged([np.ones(1), np.ones(2)])])
    outer = mx.vmap(lambda x, s: mx.vmap(lambda w: jnp.outer(x, w))(s))(xs, documents)
    assert mx.mean(outer, per="token") == mx.Mean(11.0, 11) and outer.mask.sum() == 11
    assert outer.to_padded(-1)[0, 0].tolist() == [[1, 1], [-1, -1], [-1, -1]]
    shared = mx.vmap(lambda x, ys: mx.vmap(lambda y: jnp.outer(x, y))(ys), in_axes=(0, None))(xs, xs.rename(q="m"))
    assert mx.mean(shared, per="token").count == 16


def test_errors():
    with pytest.raises(mx.SpecError, match=r"per: one of 'token', 'row', 'batch' is needed, not 'sequence'."):
        mx.mean(jnp.ones(3), per="sequence")
    with pytest.raises(mx.SpecError, match=r"weights: one entry per row is needed, shape \(3,\), not \(2,\)."):
        mx.mean(jnp.ones(3), per="row", weights=jnp.ones(2))
    with pytest.raises(mx.SpecError, match=r"where: booleans are needed, True for real rows, not int32."):
        mx.mean(jnp.ones(3), per="row", where=jnp.ones(3, int))
