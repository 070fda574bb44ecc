"""Cases for contractions."""

import jax.numpy as jnp

from contract import Case

FLOATS = ("float32", "float64", "bfloat16")

CASES = [
    Case("vector dot over n", lambda a, b: a @ b, ["n", "n"], (*FLOATS, "int32", "complex64")),
    Case("matmul, ragged rows", lambda a, b: a @ b, ["n, 3", "3, 2"], FLOATS),
    Case("matmul, ragged contraction", lambda a, b: a.T @ b, ["n, 3", "n, 2"], FLOATS),
    Case("gram matrix", lambda a: a @ a.T, ["n, 3"]),
    Case("matmul, both", lambda a, b: a @ b, ["n, m", "m, n"]),
    Case("batched over n", lambda a, b: jnp.einsum("nij,njk->nik", a, b), ["n, 2, m", "n, m, 3"]),
]
