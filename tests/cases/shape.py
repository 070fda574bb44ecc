"""Cases for primitives that place elements: all exact."""

import functools

import jax.numpy as jnp
from contract import Case
from jax import lax

ALL = ("float32", "bfloat16", "uint8", "complex64")

Exact = functools.partial(Case, exact=True)


def padded(x, lo, hi, interior=0, value=0, axis=0):
    config = [(lo, hi, interior) if a == axis else (0, 0, 0) for a in range(x.ndim)]
    return lax.pad(x, jnp.asarray(value, x.dtype), config)


def joined(x, y, z):
    return [
        jnp.concatenate([x, y]),
        jnp.concatenate([y, x, z]),
        jnp.concatenate([x.T, x.T, z.T], axis=1),
        jnp.vstack([jnp.ones((1, 2), x.dtype), x, jnp.zeros((2, 2), x.dtype)]),
    ]


CASES = [
    Exact(
        "axes",
        lambda x: [x[None], x[:, None], x.T, jnp.moveaxis(x, 0, -1), x[None].squeeze(0)],
        ["n, m"],
    ),
    Exact(
        "transpose of three", lambda x: [x.transpose(2, 0, 1), x.transpose(1, 2, 0), jnp.swapaxes(x, 0, 1)], ["n, 2, m"]
    ),
    Exact(
        "broadcast",
        lambda x, y: [
            jnp.broadcast_to(y[:1], (x.shape[0], 3)),
            jnp.broadcast_to(x[:, :1], x.shape),
            jnp.broadcast_to(x[:, None], (x.shape[0], 2, x.shape[1])),
            jnp.broadcast_to(x, (x.shape[1], *x.shape)),
            x + y,
        ],
        ["n, 3", "3"],
    ),
    Exact("concatenate", joined, ["n, 2", "m, 2", "k, 2"]),
    Exact("concatenate in the middle axis", lambda x, y: jnp.concatenate([x, y, x], axis=1), ["k, n, 2", "k, m, 2"]),
    Exact(
        "stack",
        lambda x, y: [jnp.stack([x, y]), jnp.stack([x, y], -1), jnp.hstack([x, y]), jnp.column_stack([x, y])],
        ["n", "n"],
    ),
    Exact(
        "tile and repeat",
        lambda x: [
            jnp.tile(x, 2),
            jnp.tile(x, (3, 1)),
            jnp.tile(x, (2, 2, 3)),
            jnp.repeat(x, 3),
            jnp.repeat(x, 2, axis=0),
            jnp.repeat(x, 2, axis=1),
        ],
        ["n, m"],
    ),
    Exact("roll", lambda x: [jnp.roll(x, 1), jnp.roll(x, -2), jnp.roll(x, 7)], ["n"], zero=0),
    Exact("roll by a run-time amount", lambda x, i: jnp.roll(x, i[0], axis=0), ["n, 2", "2"], ("int32",)),
    Exact(
        "diff",
        lambda x: [jnp.diff(x), jnp.diff(x, 2), jnp.diff(x, prepend=0, append=1)],
        ["n"],
        constraints=["n >= 2"],
        zero=None,
        least=2,
    ),
    Exact("ediff1d", jnp.ediff1d, ["n"], zero=None),
    Exact(
        "split",
        lambda x: [
            lax.split(x, (1, x.shape[0] - 1)),
            jnp.split(x, [x.shape[0] // 2]),
            jnp.split(x, [1, x.shape[0] // 2 + 1]),
            lax.split(x, (x.shape[0] - 1, 1)),
        ],
        ["n, 2"],
        constraints=["n >= 2"],
        least=2,
        zero=None,
    ),
    Exact("split in static places", lambda x: jnp.split(x, [1, 2], axis=1), ["n, 4"], ("float32", "bool")),
    Exact("halves", lambda x: jnp.split(x, 2), ["2*n"]),
    Exact("array_split", lambda x: jnp.array_split(x, 2, axis=1), ["n, 3"]),
    Exact(
        "basic slices",
        lambda x: [x[1:], x[:-1], x[::2], x[1::2], x[::-1], x[-3:], x[:2], x[::3, ::2], x[:, 1:], x[: x.shape[0] // 2]],
        ["n, 3"],
        ("float32", "uint8"),
    ),
    Exact("rows", lambda x: [x[0], x[-1], x[jnp.asarray(x.shape[0] // 2)], x[-1, 0]], ["n, 3"], ALL, zero=0),
    Exact("backward slices", lambda x: [x[::-2], x[-2::-1], x[2:-1], x[-1:0:-1], x[-1:]], ["n"], zero=None),
    Exact("lax.slice", lambda x: lax.slice(x, (1, 0), (x.shape[0], x.shape[1] - 1), (2, 1)), ["n + 1, m + 1"]),
    Exact(
        "flip",
        lambda x: [jnp.flip(x), jnp.flip(x, 0), x[:, ::-1], lax.rev(x, (1, 2))],
        ["n, m, 2"],
        ("float32", "bool"),
    ),
    Exact(
        "pad by constants",
        lambda x: [
            padded(x, *config) for config in [(1, 2), (0, 0, 2), (2, 0, 1), (-1, 3), (3, -1), (-1, 2, 1), (2, -2, 2)]
        ],
        ["n + 1, 2"],
        ("float32", "bool", "complex64"),
    ),
    Exact(
        "pad by n",
        lambda x, y: [
            padded(x, y.shape[0], 1),
            padded(x, 1, y.shape[0]),
            padded(x, y.shape[0], x.shape[0], 1),
            padded(x, -(x.shape[0] - 1), y.shape[0]),
            padded(x, y.shape[0] + 1, -x.shape[0], 1),
            padded(x, x.shape[0] - y.shape[0], 2 * y.shape[0]),
        ],
        ["n", "m"],
        zero=None,
    ),
    Exact(
        "pad in two axes",
        lambda x, value: [
            lax.pad(x, value, [(1, 0, 1), (2, -1, 0)]),
            lax.pad(x, value, [(x.shape[1], 0, 0), (0, 1, 2)]),
        ],
        ["n, m + 1", ""],
        zero=None,
    ),
    Exact(
        "jnp.pad",
        lambda x: [jnp.pad(x, ((1, 2), (0, 0)), constant_values=7), jnp.pad(x, ((0, x.shape[0]), (1, 0)))],
        ["n, 2"],
        ("float32", "int32"),
    ),
    Exact(
        "jnp.pad by edges",
        lambda x: [jnp.pad(x, 1, mode="edge"), jnp.pad(x, (2, 1), mode="edge")],
        ["n"],
        zero=None,
        least=2,
        constraints=["n >= 2"],
    ),
    Exact(
        "counting",
        lambda x: [
            jnp.arange(x.shape[0]),
            jnp.arange(1, x.shape[0] + 1, dtype=x.dtype) * x,
            jnp.arange(x.shape[0] - 1, -1, -1),
            jnp.ones(x.shape),
            jnp.zeros((2, *x.shape)),
            jnp.empty(x.shape),
            jnp.full(x.shape, 3),
            lax.broadcasted_iota(jnp.int32, (2, x.shape[0]), 0),
            lax.iota(jnp.float32, x.shape[0]),
            jnp.asarray(x.shape[0]) + x,
            lax.unstack(lax.stack([x, 2 * x]), 0),
        ],
        ["n"],
    ),
    Exact(
        "linspace", lambda x: jnp.linspace(0.0, 1.0, x.shape[0]), ["n"], exact=False, constraints=["n >= 2"], least=2
    ),
    Exact(
        "triangles",
        lambda x: [
            jnp.eye(x.shape[0]),
            jnp.eye(x.shape[0], x.shape[1], k=1),
            jnp.tril(x),
            jnp.triu(x, 1),
            jnp.tri(x.shape[1]),
        ],
        ["n, m"],
    ),
    Exact("diagonals", lambda x: [jnp.diag(x), x[:, None] * jnp.eye(x.shape[0])], ["n"]),
    Exact("diagonal of a matrix", lambda x: [jnp.diagonal(x), jnp.trace(x)], ["n, n"], exact=False),
    Exact("meshgrid", lambda x, y: jnp.meshgrid(x, y), ["n", "m"]),
]
