"""What containers, buckets and `mx.vmap` are given by mistake: the error names the argument and says what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

XS = mx.ragged([jnp.ones((2, 3)), jnp.ones((4, 3))])
ROWS = [np.ones(2), np.ones(3)]
ANY = "sizes of ['{}'] and dims=('{}',) do not go together"


def together(data, sizes, *dims):
    """A `Ragged` put together by hand."""
    return mx.Ragged(data, {name: jnp.asarray(size) for name, size in sizes.items()}, dims)


def sum_of_names(*lengths):
    """A batch whose dimension is an expression in names that stand nowhere else."""
    n, m = zip(*lengths)
    return together(jnp.ones((len(n), 5)), {"n": n, "m": m}, "n + m")


WRONG = {
    # rows
    "rows: a sequence of arrays, or of trees of them, is needed, not 5: mx.ragged([a, b, c]).": lambda: mx.ragged(5),
    "is needed, not None": lambda: mx.ragged(None),
    "is needed, not 'ab'": lambda: mx.ragged("ab"),
    "is needed, not {'x': 1}": lambda: mx.ragged({"x": 1}),
    "rows: a sequence of arrays, or of trees of them, is needed, not 7": lambda: mx.batches(7, rows_per_batch=2),
    "rows[0] is None, without an array": lambda: mx.ragged([None, None]),
    "rows[0] is {}, without an array": lambda: mx.batches([{}, {}], rows_per_batch=1),
    # names
    "dims does not have the structure of a row.\n  dims: 5": lambda: mx.ragged(ROWS, dims=5),
    "dims does not have the structure of a row.\n  dims: ('n', '', '')": lambda: mx.ragged(
        [(np.ones(2), 1)], dims=("n", "", "")
    ),
    "dims: 'n -* 1' cannot be read": lambda: mx.Ragged.from_padded(np.ones((2, 3)), [1, 2], "n -* 1"),
    # buckets
    "sizes: one or more positive integers are needed, not 8: mx.Buckets([8, 16, 32]).": lambda: mx.Buckets(8),
    "integers are needed, not [[1], [2, 3]]": lambda: mx.Buckets([[1], [2, 3]]),
    "integers are needed, not [True]": lambda: mx.Buckets([True]),
    "lo=2.5": lambda: mx.Buckets.geometric(2.5, 8),
    "lo='a'": lambda: mx.Buckets.geometric("a", 8),
    "of=2.5": lambda: mx.Buckets.multiples(2.5, 8),
    "k=1.5; one or more": lambda: mx.Buckets.fit([1, 2], 1.5),
    "k=None; one or more": lambda: mx.Buckets.fit([1, 2], None),
    "buckets: a Buckets is needed, or a dict of them by name, not 6": lambda: mx.ragged(ROWS, buckets=6),
    "or a dict of them by name, not {'n': [4]}": lambda: mx.ragged(ROWS, buckets={"n": [4]}),
    "or a dict of them by name, not [9]": lambda: mx.batches(ROWS, rows_per_batch=2, buckets=[9]),
    "buckets: there is no dimension 'q' in the rows, but ['n'].": lambda: mx.ragged(ROWS, buckets={"q": None}),
    "rows_per_batch: an integer is needed, not 2.5.": lambda: mx.batches(ROWS, rows_per_batch=2.5),
    "tokens_per_batch: an integer is needed, not '9'.": lambda: mx.batches(ROWS, tokens_per_batch="9"),
    # what was put together by hand
    ANY.format("m", "n"): lambda: together(jnp.ones((2, 3)), {"m": [1, 2]}, "n").mask,
    "args[0]: Ragged: data of shape (2, 3), " + ANY.format("m", "k"): lambda: mx.vmap(jnp.sin)(
        together(jnp.ones((2, 3)), {"m": [1, 2]}, "k")
    ),
    "sizes of ['m', 'n']": lambda: mx.vmap(jnp.sin)(together(jnp.ones((2, 3)), {"n": [1, 2], "m": [1, 2]}, "n")),
    "dims=('n', '_', '_') do not go": lambda: mx.mean(
        together(jnp.ones((2, 3)), {"n": [1, 2]}, "n", "_", "_"), per="row"
    ),
    "args[0]: sizes['n'] must be integers (2,), one per row, not int32(3,).": lambda: mx.vmap(jnp.sin)(
        together(jnp.ones((2, 3)), {"n": [1, 2, 3]}, "n")
    ),
    "sizes['n'] must be integers (2,), one per row, not float32(2,).": lambda: together(
        jnp.ones((2, 3)), {"n": [1.0, 2.0]}, "n"
    ).to_padded(),
    "plot: sizes are not known while tracing": lambda: jax.jit(lambda xs: xs.plot())(XS),
    # axes
    "in_axes: an axis is an integer, or None for what is not mapped, not 'a'.": lambda: mx.vmap(jnp.sin, in_axes="a"),
    "in_axes: an axis is an integer, or None for what is not mapped, not 0.5": lambda: mx.vmap(jnp.sin, in_axes=(0.5,)),
    "not True": lambda: mx.vmap(jnp.sin, in_axes=True),
    "out_axes: an axis is an integer": lambda: mx.vmap(jnp.sin, out_axes={"x": "a"}),
    "in_axes: args[1] has the shape (2,), with no axis 2: hand it over whole, with None in in_axes.": lambda: mx.vmap(
        lambda x, y: x, in_axes=(0, 2)
    )(XS, jnp.ones(2)),
    "in_axes: args[1] is 3, with no axis 0": lambda: mx.vmap(lambda x, y: x)(XS, 3),
    "in_axes: args[1]['tag'] is 'a', with no axis 0": lambda: mx.vmap(lambda x, y: x)(XS, {"tag": "a"}),
    "out_axes does not have the structure of the results.\n  out_axes: (0, 0, 0)\n  results: (0, 1)\n": lambda: mx.vmap(
        lambda x: (x, x.sum()), out_axes=(0, 0, 0)
    )(XS),
    "out_axes: {'b': 0}\n  results: {'a': 0}": lambda: mx.vmap(lambda x: {"a": x.sum()}, out_axes={"b": 0})(XS),
    "out_axes: a result has 1 axes, to which rows add one: from 0 to 1, not 2.": lambda: mx.vmap(
        lambda x: x.sum(axis=0), out_axes=2
    )(XS),
    # results
    "The result is 'a', no array: return arrays": lambda: mx.vmap(lambda x: "a")(XS),
    "The result[1]['f'] is <built-in function len>, no array": lambda: mx.vmap(lambda x: (x, {"f": len}))(XS),
    "The result[0] is 'b', no array": lambda: mx.mask(lambda x: ["b"], ["n"])([jnp.ones(3)], {"n": 2}),
    # dimensions as they were written
    "whether n + m > 2 depends on a run-time size": lambda: mx.vmap(lambda x: x if x.shape[0] > 2 else -x)(
        sum_of_names((2, 1))
    ),
    "say so: mx.vmap(..., constraints=('n + m >= 4',))": lambda: mx.vmap(lambda x: x if x.shape[0] > 3 else -x)(
        sum_of_names((2, 1))
    ),
    "sizes['n + m'][1] is 12, out of range": lambda: mx.vmap(jnp.sin)(sum_of_names((2, 1), (3, 9))),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    with pytest.raises(mx.MaskaxError) as error:
        WRONG[message]()
    assert message in str(error.value)


def test_an_error_that_is_followed_works():
    """The constraint that the error offers, in names that are no variables of the program."""
    top = mx.vmap(lambda x: jax.lax.top_k(x, 2)[0], constraints="n + m >= 2")
    assert top(sum_of_names((2, 1), (0, 2))).shape == (2, 2)


INDEXES = {
    "not 'a'": "a",
    "not 1.5": 1.5,
    "not None": None,
    "not True": True,
    "not (0, 1)": (0, 1),
    "not array([[0]])": np.array([[0]]),
    "There is no row 9": np.int64(9),
    "There is no row -3": [0, -3],
    "index: 3 booleans for the 2 rows": np.array([True, False, True]),
}


@pytest.mark.parametrize("message", INDEXES)
@pytest.mark.parametrize("batch", [XS, mx.ragged([mx.ragged(ROWS), mx.ragged(ROWS[:1])])], ids=["rows", "rows of rows"])
def test_indexes(batch, message):
    with pytest.raises((TypeError, IndexError)) as error:
        batch[INDEXES[message]]
    assert message in str(error.value)


def test_lists_and_arrays_pick_rows_of_jax_and_numpy_arrays():
    for rows in ROWS, list(map(jnp.asarray, ROWS)):
        xs = mx.ragged(rows)
        for index in [1], [False, True], np.array([1]), jnp.array([-1]), jnp.array([False, True]), slice(1, None):
            assert [row.tolist() for row in xs[index].to_list()] == [[1, 1, 1]]
        assert len(xs[[]]) == 0 and xs[jnp.array(1)].shape == (3,)
    picked = jax.jit(lambda xs, i: xs[i])(XS, jnp.array([1, 1]))
    assert picked.lengths.tolist() == [4, 4]
    with pytest.raises(mx.SizeError, match=r"how many rows a mask picks.*mx\.mean\(\.\.\., where=mask\)"):
        jax.jit(lambda xs, keep: xs[keep])(XS, jnp.array([True, False]))


def test_names_of_tuples_and_lists():
    rows = [(np.ones((n, 3)), n) for n in (2, 3)]
    for kind in tuple, list:
        x, label = mx.ragged([kind(row) for row in rows], dims=("n, _", ""))
        assert x.dims == ("n", "_") and label.tolist() == [2, 3]
    q, a = mx.ragged([(np.ones(2), np.ones(3)), (np.ones(4), np.ones(1))], dims=("q", "a"))
    assert (q.dims, a.dims) == (("q",), ("a",))
    batch, _ = mx.batches(rows, rows_per_batch=2, dims=("t, _", None))[0]
    assert batch.dims == ("t", "_")
    lazily = mx.batches([np.ones((2, 3)), np.ones((4, 3))], rows_per_batch=2, dims=("t", None), lengths=[2, 4])
    assert lazily[0].dims == ("t", "_")


def test_commas_in_parentheses():
    xs = mx.Ragged.from_padded(jnp.ones((2, 3, 2)), jnp.array([2, 6]), "(floordiv(max(n, 1), 2), _)")
    assert xs.dims == ("floordiv(max(n, 1), 2)", "_") and xs.lengths.tolist() == [1, 3]
    assert mx.Buckets([4, 8]).shapes("floordiv(n, 2), 3") == [(2, 3), (4, 3)]
    masked = mx.mask(lambda x: x.sum(), ["(max(n, 1), mod(n, 2))"])
    assert masked([jnp.ones((6, 2))], {"n": 3})[0] == 3


def test_waste_of_nothing():
    assert mx.Buckets([4]).waste([]) == 0 and mx.Buckets([4]).waste([0]) == 1
