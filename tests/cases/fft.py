"""Cases for Fourier transforms."""

import jax.numpy as jnp
from contract import Arg, Case
from jax import lax

fft = jnp.fft


def transforms(x, z):
    half = fft.rfft(x)
    return [
        *(half, fft.fft(x), fft.ihfft(x), lax.fft(half * jnp.arange(half.shape[0]), "irfft", (x.shape[0],))),
        *(fft.fft(z, norm="ortho"), fft.ifft(z)),
    ]


def filtered(x):
    """A filter in frequency space: there and back, with JAX's own frequencies."""
    spectrum = fft.fftshift(fft.fft(x))
    return fft.ifft(fft.ifftshift(spectrum * jnp.exp(-(fft.fftshift(fft.fftfreq(x.shape[0])) ** 2)))).real


def back(x):
    spectrum = fft.rfft(x)
    return fft.irfft(spectrum * jnp.arange(spectrum.shape[1]))


def several(x):
    """Two ragged axes and a static one, real and complex; the last axis ragged, then static."""
    return [fft.rfftn(x), fft.fftn(x, axes=(2, 0)), fft.rfft2(x, axes=(0, 1)), fft.fft2(x)]


# Even and odd sizes: m runs to 4, n and k to 5 and 3.
CASES = [
    Case("fft: one axis", transforms, ["m", Arg("n", dtype="complex64")], least=1),
    Case("fft: filter", filtered, ["n"], ("float64",), zero=None, forward=False),
    Case("fft: back", back, ["3, m"], constraints=["m >= 2"], least=2),
    Case("fft: several axes", several, ["m, 3, k"], tolerance=2, least=1, forward=False),
]
