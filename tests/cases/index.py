"""Cases for gather and the dynamic slices: indices are clipped, filled and dropped by the true size."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import lax

SOME = ("float32", "bool", "complex64")

Exact = functools.partial(Case, exact=True)


def indices(spec, low=0, high=2, dtype=np.int32):
    """Integers of `[low, high]`; what lies in their padding is poisoned with the extremes of the dtype."""
    return Arg(spec, values=lambda rng, shape: rng.integers(low, high + 1, shape).astype(dtype))


def every_mode(x, i):
    fill = 5 if jnp.issubdtype(x.dtype, jnp.number) else None
    return [
        x[i],
        x.at[i].get(mode="clip"),
        x.at[i].get(mode="fill"),
        x.at[i].get(mode="fill", fill_value=fill),
        x.at[i].get(mode="fill", wrap_negative_indices=False),
        x.at[i].get(mode="clip", wrap_negative_indices=False),
    ]


def checked_modes(x, i):
    return [x.at[i].get(mode="clip"), x.at[i].get(mode="fill", fill_value=5)]


def windows(mode):
    """`lax.gather` of windows of 2 by 3 at run-time places."""
    numbers = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    return lambda x, i: lax.gather(x, i, numbers, (2, 3), mode=mode, fill_value=9)


def narrow_gather(x, i):
    """Indices that stay `uint8`, in which neither -1 nor the size of a long array exists."""
    numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, i[:, None], numbers, (1,), mode="clip")


def row_of(x, i):
    return lax.dynamic_index_in_dim(x, i, keepdims=False)


CASES = [
    # The gradient of a gather that promised to stay in bounds and did not is anyone's: none is compared.
    Exact("gather from a static table", every_mode, ["4, 2", indices("n", -6, 6)], SOME, grad=False),
    Exact(
        "gather from a ragged table", every_mode, ["n + 1, 2", indices("m", -8, 8)], ("float32", "uint8"), grad=False
    ),
    Exact("gather from an empty table", every_mode, ["n", indices("3", -8, 8)], zero=None, grad=False),
    Exact("gradient of every mode", checked_modes, ["n + 1, 2", indices("m", -8, 8)]),
    Exact("gradient of in-bounds gathers", lambda x, i: [x[i], x[-i]], ["n + 2", indices("m", 0, 1)]),
    Exact("gather many axes of indices", lambda x, i: x[i], ["n + 1, m", indices("k, 2", -1, 0)]),
    Exact("index along an inner axis", lambda x, i: [x[:, i], x.T[i]], ["n, 3", indices("m", -3, 2)]),
    Exact(
        "take",
        lambda x, i: [jnp.take(x, i, 0), jnp.take(x, i, 1, mode="clip"), jnp.take(x, i)],
        ["n + 1, 3", indices("m", 0, 2)],
    ),
    Exact(
        "promise in bounds",
        lambda x, i: [x.at[i % x.shape[0]].get(mode="promise_in_bounds"), x.at[i].get(mode="promise_in_bounds")],
        ["n + 1", indices("m", 0, 0)],
    ),
    Exact(
        "pairs of indices",
        lambda x, i, j: [x[i, j], x[i, 0], x[i][:, j]],
        ["n + 1, m + 1", indices("k", -1, 0), indices("k")],
    ),
    Exact(
        "indices of other dtypes",
        lambda x, i, j: [x[i], x[j]],
        ["n + 3", indices("m", 0, 2, np.uint8), indices("m", -3, 2, np.int8)],
    ),
    Exact("take along an axis", lambda x, i: jnp.take_along_axis(x, i, 1), ["n, m + 1", indices("n, k", 0, 0)]),
    Exact("sort by take along an axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0), ["n, m"]),
    Exact("rows by their own index", lambda x, i: x[jnp.arange(x.shape[0]), i], ["n, 3", indices("n")], SOME),
    Exact(
        "gather under vmap", lambda x, i: jax.vmap(lambda row, i: row[i])(x, i), ["n, m + 1", indices("n, 2", -1, 0)]
    ),
    Exact("one index for all", lambda x, i: jax.vmap(lambda row: row[i])(x), ["m, n + 1", indices("k", -1, 0)]),
    Exact("one table for all", lambda x, i: jax.vmap(lambda i: x[i])(i), ["n + 1", indices("m, 2", -1, 0)]),
    Exact("windows, clipped", windows("clip"), ["n + 2, m + 3", indices("k, 2", -2, 5)]),
    Exact("windows, filled", windows("fill"), ["n + 2, m + 3", indices("k, 2", -2, 5)]),
    Exact(
        "windows of a short table", windows("clip"), ["n, 4", indices("2, 2", 0, 1)], constraints=["n >= 2"], least=2
    ),
    Exact(
        "indices from sizes", lambda x: [x[jnp.arange(x.shape[0])], x[jnp.asarray(x.shape[0]) - 1]], ["n, 2"], zero=None
    ),
    Exact("numpy indices", lambda x: [x[np.int32([0, 2, -1])], x[:, np.int32([1, 1])]], ["n, 2"], least=3),
    Exact("numpy masks", lambda x: x[:, np.array([True, False, True])], ["n, 3"]),
    Exact(
        "where",
        lambda x, b: [jnp.where(b, x, -x), jnp.where(b[:, None], x[:, None], x[None])],
        ["n", Arg("n", dtype="bool")],
    ),
    Exact(
        "gradient of a gather",
        lambda x, i: jax.grad(lambda x: jnp.sum(x[i] ** 2))(x),
        ["n + 1, 2", indices("m", -2, 6)],
    ),
    Case(
        "embedding",
        lambda table, i: jnp.tanh(table[i]).sum(0),
        ["4, 3", indices("n", 0, 3)],
        ("float32", "bfloat16", "float64"),
    ),
    # Not beyond 601 mod 256, where JAX 0.10's own gradient is lost (it clips by the wrapped bound).
    Exact("narrow indices", narrow_gather, ["200*k + 1", indices("m", 0, 80, np.uint8)], ("float32", "float64")),
    Exact("a table of indices", lambda x, i: x[i[:, None], i[None]], ["n + 1, n + 1", indices("m", 0, 0)]),
    Exact(
        "insert and delete", lambda x: [jnp.insert(x, 1, 9.0), jnp.append(x, 2.0), jnp.delete(x, 0)], ["n"], zero=None
    ),
    # --- dynamic slices
    Exact(
        "dynamic slice",
        lambda x, i: [lax.dynamic_slice(x, (i, 0), (2, 1)), row_of(x, i), x.at[i].get()],
        ["n + 2, 2", indices("", 0, 7)],
        ("float32", "bool"),
    ),
    Exact("dynamic slice of an empty row", row_of, ["n", indices("", -2, 7)], zero=0),
    Exact(
        "dynamic slice of run-time width",
        lambda x, i: [
            lax.dynamic_slice(x, (i,), (x.shape[0] - 1,)),
            lax.dynamic_slice(x, (i,), (x.shape[0],)),
            lax.dynamic_slice_in_dim(x, i, x.shape[0] // 2),
        ],
        ["n", indices("", 0, 3)],
        zero=None,
    ),
    Exact(
        "dynamic slice of a static operand",
        lambda x, y, i: lax.dynamic_slice(x, (i,), y.shape),
        ["9", "n", indices("", 0, 9)],
    ),
    Exact("dynamic slices under vmap", lambda x, i: jax.vmap(row_of)(x, i), ["n, m + 1", indices("n", -1, 4)]),
    Exact(
        "dynamic update by a static piece",
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0)),
        ["n + 2, 2", "2, 1", indices("", 0, 7)],
        ("float32", "uint8"),
    ),
    Exact(
        "dynamic update by a ragged piece",
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)),
        ["n + 4", "m", indices("", 0, 7)],
    ),
    Exact(
        "dynamic update of a static operand",
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0)),
        ["7, 2", "n, 1", indices("", 0, 7)],
    ),
    Exact(
        "dynamic update of one place",
        lambda x, i: lax.dynamic_update_index_in_dim(x, x[0], i, 0),
        ["n, 2", indices("", 0, 7)],
        zero=None,
    ),
]
