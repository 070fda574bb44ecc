"""Cases for the drop-in versions of functions that JAX does not trace at run-time sizes."""

import jax.numpy as jnp
import numpy as np
from contract import Arg, Case
from jax import random

import maskax as mx


def key(rng, shape):
    return random.key(int(rng.integers(2**31)))


def ascending(rng, shape):
    return np.cumsum(rng.integers(0, 3, shape), -1).astype(np.float32)


def distinct(rng, shape):
    return np.cumsum(rng.uniform(0.5, 1.5, shape), -1).astype(np.float32)


KEY, PROBABLE = Arg("", values=key), Arg("n", 0.1, 1)
SORTED, POINTS = Arg("n", values=ascending, differentiable=False), Arg("n", values=distinct)


def search(a, v):
    find, bin_of = mx.numpy.searchsorted, mx.numpy.digitize
    return [
        *(find(a, v), find(a, a, "right"), find(-a, v, sorter=jnp.arange(a.shape[0])[::-1])),
        *(find(a, v, method="sort"), bin_of(v, a), bin_of(v, -a, right=True)),
    ]


def counts(x, edges, w):
    return [
        *mx.numpy.histogram(x, edges),
        *mx.numpy.histogram(x, edges, weights=w, density=True),
        *mx.numpy.histogram(x, bins=x.shape[0]),
    ]


def counts_of_any(x):
    return [*mx.numpy.histogram(x, 3), mx.numpy.histogram_bin_edges(x)]


def interpolated(x, xp, fp):
    f = mx.numpy.interp
    return [f(x, xp, fp, right=2.0), f(xp, xp, fp, left="extrapolate", right="extrapolate"), f(x, xp, fp, period=3.0)]


def spaced(x):
    n, a, b = x.shape[0], x[0], x[-1]
    pair = jnp.stack([a, b])
    points, step = mx.numpy.linspace(a, b, n, endpoint=False, retstep=True)
    return [
        *(mx.numpy.linspace(a, b, n), mx.numpy.linspace(pair, 1, n + 1, axis=1), points, step),
        *(mx.numpy.linspace(0, 7, n, dtype=int), mx.numpy.linspace(0, 1, n, retstep=True)[1]),
        *(mx.numpy.logspace(0, a, n, base=2), mx.numpy.geomspace(1, 1 + b * b, n)),
    ]


def windows(x):
    n, all_ = x.shape[0], mx.numpy
    return [x * w for w in (all_.hanning(n), all_.hamming(n), all_.blackman(n), all_.bartlett(n), all_.kaiser(n, 2.0))]


def parts(x):
    return [
        *(*mx.numpy.array_split(x, 3), *mx.numpy.array_split(x, [1])),
        *mx.numpy.array_split(x[None], 2, axis=1),
    ]


def padded(x):
    return [
        *(mx.numpy.pad(x, ((7, 2), (1, 0)), "reflect"), mx.numpy.pad(x, (3, 9), "symmetric")),
        *(mx.numpy.pad(x, ((0, x.shape[0]), (3, 0)), "wrap"), mx.numpy.pad(x, 1, "edge")),
    ]


def slid_in_part(x, w):
    f, g = mx.numpy.convolve, mx.numpy.correlate
    return f(x, w, "same"), f(x, w, "valid"), g(x, w), g(x, w, "same"), g(w, x, "same")


def slid(x, w):
    return mx.numpy.convolve(x, w), mx.numpy.correlate(x, w, "full"), mx.numpy.correlate(w, x, "full")


def affine(a, b):
    return a[0] * b[0], b[0] * a[1] + b[1]


def prefixes(x, w):
    scan = mx.lax.associative_scan
    matrices = jnp.stack([jnp.stack([x, w]), jnp.stack([-w, x])])  # (2, 2, n)
    product = lambda a, b: jnp.einsum("ij...,jk...->ik...", a, b)
    return [
        *(scan(jnp.multiply, x), scan(affine, (x, w), reverse=True), scan(product, matrices, axis=2)),
        *(scan(jnp.logaddexp, x), scan(lambda a, b: 1 / (1 / a + 1 / b), w, axis=-1)),
    ]


def frequencies(x):
    n = x.shape[0]
    return [mx.fft.rfftfreq(n), mx.fft.fftfreq(n, 0.5), jnp.fft.rfft(x) * mx.numpy.fft.rfftfreq(n, d=2.0)]


def shuffled(key, x, row):
    """Along each axis, and vectors by themselves."""
    shuffle = mx.random.permutation
    return [
        *(shuffle(key, row), shuffle(key, row.shape[0]), shuffle(key, x), shuffle(key, x, axis=-1, independent=True)),
        shuffle(random.key_data(key), x, 1),
    ]


def chosen(key, x, p):
    """With and without replacement, with probabilities; from an array, and from a range."""
    n, choose, p = x.shape[0], mx.random.choice, p / p.sum()
    return [
        *(choose(key, n), choose(key, x, (2, 2)), choose(key, n, (4,), p=p), choose(key, x, (n,), replace=False)),
        *(choose(key, x, (1, 2), axis=1, replace=False), choose(key, x, (2,), replace=False, p=p)),
    ]


def pooled(x):
    return [
        mx.nn.adaptive_avg_pool(x, 3),
        mx.nn.adaptive_avg_pool(x, (2, 4), (0, 1)),
        mx.nn.adaptive_max_pool(x, 2, -1),
    ]


CASES = [
    Case("searchsorted", search, [SORTED, Arg("3", 0, 6)], grad=False),
    Case("searchsorted: ragged values", lambda v: mx.numpy.searchsorted(jnp.arange(3), v), ["n"], ("int32",)),
    Case("histogram", counts, ["n", POINTS, Arg("n", 0.1, 2)], least=2, grad=False),
    Case("histogram of any", counts_of_any, ["n"], ("int32", "float32"), zero="defined", grad=False),
    Case("interp", interpolated, [Arg("3", 0, 6), POINTS, "n"], least=2, tolerance=10, forward=False),
    Case("linspace, drop-in", spaced, ["n"], least=1, tolerance=2, forward=False),
    Case("windows", windows, ["n"], forward=False),
    Case("array_split, drop-in", parts, ["n"], least=1, forward=False),
    Case("pad", padded, ["n, 3"], least=1, forward=False),
    Case("convolve", slid, ["n", "3"], ("complex64",), least=1, tolerance=2, forward=False),
    Case("convolve: same, valid", slid_in_part, ["n", "3"], least=1, tolerance=2, forward=False),
    Case("convolve: both ragged", slid, ["n", "m"], least=1, tolerance=2, forward=False),
    Case("associative_scan", prefixes, ["n", Arg("n", 0.5, 2)], zero=None, tolerance=2),
    Case("permutation", shuffled, [KEY, "n, 3", "n"], exact=True, grad=False),
    Case("choice", chosen, [KEY, "n, 3", PROBABLE], exact=True, grad=False, least=2, constraints=["n >= 2"]),
    Case("adaptive pooling", pooled, ["n, 3"], least=1, forward=False),
    Case("fft: frequencies", frequencies, ["n"], least=1, grad=False),
]
