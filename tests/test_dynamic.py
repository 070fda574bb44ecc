"""Sizes that the data decides: NumPy on the unpadded rows is what everything must equal."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import maskax as mx

close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)

ROWS = [
    np.float32([1, -1, 2, 0, 2, 1]),
    np.float32([3, 3, 3]),  # all true
    np.float32([0, -0.0, -2, -2]),  # none true
    np.float32([]),
    np.float32([-5]),
    np.float32([0, 0, 1, -1, 0, 4, 0]),
]
HOLES = [*ROWS, np.float32([np.nan, 1, np.nan, np.inf, -np.inf, 1])]


def batch(rows, size=8):
    data = np.full((len(rows), size, *rows[0].shape[1:]), np.nan if rows[0].dtype.kind == "f" else 2**30, rows[0].dtype)
    for i, row in enumerate(rows):
        data[i, : len(row)] = row
    return mx.Ragged.from_padded(data, np.array([len(row) for row in rows], np.int32))


def run_lengths(x):
    """By the definition, element by element."""
    values, lengths = [], []
    for v in x.tolist():
        if not values or values[-1] != v:
            values.append(v)
            lengths.append(0)
        lengths[-1] += 1
    return np.array(values, x.dtype), np.array(lengths, np.int32)


def numpy_split(x):
    return np.split(x, [int((x > 0).sum()), -1]) if len(x) else [x, x, x]


# Of one row `(n,)`: our function and NumPy's.
FUNCTIONS = {
    "nonzero": (lambda x: mx.nonzero(x), lambda x: np.nonzero(x)),
    "flatnonzero": (lambda x: mx.flatnonzero(x > 0), lambda x: np.flatnonzero(x > 0)),
    "argwhere": (lambda x: mx.argwhere(x < 0), lambda x: np.argwhere(x < 0)),
    "where": (lambda x: mx.where(x > 0), lambda x: np.where(x > 0)),
    "where, three": (lambda x: mx.where(x > 0, x, -x), lambda x: np.where(x > 0, x, -x)),
    "compress": (lambda x: mx.compress(x > 0, x), lambda x: np.compress(x > 0, x)),
    "extract": (lambda x: mx.extract(x != 2, x), lambda x: np.extract(x != 2, x)),
    "delete": (lambda x: mx.delete(x, x > 0), lambda x: np.delete(x, x > 0)),
    "trim_zeros": (lambda x: mx.trim_zeros(x), lambda x: np.trim_zeros(x)),
    "trim_zeros, front": (lambda x: mx.trim_zeros(x, "f"), lambda x: np.trim_zeros(x, "f")),
    "trim_zeros, back": (lambda x: mx.trim_zeros(x, "b"), lambda x: np.trim_zeros(x, "b")),
    "repeat": (
        lambda x: mx.repeat(x, jnp.abs(jnp.nan_to_num(x, posinf=1, neginf=0)).astype(int), max_size=40),
        lambda x: np.repeat(x, np.abs(np.nan_to_num(x, posinf=1, neginf=0)).astype(int)),
    ),
    "repeat twice": (lambda x: mx.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "unique": (
        lambda x: mx.unique(x, return_index=True, return_inverse=True, return_counts=True),
        lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
    ),
    "union1d": (lambda x: mx.union1d(x, x[::-1] + 1), lambda x: np.union1d(x, x[::-1] + 1)),
    "intersect1d": (lambda x: mx.intersect1d(x, x + 1), lambda x: np.intersect1d(x, x + 1)),
    "setdiff1d": (lambda x: mx.setdiff1d(x, x + 1), lambda x: np.setdiff1d(x, x + 1)),
    "boolean read": (lambda x: mx.at(x)[x > 0].get(), lambda x: x[x > 0]),
    "chained": (
        lambda x: mx.compress(mx.compress(x > -3, x) < 3, mx.compress(x > -3, x)),
        lambda x: x[(x > -3) & (x < 3)],
    ),
    "joined": (
        lambda x: jnp.concatenate([mx.compress(x > 0, x), mx.compress(x < 0, x)]),
        lambda x: np.concatenate([x[x > 0], x[x < 0]]),
    ),
    "used as a size": (
        lambda x: jnp.ones((mx.flatnonzero(x > 0).shape[0] + 1, 2)).cumsum(0),
        lambda x: np.ones(((x > 0).sum() + 1, 2)).cumsum(0),
    ),
}
NAN_DIFFERS = {"intersect1d", "setdiff1d", "union1d", "trim_zeros"}  # in NumPy itself, from version to version


def test_equals_numpy():
    """All in one program, compiled once; and as they stand, outside of everything."""
    with mx.testing.count_compilations("everything") as compilations:

        def everything(xs):
            return {name: mx.vmap(ours)(xs) for name, (ours, _) in FUNCTIONS.items()}

        f = jax.jit(everything)
        found = jax.device_get(f(batch(HOLES)))
        f(batch([np.float32([1])] * len(HOLES)))  # other outcomes
    assert compilations.count == 1
    for name, (ours, plain) in FUNCTIONS.items():
        for i, row in enumerate(ROWS if name in NAN_DIFFERS else HOLES):
            want = jax.tree.leaves(plain(row))
            got = jax.tree.map(lambda xs, i=i: xs[i], found[name], is_leaf=lambda x: isinstance(x, mx.Ragged))
            outside = [(ours(row), "outside")] if i < 1 or not len(row) else []  # JAX compiles each operation there
            for results, where in [(got, "in mx.vmap"), *outside]:
                for a, b in zip(jax.tree.leaves(results), want, strict=True):
                    np.testing.assert_array_equal(a, b, f"{name} of {row}, {where}")


@pytest.mark.parametrize("size", [0, 1, 2])
def test_of_few_elements(size):
    """In arrays of a static size, of which JAX takes `x[:k]` of one element for all of it."""
    masked = jax.jit(mx.mask(lambda x: {name: ours(x) for name, (ours, _) in FUNCTIONS.items()}, [None]))
    for row in np.float32([[-1, -1], [2, 0], [0, 3]]):
        found = mx.unpad(*masked([row[:size]], {}))
        for name, (_, plain) in FUNCTIONS.items():
            for a, b in zip(jax.tree.leaves(found[name]), jax.tree.leaves(plain(row[:size])), strict=True):
                np.testing.assert_array_equal(a, b, f"{name} of {row[:size]}")


def test_run_lengths_and_bincount_and_split():
    rows = [np.int32([3, 3, 0, 1, 1, 1]), np.int32([2]), np.int32([]), np.int32([5, 0, 5])]

    def several(x):
        values, lengths = mx.run_lengths(x)
        back = mx.repeat(values, lengths, max_size=x.shape[0])
        return values, lengths, back, mx.bincount(x, max_size=6), mx.split(x, [jnp.sum(x > 2), -1])

    found = jax.device_get(jax.jit(mx.vmap(several))(batch(rows)))
    for i, row in enumerate(rows):
        want = [*run_lengths(row), row, np.bincount(row), *numpy_split(np.where(row > 2, 1, 0))]
        got = [xs[i] for xs in jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, mx.Ragged))]
        for a, b in zip(got[:4], want[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert [len(part) for part in got[4:]] == [len(part) for part in want[4:]]
        np.testing.assert_array_equal(np.concatenate(got[4:]), row[: sum(map(len, got[4:]))])


def test_several_axes():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((4, 3)) < 0.5, rng.normal(size=(4, 3)), 0).astype(np.float32)
    padded = np.full((6, 5), np.nan, np.float32)
    padded[:4, :3] = x

    def several(x):
        return (
            mx.nonzero(x),
            mx.argwhere(x),
            mx.compress(x[:, 0] > 0, x, 0),
            mx.compress(x[0] > 0, x, 1),
            mx.at(x)[x > 0].get(),
        )

    got, shapes = jax.jit(mx.mask(several, ["n, m"]))([padded], {"n": 4, "m": 3})
    want = np.nonzero(x), np.argwhere(x), x[x[:, 0] > 0], x[:, x[0] > 0], x[x > 0]
    jax.tree.map(np.testing.assert_array_equal, mx.unpad(got, shapes), want)


def test_boolean_updates():
    x = np.float32([[1, 2], [3, 4], [5, 6]])
    keep, both = np.array([True, False, True]), x > 2
    for how in "set", "add", "multiply", "min", "max":
        numpy = {"set": lambda a, b: b, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[
            how
        ]
        for mask, values in [(keep, np.float32([[7, 3], [2, 9]])), (keep, np.float32(4)), (both, np.float32(4))]:
            want = x.copy()
            want[mask] = numpy(want[mask], values)
            update = lambda x, mask, values, how=how: getattr(mx.at(x)[mask], how)(values)
            close(update(x, mask, values), want)
            padded = np.full((5, 2), np.nan, np.float32)
            padded[:3] = x
            kept = np.ones((5, *mask.shape[1:]), bool)
            kept[:3] = mask
            spec = "n" if mask.ndim == 1 else "n, _"
            masked = jax.jit(mx.mask(functools.partial(update, values=values), ["n, _", spec], "n, _"))
            close(masked([padded, kept], {"n": 3})[:3], want)
    with pytest.raises(TypeError, match="at: booleans of 1 to 2 dimensions are needed, not int32"):
        mx.at(x)[jnp.array([0, 1])]


def loss(w, x):  # poles at 0, where padding lies; no gradient through the choice
    positive = mx.compress(w * x > 0, w * x)
    return jnp.sum(jnp.log(positive)) + jnp.sum(jnp.sin(mx.at(x)[x < 1].get() * w)) / jnp.asarray(x.shape[0] + 1)


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives(order):
    rows = [row for row in ROWS if len(row)]
    xs, w = batch(rows), jnp.float32(1.5)
    derivative = lambda f: jax.grad(f, (0, 1)) if order == 1 else jax.jacfwd(jax.grad(f, (0, 1)), (0, 1))
    masked = mx.mask(loss, [None, "n"], "")
    of_row = lambda x, n: derivative(lambda w, x: masked([w, x], {"n": n}))(w, x)
    found = jax.jit(jax.vmap(of_row))(xs.data, xs.lengths)
    for i, row in enumerate(rows):
        want = derivative(loss)(w, jnp.asarray(row))
        got = jax.tree.map(lambda g, want, i=i: g[i][tuple(map(slice, want.shape))], found, want)
        jax.tree.map(functools.partial(close, rtol=1e-4, atol=1e-5), got, want)
    padding = np.arange(8) >= np.array([len(row) for row in rows])[:, None]
    assert order == 2 or not np.any(found[1][padding])


def test_random_sizes():
    def mean_of_draws(key):
        count, draws = jax.random.split(key)
        k = mx.dynamic_size(jax.random.randint(count, (), 1, 101), 100)
        return jax.random.normal(draws, (k,)).mean(), jnp.arange(k).sum(), 2 * k + 1

    keys = jax.random.split(jax.random.key(0), 20)
    found = jax.jit(mx.vmap(mean_of_draws))(keys)
    for i, key in enumerate(keys):
        jax.tree.map(close, jax.tree.map(lambda x, i=i: x[i], found), mean_of_draws(key))


X = jnp.array([1.0, -1, 2, -3, 4])
positive = lambda x: mx.compress(x > 0, x)
jitted = jax.jit(positive)


def ones(x):
    return jnp.ones((mx.dynamic_size(jnp.sum(x > 0), 5), 3)).sum()


# A size in every kind of program inside the function; what must come out is written without one.
PLACES = {
    "scan": (
        lambda x: jax.lax.scan(lambda c, v: (c + positive(x - v).sum(), ones(x - v)), 0.0, x)[1],
        [6.0, 9, 3, 12, 0],
    ),
    "over": (lambda x: jax.lax.scan(lambda c, v: (c * 0.5 + v, None), 0.0, positive(x))[0], 5.25),
    "while": (
        lambda x: jax.lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + positive(x * c[1]).sum()), (0, 1.0)
        )[1],
        512.0,
    ),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, lambda x: positive(x).sum(), lambda x: ones(x), x), 7.0),
    "checkpoint": (lambda x: jax.checkpoint(lambda x: positive(x).prod() + ones(x))(x), 17.0),
    "gradient": (lambda x: jax.grad(lambda x: (jitted(x) ** 2).sum() * ones(x))(x), [18.0, 0, 36, 0, 72]),
    "jit, twice": (lambda x: jitted(x).sum() * jitted(-x).sum() + jitted(x).shape[0], 31.0),
    "left over": (lambda x: jnp.zeros(x.shape[0] - jitted(x).shape[0]).sum() + x.sum(), 3.0),
    "mx.vmap": (lambda x: mx.vmap(lambda v: positive(x - v).sum())(x), [4.0, 10, 2, 18, 0]),
}


@pytest.mark.parametrize("spec", [None, "n"])
def test_in_every_place(spec):
    masked = mx.mask(lambda x: {name: place(x) for name, (place, _) in PLACES.items()}, [spec])
    x = X if spec is None else jnp.concatenate([X, jnp.full(2, jnp.nan)])
    for f in jax.jit(masked), masked:
        found = f([x], {} if spec is None else {"n": 5})[0]
        for name, (_, want) in PLACES.items():
            close(found[name][:5] if np.ndim(found[name]) else found[name], want, err_msg=name)


def test_nested_batches():
    xs = mx.ragged([X, X[:2]])
    found = mx.vmap(lambda x: mx.vmap(lambda v: positive(x - v))(x))(xs)
    want = [[np.asarray(row[row > v] - v) for v in row] for row in (np.asarray(X), np.asarray(X[:2]))]
    for got, rows in zip(found.to_list(), want):
        for i, row in enumerate(rows):
            close(got[i][: len(row)], row)
    assert found.sizes["k2"].to_list()[1].tolist() == [len(row) for row in want[1]]


def test_a_plain_jitted_function_returns_one_row():
    found = jitted(X)
    assert repr(found) == "Ragged(f32[k0<=5], k0=3)"
    assert mx.unpad({"a": found, "b": X})["a"].tolist() == [1, 2, 4]
    assert mx.unpad(mx.vmap(positive)(jnp.stack([X, -X])))[1].tolist() == [1, 3]
    close(jax.jit(jax.grad(lambda x: jitted(x).data.sum()))(X), [1, 0, 1, 0, 1])


def test_no_size_gets_lost():
    few = lambda x: mx.compress(x > 0, x, max_size=2)
    for call in lambda: few(X), lambda: mx.mask(few, [None])([X], {}), lambda: mx.vmap(few)(mx.ragged([X, X])):
        with pytest.raises(mx.SizeError, match="is 3, out of range: it runs from 0 to 2"):
            call()
    error, (_, shape) = checkify.checkify(jax.jit(mx.mask(few, [None])), errors=checkify.user_checks)([X], {})
    assert "is 3, out of range" in error.get() and shape.shape == (2,)
    with pytest.raises(mx.UnmaskableError, match=r"test_dynamic.py.* used outside of the loop"):
        mx.mask(lambda x: jax.lax.map(lambda v: positive(x - v), x).sum(), [None])([X], {})
    with pytest.raises(mx.UnmaskableError, match=r"(?s)test_dynamic.py.*Use mx.vmap there"):
        mx.mask(lambda x: jax.vmap(lambda v: positive(x - v).sum())(x), [None])([X], {})
    with pytest.raises(mx.UnmaskableError, match=r"jax.jit\(mx.mask\(f, \[None\]\)\)"):
        jax.jit(lambda n: jnp.zeros(mx.dynamic_size(n, 4)))(3)
    with pytest.raises(mx.SpecError, match=r"value must be an integer scalar, not float32\[2\]"):
        mx.dynamic_size(np.float32([1, 2]), 4)
    with pytest.raises(ValueError, match="max_size is needed"):
        mx.mask(lambda x, r: mx.repeat(x, r), [None, None])([X, jnp.arange(5)], {})


def test_plans_and_row_losses():
    xs = batch(ROWS)
    for plan in None, "auto", mx.Plan(tokens_per_trip=3):
        found = jax.jit(mx.vmap(positive, plan=plan))(xs)
        assert [row.tolist() for row in found.to_list()] == [row[row > 0].tolist() for row in ROWS]
        value, gradient = mx.value_and_grad(lambda w, x: positive(w * x).sum(), in_axes=(None, 0), plan=plan)(1.0, xs)
        close((value, gradient), np.mean([row[row > 0].sum() for row in ROWS]))
    with pytest.raises(mx.UnmaskableError, match="value_and_grad: a result has a size in its shape"):
        mx.value_and_grad(lambda w, x: (positive(w * x).sum(), positive(x)), in_axes=(None, 0), has_aux=True)(1.0, xs)


def test_traces_of_other_programs_are_not_taken():
    """JAX caches what it traces of inner functions; a size made there belongs to one program."""
    helper = jax.jit(lambda x: mx.unique(x))
    assert mx.unpad(helper(X)).tolist() == sorted(X.tolist())
    for _ in range(2):
        assert mx.mask(lambda x: helper(x).sum() + helper(x * 0).shape[0], [None], "")([X], {}) == 4
    assert mx.unpad(helper(X)).tolist() == sorted(X.tolist())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int32"])
def test_counts_of_any_integers(dtype):
    """Sums of counts, and one more than the largest number, do not fit into the dtype of small integers."""
    counts, numbers = np.array([100, 100, 1], dtype), np.array([1, 127, 3, 3], dtype)
    jitted = jax.jit(
        mx.mask(lambda c, x: (mx.repeat(jnp.arange(3), c, max_size=300), mx.bincount(x, max_size=200)), [None] * 2)
    )
    for got in mx.unpad(*jitted([counts, numbers], {})), (mx.repeat(np.arange(3), counts), mx.bincount(numbers)):
        np.testing.assert_array_equal(got[0], np.repeat(np.arange(3), counts))
        np.testing.assert_array_equal(got[1], np.bincount(numbers))


@pytest.mark.parametrize(
    ("fun", "x"),
    [
        (lambda x: mx.repeat(x, x, max_size=9), [2, -1, 2]),
        (lambda x: mx.bincount(x, max_size=9), [2, -1, 2]),
        (lambda x: mx.at(x)[x > 0].set(mx.compress(x < 0, x)), [2, -1, 2, -3, 5]),
    ],
)
def test_what_numpy_raises_checkify_reports(fun, x):
    x = jnp.array(x)
    with pytest.raises(ValueError, match=r"A run-time size is -1|3 places, but 2 values"):
        fun(x)
    error, _ = checkify.checkify(jax.jit(mx.vmap(fun)), errors=checkify.user_checks)(x[None])
    assert re.search("out of range|-1 more values than places", error.get())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: mx.compress(np.ones(6, bool), x), ValueError, "shape (6,), but there are 4 slices"),
        (lambda x: mx.compress(jnp.ones(x.shape[0] + 1, bool), x), ValueError, "slices"),
        (lambda x: mx.at(x)[np.ones(6, bool)].get(), IndexError, "do not index an array of shape (4,)"),
        (lambda x: mx.at(x)[jnp.diff(x) > 0].get(), IndexError, "do not index an array of shape"),
        (lambda x: mx.at(x.astype(int))[x > 0].add(0.5), TypeError, "float32 values do not fit into int32"),
        (lambda x: mx.delete(x, np.ones(2, bool)), ValueError, "shape (2,), but there are 4 slices"),
        (lambda x: mx.delete(x, 7), IndexError, "delete: 7 is out of range for 4 slices"),
        (lambda x: mx.repeat(x, [2.0, 1.0, 0.0, 1.0]), TypeError, "must be integers, not float64"),
        (lambda x: mx.repeat(x, [2, -1, 0, 1]), ValueError, "must not be negative"),
        (lambda x: mx.bincount(x), TypeError, "integers are needed, not float32"),
        (lambda x: mx.bincount(x[None]), ValueError, "x and weights must be (n,)"),
        (lambda x: mx.trim_zeros(x, "x"), ValueError, "'f', 'b' or 'fb'"),
        (lambda x: mx.trim_zeros(x[None]), ValueError, "not (1, 4)"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call(jnp.arange(4.0))


def test_the_same_booleans_give_the_same_size():
    def fun(x):
        keep = x > 0
        inner = jax.jit(lambda x: mx.compress(keep, x).sum())(x)  # in a trace of its own: a size of its own
        return mx.compress(keep, x) * mx.at(2 * x)[keep].get() + mx.flatnonzero(keep) + inner

    for row, got in zip(ROWS, jax.jit(mx.vmap(fun))(batch(ROWS)).to_list(), strict=True):
        kept = row[row > 0]
        np.testing.assert_array_equal(got, 2 * kept**2 + np.flatnonzero(row > 0) + kept.sum())
    with pytest.raises(mx.UnmaskableError, match=r"(?s)\(k1,\).*i = maskax.flatnonzero\(keep\)"):
        mx.vmap(lambda x: mx.compress(x > 0, x) + mx.compress(x < 0, x))(batch(ROWS))


def test_known_arrays_are_numpys_under_jit_too():
    keep = np.array([True, False, True, False, True])
    close(jax.jit(lambda x: x[mx.nonzero(keep)[0]])(X), X[keep])
    close(jax.jit(lambda x: mx.repeat(x, [2, 0, 1, 0, 0]))(X), np.repeat(X, [2, 0, 1, 0, 0]))
    close(jax.lax.scan(lambda s, v: (s + x_of(keep) * v, None), 0.0, X)[0], 6 * X.sum())


def x_of(keep):
    return mx.nonzero(keep)[0].sum().astype(float)


def test_what_is_not_chosen_is_not_for_gradients():
    def fun(w, x):
        keep = ~jnp.isnan(x)
        return mx.compress(keep, mx.at(x)[keep].multiply(w)).sum()

    x = jnp.array([jnp.nan, 2.0, 3.0])
    assert jax.grad(fun)(2.0, x) == 5
    assert jax.grad(lambda w: mx.vmap(fun, in_axes=(None, 0))(w, mx.ragged([x, x[1:]])).sum())(2.0) == 10


def test_put_back_where_nothing_is_chosen():
    assert mx.at(X)[X > 99].set(mx.at(X)[X > 99].get() * 2).tolist() == X.tolist()


def test_unpad_of_batches():
    xs = jnp.stack([X, -X])
    masked = jax.vmap(lambda x: mx.mask(positive, [None])([x], {}))(xs)
    deep = jax.vmap(jax.vmap(positive))(xs[None])
    for rows in mx.unpad(*masked), mx.unpad(deep)[0]:
        assert [row.tolist() for row in rows] == [[1, 2, 4], [1, 3]]


def test_indices_stay_in_range():
    error, found = checkify.checkify(jax.jit(positive), errors=checkify.index_checks)(X)
    assert error.get() is None and mx.unpad(found).tolist() == [1, 2, 4]


def test_a_result_under_jit_is_no_array():
    with pytest.raises(AttributeError, match=r"'sum': a Ragged is no array.*mx.vmap"):
        jax.jit(lambda x: positive(x).sum())(X)
    assert not hasattr(positive, "lengths_of") and not hasattr(mx.ragged([X]), "of_no_array")
