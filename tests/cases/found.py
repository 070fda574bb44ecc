"""Programs that once came out wrong, each standing for a kind."""

import jax
import jax.numpy as jnp
from contract import Arg, Case

POSITIVE = Arg("n", 0.5, 2.0)


@jax.custom_vjp
def doubled(x, w):
    return x * w


doubled.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, ct: (ct * kept[1], ct * kept[0]))


def custom_rule_in_scan(x):
    return jax.lax.scan(lambda c, a: (doubled(c, a) + 1, c), x.mean(), x)


def choice_in_scan(x):
    return jax.lax.scan(lambda c, a: (jax.lax.cond(a > 1, lambda: c * a, lambda: c), c), x.mean(), x)


def grows(x):
    """The step after the last would overflow."""
    return jax.lax.scan(lambda c, a: (c * c * a, None), jnp.float32(10) ** (2 ** (5.2 - x.shape[0])) * x[0], x)[0] > 0


def attention_with_bias(x, y, w):
    """In the padding the queries are the bias alone, and far larger logits than any true one come of it."""
    q, k = x @ w + 10, y @ w + 10
    return jax.nn.softmax(q @ k.T) @ (y @ w)


def infinite_extremes(x, w):
    """Of what an additive mask left nothing of: all tie."""
    low, high = (w * x + jnp.where(x > 99, 0.0, fill) for fill in (-jnp.inf, jnp.inf))
    return [low.max(0), low.max(), high.min(1), jnp.where(x[0] > 0, x[0], -jnp.inf).max()]


def nothing_left(x, w):
    """In the padding the mask may hold, where nothing was added up."""
    nothing = x * w > -0.4
    of_nothing = jax.nn.softmax(x * w, where=nothing)
    return [jax.nn.logsumexp(x * w, where=nothing), of_nothing * of_nothing.mean(), jnp.mean(x, where=nothing) > 0]


def infinite_from_the_end(x):
    low, high = (jnp.where(jnp.arange(x.shape[0]) < 1, x, fill) for fill in (-jnp.inf, jnp.inf))
    return [jax.lax.cummax(low, reverse=True), jax.lax.cummin(high, reverse=True)]


def made_of_infinity(x):
    inf = jnp.full(x.shape, jnp.inf)
    return [jnp.where(x == 0, y, x) for y in (-inf, inf / x, inf**2, 3 * inf, jnp.arctan2(inf, x) * -inf)]


@jax.custom_vjp
def summed(x):
    return x.sum()


summed.defvjp(lambda x: (summed(x), x.shape), lambda shape, ct: (jnp.broadcast_to(ct, shape),))


CASES = [
    Case("found: a shape as residual", lambda x: summed(jnp.sin(x)), ["n, 2"], forward=False),
    Case("found: attention with a bias", attention_with_bias,
         [Arg("n, 2", -10, -9.9), Arg("m, 2", 9.9, 10), Arg("2, 2", values=lambda rng, shape: jnp.eye(2))],
         tolerance=20, zero=None),
    Case("found: exp of copies", lambda x: jnp.exp(jnp.broadcast_to(x.max(), x.shape)).sum(), ["n"], least=1),
    Case("found: exp of a constant", lambda x: (jnp.exp2(jnp.full(x.shape, 2.0)) * x).sum(), ["n"]),
    Case("found: zero over a weight", lambda x, w: (jnp.zeros(x.shape) / w + x / w).sum(), ["n", Arg("", 0.5, 2.0)]),
    Case("found: a rule of its own in a scan", custom_rule_in_scan, [POSITIVE], zero=None, forward=False),
    Case("found: a choice in a scan", choice_in_scan, [POSITIVE], zero=None),
    Case("found: overflow past the end", grows, [POSITIVE], grad=False, zero=None),
    Case("found: cubes in half precision", lambda x: (((x - x.mean()) / 8) ** 3).mean(),
         [Arg("n", 2000, 2010)], ("float16",), tolerance=50, zero=None),
    Case("found: -inf from the end", lambda x: jax.lax.cumlogsumexp(jnp.where(x < 1, x, -jnp.inf), reverse=True),
         [POSITIVE], grad=False),
    Case("found: derivatives shared with padding", infinite_extremes, ["n, m", Arg("", 0.5, 2.0)], zero=None),
    Case("found: derivatives shared with padding, from the end", infinite_from_the_end, ["n"], least=1),
    Case("found: nothing left by a mask of the user's", nothing_left, [Arg("n", -2, -1), Arg("", 0.5, 2.0)], zero=None),
    Case("found: infinite past a running minimum", lambda x: jax.lax.cummin(x, reverse=True).var(), ["n"], zero=None),
    Case("found: infinite beside running minima", lambda x: jax.lax.cummin(x, 1).var(), ["n, m"], zero=None),
    Case("found: made of infinity", made_of_infinity, [POSITIVE]),
    Case("found: variance of nothing known, in half precision", lambda x: jnp.stack([x, x], 1).ravel().var(),
         ["n"], ("bfloat16",), zero=None),
]  # fmt: skip
