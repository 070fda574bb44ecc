"""Sizes in Python's `if`: the plain function's branch for every row, or an error."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

X = jnp.array([0.5, 0.25, 2.0, -1.0])
SIZES = range(len(X) + 1)


def masked(fun, n, **options):
    return mx.mask(fun, ["n"], **options)([X.at[n:].set(jnp.nan)], {"n": n})[0]


@dataclasses.dataclass(frozen=True)
class Config:
    size: object


@functools.cache
def double(config):
    return 2 * config.size


@pytest.mark.parametrize(
    ("asks", "constraint"),
    [
        (lambda n: n == 0, "n >= 1"),
        (lambda n: n != 2, "n >= 3"),
        (lambda n: 1 == n, "n == 1"),  # noqa: SIM300
        (lambda n: n % 2 == 0, "mod(n, 2) == 0"),
        (lambda n: n > 0, "n >= 1"),
        (lambda n: 1 <= n, "n >= 1"),  # noqa: SIM300
        (lambda n: n - 1 < 0, "n - 1 >= 0"),
        (lambda n: max(n, 1) == 1, "n >= 1"),
        (lambda n: np.clip(n, 1, 3) > 1, "n >= 1"),
        (lambda n: bool(n), "n >= 1"),
        (lambda n: not n, "n == 0"),
        (lambda n: n and True, "n >= 1"),
        (lambda n: n in (2, 3), "n == 2"),
        (lambda n: (n,) == (2,), "n == 2"),
        (lambda n: any(size == 3 for size in (4, n)), "n == 3"),
        (lambda n: n == 1.0, "n == 1"),
        (lambda n: n > 1.5, "n >= 2"),
        (lambda n: n >= np.float32(1.5), "n >= 2"),
        (lambda n: 1.5 > n, "n >= 2"),  # noqa: SIM300
        (lambda n: n <= 1.5, "n >= 2"),
    ],
)
def test_what_sizes_decide_is_refused(asks, constraint):
    with pytest.raises(mx.UnmaskableError, match=r"test_comparisons.py:\d+ .*: whether .* depends on a") as caught:
        masked(lambda x: x if asks(x.shape[0]) else -x, 2)
    assert f"constraints=({constraint!r},)" in str(caught.value)


def test_no_constraint_is_offered_for_sizes_that_the_data_decides():
    with pytest.raises(mx.UnmaskableError, match="whether k1 == 0 depends") as caught:
        masked(lambda x: x if mx.compress(x > 0, x).size == 0 else -x, 2)
    assert "constraints" not in str(caught.value) and "jnp.asarray(n)" in str(caught.value)


def test_a_constraint_settles_it():
    fun = lambda x: x.sum() / max(x.shape[0], 1) if x.size else 7.0
    for n in SIZES[1:]:
        np.testing.assert_array_equal(masked(fun, n, constraints="n >= 1"), fun(X[:n]))
    with pytest.raises(mx.SizeError, match="'n >= 1' does not hold"):
        masked(fun, 0, constraints="n >= 1")


@pytest.mark.parametrize(
    "asks",
    [
        lambda n: n >= 0,
        lambda n: n + 1 > 0,
        lambda n: n != -1,
        lambda n: n == n + 1,
        lambda n: 2 * n == n + n,
        lambda n: n <= 4,
        lambda n: n == 5,
        lambda n: n == 2.5 or n != 2.5 or n < 4.5 or n >= -0.5,
        lambda n: n is not None and n != None and n != "n",  # noqa: E711
        lambda n: (n, 3) == (n, 3),
        lambda n: double(Config(n)) == double(Config(n)) and double(Config(2 * n)) == 4 * n,
    ],
)
def test_what_no_size_changes_is_decided(asks):
    for n in SIZES:
        fun = lambda x: x.sum() if asks(x.shape[0]) else -x.sum()
        np.testing.assert_array_equal(masked(fun, n), fun(X[:n]))


@pytest.mark.parametrize(
    "values",
    [
        lambda n: n == jnp.arange(3),
        lambda n: jnp.arange(3) == n,
        lambda n: n > jnp.arange(3),
        lambda n: n != np.arange(3),
        lambda n: np.arange(3) >= n,
        lambda n: jnp.asarray(n) == 0,
        lambda n: jnp.maximum(n, 1),
        lambda n: jax.lax.cond(jnp.asarray(n) % 2 == 0, lambda: 1.0, lambda: 2.0),
    ],
)
def test_with_arrays_sizes_are_values(values):
    for n in SIZES:
        got = masked(lambda x: values(x.shape[0]), n)
        np.testing.assert_array_equal(got, np.asarray(values(n)))


def test_jax_decides_for_itself():
    def fun(x):
        return x.sum() if x.shape[0] == 1 or not x.shape[0] > 0 else -x.sum()

    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(fun))(jax.ShapeDtypeStruct((n,), jnp.float32))
    assert exported.call(X[:1]) == -X[0]


HISTOGRAMS = [
    (lambda x: jnp.histogram(x, 3)[1], "n >= 1", mx.numpy.histogram),
    (lambda x: jnp.histogram_bin_edges(x, 3), "n >= 1", mx.numpy.histogram_bin_edges),
]
"""Of nothing, an error before JAX 0.12."""


@pytest.mark.parametrize(
    ("fun", "constraint", "instead"),
    [
        *(HISTOGRAMS if jax.__version_info__ >= (0, 12) else []),
        (lambda x: jnp.fft.rfftfreq(x.shape[0]), "mod(n, 2) == 0", mx.fft.rfftfreq),
        (lambda x: jax.grad(jnp.linalg.det)(x[:, None] * x + jnp.eye(x.shape[0])), "n >= 2", None),
    ],
)
def test_functions_of_jax_that_ask(fun, constraint, instead):
    with pytest.raises(mx.UnmaskableError, match=r"test_comparisons.py.*: whether ") as caught:
        masked(fun, 2)
    assert f"constraints=({constraint!r},)" in str(caught.value)
    assert instead is None or re.search(rf"Use maskax\.\w+\.{instead.__name__.split('.')[-1]}", str(caught.value))
    got = masked(fun, 4, constraints=constraint)
    np.testing.assert_allclose(got, fun(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "fun",
    [
        jnp.cov,
        lambda x: jnp.cov(x, 2 * x),
        lambda x: jnp.corrcoef(jnp.stack([x, x**2])),
        jnp.nanmedian,
        lambda x: jnp.nanquantile(x, 0.3, keepdims=True),
        lambda x: jnp.nanpercentile(jnp.stack([x, x**2]), 30.0, axis=1),
        lambda x: jax.vmap(jnp.nanmedian)(jnp.stack([x, x**2])),
    ],
)
def test_nan_of_nothing(fun):
    for n in SIZES:
        try:
            expected = fun(X[:n])
        except (IndexError, TypeError):  # of nothing, before JAX 0.12
            expected = jax.tree.map(lambda shape: jnp.full(shape.shape, jnp.nan), jax.eval_shape(fun, X))
        np.testing.assert_allclose(masked(fun, n), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("asks", [lambda n: n in {0, 1}, lambda n: n not in {2: "two"}])
def test_what_is_looked_up_in_a_set_is_refused(asks):
    with pytest.raises(mx.UnmaskableError, match="Whether 'n' is in a set depends on a run-time size"):
        masked(lambda x: x if asks(x.shape[0]) else -x, 2)


def test_next_tokens_of_rows_of_one():
    """Nothing is gathered from an axis of size `n - 1` where that is 0."""

    def loss(w, logits, tokens):
        scores = jax.nn.log_softmax(w * logits)[:-1]
        return -jnp.take_along_axis(scores, tokens[1:, None], axis=1).sum()

    logits, tokens = jax.random.normal(jax.random.key(0), (5, 4)), jnp.array([0, 3, 1, 1, 2])
    for n in range(1, 6):
        args = logits.at[n:].set(jnp.nan), tokens.at[n:].set(99)
        of_masked = lambda w, *args, n=n: mx.mask(loss, [None, "n, _", "n"])([w, *args], {"n": n})[0]
        got = jax.value_and_grad(of_masked, argnums=(0, 1))(1.0, *args)
        value, (by_w, by_logits) = jax.value_and_grad(loss, argnums=(0, 1))(1.0, logits[:n], tokens[:n])
        by_logits = jnp.zeros_like(logits).at[:n].set(by_logits)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), got, (value, (by_w, by_logits)))
