"""Cases for programs inside programs: calls, conditionals, while loops, linear solves."""

import functools

import jax
import jax.numpy as jnp
from contract import Arg, Case
from jax import lax

import maskax as mx


def _while_over_size(x):
    """The run-time bound is `x.shape[0]`."""

    def step(state):
        i, total = state
        return i + 1, total * 0.5 + x[i]

    return lax.while_loop(lambda s: s[0] < x.shape[0], step, (0, 0.0))[1]


def _halve_until_small(x):
    return lax.while_loop(lambda v: jnp.sum(jnp.abs(v)) > 0.5, lambda v: v * 0.5, x)


def _collatz(x):
    """One loop per element, so that under `vmap` rows, and elements, stop at different times."""

    def steps(start):
        following = lambda v: jnp.where(v % 2 == 0, v // 2, 3 * v + 1)
        return lax.while_loop(lambda s: s[0] > 1, lambda s: (following(s[0]), s[1] + 1), (start, 0))[1]

    return jax.vmap(steps)(x)


def _power_iteration(a):
    def step(state):
        v, previous, _ = state
        w = a @ v
        norm = jnp.sqrt(jnp.sum(w * w)) + 1e-6
        return w / norm, norm, previous

    done = lambda s: jnp.abs(s[1] - s[2]) > 1e-2
    return lax.while_loop(done, step, (jnp.ones(a.shape[0]), jnp.float32(1), jnp.float32(0)))[1]


def _branches_of_shapes(x, y):
    """Both branches give `f32[n]`, out of operands of several ragged shapes."""
    return lax.cond(jnp.sum(x) > 0, lambda a, b: a + b.sum(1), lambda a, b: jnp.log(a * a + 1) * b.max(1), x, y)


def _switch(i, x):
    return lax.switch(i, [jnp.sum, jnp.max, lambda v: jnp.sum(jnp.sqrt(jnp.abs(v) + 0.1)), lambda v: v[0] * 2], x)


def _cg(a, b):
    spd = a @ a.T + jnp.eye(a.shape[0])
    return jax.scipy.sparse.linalg.cg(lambda v: spd @ v, b, tol=1e-7)[0]


def _jacobi(matrix, b):
    diagonal = jnp.diagonal(matrix)
    return lax.fori_loop(0, 60, lambda _, x: x + (b - matrix @ x) / diagonal, jnp.zeros_like(b))


def _linear_solve(weights, b):
    """Not symmetric; differentiated through `solve` and `transpose_solve`, not through the loop."""
    rows = jnp.exp(0.1 * weights)
    matrix = jnp.diag(rows) + 0.1 * jnp.outer(b * 0 + 1.0, weights) / 4
    return lax.custom_linear_solve(
        lambda v: matrix @ v, b, lambda _, r: _jacobi(matrix, r), lambda _, r: _jacobi(matrix.T, r)
    )


def _symmetric_solve(weights, b):
    diagonal = jnp.exp(0.1 * weights)
    return lax.custom_linear_solve(lambda v: diagonal * v, b, lambda _, r: r / diagonal, symmetric=True)


@jax.custom_batching.custom_vmap
def _scaled(x, y):
    return x * 2 + y


@_scaled.def_vmap
def _(axis_size, in_batched, x, y):
    return jnp.asarray(x) * 2 + jnp.asarray(y), True


@functools.partial(jax.jit, static_argnums=1)
def _jitted(x, power):
    return jnp.sum(x**power)


def _checkpointed(policy=None):
    @functools.partial(jax.checkpoint, policy=policy)
    def block(x, w):
        return jnp.tanh(x @ w) / jnp.sqrt(jnp.sum(x * x) + 1)

    return lambda x, w: jnp.sum(block(block(x, w), w), axis=0)


def _ragged_vmap(x, y):
    return jax.vmap(lambda row: jnp.log(jnp.sum(jnp.exp(row - y))))(x)


def _outer_vmap(x, y):
    return jax.vmap(jax.vmap(lambda a, b: jnp.sqrt(a * a + b * b + 0.1), (None, 0)), (0, None))(x, y)


def _fori_static(x):
    return lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) + i, x)


def _fori_over_size(x):
    return lax.fori_loop(0, x.shape[0], lambda i, total: total * 0.9 + x[i] * i, jnp.float32(0))


def _fori_writes(x):
    return lax.fori_loop(1, x.shape[0], lambda i, v: v.at[i].set(v[i - 1] + v[i]), x)


def _fori_from_data(start, x):
    """The first step is known only from data: at `exp(0) = 1` where `start` is 0."""
    first = jnp.exp(start).astype(jnp.int32)
    return lax.fori_loop(first, x.shape[0], lambda i, total: total + x[i] * i, jnp.float32(0))


def _fori_per_element(x, stops):
    sums = lambda a, stop: lax.fori_loop(0, stop, lambda i, t: t * 0.5 + a, jnp.float32(0))
    return jax.vmap(sums)(x, stops)


@functools.partial(lax.composite, name="maskax.test")
def _composite(x):
    return jnp.log(jnp.exp(x).sum()) * x


def _nested(x, sizes):
    """A masked function mapped over a ragged axis of another one's."""
    return jax.vmap(mx.mask(lambda row: jnp.log(row).sum(), ["k"], ""))([x], {"k": sizes})


CONTROL_DTYPES = ("float32", "float64")

CASES = [
    Case("while to the size", _while_over_size, ["n"], grad=False, zero=0),
    Case("while until small", _halve_until_small, ["n"], CONTROL_DTYPES, grad=False),
    Case("while per element", _collatz, [Arg("n", 1, 9)], ("int32",)),
    Case("power iteration", _power_iteration, [Arg("n, n", 0.5, 1.5)], grad=False, zero=None, tolerance=10),
    Case("fori, static", _fori_static, ["n"], CONTROL_DTYPES),
    Case("fori over n", _fori_over_size, ["n"], zero=0),
    Case("fori over n, writing", _fori_writes, ["n"], ("float32", "int32"), zero=0),
    Case("fori from data to n", _fori_from_data, [Arg("", 0, 0), "n"], grad=False, zero=0),
    Case("fori per element", _fori_per_element, ["n", Arg("n", 0, 4, "int32")], grad=False),
    Case("cond, predicate from data", _branches_of_shapes, ["n", "n, m"], CONTROL_DTYPES, zero=None),
    Case("cond, predicate from the size", lambda x: lax.cond(jnp.asarray(x.shape[0]) > 2, jnp.sum, jnp.prod, x), ["n"]),
    Case("cond over a vmapped axis", lambda x: jax.vmap(lambda v: lax.cond(v > 0, jnp.exp, jnp.cos, v))(x), ["n"]),
    Case("switch", _switch, [Arg("", 0, 3, "int32"), "n"], CONTROL_DTYPES, zero=None),
    Case("lax.map over n", lambda x: lax.map(lambda row: jnp.sum(jnp.log(row * row + 1)), x), ["n, m"], CONTROL_DTYPES),
    Case("vmap over ragged rows", _ragged_vmap, ["n, m", "m"], zero=None, least=1),
    Case("vmap of vmap, both ragged", _outer_vmap, ["n", "m"], CONTROL_DTYPES),
    Case("jit inside", lambda x: _jitted(x, 2) + _jitted(x, 3), ["n"], ("float32", "int32", "bfloat16")),
    Case("jit of jit with closure", lambda x: jax.jit(lambda y: jax.jit(lambda z: z * x.sum())(y) + y)(x), ["n"]),
    Case("nested masks", _nested, [Arg("n, 4", 0.5, 2), Arg("n", 0, 4, dtype="int32")]),
    Case("composite", _composite, ["n"], grad=False),
    Case("checkpoint", _checkpointed(), ["n, 3", "3, 3"], CONTROL_DTYPES),
    Case("checkpoint, dots saved", _checkpointed(jax.checkpoint_policies.dots_saveable), ["n, 3", "3, 3"]),
    Case("checkpoint, nothing saved", _checkpointed(jax.checkpoint_policies.nothing_saveable), ["n, 3", "3, 3"]),
    Case("conjugate gradients", _cg, [Arg("n, 3", -1, 1), "n"], CONTROL_DTYPES, tolerance=20),
    Case("linear solve, transposed", _linear_solve, ["n", "n"], CONTROL_DTYPES, tolerance=5),
    Case("linear solve, symmetric", _symmetric_solve, ["n", "n"], CONTROL_DTYPES),
    Case("custom_vmap", lambda x: jnp.sum(_scaled(x, jnp.exp(x))), ["n"], grad=False),
    Case("custom_vmap under vmap", lambda x, y: jax.vmap(_scaled)(x, y), ["n, 2", "n, 2"]),
    Case(
        "optimization barrier", lambda x, y: lax.optimization_barrier((x + 1, y.sum())), ["n", "n, m"], CONTROL_DTYPES
    ),
]
