"""Cases for the drop-in versions of functions that JAX does not trace at run-time sizes."""

import jax.numpy as jnp
import numpy as np
from contract import Arg, Case

import maskax as mx


def ascending(rng, shape):
    return np.cumsum(rng.integers(0, 3, shape), -1).astype(np.float32)


def distinct(rng, shape):
    return np.cumsum(rng.uniform(0.5, 1.5, shape), -1).astype(np.float32)


SORTED, POINTS = Arg("n", values=ascending, differentiable=False), Arg("n", values=distinct)


def search(a, v):
    find = mx.numpy.searchsorted
    return [
        *(find(a, v), find(a, v, "right"), find(a, a, "right"), find(-a, v, sorter=jnp.arange(a.shape[0])[::-1])),
        *(find(a, v, method="compare_all"), find(a, v, method="sort"), mx.numpy.digitize(v, a)),
        *(mx.numpy.digitize(v, -a), mx.numpy.digitize(v, a, right=True)),
    ]


def counts(x, edges, w):
    return [
        *mx.numpy.histogram(x, edges),
        *mx.numpy.histogram(x, edges, weights=w, density=True),
        *mx.numpy.histogram(x, bins=x.shape[0]),
    ]


def interpolated(x, xp, fp):
    f = mx.numpy.interp
    return [
        *(f(x, xp, fp), f(x, xp, fp, left=-1.0, right=2.0), f(x, xp, fp, left="extrapolate", right="extrapolate")),
        *(f(xp, xp, fp), f(x, xp, fp, period=3.0)),
    ]


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
        *(mx.numpy.pad(x, 2, "reflect"), mx.numpy.pad(x, [(7, 0), (0, 3)], "reflect")),
        *(mx.numpy.pad(x, (3, 9), "symmetric"), mx.numpy.pad(x, ((0, 7), (3, 0)), "wrap")),
        *(mx.numpy.pad(x, (0, x.shape[0]), "wrap"), mx.numpy.pad(x, 1, "edge")),
    ]


def slid(x, w):
    f, g = mx.numpy.convolve, mx.numpy.correlate
    return [
        *(f(x, w), g(x, w, "full"), f(w, x), g(w, x, "full"), f(x, w, "same"), f(x, w, "valid"), g(x, w)),
        *(g(x, w, "same"), g(w, x, "same"), g(w, x, "valid")),
    ]


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


CASES = [
    Case("searchsorted", search, [SORTED, Arg("m", 0, 6)], grad=False),
    Case("searchsorted: ragged values", lambda v: mx.numpy.searchsorted(jnp.arange(3), v), ["m"], ("int32",)),
    Case("histogram", counts, ["m", POINTS, Arg("m", 0.1, 2)], least=2, grad=False),
    Case("interp", interpolated, [Arg("m", 0, 6), POINTS, "n"], least=2, tolerance=10),
    Case("linspace", spaced, ["n"], least=1, tolerance=2),
    Case("windows", windows, ["n"]),
    Case("array_split", parts, ["n"], least=1),
    Case("pad", padded, ["n, m"], least=1),
    Case("convolve", slid, ["n", "3"], ("float32", "complex64"), least=1, tolerance=2),
    Case("convolve: both ragged", slid, ["n", "m"], ("float32",), least=1, tolerance=2),
    Case("associative_scan", prefixes, ["n", Arg("n", 0.5, 2)], ("float32",), zero=None, tolerance=2),
    Case("fft: frequencies", frequencies, ["n"], least=1),
]
