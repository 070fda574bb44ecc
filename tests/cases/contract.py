"""Cases for contractions."""

import jax
import jax.numpy as jnp
from contract import Case
from jax import lax

FLOATS = ("float32", "float64", "bfloat16")


def attention(q, k, v):
    """Over m keys, from n queries, two heads."""
    scores = jnp.einsum("nhd,mhd->hnm", q, k) / jnp.sqrt(q.shape[-1])
    return jnp.einsum("hnm,mhd->nhd", jax.nn.softmax(scores), v)


def wide_sum(a, b):
    """Accumulated in another dtype than the operands'."""
    wide = jnp.int32 if jnp.issubdtype(a.dtype, jnp.integer) else jnp.float32
    return lax.dot_general(a, b, (((0,), (0,)), ((), ())), preferred_element_type=wide)


def infinite(a, b):
    """True infinities stay, and meet no padding: 0 * inf would be nan."""
    return jnp.where(a > 1, jnp.inf, a) @ jnp.abs(b)


def grouped(x, w, v):
    """Rows of a static number of groups, one of them empty, and rows that are in none; groups of the contraction."""
    first = jnp.minimum(2, x.shape[0])
    sizes = jnp.stack([first, 0, jnp.maximum(x.shape[0] - first - 1, 0)]).astype(jnp.int32)
    contracted = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    return lax.ragged_dot(x, w, sizes), lax.ragged_dot_general(*map(lax.stop_gradient, (x, v)), sizes, contracted)


CASES = [
    Case("grouped", grouped, ["n, 2", "3, 2, 2", "n, 2"]),
    Case("vector dot over n", lambda a, b: a @ b, ["n", "n"], (*FLOATS, "int32", "complex64")),
    Case("matmul, ragged rows", lambda a, b: a @ b, ["n, 3", "3, 2"], FLOATS[2:]),
    Case("matmul, ragged contraction", lambda a, b: a.T @ b, ["n, 3", "n, 2"], FLOATS[:1]),
    Case("matmul, trailing", lambda a, b: (a @ b, jnp.outer(b, b)), ["2, n", "n"]),
    Case("gram matrix", lambda a: (a @ a.T, a.T @ a), ["n, 3"]),
    Case("matmul, both", lambda a, b: (a @ b, b @ a), ["n, m", "m, n"]),
    Case("two contracted axes", lambda a, b: jnp.tensordot(a, b, 2), ["2, n, m", "n, m"], ("float32", "float16")),
    Case("contraction of a whole array", lambda a, b: jnp.einsum("nm,nm->", a, b), ["n, m", "n, m"]),
    Case("batched over n", lambda a, b: jnp.einsum("nij,njk->nik", a, b), ["n, 2, m", "n, m, 3"]),
    Case("three operands", lambda a, b, c: jnp.einsum("ni,ij,mj->nm", a, b, c), ["n, 2", "2, 3", "m, 3"]),
    Case("accumulated wider", wide_sum, ["n, 2", "n"], ("bfloat16", "int8")),
    Case("true infinities", infinite, ["2, n", "n"], grad=False),
    Case("attention", attention, ["n, 2, 3", "m, 2, 3", "m, 2, 3"], zero=None),
]
