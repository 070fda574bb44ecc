"""The public functions: what `mask` and `shapecheck` take, and what they return."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

X = jnp.array([1.0, 2.0, 3.0, jnp.nan, jnp.nan])


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


def total(tree):
    return sum(leaf.sum() for leaf in jax.tree.leaves(tree))


# --- arguments and specs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "specs"),
    [
        ([[X, X * 2]], [["n", "n"]]),
        (([X, X * 2],), (["n", "n"],)),
        ([(X, X * 2)], [("n", "n")]),
        ([{"a": X, "b": (X * 2,)}], [{"a": "n", "b": ("n",)}]),
        ([Pair(X, X * 2)], [Pair("n", "n")]),
        ([{"a": X, "b": (X * 2,)}], ["n"]),
        ([Pair(X, X * 2)], "n"),
        ([{"a": X, "b": (X * 2, None)}], [{"a": "n", "b": "n"}]),
    ],
)
def test_any_pytree_of_arguments_and_any_prefix_of_specs(args, specs):
    assert mx.mask(total, specs, "")(args, {"n": 3}) == 18


def test_none_means_nothing_ragged():
    masked = mx.mask(lambda w, x, scale: w["w"] * x.sum() * scale, [None, "n", None], "_")
    np.testing.assert_array_equal(masked([{"w": jnp.arange(2)}, X, 2.0], {"n": 3}), [0, 12])


def test_module_with_functions_as_leaves():
    model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))  # its activations are leaves, but no arrays
    x = jnp.arange(10.0).reshape(5, 2)
    masked = mx.mask(lambda model, x: jax.vmap(model)(x).sum(), [None, "n, 2"], "")
    plain = jax.vmap(model)(x[:3]).sum()
    np.testing.assert_allclose(masked([model, x], {"n": 3}), plain, rtol=1e-5)
    grads = eqx.filter_grad(lambda model: masked([model, x], {"n": 3}))(model)
    want = eqx.filter_grad(lambda model: jax.vmap(model)(x[:3]).sum())(model)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), grads, want)


def test_decorator():
    @functools.partial(mx.mask, in_shapes=["n"], out_shape="")
    def mean(x):
        """Of one example."""
        return x.mean()

    assert mean([X], {"n": 2}) == 1.5
    assert mean.__name__ == "mean" and mean.__doc__ == "Of one example."


def test_closed_over_weights_have_gradients():
    def loss(w):
        return mx.mask(lambda x: jnp.sum(jnp.log(x * w)), ["n"], "")([X], {"n": 3})

    np.testing.assert_allclose(jax.grad(loss)(2.0), 1.5)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.grad(loss)))(2.0), -0.75)


def test_python_scalars_keep_their_weak_type():
    masked = mx.mask(lambda x, a: x * a, ["n", None], "n")
    assert masked([X.astype(jnp.bfloat16), 2.0], {"n": 3}).dtype == jnp.bfloat16
    assert masked([jnp.arange(5), 2], {"n": 3}).dtype == jnp.int32


def test_numpy_arrays_and_scalars():
    masked = mx.mask(lambda x, s: x.sum() + s, ["n", ""], "")
    assert masked([np.asarray(X), np.float32(1)], {"n": 3}) == 7
    assert masked([np.asarray(X), 1.0], {"n": 3}) == 7


@pytest.mark.parametrize("spec", ["n,_", "(n, _)", "(n, 2)", "n, ...", " n , 2 "])
def test_both_grammars(spec):
    x = jnp.ones((4, 2))
    assert mx.mask(jnp.sum, [spec], "")([x], {"n": 3}) == 6


# --- sizes -------------------------------------------------------------------------------------------------------

INTEGERS = [getattr(np, f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", [int, *INTEGERS], ids=lambda d: d.__name__)
def test_sizes_of_every_integer_type(dtype):
    masked = mx.mask(jnp.sum, ["n"], "")
    long = jnp.ones(300)
    assert masked([long], {"n": dtype(120)}) == 120
    if dtype is not int:
        lengths = np.array([0, 3, 120], dtype)
        np.testing.assert_array_equal(jax.vmap(masked, (None, 0))([long], {"n": lengths}), [0, 3, 120])
        got = jax.jit(jax.vmap(masked, (None, 0)))(
            [long],
            {
                "n": jnp.asarray(
                    np.array([0, 3, 120], dtype).astype(dtype if np.dtype(dtype).itemsize < 8 else np.int32)
                )
            },
        )
        np.testing.assert_array_equal(got, [0, 3, 120])


def test_sizes_under_x64():
    with jax.enable_x64(True):
        lengths = jnp.array([1, 3], jnp.int64)
        got = jax.jit(jax.vmap(mx.mask(jnp.sum, ["n"], ""), (None, 0)))([jnp.arange(5.0)], {"n": lengths})
        np.testing.assert_array_equal(got, [0, 3])


def test_two_arguments_of_different_padded_size_share_a_size():
    masked = mx.mask(lambda x, y: x + y, ["n", "n"], "n")
    out = masked([jnp.arange(4.0), jnp.arange(6.0)], {"n": 3})
    np.testing.assert_array_equal(out, [0, 2, 4, 0])  # padded to the smaller of the two
    with pytest.raises(mx.SizeError, match="'n' runs from 0 to 4"):
        masked([jnp.arange(4.0), jnp.arange(6.0)], {"n": 5})


def test_padded_size_that_no_size_reaches():
    masked = mx.mask(lambda x: x * 2, ["2*n"], "2*n")
    x = jnp.arange(7.0)
    np.testing.assert_array_equal(masked([x], {"n": 3}), [0, 2, 4, 6, 8, 10])
    np.testing.assert_array_equal(jax.grad(lambda x: masked([x], {"n": 2}).sum())(x), [2, 2, 2, 2, 0, 0, 0])


def test_expressions_in_arguments():
    masked = mx.mask(lambda x, y: x[: y.shape[0]].sum() + y.sum(), ["n + 1", "n"], "")
    assert masked([jnp.ones(5), jnp.ones(4)], {"n": 0}) == 0
    assert masked([jnp.ones(5), jnp.ones(4)], {"n": 4}) == 8


def test_nothing_padded_and_size_zero_padded():
    masked = mx.mask(jnp.sum, ["n"], "")
    assert masked([jnp.zeros(0)], {"n": 0}) == 0
    assert jax.vmap(masked)([jnp.zeros((2, 0))], {"n": jnp.zeros(2, int)}).shape == (2,)
    np.testing.assert_array_equal(mx.mask(jnp.cumsum, ["n"], "n")([jnp.arange(4)], {"n": 4}), [0, 1, 3, 6])


def test_no_sizes_at_all():
    assert mx.mask(jnp.sum, [None], "")([jnp.ones(3)], {}) == 3


# --- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", [0, -1.5, np.nan, np.inf])
def test_fill(fill):
    out = mx.mask(lambda x: x + 1, ["n"], "n", fill=fill)([X], {"n": 2})
    np.testing.assert_array_equal(out, [2, 3, fill, fill, fill])


def test_fill_of_integers_and_booleans():
    fun = lambda x: {"i": x, "b": x > 0}
    out = mx.mask(fun, ["n"], "n", fill=1)([jnp.arange(4)], {"n": 2})
    np.testing.assert_array_equal(out["i"], [0, 1, 1, 1])
    np.testing.assert_array_equal(out["b"], [False, True, True, True])


def test_logical_shapes_without_out_shape():
    masked = mx.mask(lambda x: {"pairs": x[:, None] + x, "sum": x.sum(), "joined": jnp.concatenate([x, x])}, ["n"])
    outputs, shapes = masked([X], {"n": 3})
    assert jax.tree.structure(outputs) == jax.tree.structure(shapes, is_leaf=lambda s: isinstance(s, mx.LogicalShape))
    assert shapes["pairs"].shape == (3, 3) and shapes["sum"].shape == () and shapes["joined"].shape == (6,)
    assert shapes["joined"].dtype == jnp.float32 and outputs["joined"].shape == (10,)
    compiled = jax.jit(masked)([X], {"n": 2})[1]
    assert compiled["pairs"].shape == (2, 2)
    batched = jax.jit(jax.vmap(masked))([jnp.stack([X, X])], {"n": jnp.array([1, 3])})[1]
    np.testing.assert_array_equal(batched["joined"].shape[0], [2, 6])


@pytest.mark.parametrize(
    ("fun", "in_shapes", "out_shape"),
    [
        (lambda x, y: jnp.concatenate([x, x]), ["n", "m, 2"], "2*n"),
        (lambda x, y: x[1:], ["n", "m, 2"], "n+-1"),
        (lambda x, y: jnp.ones((y.shape[0] + 1, 15)), ["n", "m, 2"], "(m + 1, 15)"),
        (lambda x, y: x[:, None] * y.sum(1), ["n", "m, 2"], "n, m"),
        (lambda x, y: y, ["n", "m, 2"], "m, _"),
        (lambda x, y: y, ["n", "m, 2"], "(m, ...)"),
        (lambda x, y: y[0], ["n", "m, 2"], None),
        (lambda x, y: (x, [y, x.sum()]), ["n", "m, 2"], ("n", ["m, 2", ""])),
        (lambda x, y: (x, x), ["n", "m, 2"], ["n", "n"]),
        (lambda x, y: {"a": x, "b": x}, ["n", "m, 2"], "n"),
        (lambda x, y: x[::2], ["n", "m, 2"], "floordiv(n + 1, 2)"),
        (lambda x, y: x[: y.shape[0]], ["n", "m, 2"], "min(n, m)"),
    ],
)
def test_out_shape(fun, in_shapes, out_shape):
    x, y = jnp.arange(5.0), jnp.arange(8.0).reshape(4, 2)
    out = mx.mask(fun, in_shapes, out_shape)([x, y], {"n": 3, "m": 2})
    want = fun(x[:3], y[:2])
    for a, b in zip(jax.tree.leaves(out), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a[tuple(map(slice, b.shape))], b)


# --- constraints -------------------------------------------------------------------------------------------------


def test_constraint_lets_a_comparison_be_decided():
    def first_two(x):
        return x[:2] if x.shape[0] >= 2 else x[:1]

    masked = mx.mask(first_two, ["n"], "2", constraints=["n >= 2"])
    np.testing.assert_array_equal(masked([X], {"n": 3}), [1, 2])
    with pytest.raises(mx.SizeError, match=r"the constraint 'n >= 2' does not hold\."):
        masked([X], {"n": 1})
    with pytest.raises(mx.SizeError, match=r"the constraint 'n >= 2' does not hold in row \[1\]\."):
        jax.vmap(masked)([jnp.stack([X, X])], {"n": jnp.array([2, 1])})
    assert jax.jit(masked)([X], {"n": 1}).shape == (2,)  # unknown while tracing: see checkify


def test_two_names_that_are_always_equal():
    for constraint in ("n == m", "m == n"):
        masked = mx.mask(lambda x, y: x + y, ["n", "m"], "n", constraints=constraint)
        np.testing.assert_array_equal(masked([X, jnp.ones(4)], {"n": 2, "m": 2}), [2, 3, 0, 0])
        with pytest.raises(mx.SizeError, match="does not hold"):
            masked([X, jnp.ones(4)], {"n": 2, "m": 1})


def test_constraint_between_two_sizes():
    masked = mx.mask(lambda x, y: x[: y.shape[0]] - y, ["n", "k"], "k", constraints=["k <= n"])
    np.testing.assert_array_equal(masked([X, jnp.ones(3)], {"n": 3, "k": 2}), [0, 1, 0])
    with pytest.raises(mx.SizeError, match="'k <= n'"):
        masked([X, jnp.ones(3)], {"n": 1, "k": 2})


def test_equality_constraint():
    masked = mx.mask(
        lambda x: x.reshape(x.shape[0] // 2, 2).sum(1), ["n"], "floordiv(n, 2)", constraints=["mod(n, 2) == 0"]
    )
    np.testing.assert_array_equal(masked([jnp.arange(6.0)], {"n": 4}), [1, 5, 0])
    with pytest.raises(mx.SizeError, match=r"mod\(n, 2\) == 0"):
        masked([jnp.arange(6.0)], {"n": 3})


# --- shapecheck --------------------------------------------------------------------------------------------------


def test_shapecheck():
    def matvec(a, x):
        return a @ x

    assert mx.shapecheck(["(m, n)", "n"], "m")(matvec) is matvec
    assert mx.shapecheck(["(m, n)", "n"], "m", matvec) is matvec
    assert functools.partial(mx.shapecheck, ["(m, n)", "n"], "m")()(matvec) is matvec
    mx.shapecheck([{"a": "n, _"}, "(_, 2)"], "n, 2")(lambda d, w: d["a"].sum(1, keepdims=True) * w[0])
    with pytest.raises(mx.ShapeError, match=r"the result has the logical shape \(m,\), but the declared one is 'n'"):
        mx.shapecheck(["(m, n)", "n"], "n")(matvec)
    with pytest.raises(mx.SpecError, match=r"in_shapes\[1\] must be a shape string"):
        mx.shapecheck(["n", None], "n")(matvec)


def test_arguments_and_results_that_are_none():
    x, y = jnp.arange(1.0, 6.0), jnp.arange(10.0, 15.0)
    masked = mx.mask(lambda p, x, y: (None, x.sum(), y.sum()), [None, "n", None], (None, "", ""))
    assert masked([None, x, y], {"n": 2}) == (None, 3, 60)


def test_results_that_are_constants_are_arrays():
    outputs = mx.mask(lambda x: (1.5, np.ones(3), x), ["n"], ("", "_", "n"))([jnp.ones(3)], {"n": 2})
    assert all(isinstance(out, jax.Array) for out in outputs)


def test_wide_numpy_arrays_are_taken_as_jax_takes_them():
    outputs = mx.mask(lambda x: 2 * x, ["n"], "n")([np.arange(3.0)], {"n": np.int64(2)})
    assert outputs.dtype == jnp.float32 and outputs.tolist() == [0, 2, 0]
