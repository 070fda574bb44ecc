"""Cases for random draws: equal to the bit, whichever axis is ragged."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import random


def key(rng, shape):
    return random.split(random.key(int(rng.integers(2**31))), shape) if shape else random.key(int(rng.integers(2**31)))


def legacy(rng, shape):
    return np.asarray(random.PRNGKey(int(rng.integers(2**31))))


def words(rng, shape):
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


KEY, KEYS, LEGACY = Arg("", values=key), Arg("n", values=key), Arg("2", values=legacy)


def draws(*samplers):
    """Each sampler draws in the shape of `x`, with its own key."""

    def fun(key, x):
        return [sample(random.fold_in(key, i), x) for i, sample in enumerate(samplers)]

    return fun


def like(sampler, *args, **kwargs):
    return lambda key, x: sampler(key, *args, shape=x.shape, **kwargs)


COMMON = [
    like(random.uniform),
    like(random.normal),
    like(random.bernoulli, 0.3),
    lambda key, x: random.bernoulli(key, jax.nn.sigmoid(x)),
    like(random.gumbel),
    like(random.exponential),
    like(random.randint, minval=-5, maxval=100),
    like(random.truncated_normal, -1.0, 1.5),
    like(random.bits),
]
FEW = [like(random.uniform), like(random.bernoulli, 0.3), like(random.bits)]
RARE = [like(random.laplace), like(random.rademacher), like(random.rayleigh, 1.0)]
if "mode" in inspect.signature(random.normal).parameters:  # since JAX 0.12.1: of two streams of bits
    RARE.append(like(random.normal, mode="highest"))
WIDTHS = [like(random.bits, dtype=dtype) for dtype in ("uint8", "uint16", "uint32")] + [
    like(random.uniform, dtype=dtype) for dtype in ("bfloat16", "float16", "float32")
]
WIDE = [
    like(random.bits, dtype="uint64"),
    like(random.uniform, dtype="float64"),
    like(random.normal, dtype="float64"),
    like(random.randint, minval=-5, maxval=2**40, dtype="int64"),
]
GAMMAS = [
    lambda key, x: random.gamma(key, 1.5 + x * x),
    lambda key, x: random.gamma(key, 0.4, x.shape),
]
POISSONS = [
    lambda key, x: random.poisson(key, 1 + x * x),
    lambda key, x: random.poisson(key, 20.0, x.shape),
]


def categorical(key, x):
    a, b, c = random.split(key, 3)
    return (
        random.categorical(a, x, axis=0),
        random.categorical(b, x, axis=1),
        random.categorical(c, x[0], shape=x.shape[1:]),
    )


def split(key, x):
    """As many keys as rows: each draws for its own, and the keys themselves come out."""
    keys = random.split(key, x.shape[0])
    folded = jax.vmap(random.fold_in, (None, 0))(key, jnp.arange(x.shape[0]))
    return keys, folded, jax.vmap(lambda k, row: random.normal(k, row.shape))(keys, x)


def of_keys(keys, x):
    """A ragged array of keys comes in."""
    more = jax.vmap(lambda k: random.split(k, 2))(keys)
    return (
        keys,
        more,
        jax.vmap(lambda k, v: v + random.uniform(k, (2,)))(keys, x),
        random.key_data(keys),
        random.clone(keys),
    )


def of_legacy_keys(keys, x):
    return keys, jax.vmap(lambda k, v: v + random.uniform(k, (2,)))(keys, x)


def dropout(key, x):
    keep = random.bernoulli(key, 0.5, x.shape)
    return jnp.where(keep, x / 0.5, 0)


def reparametrised(key, x):
    noise = random.normal(key, x.shape)
    return x + jnp.exp(x) * noise, random.normal(key, (x.shape[0] + 1,)), random.uniform(key, (2 * x.shape[0], 3))


def gamma_noise(key, x):
    return random.gamma(key, 1.5 + x * x)


def scanned(key, x):
    """One draw a step, the key in the carry."""

    def step(key, v):
        key, sub = random.split(key)
        return key, v + random.normal(sub)

    return jax.lax.scan(step, key, x)


CASES = [
    *[
        Case(f"random: {spec}", draws(*samplers), [KEY, spec], exact=True, grad=False)
        for spec, samplers in {"n": COMMON, "3, n": FEW[:1], "n, m": FEW, "2, n + 1, 2*m": FEW[:1]}.items()
    ],
    Case("random: rare", draws(*RARE), [KEY, "n"], exact=True, grad=False),
    Case("random: widths", draws(*WIDTHS), [KEY, "n, m"], exact=True, grad=False),
    Case("random: 64 bits", draws(*WIDE), [KEY, "2, n"], ("float64",), exact=True, grad=False),
    Case("random: gamma", draws(*GAMMAS), [KEY, "n, m"], grad=False),
    Case("random: poisson", draws(*POISSONS), [KEY, "n, m"], exact=True, grad=False),
    Case("random: gradient of gamma", gamma_noise, [KEY, "n"], tolerance=5, least=3),
    Case("random: categorical", categorical, [KEY, "n, m"], exact=True, grad=False, least=1),
    Case("random: split", split, [KEY, "n, 3"], exact=True, grad=False),
    Case("random: array of keys", of_keys, [KEYS, "n, 2"], exact=True, grad=False),
    Case("random: legacy key", draws(*FEW), [LEGACY, "n, m"], exact=True, grad=False),
    Case("random: array of legacy keys", of_legacy_keys, [Arg("n, 2", values=words), "n, 2"], exact=True, grad=False),
    Case(
        "random: legacy split", lambda key, x: (random.split(key, x.shape[0]), x), [LEGACY, "n"], exact=True, grad=False
    ),
    Case("random: dropout", dropout, [KEY, "n, m"]),
    Case("random: reparametrised", reparametrised, [KEY, "n"]),
    Case("random: scanned", scanned, [KEY, "n"]),
]
