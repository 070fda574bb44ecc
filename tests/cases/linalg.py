"""Cases for linear algebra. Bases are compared by what does not depend on signs."""

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from contract import Arg, Case
from jax import lax


def definite(rng, shape):
    """Well-conditioned matrices of which every leading block is one, with positive eigenvalues."""
    a = rng.uniform(-1, 1, shape)
    return (0.2 * (a + np.swapaxes(a, -1, -2)) + np.diag(np.arange(2.0, 2 + shape[-1]))).astype(np.float32)


def general(rng, shape):
    """Matrices, square or not, with singular values well apart in every leading block."""
    a = 0.3 * rng.uniform(-1, 1, shape)
    return (a + np.eye(*shape[-2:]) * np.arange(1.0, 1 + shape[-1])).astype(np.float32)


SQUARE = Arg("n, n", values=definite)


def factors(a, b):
    """Cholesky and both triangles, from both sides."""
    c = jnp.linalg.cholesky(a)
    return [
        c,
        jsl.cho_solve(jsl.cho_factor(a), b),
        jsl.solve_triangular(a, b, lower=True),
        jsl.solve_triangular(a, b, trans=1, unit_diagonal=True),
        lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True),
    ]


def solutions(a, b):
    return [jnp.linalg.solve(a, b), jnp.linalg.inv(a), *jsl.lu(a)]


def determinants(a):
    sign, log = jnp.linalg.slogdet(a)
    return [jnp.linalg.det(a), sign, jnp.exp(log)]


def eigen(a):
    w, v = jnp.linalg.eigh(a)
    return [w, (v * jnp.sin(w)) @ v.T, jnp.abs(v)]


def singular(a):
    """Values, what is even in the vectors, and a function of the matrix."""
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return [s, jnp.abs(u), jnp.abs(vt), (u * jnp.sin(s)) @ vt]


def through_svd(a):
    return [jnp.linalg.pinv(a), jnp.linalg.cond(a), jnp.linalg.norm(a, "nuc"), jnp.linalg.norm(a, 2)]


def of_complex(a):
    z = lax.complex(a, 0.2 * a[::-1])
    hermitian = z @ z.T.conj() + jnp.eye(a.shape[0])
    return [jnp.linalg.cholesky(hermitian), jnp.linalg.eigvalsh(hermitian), jnp.linalg.inv(z), *jnp.linalg.qr(z)]


def static_bases(a):
    """Tall for certain, with static columns."""
    return [*jnp.linalg.qr(a), *singular(a), *jsl.qr(a, mode="economic", pivoting=True), *lax.linalg.lu(a)]


def stack(a):
    """A ragged number of matrices."""
    return [jnp.linalg.cholesky(a), *jnp.linalg.eigh(a)[:1], jnp.linalg.svd(a, compute_uv=False), jnp.linalg.qr(a)[1]]


def loop(a, xs):
    """Steps past a row's end find a matrix that is no longer definite."""

    def step(a, x):
        return a - x * x * jnp.eye(2), jnp.linalg.cholesky(a).sum() + jnp.linalg.svd(a)[0].sum()

    return lax.scan(step, a @ a.T + 40 * jnp.eye(2), xs)


def without_derivatives(a, b):
    """Reflections, Schur and eigenvalues of general matrices, bands, wide pivots."""
    packed, taus = jnp.linalg.qr(a, mode="raw")
    reduced, hessenberg_taus = lax.linalg.hessenberg(a)
    t, z = jsl.schur(a)
    w, v = jnp.linalg.eig(a)
    factors, pivots, order = lax.linalg.lu(a)
    return [
        *(packed, taus, lax.linalg.householder_product(packed, taus), reduced, hessenberg_taus),
        lax.linalg.ormqr(packed, taus, b),
        *(z @ t @ z.T, jnp.abs(t.diagonal()), w, jnp.abs(v), jsl.expm(0.1 * a), jnp.linalg.matrix_power(a, -2)),
        *(factors, pivots, order, lax.linalg.lu_pivots_to_permutation(pivots, a.shape[0])),
        *lax.linalg.tridiagonal(a + a.T)[1:],
        lax.linalg.symmetric_product(a, a.T),
        lax.linalg.tridiagonal_solve(a[:, 0], a.diagonal(), a[0], b),
    ]


def band(low, diagonal, high, b):
    return lax.linalg.tridiagonal_solve(low, 4 + diagonal, high, b)


GENERAL = Arg("n, n", values=general)

CASES = [
    Case("linalg: factors", factors, [SQUARE, "n, k"], tolerance=5),
    Case("linalg: solve, inv, lu", solutions, [SQUARE, "n, 2"], tolerance=20, forward=False),
    Case("linalg: det", determinants, [SQUARE], tolerance=20, zero=1),
    Case("linalg: eigh", eigen, [SQUARE], tolerance=20),
    Case("linalg: svd, rectangular", singular, [Arg("n, k", values=general)], tolerance=20),
    Case("linalg: through svd", through_svd, [GENERAL], tolerance=20, zero=None, forward=False),
    Case("linalg: qr, rectangular", jnp.linalg.qr, [Arg("n, k", values=general)], tolerance=20),
    Case(
        "linalg: static columns",
        static_bases,
        [Arg("n, 2", values=general)],
        constraints=["n >= 2"],
        least=2,
        forward=False,
    ),
    Case("linalg: stacks", stack, [Arg("k, 2, 2", values=definite)], tolerance=5, forward=False),
    Case("linalg: loops", loop, ["2, 2", Arg("n")], tolerance=5, forward=False),
    Case("linalg: no derivatives", without_derivatives, [SQUARE, "n, 2"], grad=False, tolerance=20, zero=None),
    Case("linalg: complex", of_complex, [GENERAL], tolerance=20, forward=False),
    Case("linalg: tridiagonal", band, ["n", "n", "n", "n, 2"], tolerance=5),
]
