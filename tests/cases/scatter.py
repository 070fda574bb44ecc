"""Cases for scatter: what lies in the padding of indices or updates is written nowhere."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import lax

from cases.index import indices

Exact = functools.partial(Case, exact=True)

METHODS = ("set", "add", "multiply", "min", "max")


def every_method(x, i, y):
    return [getattr(x.at[i], method)(y, unique_indices=True) for method in METHODS]


def every_mode(x, i, y):
    modes = [{}, {"mode": "clip"}, {"mode": "drop"}, {"mode": "drop", "wrap_negative_indices": False}]
    return [getattr(x.at[i], method)(y, **mode) for method in METHODS for mode in modes]


def distinct(spec, low=0, stride=1):
    """Indices that differ: a set at one place twice is not defined."""
    return Arg(spec, values=lambda rng, shape: (low + stride * np.arange(shape[0])).astype(np.int32))


def add_windows(x, i, y):
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
    )
    return [scatter(x, i[:, None], y, numbers) for scatter in (lax.scatter_add, lax.scatter_min, lax.scatter_max)]


def narrow_add(x, i, y):
    """Indices that stay `uint8`: 255 is a true place. (JAX itself drops what is above 299 % 256.)"""
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    return lax.scatter_add(x, i[:, None], y, numbers)


CASES = [
    Exact("scatter, every mode", every_mode, ["n + 1, 2", distinct("m", -2, 2), "m, 2"], grad=False),
    Case("scatter", every_method, ["n + 4, 2", distinct("m"), "m, 2"]),
    Case("scatter to a static table", every_method, ["9, 2", distinct("n", -1), "n, 2"]),
    Exact("scatter integers", every_mode, ["n + 1", distinct("m", -2, 2), "m"], ("int32", "uint8")),
    Exact("scatter booleans", lambda x, i, y: x.at[i].set(y), ["n + 1", distinct("m", -1), "m"], ("bool",)),
    Case(
        "add twice to one place",
        lambda x, i, y: x.at[i].add(y),
        ["n", indices("m", -3, 5), "m"],
        ("float32", "bfloat16", "complex64"),
        zero=None,
    ),
    Case("subtract", lambda x, i, y: x.at[i].subtract(y), ["n + 1", indices("m", -3, 5), "m"]),
    Case("apply", lambda x, i: x.at[i].apply(jnp.sin), ["n + 1", distinct("m", -2, 2)], grad=False),
    Case("divide and power", lambda x, i: [x.at[i].divide(3.0), x.at[i].power(2.0)], ["n + 1", distinct("m")]),
    Exact(
        "set a scalar", lambda x, i: [x.at[i].set(7), x.at[:, 0].set(1), x.at[i, 1].set(3)], ["n + 1, 2", distinct("m")]
    ),
    Exact(
        "set one place",
        lambda x, y, i: [x.at[0].set(y), x.at[-1].set(y), x.at[i].set(y)],
        ["n + 1", "", indices("", 0, 7)],
    ),
    Exact("set one place of an empty row", lambda x, y: [x.at[0].set(y), x.at[-1].add(y)], ["n", ""], zero=None),
    Exact(
        "set a slice",
        lambda x: [
            x.at[1:].set(x[:-1]),
            x.at[:-1].set(x[1:]),
            x.at[::2].set(x[::2][::-1]),
            x.at[1::2].set(False),
            x.at[::-1].set(x),
        ],
        ["n + 1, 2"],
        ("float32", "bool"),
    ),
    Case(
        "add to a slice", lambda x: [x.at[:-1].add(x[1:]), x.at[1:].multiply(x[:-1]), x.at[1:].min(x[:-1])], ["n + 1"]
    ),
    Case("max over a slice", lambda x: [x.at[:, 1:].max(x[:, :-1]), x.at[1:, :-1].add(x[:-1, 1:])], ["n + 1, m + 1"]),
    Exact(
        "set the head of a static buffer",
        lambda x, y: [x.at[: y.shape[0]].set(y), x.at[: y.shape[0], 1].set(0)],
        ["6, 2", "n, 2"],
    ),
    Exact("set pairs", lambda x, i, j, y: x.at[i, j].set(y), ["n + 1, m + 1", distinct("k", -1), distinct("k"), "k"]),
    Case("add in an inner axis", lambda x, i, y: x.at[:, i].add(y), ["n, m + 1", indices("k", -1, 0), "n, k"]),
    Exact("set the diagonal", lambda x: x.at[jnp.arange(x.shape[0]), jnp.arange(x.shape[0])].set(0), ["n, n"]),
    Case("add windows", add_windows, ["n + 2", indices("k", -1, 7), "k, 2"]),
    Case("add ragged windows", lambda x, i, y: add_windows(x, i, y), ["n + 4", indices("k", 0, 3), "k, m"]),
    Case(
        "scatter under vmap",
        lambda x, i, y: jax.vmap(lambda x, i, y: x.at[i].add(y))(x, i, y),
        ["n, m + 1", indices("n, k", -1, 5), "n, k"],
    ),
    Exact(
        "set under vmap", lambda x, i: jax.vmap(lambda x, i: x.at[i].set(1))(x, i), ["n, m + 1", indices("n", -1, 5)]
    ),
    Case("segment sum", lambda x, i: jax.ops.segment_sum(x, i, 4), ["n, 2", indices("n", -1, 5)], ("float32", "int32")),
    Case(
        "segment max",
        lambda x, i: [jax.ops.segment_max(x, i, 4), jax.ops.segment_min(x, i, 4)],
        ["n", indices("n", 0, 3)],
    ),
    Case(
        "segments as many as rows",
        lambda x, i, y: jax.ops.segment_sum(x, i, y.shape[0]),
        ["n", indices("n", 0, 3), "m"],
        zero=None,
    ),
    Exact(
        "bincount",
        lambda i, w: [jnp.bincount(i, length=4), jnp.bincount(i, w, length=4)],
        [indices("n", 0, 3), "n"],
        exact=False,
    ),
    Case("narrow indices of a scatter", narrow_add, ["300", indices("m", 0, 40, np.uint8), "m"]),
    Exact("one hot", lambda i: [jax.nn.one_hot(i, 4), jax.nn.one_hot(i, i.shape[0])], [indices("n", -1, 4)]),
    Case(
        "gradient of a scatter",
        lambda x, i, y: jax.grad(lambda y: jnp.sum(x.at[i].set(y) ** 2))(y),
        ["n + 1", distinct("m"), "m"],
    ),
    Case("histogram of steps", lambda x, i: jnp.cumsum(jnp.zeros(x.shape[0]).at[i].add(x)), ["n", indices("n", 0, 4)]),
]
