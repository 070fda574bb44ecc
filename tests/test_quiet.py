"""Padding raises no nan: `jax_debug_nans` finds the user's own, run eagerly and with nan in all padding."""

import jax
import jax.numpy as jnp
import pytest

import maskax as mx


def attention(x):
    return jax.nn.softmax(x @ x.T) @ x


def pairwise(x):
    off = ~jnp.eye(x.shape[0], dtype=bool)
    squared = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    return jnp.sum(jnp.where(off, jnp.sqrt(jnp.where(off, squared, 1)), 0))


def recurrent(x):
    def step(carry, v):
        return jnp.log(jnp.abs(carry) + 1 / jnp.abs(v).sum()), carry

    return jax.lax.scan(step, jnp.float32(1), x)


PROGRAMS = {
    "mean": lambda x: x.mean(0),
    "standardise": lambda x: (x - x.mean(0)) / x.std(0),
    "layer norm": lambda x: (x - x.mean(1, keepdims=True)) * jax.lax.rsqrt(x.var(1, keepdims=True)),
    "logs": lambda x: jnp.log(jnp.log(1 + jnp.abs(x))),
    "norms": lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True),
    "poles after exp": lambda x: jnp.arctanh(jnp.exp(-jnp.abs(x))) + jnp.arcsin(jnp.cos(x) * 0.99),
    "powers": lambda x: jnp.abs(x) ** -1.5 + jnp.abs(x) ** x,
    "angles": lambda x: jnp.arctan2(x[:, 0], x[:, 1]),
    "softmax": lambda x: (jax.nn.softmax(x * 300, 0), jax.nn.logsumexp(x * 300, 0), jax.nn.log_softmax(x, 0)),
    "extremes": lambda x: x / x.max(0) + x[jnp.argmin(x[:, 0])],
    "geometric mean": lambda x: jnp.exp(jnp.log(jnp.abs(x)).mean(0)),
    "running": lambda x: (jnp.cumprod(x, 0), jax.lax.cumlogsumexp(x, 0, reverse=True), 1 / jnp.cumsum(x, 0)),
    "sort": lambda x: jnp.diff(jnp.sort(x, 0), axis=0) / x.shape[0],
    "median": lambda x: jnp.median(x, 0),
    "attention": attention,
    "pairwise": pairwise,
    "recurrent": recurrent,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_nan_comes_from_padding(name):
    x = jax.random.normal(jax.random.key(0), (5, 3)).at[3:].set(jnp.nan)
    masked = mx.mask(lambda w, x: PROGRAMS[name](w * x), [None, "n, _"])

    def loss(w, x):
        return sum(jnp.sum(y) for y in jax.tree.leaves(masked([w, x], {"n": 3})[0]))

    with jax.debug_nans(True):
        value, (by_w, by_x) = jax.value_and_grad(loss, (0, 1))(jnp.float32(1.1), x)
    assert jnp.isfinite(value)
    assert jnp.isfinite(by_w)
    assert jnp.all(by_x[3:] == 0)
