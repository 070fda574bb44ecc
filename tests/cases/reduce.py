"""Cases for reductions and running reductions."""

import jax
import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import lax
from jax.scipy.special import logsumexp

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int32", "int8", "uint8")


def over(functions, axes):
    """Every function over every choice of axes."""
    return lambda *args: [f(*args, axis=axis) for f in functions for axis in axes]


SUMS = [jnp.sum, jnp.mean, jnp.prod]
EXTREMES = [jnp.max, jnp.min]
MOMENTS = [jnp.var, jnp.std, logsumexp, jax.nn.softmax, jax.nn.log_softmax]
LOGIC = [jnp.any, jnp.all, lambda x, axis: lax.reduce_xor(x, (axis,) if isinstance(axis, int) else axis)]
ORDER = [jnp.median, lambda x, axis: jnp.quantile(x, 0.3, axis=axis)]
ARG = [jnp.argmax, jnp.argmin]
RUNNING = [
    lambda x, f=f, reverse=reverse: f(x, axis=0, reverse=reverse)
    for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)
    for reverse in (False, True)
]


def some_nan(x):
    return jnp.where(x > 0.5, jnp.nan, x)


def ties(rng, shape):
    """Few distinct values, so that there are ties."""
    return rng.integers(0, 2, shape).astype(np.float32)


def with_inf(rng, shape):
    return np.where(rng.random(shape) < 0.7, -np.inf, rng.normal(size=shape)).astype(np.float32)


def all_low(x):
    """Rows of the identity itself: the first true one wins."""
    return jnp.argmax(jnp.full_like(x, -jnp.inf)), jnp.argmin(jnp.full_like(x, jnp.inf)), jnp.max(x), jnp.min(x)


def integers(x):
    axes = tuple(range(x.ndim))
    word = [lax.reduce_and(x, axes), lax.reduce_or(x, axes), lax.reduce_xor(x, axes)]
    return [*word, jnp.sum(x), jnp.max(x), jnp.min(x), jnp.cumsum(x), lax.cummax(x, 0), lax.cummin(x, 0, reverse=True)]


def custom_reduce(x, y):
    """`lax.reduce` of a function of one's own: the place of the largest element, and a log of a sum."""

    def larger(a, b):
        pick = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(pick, a[0], b[0]), jnp.where(pick, a[1], b[1])

    place = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    start = (np.float32(-np.inf), np.int32(2**31 - 1))
    both = lax.reduce((x, place), start, larger, (0,))
    return *both, lax.reduce(x * y, np.float32(-np.inf), jnp.logaddexp, (0,))


def logits(x):
    """Between -600 and -500: exp of them, and of their distance to 0, is out of range."""
    big = x * 25 - 550
    attention = jax.nn.softmax(big[:, None] + big[None])
    return jax.nn.softmax(big), logsumexp(big), attention @ x, jnp.log(jnp.sum(jnp.exp(-big / 10)))


def norms(x):
    each = jnp.linalg.norm(x, axis=-1)
    unit = x / each[:, None]
    return each, jnp.linalg.norm(x), jnp.linalg.norm(x, ord=1), unit @ unit.T, optax_like_cosine(x, 2 * x + 1)


def optax_like_cosine(a, b):
    a, b = (v / jnp.maximum(jnp.linalg.norm(v, axis=-1, keepdims=True), 1e-6) for v in (a, b))
    return jnp.sum(a * b, -1)


def geometric(x):
    return jnp.exp(jnp.mean(jnp.log(x))), 1 / jnp.mean(1 / x), jnp.sqrt(jnp.mean(x * x)), x / jnp.max(x)


def pooled(x):
    """What is nan for no rows (the mean) meets the rows again: no gradient may come of it."""
    mean = x.mean(0)
    return x - mean, x * mean, x @ mean, jnp.concatenate([x, jnp.broadcast_to(mean, x.shape)], 1) @ mean.repeat(2)


def peaks(x):
    """Infinite over no elements of m, and the slope of a log meets it where n has none either."""
    scaled = jnp.log(jnp.sum(x, 1) ** 2 + 1)
    return scaled * x.max(1), scaled * x.min(1)


def normalised(x):
    """A layer norm over n, then one over the static axis."""
    z = (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5)
    return (z - z.mean(1, keepdims=True)) / jnp.sqrt(z.var(1, keepdims=True) + 1e-3)


AXES = [0, 1, (0, 1)]
POSITIVE = {"low": 0.3, "high": 2.5}
CASES = [
    Case("reduce: sums", over(SUMS, AXES), ["n, 3"], ("float32", "complex64")),
    Case("reduce: sums, low precision", over(SUMS[:2], AXES), [Arg("3, n", **POSITIVE)], FLOATS[2:], tolerance=2),
    Case("reduce: extremes", over(EXTREMES, AXES), ["n, 3"], FLOATS[:3], zero=None),
    Case("reduce: moments", over(MOMENTS, AXES), ["n, 3"], zero=None, tolerance=3),
    Case("reduce: moments, trailing", over(MOMENTS[:3], AXES), ["3, n"], ("float64",), zero=None, tolerance=3),
    Case("reduce: two ragged axes", over([jnp.sum, jnp.prod, logsumexp], AXES), ["n, m"], zero=None),
    Case("reduce: logic", over(LOGIC, AXES), ["n, m"], ("bool",)),
    Case("reduce: integers", integers, [Arg("n", -90, 90)], INTEGERS, zero=None),
    Case("reduce: order", over(ORDER, [0]), ["n, 2"], least=1),
    Case("reduce: nan", lambda x: over([jnp.nanmean, jnp.nansum], [0, 1])(some_nan(x)), ["n, 3"], zero=None),
    Case("reduce: arg", over(ARG, [0, 1]), [Arg("n, m", values=ties)], least=1),
    Case("reduce: arg of all -inf", all_low, [Arg("n", values=with_inf)], least=1, grad=False),
    Case("reduce: sum of nothing", jnp.sum, ["n"], zero=0),
    Case("reduce: max of nothing", jnp.max, ["n"], zero=-jnp.inf),
    Case("reduce: min of nothing", jnp.min, ["n"], ("float32",), zero=jnp.inf),
    Case("reduce: max of no int8", jnp.max, ["n"], ("int8",), zero=-128),
    Case("reduce: prod of nothing", jnp.prod, ["n"], zero=1),
    Case("reduce: mean of nothing", jnp.mean, ["n"], zero=jnp.nan, grad=False),
    Case("reduce: softmax of nothing", lambda q, k: jax.nn.softmax(q @ k.T) @ k, ["2, 3", "n, 3"], zero=0),
    Case("reduce: custom", custom_reduce, [Arg("n, m", **POSITIVE)] * 2, zero=None, grad=False),
    Case("reduce: large logits", logits, ["n"], zero=None, tolerance=30),
    Case("reduce: norms", norms, [Arg("n, 3", **POSITIVE)]),
    Case("reduce: geometric", geometric, [Arg("n", **POSITIVE)], zero=None),
    Case("reduce: peaks of nothing", peaks, ["n, m"], zero=None),
    Case("reduce: pooled", pooled, ["n, 3"]),
    Case("reduce: normalised", normalised, ["n, 3"], tolerance=20),
    Case("running: both directions", lambda x: [f(x) for f in RUNNING], ["n, 2"]),
    Case("running: low precision", lambda x: [f(x) for f in RUNNING[:4]], ["n, 2"], ("bfloat16",), grad=False),
    Case(
        "running: logsumexp",
        lambda x: [lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x * 300, 1, reverse=True), jnp.logaddexp(x, -x)],
        ["2, n"],
        ("float32", "float64"),
        tolerance=5,
    ),
]
