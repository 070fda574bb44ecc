"""Cases for scans: over a ragged length, with ragged carries, nested, and with bodies of every kind."""

import jax
import jax.numpy as jnp
from contract import Arg, Case
from jax import lax


def _sums(x):
    return lax.scan(lambda c, v: (c + v, c * 2), jnp.zeros(x.shape[1:], x.dtype), x)


def _reverse(x):
    return lax.scan(lambda c, v: (0.5 * c + v, c), jnp.float32(0), x, reverse=True)


def _carry_tree(x, w):
    def step(carry, v):
        h, stats = carry
        h = jnp.tanh(w @ h + v)
        return (h, {"n": stats["n"] + 1, "max": jnp.maximum(stats["max"], h)}), (h, h.sum())

    start = jnp.zeros(3, x.dtype), {"n": 0, "max": jnp.full(3, -1, x.dtype)}
    return lax.scan(step, start, x)


def _positions(x):
    """Only the length comes from the size."""
    return lax.scan(lambda carry, i: (carry * 0.9 + i, carry), jnp.float32(0), jnp.arange(x.shape[0]))[1] * x


def _draws(keys, x):
    step = lambda total, item: (total + jax.random.normal(item[0], (2,)) * item[1], total)
    return lax.scan(step, jnp.zeros(2), (keys, x))


def _split_keys(seed, x):
    keys = jax.random.split(jax.random.key(seed), x.shape[0])
    return lax.scan(lambda c, item: (c + jax.random.uniform(item[0]) * item[1], c), jnp.float32(0), (keys, x))


def _key_carry(seed, x):
    def step(carry, v):
        key, total = carry
        key, used = jax.random.split(key)
        return (key, total + v * jax.random.normal(used)), jax.random.uniform(used)

    (_, total), draws = lax.scan(step, (jax.random.key(seed), jnp.float32(0)), x)
    return total, draws


def _shorter(x):
    return lax.scan(lambda c, ab: (c * 0.5 + ab[0] - ab[1], c), jnp.float32(1), (x[1:], x[:-1]))


def _ragged_carry(x, w):
    """A static number of steps over a carry of ragged shape."""

    def step(h, a):
        h = jnp.tanh(h * a + jnp.sum(h))
        return h, jnp.log(jnp.sum(jnp.exp(h)))

    return lax.scan(step, x, w)


def _ragged_in_ragged(x):
    """For each of n steps a scan over m; the carry of the outer one is ragged in m."""

    def outer(carry, row):
        total, running = lax.scan(lambda c, v: (c + v, c * v), carry.sum(), row)
        return carry * 0.5 + running, total

    return lax.scan(outer, jnp.ones(x.shape[1]), x)


def _scan_in_scan(x, steps):
    def outer(carry, v):
        carry, inner = lax.scan(lambda c, s: (jnp.sin(c + s * v), c), carry, steps)
        return carry, inner.sum()

    return lax.scan(outer, jnp.ones((), x.dtype), x)


def _reverse_in_forward(x):
    """Suffix sums of each row, then a running product of their first elements."""

    def outer(carry, row):
        _, suffix = lax.scan(lambda c, v: (c + v, c + v), jnp.float32(0), row, reverse=True)
        return carry * (1 + 0.1 * suffix[0]), suffix

    return lax.scan(outer, jnp.float32(1), x)


def _pole_at_the_frozen_carry(x):
    """After the last element the carry is exactly 0, where a further step would take its log and divide by it."""
    step = lambda c, v: (c - v, jnp.log(c) + 1 / c + jnp.sqrt(c))
    return lax.scan(step, jnp.sum(x), x)


def _growing_carry(x):
    """Past a row's end the body would overflow if the carry were not frozen."""
    return lax.scan(lambda c, v: (jnp.exp(c * v), c**3), jnp.float32(1), x)


def _inverse_in_body(x):
    def step(c, v):
        return c - v * c, jnp.linalg.solve(jnp.eye(2) * c + 0.1, jnp.ones(2))

    return lax.scan(step, jnp.float32(2), x)


def _cond_in_body(x):
    step = lambda c, v: (lax.cond(v > 0, lambda c: c + jnp.log(v * v + 1), lambda c: c * 0.5, c), c)
    return lax.scan(step, jnp.float32(1), x)


def _while_in_body(x):
    def step(c, v):
        c = lax.while_loop(lambda s: jnp.abs(s) > 1, lambda s: s / 2, c + v)
        return c, c

    return lax.scan(step, jnp.float32(0), x)


def _ragged_body_arrays(x, q):
    """Attention of a running query over all keys, in every step."""

    def step(state, row):
        weights = jax.nn.softmax(x @ state)
        return jnp.tanh(weights @ x + row), weights

    return lax.scan(step, q, x)


def _lstm(x, w_in, w_h, b):
    def step(carry, v):
        h, c = carry
        i, f, g, o = jnp.split(w_in @ v + w_h @ h + b, 4)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (jnp.zeros(2, x.dtype), jnp.zeros(2, x.dtype)), x)


def _gru(x, w_in, w_h):
    def step(h, v):
        a, b = w_in @ v, w_h @ h
        r, z = jax.nn.sigmoid(a[:2] + b[:2]), jax.nn.sigmoid(a[2:4] + b[2:4])
        h = (1 - z) * jnp.tanh(a[4:] + r * b[4:]) + z * h
        return h, h

    return lax.scan(step, jnp.zeros(2, x.dtype), x, reverse=True)


def _bidirectional(x):
    forward = lax.scan(lambda c, v: (0.9 * c + v, c), jnp.float32(0), x)[1]
    backward = lax.scan(lambda c, v: (0.9 * c + v, c), jnp.float32(0), x, reverse=True)[1]
    return jnp.stack([forward, backward], axis=1)


def _decoder(x, y):
    """The last state of one scan starts the next, over another length."""
    state, _ = lax.scan(lambda c, v: (jnp.tanh(c + v), None), jnp.float32(0), x)
    return lax.scan(lambda c, v: (jnp.tanh(c - v), c), state, y)


def _checkpointed_body(x, w):
    @jax.checkpoint
    def step(c, v):
        c = jnp.tanh(w @ c + v)
        return c, jnp.log(c * c + 1)

    return lax.scan(step, jnp.zeros(3), x)


def _unrolled(x):
    return lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.float32(0), x, unroll=2)


def _inside_vmap(x):
    """One scan per static row, batched by `vmap` inside the function."""
    return jax.vmap(lambda row: lax.scan(lambda c, v: (jnp.sin(c + v), c), jnp.float32(0), row), in_axes=1)(x)


def _matrix_scan(x):
    """Rows that are ragged too, summed into a ragged carry."""
    return lax.scan(lambda c, row: (c + row, c.max(initial=-9)), jnp.zeros(x.shape[1]), x)


def _last_true(flags):
    return lax.scan(lambda c, v: (jnp.where(v[1], v[0], c), c), -1, (jnp.arange(flags.shape[0]), flags))


def _twice(x):
    return lax.scan(lambda c, v: (c + v, c), jnp.float32(0), jnp.concatenate([x, x * 2]))


KEYS = Arg("n", values=lambda rng, shape: jax.random.split(jax.random.key(3), shape), differentiable=False)
SEED = Arg("", 0, 99, "int32")
FLOATS = ("float32", "float64")

CASES = [
    Case("scan, sums and rows", _sums, ["n, 2"], (*FLOATS, "bfloat16", "int32", "complex64")),
    Case("scan, reverse", _reverse, ["n"]),
    Case("scan, carry is a tree", _carry_tree, ["n, 3", "3, 3"]),
    Case("scan, only a length", _positions, ["n"]),
    Case("scan, keys as xs", _draws, [KEYS, "n"]),
    Case("scan, split keys", _split_keys, [SEED, "n"]),
    Case("scan, key as carry", _key_carry, [SEED, "n"]),
    Case("scan, length n - 1", _shorter, ["n"], zero=None),
    Case("scan, ragged carry", _ragged_carry, ["n", "3"], zero=None),
    Case("scan, ragged in ragged", _ragged_in_ragged, ["n, m"]),
    Case("scan in scan", _scan_in_scan, ["n", "m"], FLOATS),
    Case("scan, reverse in forward", _reverse_in_forward, ["n, m"], zero=None),
    Case("scan, pole at the frozen carry", _pole_at_the_frozen_carry, [Arg("n", 0.5, 2)], tolerance=500),
    Case("scan, overflow past the end", _growing_carry, [Arg("n", -0.5, 0.5)]),
    Case("scan, solve in the body", _inverse_in_body, [Arg("n", 0.9, 1.0)], tolerance=100),
    Case("scan, cond in the body", _cond_in_body, ["n"]),
    Case("scan, while in the body", _while_in_body, ["n"], grad=False),
    Case("scan, attention in the body", _ragged_body_arrays, ["n, 2", "2"]),
    Case("LSTM", _lstm, ["n, 3", "8, 3", "8, 2", "8"], FLOATS),
    Case("GRU, reverse", _gru, ["n, 3", "6, 3", "6, 2"]),
    Case("scan, both directions", _bidirectional, ["n"]),
    Case("scan, encoder and decoder", _decoder, ["n", "m"]),
    Case("scan, checkpointed body", _checkpointed_body, ["n, 3", "3, 3"]),
    Case("scan, checkpointed whole", jax.checkpoint(_sums), ["n, 2"]),
    Case("scan, unroll", _unrolled, ["n"]),
    Case("scan under vmap inside", _inside_vmap, ["n, 2"]),
    Case("scan, rows ragged too", _matrix_scan, ["n, m"]),
    Case("scan, int carry and bools", _last_true, [Arg("n", dtype="bool")], ("int32",)),
    Case("scan over 2n", _twice, ["n"]),
]
