"""What people ran into with padded and ragged batches, each with its link and the right result."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import maskax as mx

RNG = np.random.default_rng(6)


def rows_of(*lengths, width=2):
    return [RNG.normal(size=(n, width)).astype(np.float32) for n in lengths]


def poisoned(rows, dims=None, bad=np.nan):
    """A batch on the device, with `bad` in the padding and one step more of it than is needed."""
    xs = mx.ragged(rows, dims)
    data = np.pad(xs.to_padded(bad), [(0, 0), (0, 1)] + [(0, 0)] * (xs.data.ndim - 2), constant_values=bad)
    return mx.Ragged(jnp.asarray(data), jax.tree.map(jnp.asarray, xs.sizes), xs.dims)


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


# --- containers --------------------------------------------------------------------------------------------------


def test_gradient_of_a_mean_over_rows_under_jit():
    """awkward 2603 and 2638: neither compiled nor differentiable. jax 17863: lengths 3, 1 and 2."""
    rows, w = rows_of(3, 1, 2, width=4), jnp.arange(4.0)
    loss = lambda w, xs: mx.mean(mx.vmap(lambda x: (x @ w) ** 2)(xs), per="token").value
    by_w, by_xs = jax.jit(jax.grad(loss, (0, 1), allow_int=True))(w, poisoned(rows))
    values = np.concatenate(rows)
    np.testing.assert_allclose(by_w, 2 * values.T @ (values @ w) / len(values), rtol=1e-4)
    by_data = jax.grad(lambda data, xs: loss(w, dataclasses.replace(xs, data=data)))(
        poisoned(rows).data, poisoned(rows)
    )
    for gradient in by_xs.data, by_data:  # a batch's sizes are integers, which jax.grad has to be told
        same([g[: len(row)] for g, row in zip(gradient, rows)], [2 / 6 * np.outer(row @ w, w) for row in rows])
        assert all(not np.any(g[len(row) :]) for g, row in zip(gradient, rows))
    assert repr(by_xs) == "Ragged(f32[3, n<=4, 4], n=f0[3])"
    with pytest.raises(TypeError, match="allow_int"):
        jax.grad(loss, 1)(w, poisoned(rows))


def test_a_round_trip_in_the_middle_of_a_loss():
    """pytorch 145837: the gradient was lost, and equal lengths were not equal shapes."""
    rows, lengths = rows_of(3, 1, width=1), jnp.array([3, 1])

    def loss(data):
        xs = mx.Ragged.from_padded(data, lengths)
        cut = mx.Ragged.from_padded(jnp.tanh(xs.to_padded(9.0)), xs.lengths)
        return mx.mean(mx.vmap(jnp.multiply)(xs, cut), per="token").value

    gradient = jax.jit(jax.grad(loss))(poisoned(rows).data)
    plain = jax.jit(jax.grad(lambda x: jnp.mean(x * jnp.tanh(x))))(np.concatenate(rows))
    np.testing.assert_allclose(np.concatenate([gradient[0, :3], gradient[1, :1]]), plain, rtol=1e-4)
    assert not np.any(gradient[0, 3:]) and not np.any(gradient[1, 1:])


def test_batches_built_apart_are_added():
    """pytorch 138180: refused although the lengths agree."""
    a, b = rows_of(3, 1), rows_of(3, 1)
    for ys in mx.ragged(b), mx.Ragged.from_packed(np.concatenate(b), [3, 1]), poisoned(b, bad=np.inf):
        same(mx.vmap(jnp.add)(mx.ragged(a), ys).to_list(), [x + y for x, y in zip(a, b)])
    with pytest.raises(TypeError, match=r"Use mx\.vmap\(f\)\(xs\)"):
        mx.ragged(a) + mx.ragged(b)
    with pytest.raises(mx.SizeError, match="Row 1 has 1 as its 'n' in args"):
        mx.vmap(jnp.add)(mx.ragged(a), mx.ragged(rows_of(3, 2)))
    sizes_too = jax.tree.map(jnp.add, mx.ragged(a), mx.ragged(b))  # a tree's leaves are added, as everywhere in JAX
    with pytest.raises(mx.SizeError, match="out of range"):
        mx.vmap(jnp.sum)(sizes_too)


def test_data_and_sizes_are_sharded_together_and_padded_alike():
    """pytorch 147140: the mask stayed behind. pytorch 2312 and 6327: each part had a maximum of its own."""
    rows = rows_of(3, 2, 1, 1)
    rows_over = NamedSharding(jax.make_mesh((2,), ("rows",)), PartitionSpec("rows"))
    xs = jax.device_put(poisoned(rows), rows_over)
    assert xs.data.sharding == xs.lengths.sharding == rows_over
    assert {shard.data.shape for shard in xs.data.addressable_shards} == {(2, 4, 2)}
    ys = jax.jit(mx.vmap(lambda x: (x.sum(), x[1:])))(xs)
    same(ys[0], [row.sum() for row in rows])
    same(jax.device_get(ys[1]).to_list(), [row[1:] for row in rows])
    assert ys[1].data.sharding.is_equivalent_to(rows_over, 3)


def test_data_equal_to_a_pad_value_stays():
    """Automodel 3704, keras 1070: token 0 was taken for padding."""
    xs = mx.Ragged.from_padded(np.array([[5, 0, 7], [0, 0, 0]]), [3, 2])
    assert [row.tolist() for row in xs.to_list()] == [[5, 0, 7], [0, 0]]
    assert xs.to_padded(-1).tolist() == [[5, 0, 7], [0, 0, -1]]
    assert mx.mean(xs, per="token").count == 5
    zeros = mx.vmap(lambda tokens: (tokens == 0).sum())(xs)
    assert zeros.tolist() == [1, 2]


def test_wide_types():
    with jax.enable_x64(True):
        for rows in [np.array([2**40, 1]), np.array([3])], [np.array([1e-300 + 2j]), np.array([1j, 1.0])]:
            xs = mx.ragged([jnp.asarray(row) for row in rows])
            got = jax.jit(mx.vmap(lambda x: (x * 2, x.sum())))(xs)
            assert got[0].data.dtype == got[1].dtype == rows[0].dtype
            assert [row.tolist() for row in got[0].to_list()] == [(row * 2).tolist() for row in rows]
            assert got[1].tolist() == [row.sum() for row in rows]
            assert [row.tolist() for row in xs.to_list()] == [row.tolist() for row in rows]
            assert xs.to_packed().values.tolist() == np.concatenate(rows).tolist()


def test_what_stays_as_it_is():
    """keras 20073: ragged input went with a major version. Others build on these fields and on the name in files."""
    assert [field.name for field in dataclasses.fields(mx.Ragged)] == ["data", "sizes", "dims"]
    assert mx.Packed._fields == ("values", "segment_ids", "positions")
    exported = jax.export.export(jax.jit(mx.vmap(jnp.sin)))(poisoned(rows_of(2)))
    assert b"maskax.Ragged" in bytes(exported.serialize())


# --- recompilation, bucketing, packing ---------------------------------------------------------------------------


def test_padding_on_the_host_compiles_nothing():
    """jax 10550: padding and cutting outside of jit compiled for every length."""
    buckets = mx.Buckets([8, 16])
    with mx.testing.count_compilations() as compilations:
        for n in range(1, 16):
            batch = mx.ragged([np.ones((n, 2)), np.ones((1, 2))], buckets=buckets)
            wide = mx.Ragged.from_padded(np.ones((2, 40, 2)), np.array([n, 3]))
            assert batch.data.shape == buckets.trim(wide).data.shape == (2, buckets.round(n), 2)
            assert [len(row) for row in batch.to_list()] == [n, 1]
    assert compilations.count == 0, compilations


def test_one_policy_knows_every_shape_before_it_comes():
    """sglang-jax 609: loader and server had rules of their own. jax 2072 and 11923: shapes without bound."""
    buckets = mx.Buckets.geometric(16, 512, ratio=2)
    run = jax.jit(mx.vmap(lambda x: x.max(axis=0)))
    shapes = buckets.shapes("n, 2", rows_per_batch=1)
    with mx.testing.count_compilations("max") as warm_up:  # jit names what it compiles after the function
        for shape in shapes:
            run(mx.Ragged.from_padded(np.zeros(shape, np.float32), np.zeros(1, int)))
    with mx.testing.count_compilations() as serving:
        for n in (17, 300, 1, 512, 16):
            (row,) = rows_of(n)
            batch = mx.ragged([row], buckets=buckets)
            assert batch.data.shape in shapes
            np.testing.assert_array_equal(jax.device_get(run(batch))[0], row.max(axis=0))
    assert serving.count == 0, (serving, warm_up)
    assert run._cache_size() == len(shapes) == 6
    with pytest.raises(mx.SizeError, match=r"the size 513 is above the largest bucket, 512\. Add a bucket"):
        mx.ragged(rows_of(513), buckets=buckets)


def encode(weights, tokens):
    """One document: positions by its own length, attention over itself alone. No mask."""
    x = weights["table"][tokens] + jnp.sin(jnp.arange(tokens.shape[0])[:, None] * weights["scale"])
    return jax.nn.softmax(x @ x.T) @ x


def test_packed_documents_do_not_see_each_other():
    """maxtext 4476, open-instruct 669: segment ids were dropped. jax 26265, mace 1590: positions and masks by hand."""
    documents = [RNG.integers(0, 9, n) for n in (4, 2, 5)]
    weights = {"table": jnp.asarray(RNG.normal(size=(9, 3)), jnp.float32), "scale": jnp.array([0.3, 1.0, 2.0])}
    packed = mx.ragged(documents).to_packed(size=16)
    assert packed.positions.tolist()[:11] == [0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4]

    @jax.jit
    def of_packed(weights, packed):
        xs = mx.Ragged.from_packed(packed.values, segment_ids=packed.segment_ids, rows=3, size=6)
        return mx.vmap(encode, in_axes=(None, 0))(weights, xs).to_packed(16)

    got = of_packed(weights, packed)
    np.testing.assert_allclose(
        got.values[:11], np.concatenate([jax.jit(encode)(weights, d) for d in documents]), rtol=1e-4
    )
    assert got.positions.tolist() == packed.positions.tolist()


def test_totals_of_packed_batches_are_rounded():
    """verl 7272: totals of 8013 and 8110 compiled one after the other."""
    buckets = mx.Buckets.multiples(of=512, hi=8192)
    for lengths in ([8000, 13], [8110]):
        xs = mx.ragged([np.ones(n, np.float32) for n in lengths])
        packed = xs.to_packed(buckets.round(xs.lengths.sum()))
        assert packed.values.shape == (8192,) and packed.values.sum() == sum(lengths)


def test_a_token_budget():
    """grain 1154, fairseq2 453: a variable number of rows, least padding, fixed shapes."""
    lengths = np.random.default_rng(0).integers(1, 200, 300)
    batches = mx.batches(rows_of(*lengths), tokens_per_batch=1000, buckets=mx.Buckets.fit(lengths, 4))
    assert all(batch.data.shape[0] * batch.data.shape[1] <= 1000 for batch in batches)
    assert len(batches.shapes) <= 5 and batches.waste < 0.25
    assert sorted(int(n) for batch in batches for n in batch.lengths) == sorted(lengths)


# --- vmap, jit, sharding -----------------------------------------------------------------------------------------


def test_arrays_of_different_leading_size():
    """jax 24547, 17863 and 19506: shapes (50, 6, 6), (100, 6, 6) and (1, 6, 6), in one compilation."""
    rows = [RNG.normal(size=(n, 6, 6)).astype(np.float32) for n in (50, 100, 1)]
    run = jax.jit(mx.vmap(lambda x: (x @ x).max(axis=(1, 2))))
    same(run(mx.ragged(rows)).to_list(), [(x @ x).max(axis=(1, 2)) for x in rows])
    run(mx.ragged([*rows[1:], rows[0]]))
    assert run._cache_size() == 1


def test_vmap_over_points_and_jit_inside():
    """jax 4420, 2769, 3322 and 3472."""
    dense = jax.jit(lambda w, v: jnp.where(v @ w > 0, v @ w, 0.1))
    w = jnp.asarray(RNG.normal(size=(2, 3)), jnp.float32)

    @jax.jit
    def net(points):  # (n, 2)
        pairs = jax.vmap(lambda a: jax.vmap(lambda b: dense(w, a - b))(points))(points)
        return jnp.pad(pairs.sum(axis=1), ((1, 0), (0, 0)))

    clouds = rows_of(3, 1, 2)
    same(jax.jit(mx.vmap(net))(poisoned(clouds)).to_list(), [net(cloud) for cloud in clouds])


def test_rows_that_do_not_divide_by_devices():
    """jax 27808 and 26946, levanter 429: 17 rows over 8 devices are 24, of which 7 do not count."""
    rows = [(row, i) for i, row in enumerate(rows_of(*RNG.integers(1, 4, 17)))]
    ((batch, real),) = mx.batches(rows, rows_per_batch=24, fill=True)
    over = NamedSharding(jax.make_mesh((8,), ("rows",)), PartitionSpec("rows"))
    xs, labels, real = jax.device_put((*batch, real), over)

    @jax.jit
    def metrics(xs, labels, real):
        hits = mx.vmap(lambda x: x.sum() > 0)(xs) == (labels % 2 == 0)
        return mx.mean(hits, per="row", where=real), mx.mean(xs, per="token")

    hits, values = metrics(xs, labels, real)
    assert hits == mx.Mean(sum((row.sum() > 0) == (i % 2 == 0) for row, i in rows), 17)
    np.testing.assert_allclose(values.value, np.concatenate([row for row, _ in rows]).mean(), atol=1e-5)
    assert values.count == sum(row.size for row, _ in rows)


def test_a_running_mean_is_merged_over_true_positions_or_refused():
    """equinox 705: state that a row updates. pytorch 22192, Paddle 32464: means of means."""

    def normalise(x, state, axes="rows"):
        total, count = jax.lax.psum((x.sum(axis=0), x.shape[0]), axes) if axes else (x.sum(axis=0), x.shape[0])
        return x - total / count, 0.9 * state + 0.1 * total / count

    rows, state = [np.ones((4, 2), np.float32), np.full((1, 2), 6, np.float32)], jnp.zeros(2)
    mapped = functools.partial(mx.vmap, in_axes=(0, None), out_axes=(0, None))
    xs, state = jax.jit(mapped(normalise, axis_name="rows"))(poisoned(rows), state)
    same(xs.to_list(), [row - 2 for row in rows])
    np.testing.assert_allclose(state, [0.2, 0.2])
    with pytest.raises(ValueError, match="out_axes"):  # of jax.vmap: a state per row is not one state
        mapped(functools.partial(normalise, axes=None))(poisoned(rows), state)


# --- training loops ----------------------------------------------------------------------------------------------


def test_every_example_counts_once():
    """flax 262, 264 and 527: the last of three batches counted as a full one. transformers 24725: micro-batches too."""
    rows = [{"x": row, "y": i < 3} for i, row in enumerate(rows_of(*RNG.integers(1, 4, 10)))]
    for fill in True, False:
        total = mx.Mean()
        for batch in mx.batches(rows, rows_per_batch=4, fill=fill):
            batch, real = batch if fill else (batch, None)
            total += mx.mean(batch["y"], per="row", where=real)
        assert (total.total, total.count) == (3, 10)


def test_loss_and_metric_divide_alike():
    """tensorflow 34158, 26784 and 39146: errors 1 and 0 in three steps of which one is masked."""
    errors = mx.Ragged.from_mask(np.array([[1.0, np.nan, 0.0]]), np.array([[True, False, True]]))
    assert mx.mean(errors, per="token").value == mx.mean(errors, per="row").value == 0.5
    assert mx.moments(errors).mean == 0.5


def test_a_device_without_examples():
    """OLMo-core 452: nan there, then everywhere."""
    shards = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), poisoned(rows_of(0, 0, 3, 1)))

    def loss(w, shard):
        errors = mx.vmap(lambda x: (x @ w) ** 2)(shard)
        return mx.mean(errors, per="token", axis_name="devices").value

    over = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0), axis_name="devices")
    values, gradients = jax.jit(over)(jnp.ones(2), shards)
    real = np.concatenate([np.asarray(shards.data[1, 0, :3]), np.asarray(shards.data[1, 1, :1])])
    np.testing.assert_allclose(values, np.full(2, np.mean(real.sum(axis=1) ** 2)), rtol=1e-5)
    assert np.all(np.isfinite(gradients))


def test_pad_weights_cannot_be_overlooked():
    """algorithmic-efficiency 233: made, and then not used."""
    rows = [{"x": row, "y": 1.0} for row in rows_of(2, 3, 1)]
    (pair,) = mx.batches(rows, rows_per_batch=5, fill=True)
    with pytest.raises(TypeError, match="tuple indices"):
        pair["x"]
    batch, real = pair
    for where in real, None:  # rows that were added are empty: what is ragged needs no weights
        assert mx.mean(batch["x"], per="token", where=where).count == 12
        assert mx.mean(batch["x"], per="row", where=where).count == 3


def test_a_model_that_uses_all_positions_is_seen_without_a_loss():
    """Automodel 3704: an attention mask of all ones while labels were ignored; the loss looked normal."""
    bad, good = (poisoned(rows_of(3, 2), bad=value) for value in (np.nan, 0.0))
    outside = jax.jit(lambda xs: jax.vmap(lambda x: jax.nn.softmax(x @ x.T) @ x)(xs.data))  # all of the window
    assert np.isnan(outside(bad)).any() and not np.isnan(outside(good)).any()
    inside = jax.jit(mx.vmap(lambda x: jax.nn.softmax(x @ x.T) @ x))(bad)
    assert not np.isnan(inside.data).any()
