"""`mx.vmap` against its definition: the plain function, row by row, on arrays without padding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import maskax as mx

RNG = np.random.default_rng(0)
LENGTHS = (3, 5, 1, 2)
ROWS = [RNG.normal(size=(n, 4)).astype(np.float32) for n in LENGTHS]
OTHER = [RNG.normal(size=(n, 4)).astype(np.float32) for n in (2, 1, 4, 4)]
W = jnp.asarray(RNG.normal(size=(4, 4)), jnp.float32)


def poisoned(rows, dims=None, bad=np.nan):
    """A batch with `bad` in the padding, and more of it than is needed."""
    xs = mx.ragged(rows, dims)
    row = [size + (dim != "_") for size, dim in zip(xs.data.shape[1:], xs.dims)]
    data = np.full((len(rows), *row), bad, xs.data.dtype)
    for i, r in enumerate(rows):
        data[(i, *map(slice, r.shape))] = r
    return mx.Ragged(jnp.asarray(data), jax.tree.map(jnp.asarray, xs.sizes), xs.dims)


def assert_rows_equal(got, want):
    got = got.to_list() if isinstance(got, mx.Ragged) else list(got)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=2e-5, atol=2e-6)


def attend(w, x):
    return jax.nn.softmax(x @ w @ x.T) @ x


def test_each_row_is_the_plain_function():
    xs = poisoned(ROWS)
    for run in mx.vmap(attend, in_axes=(None, 0)), jax.jit(mx.vmap(attend, in_axes=(None, 0))):
        ys = run(W, xs)
        assert ys.dims == ("n", "_") and ys.same_sizes(xs)
        assert_rows_equal(ys, [attend(W, x) for x in ROWS])


def test_gradients_by_weights_and_rows():
    xs = poisoned(ROWS)

    def loss(w, data):
        ys = mx.vmap(attend, in_axes=(None, 0))(w, mx.Ragged(data, xs.sizes, xs.dims))
        return jnp.sum(ys.to_padded() ** 2)

    by_w, by_x = jax.jit(jax.grad(loss, (0, 1)))(W, xs.data)
    plain = [jax.grad(lambda w, x: jnp.sum(attend(w, x) ** 2), (0, 1))(W, x) for x in ROWS]
    np.testing.assert_allclose(by_w, sum(w for w, _ in plain), rtol=1e-4, atol=1e-4)
    assert_rows_equal(mx.Ragged(by_x, xs.sizes, xs.dims), [x for _, x in plain])
    assert not np.any(np.asarray(by_x)[~np.asarray(xs.mask)])


SHAPES = [
    (lambda x: x[1:] - x[:-1], "n - 1"),
    (lambda x: jnp.concatenate([x, x]), "2*n"),
    (lambda x: x[::2], "floordiv(n + 1, 2)"),
    (lambda x: jnp.pad(x, ((1, 2), (0, 0))), "n + 3"),
]


@pytest.mark.parametrize("fun, dim", SHAPES, ids=[dim for _, dim in SHAPES])
def test_sizes_of_results_come_from_the_program(fun, dim):
    ys = mx.vmap(fun)(poisoned(ROWS))
    assert ys.dims == (dim, "_")
    assert_rows_equal(ys, [fun(x) for x in ROWS])
    again = mx.vmap(lambda y: y[1:])(ys)  # alone: its dimension is all that is known of n
    assert_rows_equal(again, [fun(x)[1:] for x in ROWS])


def test_results_go_on_together_with_what_they_came_from():
    xs = poisoned(ROWS)
    steps = mx.vmap(lambda x: x[1:] - x[:-1])(xs)
    back = mx.vmap(lambda x, d: x[0] + jnp.concatenate([jnp.zeros((1, 4)), jnp.cumsum(d, 0)]))(xs, steps)
    assert back.dims == ("n", "_")
    assert_rows_equal(back, ROWS)


def test_trees_keywords_and_plain_arrays():
    labels = jnp.arange(4.0)

    def fun(batch, scale, *, bias):
        return {"out": batch["x"] * scale + bias, "sum": (batch["x"].sum() * batch["y"], None)}

    got = mx.vmap(fun, in_axes=({"x": 0, "y": 0}, None))({"x": poisoned(ROWS), "y": labels}, 2.0, bias=labels)
    want = [fun({"x": x, "y": y}, 2.0, bias=y) for x, y in zip(ROWS, labels)]
    assert_rows_equal(got["out"], [w["out"] for w in want])
    np.testing.assert_allclose(got["sum"][0], [w["sum"][0] for w in want], rtol=1e-4)
    assert got["sum"][1] is None


def test_axes_of_plain_arguments_and_results():
    columns = jnp.asarray(RNG.normal(size=(4, 7)), jnp.float32)
    got = mx.vmap(lambda x, c: (x, x.sum(0), c), in_axes=(0, 1), out_axes=(0, 1, 1))(poisoned(ROWS), columns[:, :4])
    assert_rows_equal(got[0], ROWS)
    np.testing.assert_allclose(got[1], np.stack([x.sum(0) for x in ROWS], 1), rtol=1e-5)
    np.testing.assert_array_equal(got[2], columns[:, :4])


def test_what_is_not_mapped_is_handed_over_untouched():
    tags = []
    got = mx.vmap(lambda x, k, f: (tags.append((k, f)), x[k:])[1], in_axes=(0, None, None))(poisoned(ROWS), 1, "tag")
    assert tags == [(1, "tag")]  # a Python int stays one, as with jax.vmap: it may be a shape
    assert_rows_equal(got, [x[1:] for x in ROWS])


def test_independent_sizes():
    xs, ys = poisoned(ROWS), poisoned(OTHER, dims=("m",))
    cross = mx.vmap(lambda x, y: x @ y.T)(xs, ys)
    assert cross.dims == ("n", "m")
    assert_rows_equal(cross, [x @ y.T for x, y in zip(ROWS, OTHER)])
    joined = mx.vmap(lambda x, y: jnp.concatenate([x, y]))(xs, poisoned(OTHER).rename(n="m"))
    assert_rows_equal(joined, [np.concatenate(pair) for pair in zip(ROWS, OTHER)])


def test_images_of_varying_height_and_width():
    images = [RNG.normal(size=(h, w, 3)).astype(np.float32) for h, w in ((4, 2), (3, 5), (1, 1))]
    kernel = jnp.asarray(RNG.normal(size=(3, 3, 3, 2)), jnp.float32)

    def blur(x):
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x[None], kernel, (1, 1), "SAME", dimension_numbers=dims)[0]

    got = jax.jit(mx.vmap(blur))(poisoned(images, "h, w, _"))
    assert got.dims == ("h", "w", "_")
    assert_rows_equal(got, [blur(x) for x in images])


def test_documents_of_sentences_of_words():
    documents = [ROWS[:2], ROWS, OTHER[:1]]
    batch = jax.tree.map(jnp.asarray, mx.ragged([mx.ragged(d) for d in documents]))

    def document(w, sentences):
        words = mx.vmap(attend, in_axes=(None, 0))(w, sentences)
        return words, mx.vmap(lambda s: jnp.tanh(s).sum(0))(words).max(0)

    def loss(w):
        words, summary = mx.vmap(document, in_axes=(None, 0))(w, batch)
        return jnp.sum(summary), (words, summary)

    (_, (words, summary)), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(W)
    assert len(words) == 3
    for got, sentences in zip(words.to_list(), documents):
        assert_rows_equal(got, [attend(W, s) for s in sentences])
    plain = lambda w: jnp.stack(
        [jnp.stack([jnp.tanh(attend(w, s)).sum(0) for s in sentences]).max(0) for sentences in documents]
    )
    np.testing.assert_allclose(summary, plain(W), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient, jax.grad(lambda w: plain(w).sum())(W), rtol=1e-3, atol=1e-4)


def test_a_batch_that_is_not_mapped_arrives_whole():
    xs = poisoned(ROWS)
    table = jnp.arange(3.0)
    got = mx.vmap(lambda t, xs: mx.vmap(lambda x: x.sum() * t)(xs), in_axes=(0, None))(table, xs)
    np.testing.assert_allclose(got, np.outer(table, [x.sum() for x in ROWS]), rtol=1e-4, atol=1e-5)


def test_batch_statistics_over_all_true_positions():
    def normalise(x):
        count = jax.lax.psum(x.shape[0], "rows")
        mean = jax.lax.psum(x.sum(0), "rows") / count
        var = jax.lax.psum(((x - mean) ** 2).sum(0), "rows") / count
        return (x - mean) / jnp.sqrt(var)

    everything = np.concatenate(ROWS)
    got = jax.jit(mx.vmap(normalise, axis_name="rows"))(poisoned(ROWS))
    assert_rows_equal(got, [(x - everything.mean(0)) / everything.std(0) for x in ROWS])


def test_random_draws_per_row():
    keys = jax.random.split(jax.random.key(0), 4)
    drop = lambda key, x: jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0)
    assert_rows_equal(mx.vmap(drop)(keys, poisoned(ROWS)), [drop(k, x) for k, x in zip(keys, ROWS)])


def test_decorators():
    @mx.vmap
    def total(x):
        "Sums."
        return x.sum()

    @mx.vmap(in_axes=(None, 0))
    def scaled(a, x):
        return a * x

    xs = poisoned(ROWS)
    np.testing.assert_allclose(total(xs), [x.sum() for x in ROWS], rtol=1e-5)
    assert total.__name__ == "total" and total.__doc__ == "Sums."
    assert_rows_equal(scaled(2.0, xs), [2 * x for x in ROWS])
    assert_rows_equal(functools.partial(mx.vmap, in_axes=(None, 0))(attend)(W, xs), [attend(W, x) for x in ROWS])


def test_without_ragged_arguments_it_is_jax_vmap():
    x = jnp.ones((3, 2))
    for options in {}, {"out_axes": 1}, {"axis_name": "i"}, {"axis_size": 3}:
        assert str(jax.make_jaxpr(mx.vmap(jnp.sin, **options))(x)) == str(
            jax.make_jaxpr(jax.vmap(jnp.sin, **options))(x)
        )


def test_one_compilation_for_all_sizes():
    traces = []
    run = jax.jit(mx.vmap(lambda x: (traces.append(1), jnp.sort(x, 0))[1]))
    for lengths in ([3, 5, 1], [0, 0, 0], [5, 5, 5]):
        rows = [RNG.normal(size=(n, 2)).astype(np.float32) for n in lengths]
        xs = mx.ragged(rows, buckets=mx.Buckets((5,)))
        assert_rows_equal(run(xs), [np.sort(r, 0) for r in rows])
    assert len(traces) == 1


def test_inside_scan_and_over_several_devices():
    xs = poisoned(ROWS)
    step = lambda total, xs: (total + mx.vmap(jnp.sum)(xs).sum(), mx.vmap(jnp.sort)(xs))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), xs)
    total, ys = jax.lax.scan(step, jnp.float32(0), stacked)
    np.testing.assert_allclose(total, 2 * sum(x.sum() for x in ROWS), rtol=1e-4)
    assert ys.data.shape[:2] == (2, 4)

    mesh = jax.make_mesh((2,), ("rows",))
    rows = jax.sharding.PartitionSpec("rows")
    placed = jax.device_put(xs, jax.sharding.NamedSharding(mesh, rows))
    run = jax.jit(jax.shard_map(mx.vmap(jnp.tanh), mesh=mesh, in_specs=rows, out_specs=rows))
    assert_rows_equal(jax.device_get(run(placed)), [np.tanh(x) for x in ROWS])
    assert_rows_equal(jax.device_get(jax.jit(mx.vmap(attend, (None, 0)))(W, placed)), [attend(W, x) for x in ROWS])


def test_constraints():
    top = lambda x: jax.lax.top_k(x, 2)[0]
    rows = [x[:, 0] for x in ROWS if len(x) >= 2]
    assert_rows_equal(mx.vmap(top, constraints="n >= 2")(poisoned(rows)), [top(x) for x in rows])


ERRORS = [
    (
        lambda xs: mx.vmap(jnp.add)(xs, poisoned(OTHER)),
        mx.SizeError,
        "Row 0 has 3 as its 'n' in args[0], but 2 in args[1]. Sizes of one name must agree row by row; where they are "
        'independent, give them names: mx.ragged(rows, dims=("m",)), or xs.rename(n="m").',
    ),
    (
        lambda xs: mx.vmap(lambda x, y: x)(xs, jnp.ones(3)),
        mx.SizeError,
        "args[0] has 4 rows, but args[1] has 3: all that is mapped over must have equally many. Hand over whole what "
        "is not mapped, with None in in_axes.",
    ),
    (
        lambda xs: mx.vmap(jnp.add, in_axes=(0, 1))(xs, xs),
        mx.SpecError,
        "in_axes: args[1] is Ragged, with its rows in front: its axis is 0 or None, not 1.",
    ),
    (
        lambda xs: mx.vmap(lambda x: (x, 1.0), out_axes=(1, None))(xs),
        mx.SpecError,
        "out_axes: a result is Ragged, with its rows in front: its axis is 0, not 1.",
    ),
    (
        lambda xs: mx.vmap(jnp.add, in_axes=(0, 0, 0))(xs, xs),
        mx.SpecError,
        "in_axes does not have the structure of the arguments.\n  in_axes: (0, 0, 0)\n  args: (0, 1)\n"
        "  Give one axis (or None) per argument, or per part of one.",
    ),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call, kind, message):
    with pytest.raises(kind) as error:
        call(poisoned(ROWS))
    assert str(error.value) == message


def test_sizes_that_differ_are_reported_under_checkify():
    run = jax.jit(checkify.checkify(mx.vmap(jnp.add), errors=checkify.user_checks))
    error, _ = run(poisoned(ROWS), poisoned(ROWS[::-1]))
    with pytest.raises(Exception, match="of 'n' differ by"):
        error.throw()
