"""`Ragged` as a container: every way in and out, under every transform, whatever the padding holds."""

import multiprocessing
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

RNG = np.random.default_rng(1)
ROWS = [RNG.normal(size=(n, 2)).astype(np.float32) for n in (3, 0, 5, 1)]
DTYPES = ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"]


def poisoned(rows=ROWS, extra=2):
    """On the device, with nan in the padding and more of it than is needed."""
    xs = mx.ragged(rows)
    data = np.full((len(rows), xs.data.shape[1] + extra, *rows[0].shape[1:]), np.nan, np.float32)
    data[:, : xs.data.shape[1]] = np.where(xs.mask.reshape(*xs.mask.shape, *[1] * (data.ndim - 2)), xs.data, np.nan)
    return mx.Ragged.from_padded(jnp.asarray(data), jnp.asarray(xs.lengths))


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# --- made from and read as ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_of_every_dtype(dtype):
    rows = [jnp.asarray(row * 3).astype(dtype) for row in ROWS]
    xs = mx.ragged(rows)
    assert isinstance(xs.data, jax.Array) and xs.data.dtype == dtype
    same(xs.to_list(), rows)
    host = mx.ragged([np.asarray(row) for row in rows])
    assert isinstance(host.data, np.ndarray) and isinstance(host.lengths, np.ndarray)
    same(host.to_list(), [np.asarray(row) for row in rows])
    assert all(isinstance(row, np.ndarray) for row in host.to_list())


def test_rows_of_numbers_and_of_keys():
    assert mx.ragged([[1, 2], [3], []]).to_padded(-1).tolist() == [[1, 2], [3, -1], [-1, -1]]
    keys = [jax.random.split(jax.random.key(0), n) for n in (2, 3)]
    xs = mx.ragged(keys)
    for got, want in zip(xs.to_list(), keys):
        assert jnp.array_equal(jax.random.key_data(got), jax.random.key_data(want))
    assert xs.to_padded().shape == (2, 3)


def test_padded_with_any_fill():
    xs = poisoned()
    assert xs.mask.shape == (4, 7) and xs.mask.sum(1).tolist() == xs.lengths.tolist() == [3, 0, 5, 1]
    for fill in 0, -1.5, np.nan, np.inf:
        padded = np.asarray(xs.to_padded(fill))
        np.testing.assert_array_equal(padded[~np.asarray(xs.mask)], np.full((19, 2), fill, np.float32))
        same([row[:n] for row, n in zip(padded, xs.lengths)], ROWS)
    with pytest.raises(mx.SpecError, match=r"fill: nan is not a value of dtype int64\."):
        mx.ragged([np.arange(2)]).to_padded(np.nan)


def test_masks_with_holes():
    data, mask = np.arange(12).reshape(2, 6), np.array([[1, 0, 1, 0, 0, 1], [0] * 6], bool)
    for xs in mx.Ragged.from_mask(data, mask), jax.jit(mx.Ragged.from_mask)(data, mask):
        assert [np.asarray(row).tolist() for row in xs.to_list()] == [[0, 2, 5], []]
    gradient = jax.grad(lambda d: (mx.Ragged.from_mask(d, mask).to_padded() ** 2).sum())(jnp.asarray(data, float))
    np.testing.assert_array_equal(gradient, np.where(mask, 2 * data, 0))
    with pytest.raises(mx.SpecError, match=r"mask must be booleans \(2, 6\), True where real, not int64\(2, 6\)"):
        mx.Ragged.from_mask(data, mask.astype(int))


def test_packed():
    xs = poisoned()
    packed = xs.to_packed()
    np.testing.assert_array_equal(packed.values, np.concatenate(ROWS))
    assert packed.segment_ids.tolist() == [1, 1, 1, 3, 3, 3, 3, 3, 4]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 0]
    roomy = jax.jit(lambda xs: xs.to_packed(12))(xs)
    assert roomy.values.shape == (12, 2) and not np.any(roomy.values[9:]) and not np.any(roomy.segment_ids[9:])
    same(mx.Ragged.from_packed(roomy.values, xs.lengths).to_list(), ROWS)
    same(mx.Ragged.from_packed(roomy.values, segment_ids=roomy.segment_ids).to_list(), ROWS)
    inside = jax.jit(lambda v, ids: mx.Ragged.from_packed(v, segment_ids=ids, rows=4, size=5))
    same(inside(roomy.values, roomy.segment_ids).to_list(), ROWS)
    with pytest.raises(mx.SizeError, match=r"to_packed: size=8 is too small for 9 values\."):
        xs.to_packed(8)
    with pytest.raises(mx.SpecError, match=r"give it room: to_packed\(size=\.\.\.\)"):
        jax.jit(lambda xs: xs.to_packed())(xs)
    with pytest.raises(mx.SpecError, match="either lengths or segment_ids"):
        mx.Ragged.from_packed(roomy.values)


def test_segments_in_any_order():
    values, ids = jnp.arange(6.0), jnp.array([2, 1, 0, 2, 1, 3])
    for rows in 3, None:
        xs = mx.Ragged.from_packed(values, segment_ids=ids, rows=rows)
        assert [row.tolist() for row in xs.to_list()] == [[1, 4], [0, 3], [5]]
    fewer = mx.Ragged.from_packed(values, segment_ids=ids, rows=1)
    assert [row.tolist() for row in fewer.to_list()] == [[1, 4]]


def test_lengths_out_of_range_are_clamped_under_jit():
    lengths = jax.jit(lambda n: mx.Ragged.from_padded(jnp.ones((2, 3)), n).lengths)(jnp.array([9, -2]))
    assert lengths.tolist() == [3, 0]


def test_round_trips_keep_gradients():
    lengths = jnp.asarray([3, 0, 5, 1])
    rows = [jnp.asarray(row) for row in ROWS]
    square = lambda xs: jnp.sum(mx.vmap(lambda x: jnp.sum(x**2))(xs))
    ways = {
        "list": lambda rows: mx.ragged(mx.ragged(rows).to_list()),
        "padded": lambda rows: mx.Ragged.from_padded(mx.ragged(rows).to_padded(np.nan), lengths),
        "packed": lambda rows: mx.Ragged.from_packed(mx.ragged(rows).to_packed().values, lengths),
        "slices": lambda rows: mx.Ragged.concatenate([mx.ragged(rows)[:2], mx.ragged(rows)[2:]]),
    }
    for name, way in ways.items():
        got = jax.grad(lambda rows, way=way: square(way(rows)))(rows)
        for a, row in zip(got, rows):
            np.testing.assert_allclose(a, 2 * row, rtol=1e-6, err_msg=name)


def test_awkward_arrays():
    awkward = pytest.importorskip("awkward")
    same(mx.from_awkward(mx.to_awkward(poisoned())).to_list(), ROWS)
    nested = awkward.Array([[[1.0, 2.0], [], [3.0]], [[4.0]], []])
    batch = mx.from_awkward(nested)
    assert [[row.tolist() for row in rows] for rows in batch.to_list()] == nested.to_list()
    assert mx.to_awkward(batch).to_list() == nested.to_list()
    with pytest.raises(mx.SpecError, match="take one field"):
        mx.from_awkward(awkward.Array([{"x": 1}]))


def test_several_ragged_axes_and_trees():
    images = [RNG.normal(size=(h, w, 3)) for h, w in ((4, 2), (1, 5))]
    xs = mx.ragged(images, "h, w, _")
    assert xs.dims == ("h", "w", "_") and xs.data.shape == (2, 4, 5, 3) and xs.mask.shape == (2, 4, 5)
    same(xs.to_list(), images)
    tree = mx.ragged([{"x": np.ones((n, 2)), "y": np.ones(n), "label": n} for n in (2, 3)])
    assert tree["x"].same_sizes(tree["y"]) and tree["label"].tolist() == [2, 3]
    pair = mx.ragged([{"q": np.ones(n), "a": np.ones(m)} for n, m in ((1, 2), (3, 1))], {"q": "n", "a": "m"})
    assert pair["q"].dims == ("n",) and pair["a"].lengths.tolist() == [2, 1]


def test_equal_lengths_are_ragged_all_the_same():
    """Whether an axis is ragged must not depend on the batch: programs would be compiled again, or fail."""
    assert mx.ragged([np.ones((2, 3)), np.ones((2, 3))]).dims == ("n", "_")
    assert mx.ragged([np.ones((2, 3))]).dims == ("n", "_")


# --- as a sequence of rows ---------------------------------------------------------------------------------------


def test_indexing_slicing_iterating():
    xs = poisoned()
    assert len(xs) == 4
    same(list(xs), ROWS)
    same([xs[2], xs[-1]], [ROWS[2], ROWS[-1]])
    same(xs[1:3].to_list(), ROWS[1:3])
    same(xs[np.array([2, 0])].to_list(), [ROWS[2], ROWS[0]])
    same(xs[np.array([True, False, False, True])].to_list(), [ROWS[0], ROWS[3]])
    same(mx.Ragged.concatenate([xs, mx.ragged([jnp.asarray(r) for r in ROWS])]).to_list(), ROWS * 2)
    assert len(xs[:0]) == 0 and xs[:0].to_list() == []
    for wrong in 4, -5:
        with pytest.raises(IndexError, match=f"There is no row {wrong}"):
            xs[wrong]
    with pytest.raises(TypeError, match="is indexed by rows only"):
        xs[0, 1]
    with pytest.raises(mx.SizeError, match="not known while tracing"):
        jax.jit(lambda xs: xs[0])(xs)


def test_sizes_by_value():
    xs = poisoned()
    assert xs.same_sizes(mx.ragged(ROWS)) and not xs.same_sizes(mx.ragged(ROWS[::-1]))
    assert not xs.same_sizes(xs.rename(n="m"))
    with pytest.raises(mx.SpecError, match="there is no dimension 'q'"):
        xs.rename(q="m")


# --- as a value --------------------------------------------------------------------------------------------------


def test_never_taken_for_an_array():
    xs = poisoned()
    message = r"is no array: its rows have unequal sizes\. Use mx\.vmap\(f\)\(xs\).*xs\.to_padded\(fill\)"
    for use in (np.asarray, jnp.sum, lambda x: x + 1, lambda x: 2.0 * x, lambda x: x @ x, jnp.asarray, lambda x: x < 0):
        with pytest.raises(TypeError, match=message):
            use(xs)


def test_pytree_under_transforms():
    xs = poisoned()
    traces = []
    run = jax.jit(lambda xs: (traces.append(1), jax.tree.map(lambda leaf: leaf, xs))[1])
    same(run(xs).to_list(), ROWS)
    other = mx.Ragged.from_padded(xs.data, xs.lengths[::-1])
    run(other)
    assert len(traces) == 1
    rowwise = jax.vmap(lambda row: jnp.sum(row.to_padded()))(xs)  # one row, without an axis of rows
    np.testing.assert_allclose(rowwise, [row.sum() for row in ROWS], rtol=1e-5)
    _, stacked = jax.lax.scan(lambda c, row: (c, row), 0, xs)
    same(stacked.to_list(), ROWS)
    placed = jax.device_put(xs, jax.devices()[3])
    assert placed.data.devices() == placed.lengths.devices() == {jax.devices()[3]}
    same(placed.to_list(), ROWS)


def test_export():
    xs = jax.tree.map(jnp.asarray, mx.ragged(ROWS))
    exported = jax.export.export(jax.jit(mx.vmap(lambda x: x[1:])))(xs)
    again = jax.export.deserialize(exported.serialize())
    same(again.call(xs).to_list(), [row[1:] for row in ROWS])


def _total(xs):
    return sum(row.sum() for row in xs)


def test_pickles_and_goes_to_workers():
    xs = mx.ragged(ROWS)
    same(pickle.loads(pickle.dumps(xs)).to_list(), ROWS)
    same(pickle.loads(pickle.dumps(poisoned())).to_list(), ROWS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_total, (xs,)) == pytest.approx(float(_total(ROWS)))


def test_checkpoints(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    xs = poisoned()
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "xs", xs)
        checkpointer.wait_until_finished()
        same(checkpointer.restore(tmp_path / "xs", jax.eval_shape(lambda: xs)).to_list(), ROWS)


def test_shown():
    xs = poisoned()
    assert repr(xs) == "Ragged(f32[4, n<=7, 2], n=[3, 0, 5, 1])"
    assert repr(mx.ragged([mx.ragged(ROWS), mx.ragged(ROWS[:1])])).startswith("Ragged(f32[2, n<=4, n<=5, 2], n=[[3, 0")
    seen = []
    jax.jit(lambda xs: seen.append((repr(xs), xs._repr_html_())))(xs)
    assert seen == [("Ragged(f32[4, n<=7, 2], n=i32[4])", "<code>Ragged(f32[4, n&lt;=7, 2], n=i32[4])</code>")]
    for leaf in None, object(), 3:  # what libraries put into trees on the way
        assert "Ragged(" in repr(jax.tree.map(lambda _, leaf=leaf: leaf, xs))
    assert xs._repr_html_().count("#eee") == 19


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # treescope walks through all of NumPy
def test_shown_by_treescope():
    treescope = pytest.importorskip("treescope")
    assert "validMaskBase64" in treescope.render_to_text(poisoned())
    assert "Ragged(" in treescope.render_to_text(mx.ragged([mx.ragged(ROWS)]))


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    assert poisoned().plot().get_title() == "32% full"


# --- errors ------------------------------------------------------------------------------------------------------

ERRORS = [
    (lambda: mx.ragged([]), "rows: at least one is needed; Ragged.from_padded makes a batch of none."),
    (
        lambda: mx.ragged([np.ones((2, 3)), np.ones(2)]),
        "rows[1] is float64(2,), but rows[0] is float64(2, 3): rows must have equal ranks and dtypes.",
    ),
    (
        lambda: mx.ragged([{"x": np.ones(2), "y": np.ones(3)}]),
        "rows[0]: 'n' is 2 by axis 0 of ['x'], but 3 by axis 0 of ['y']. Name them apart, or '_' what is not ragged, "
        "with dims=.",
    ),
    (
        lambda: mx.ragged([np.ones((2, 3)), np.ones((2, 4))], "n, _"),
        "dims: axis 1 is '_', not ragged, but rows have sizes 3 and 4: name it.",
    ),
    (
        lambda: mx.ragged([np.ones(2)], "n, m"),
        "dims has 2 entries, 'n, m', but the rows have 1 axes: give one name per axis, '_' for an axis that is not "
        "ragged.",
    ),
    (
        lambda: mx.Ragged.from_padded(np.ones((2, 3)), [1, 4]),
        "lengths: row 1 has size 4 in dimension 'n', but the data is padded to 3.",
    ),
    (
        lambda: mx.Ragged.from_padded(np.ones((2, 3)), [-1, 2]),
        "lengths: row 0 has size -1 in dimension 'n', but the data is padded to 3.",
    ),
    (
        lambda: mx.Ragged.from_packed(np.arange(6.0), [-2, 1]),
        "from_packed: lengths are from -2 and add up to -1, but there are 6 values.",
    ),
    (
        lambda: mx.Ragged.from_packed(np.arange(2.0), segment_ids=np.array([1, 1, 1])),
        "segment_ids must be 2 integers, one per row, not int64(3,).",
    ),
    (lambda: mx.ragged([np.ones(2)]).to_padded(1j), "fill: 1j is not a value of dtype float64."),
    (lambda: mx.ragged([np.ones(2, bool)]).to_padded(2), "fill: 2 is not a value of dtype bool."),
    (
        lambda: mx.ragged([np.ones((2, 3)), np.ones((2, 4))]).rename(n="m"),
        "rename: 'm' is no name, or one that is taken, in Ragged(f64[2, n<=2, m<=4], n=[2, 2], m=[3, 4]).",
    ),
    (
        lambda: mx.Ragged.concatenate([mx.ragged([np.ones(1)]), mx.ragged([np.ones(1, int)])]),
        "batches: one or more of equal dimensions and dtype are needed, not [Ragged(f64[1, n<=1], n=[1]), "
        "Ragged(i64[1, n<=1], n=[1])].",
    ),
    (
        lambda: mx.ragged([np.array(["a"])]),
        "rows[0] is an array of dtype <U1: numbers, booleans or keys are needed.",
    ),
    (
        lambda: mx.Ragged.from_padded(np.ones((2, 3)), [1.0, 2.0]),
        "lengths['n'] must be 2 integers, one per row, not float64(2,).",
    ),
]


@pytest.mark.parametrize("make, message", ERRORS, ids=[message[:30] for _, message in ERRORS])
def test_errors(make, message):
    with pytest.raises(mx.MaskaxError) as error:
        make()
    assert str(error.value) == message
