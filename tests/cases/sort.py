"""Cases for sorting and ranking."""

import jax
import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import lax


def ties(rng, shape):
    """Few distinct values, with nan and both infinities and both zeros among them."""
    return rng.choice(np.float32([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]), shape)


def distinct(rng, shape):
    """Distinct values: derivatives of a sort jump at ties."""
    return (rng.permutation(int(np.prod(shape))).reshape(shape) / 7).astype(np.float32)


def several(a, b):
    """Two keys and a payload, stable; and one key with two payloads, not stable but with distinct keys."""
    payload = lax.iota(jnp.int32, a.shape[0])
    return [
        *lax.sort((a, b, payload), num_keys=2, is_stable=True),
        *lax.sort((a, payload), num_keys=1, is_stable=True),
        jnp.lexsort((b, a)),
        jnp.argsort(a),
        jnp.argsort(a, descending=True, stable=True),
    ]


def ranks(x):
    order = jnp.argsort(x)
    return x[order], jnp.argsort(order), jnp.sort(x, descending=True), jnp.sort(x) * jnp.arange(x.shape[0])


def best(x, k=2):
    """Values, their places, and a softmax over the best."""
    values, where = lax.top_k(x, k)
    return values, where, jax.nn.softmax(values) @ x[where]


def lowest_too(x):
    """More of the best than there are finite ones: -inf among true values comes before padding."""
    return lax.top_k(x, 2)[1], lax.top_k(jnp.full_like(x, -jnp.inf), 2)[1]


def smallest(x):
    return lax.top_k(x, 2, axis=0), lax.top_k(-x, 2, axis=0)


CASES = [
    Case("sort: n", jnp.sort, ["n"], ("float32", "bfloat16", "int32", "int8", "bool")),
    Case("sort: leading axis", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0)), [Arg("n, m", values=distinct)]),
    Case("sort: static axis", lambda x: jnp.sort(x, 0), ["3, n"]),
    Case("sort: complex", jnp.sort, ["n"], ("complex64",), grad=False),
    Case("sort: ties, nan and inf", several, [Arg("n", values=ties)] * 2, exact=True, grad=False),
    Case("sort: ties of integers", several, [Arg("n", 0, 2)] * 2, ("int32", "uint8")),
    Case("sort: ranks", ranks, [Arg("n", values=distinct)]),
    Case("sort: top_k", best, [Arg("n", values=distinct)], constraints=["n >= 2"], least=2),
    Case("sort: top_k of rows", lambda x: lax.top_k(x, 2), [Arg("n, 3", values=distinct)]),
    Case(
        "sort: top_k, trailing",
        lambda x: lax.top_k(x, 2),
        ["3, n"],
        ("float64", "float16"),
        constraints=["n >= 2"],
        least=2,
    ),
    Case("sort: top_k, leading", smallest, [Arg("n, 2", values=distinct)], constraints=["n >= 2"], least=2),
    Case(
        "sort: top_k of ties",
        lambda x: lax.top_k(x, 2),
        [Arg("n", 0, 1)],
        ("int32", "uint8"),
        constraints=["n >= 2"],
        least=2,
    ),
    Case("sort: top_k of -inf", lowest_too, [Arg("n", values=ties)], constraints=["n >= 2"], least=2, grad=False),
    Case(
        "sort: approximately the best",
        lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 2)),
        [Arg("n", values=distinct)],
        constraints=["n >= 2"],
        least=2,
    ),
    Case(
        "sort: all but the best",
        lambda x: lax.top_k(x, x.shape[0] - 1),
        [Arg("n", values=distinct)],
        zero=None,
        least=1,
    ),
]
