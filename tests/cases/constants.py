"""A nan or inf of the program's own, or of true data, must not reach padding: it would show in gradients.

In each program the plain function is finite and meets no 0 times inf; the masked one would, in the padding alone.
"""

import jax
import jax.numpy as jnp
from contract import Arg, Case

POSITIVE = Arg("n", 0.5, 2.0)


def times_mean(f):
    """What lies in the padding of `f(x)` is a factor in the gradient of the mean."""
    return lambda x: (f(x) * x.mean()).sum()


def last_is_infinite(x):
    return jnp.concatenate([x, jnp.full(1, jnp.inf)])


def first_is_infinite(x):
    return jnp.concatenate([jnp.full(1, -jnp.inf), x])


def shifted(x):
    """The shape of many dynamic programmes: a border of -inf, moved by one."""
    state = first_is_infinite(x)
    return jax.nn.logsumexp(jnp.stack([state[1:], state[:-1]]), axis=0)


def recurrence(x):
    """Inside a scan, on steps past a row's end."""
    step = lambda c, a: (c * jnp.where(a > 0.25, a, jnp.nan) * 0.5, c)
    return jax.lax.scan(step, x.mean(), x)[1]


PROGRAMS = {
    "chosen nan": times_mean(lambda x: jnp.where(x > 0.25, x, jnp.nan)),
    "chosen inf": times_mean(lambda x: jnp.where(x > 0.25, x, -jnp.inf)),
    "padded with inf": times_mean(lambda x: jnp.pad(x, (0, 2), constant_values=jnp.inf)[: x.shape[0]]),
    "cut off": times_mean(lambda x: last_is_infinite(x)[:-1]),
    "split off": times_mean(lambda x: jnp.split(first_is_infinite(x), [1])[1]),
    "strided over": times_mean(lambda x: jnp.stack([x, jnp.full(x.shape, jnp.inf)], 1).reshape(-1)[::2]),
    "not looked up": times_mean(lambda x: first_is_infinite(x)[jnp.arange(x.shape[0]) + 1]),
    "turned round": times_mean(lambda x: last_is_infinite(x)[::-1][1:]),
    "dynamic window": times_mean(lambda x: jax.lax.dynamic_slice(last_is_infinite(x), (0,), x.shape)),
    "overwritten": times_mean(lambda x: jnp.full(x.shape, jnp.nan).at[jnp.arange(x.shape[0])].set(x)),
    "shifted": times_mean(shifted),
    "recurrence": recurrence,
}

CASES = [Case(f"constants: {name}", f, [POSITIVE], zero=None) for name, f in PROGRAMS.items()]
CASES += [
    Case("constants: variance and its pole", lambda x: x * jax.lax.rsqrt(jnp.var(x, -1) + 1e-3)[:, None], ["n, 3"]),
]
