"""Layers of flax, equinox and optax as they are, of one example: `mx.testing.check` compares the unpadded call."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import maskax as mx

X = jax.random.normal(jax.random.key(1), (6, 4))
KEY = jax.random.key(0)


class LinenConvolutions(linen.Module):
    """Strided and dilated, with two norms in between."""

    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.GroupNorm(2)(linen.Conv(8, (3,), strides=2, padding="SAME")(x)))
        return linen.LayerNorm()(linen.Conv(4, (3,), kernel_dilation=2, padding="SAME")(x))


class NnxConvolutions(nnx.Module):
    """As above."""

    def __init__(self, rngs):
        self.first = nnx.Conv(4, 8, (3,), strides=2, padding="SAME", rngs=rngs)
        self.group = nnx.GroupNorm(8, 2, rngs=rngs)
        self.second = nnx.Conv(8, 4, (3,), kernel_dilation=2, padding="SAME", rngs=rngs)
        self.layer = nnx.LayerNorm(4, rngs=rngs)

    def __call__(self, x):
        return self.layer(self.second(nnx.relu(self.group(self.first(x)))))


LINEN = {
    "attention": linen.MultiHeadDotProductAttention(num_heads=2),
    "LSTM": linen.RNN(linen.OptimizedLSTMCell(5)),
    "GRU": linen.RNN(linen.GRUCell(5)),
    "bidirectional": linen.Bidirectional(linen.RNN(linen.LSTMCell(3)), linen.RNN(linen.GRUCell(3))),
    "convolutions": LinenConvolutions(),
    "group norm": linen.GroupNorm(2),
    "layer norm": linen.LayerNorm(),
    "layer norm of all": linen.LayerNorm(reduction_axes=(0, 1), feature_axes=1),
    "instance norm": linen.InstanceNorm(),
    "dense": linen.Dense(3),
}


@pytest.mark.parametrize("name", LINEN)
def test_linen(name):
    module = LINEN[name]
    mx.testing.check(module.apply, [None, "n, _"], module.init(KEY, X), X)


NNX = {
    "attention": lambda rngs: nnx.MultiHeadAttention(2, 4, 8, decode=False, rngs=rngs),
    "LSTM": lambda rngs: nnx.RNN(nnx.OptimizedLSTMCell(4, 5, rngs=rngs)),
    "GRU": lambda rngs: nnx.RNN(nnx.GRUCell(4, 5, rngs=rngs)),
    "bidirectional": lambda rngs: nnx.Bidirectional(
        nnx.RNN(nnx.LSTMCell(4, 3, rngs=rngs)), nnx.RNN(nnx.GRUCell(4, 3, rngs=rngs))
    ),
    "convolutions": NnxConvolutions,
    "layer norm of all": lambda rngs: nnx.LayerNorm(4, reduction_axes=(0, 1), rngs=rngs),
}


@pytest.mark.parametrize("name", NNX)
def test_nnx(name):
    graph, weights, rest = nnx.split(NNX[name](nnx.Rngs(0)), nnx.Param, ...)

    def fun(weights, rest, x):  # `rest` counts draws: an RNN draws its first carry
        return nnx.merge(graph, weights, rest)(x)

    mx.testing.check(fun, [None, None, "n, _"], weights, rest, X)


class EquinoxGRU(eqx.Module):
    """A cell in a scan, as equinox's own examples write it."""

    cell: eqx.nn.GRUCell

    def __call__(self, x):
        step = lambda state, v: (self.cell(v, state),) * 2
        return jax.lax.scan(step, jnp.zeros(5), x)


EQUINOX = {
    "MLP": (lambda: eqx.nn.MLP(4, 2, 8, 2, key=KEY), lambda module, x: jax.vmap(module)(x)),
    "attention": (lambda: eqx.nn.MultiheadAttention(2, 4, key=KEY), lambda module, x: module(x, x, x)),
    "GRU": (lambda: EquinoxGRU(eqx.nn.GRUCell(4, 5, key=KEY)), lambda module, x: module(x)),
    "convolution": (lambda: eqx.nn.Conv1d(4, 3, 3, 2, padding="SAME", key=KEY), lambda module, x: module(x.T)),
    "transposed": (lambda: eqx.nn.ConvTranspose1d(4, 3, 3, 2, padding=1, key=KEY), lambda module, x: module(x.T)),
    "group norm": (lambda: eqx.nn.GroupNorm(2, 4), lambda module, x: module(x.T)),
    "layer norm": (lambda: eqx.nn.LayerNorm(4), lambda module, x: jax.vmap(module)(x)),
}


@pytest.mark.parametrize("name", EQUINOX)
def test_equinox(name):
    make, call = EQUINOX[name]
    weights, rest = eqx.partition(make(), eqx.is_inexact_array)
    mx.testing.check(lambda weights, x: call(eqx.combine(weights, rest), x), [None, "n, _"], weights, X)


@pytest.mark.parametrize("pool", [eqx.nn.MaxPool1d, eqx.nn.AvgPool1d])
def test_equinox_pools(pool):
    mx.testing.check(lambda x: pool(2, 2, padding=1)(x.T), ["n, _"], X)


@pytest.mark.parametrize("library", ["linen", "nnx", "equinox"])
def test_dropout(library):
    def fun(key, x):
        if library == "linen":
            return linen.Dropout(0.5, deterministic=False).apply({}, x, rngs={"dropout": key})
        if library == "nnx":
            return nnx.Dropout(0.5, deterministic=False)(x, rngs=nnx.Rngs(dropout=key))
        return eqx.nn.Dropout(0.5)(x, key=key)

    mx.testing.check(lambda x: fun(KEY, x), ["n, _"], X)


def test_batch_norm():
    """Over all true positions of a batch, by sums and counts: as flax's `BatchNorm` of the rows laid end to end."""
    rows = [X[:2], X[:0], X, 3 * X[1:]]
    norm = linen.BatchNorm(use_running_average=False, momentum=0.9)
    variables = norm.init(KEY, X)
    weights = jax.tree.map(lambda w: w + 0.5, variables["params"])

    def of_row(weights, state, x):  # (n, c)
        total, squares, count = jax.lax.psum((x.sum(0), (x**2).sum(0), x.shape[0]), "rows")
        mean = total / count
        var = squares / count - mean**2
        state = {"mean": 0.9 * state["mean"] + 0.1 * mean, "var": 0.9 * state["var"] + 0.1 * var}
        return (x - mean) / jnp.sqrt(var + norm.epsilon) * weights["scale"] + weights["bias"], state

    def ours(weights, xs):
        mapped = mx.vmap(of_row, in_axes=(None, None, 0), out_axes=(0, None), axis_name="rows")
        ys, state = mapped(weights, variables["batch_stats"], xs)
        return ys.to_packed(len(X) + 7).values, state

    def theirs(weights, rows):
        state = {"params": weights, "batch_stats": variables["batch_stats"]}
        ys, state = norm.apply(state, jnp.concatenate(rows), mutable="batch_stats")
        return ys, state["batch_stats"]

    def values_and_gradients(fun, xs):
        ys, pullback = jax.vjp(fun, weights, xs)
        return ys, pullback(jax.tree.map(jnp.cos, ys))

    xs = mx.ragged(rows)
    xs = mx.Ragged(jnp.asarray(xs.to_padded(jnp.nan)), xs.sizes, xs.dims)
    ys, (by_weights, by_xs) = values_and_gradients(ours, xs)
    plain, (by_weights_plain, by_rows) = values_and_gradients(theirs, rows)
    padded = mx.ragged(by_rows).to_padded()
    for got, expected in zip(
        jax.tree.leaves((ys, by_weights, by_xs.data)), jax.tree.leaves((plain, by_weights_plain, padded)), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_cross_entropy():
    labels = jnp.array([0, 3, 1, 1, 2, 0])

    def loss(x, labels):
        return optax.softmax_cross_entropy_with_integer_labels(x, labels).mean()

    mx.testing.check(loss, ["n, _", "n"], X, labels)


def test_ctc():
    labels = jnp.array([1, 2, 2])

    def loss(x, labels):
        steps, letters = jnp.zeros((1, x.shape[0])), jnp.zeros((1, labels.shape[0]))
        return optax.ctc_loss(x[None], steps, labels[None], letters)[0]

    mx.testing.check(loss, ["n, _", "m"], X, labels, sizes={"n": [4, 6, 6], "m": [1, 2, 3]})
