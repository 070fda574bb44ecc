"""Fourier transforms of run-time length, as convolutions with a chirp (Bluestein's algorithm).

`j*k = (j*j + k*k - (k - j)**2) / 2` turns `sum_j x[j] exp(-2i pi j k / n)` into a product, a convolution and a product.
Only the factors depend on n, and the convolution is made with transforms of one static length, a power of two.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import FftType

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._shapes import Dim

_INVERSE = (FftType.IFFT, FftType.IRFFT)


@rule("fft")
def fft(ctx: Context, x: Operand, *, fft_type: Any, fft_lengths: Sequence[Dim], **_: Any) -> Any:
    """`f32[n] -> c64[n]` and its kin, axis by axis; those that are not ragged by JAX's own transform."""
    data, kind = x.fill(0), FftType(fft_type)
    if not ctx.is_ragged(*fft_lengths):
        return ctx.bind(data)
    # The half of a spectrum lies along the last axis: it is made first, and made whole last.
    axes = list(zip(range(len(x.shape) - len(fft_lengths), len(x.shape)), fft_lengths))
    plain = FftType.IFFT if kind in _INVERSE else FftType.FFT
    for axis, length in axes if kind == FftType.IRFFT else axes[::-1]:
        data = jnp.moveaxis(data, axis, -1)
        data = _transform(ctx, data, length, kind if axis == len(x.shape) - 1 else plain)
        data = jnp.moveaxis(data, -1, axis)
    return ctx.clean(data)


def _transform(ctx: Context, data: Any, length: Dim, kind: FftType) -> Any:
    """One transform along the last axis; its result has the bound of its own length."""
    if not ctx.is_ragged(length):
        return jax.lax.fft(data, kind, (length,))
    n, bound = jnp.maximum(ctx.true(length), 1), ctx.sizes.bound(length)
    if not isinstance(bound, int):
        raise ctx.unmaskable(
            "The padded length of the transform is a run-time size too: that of an enclosing masked function.",
            "Give the inner arrays a padded length that is a number.",
        )
    if kind == FftType.IRFFT:  # all but the ends stand for their mirror images too
        k = jnp.arange(data.shape[-1])
        data = jnp.where((k > 0) & (2 * k < n), 2 * data, data)
    out = bound // 2 + 1 if kind == FftType.RFFT else bound
    if kind not in _INVERSE:
        return _chirp_z(data, n, bound, out, -1)
    result = _chirp_z(data, n, bound, out, 1) / n.astype(jnp.finfo(data.dtype).dtype)
    return result.real if kind == FftType.IRFFT else result


def _chirp_z(data: Any, n: Any, bound: int, out: int, sign: int) -> Any:
    """`sum_j data[j] exp(sign * 2i pi j k / n)` for k below `out`."""
    count, real = data.shape[-1], jnp.finfo(data.dtype).dtype
    angle = _squares(max(count, out), n, bound).astype(real) * (math.pi / n.astype(real))
    chirp = jax.lax.complex(jnp.cos(angle), sign * jnp.sin(angle))
    size = 1 << max(count + out - 2, 0).bit_length()
    kernel = jnp.zeros(size, chirp.dtype).at[:out].set(chirp[:out].conj())
    kernel = kernel.at[size - count + 1 :].set(chirp[1:count][::-1].conj())
    modulated = jnp.zeros((*data.shape[:-1], size), chirp.dtype).at[..., :count].set(data * chirp[:count])
    transformed = (jax.lax.fft(a, FftType.FFT, (size,)) for a in (modulated, kernel))
    return jax.lax.fft(math.prod(transformed), FftType.IFFT, (size,))[..., :out] * chirp[:out]


def _squares(count: int, n: Any, bound: int) -> Any:
    """`k*k mod 2n` for k below `count`, exact in 32 bits: digit by digit, as many bits at a time as there is room."""
    bits = (2 * bound).bit_length()
    step = 31 - bits
    k, modulus = jnp.arange(count, dtype=jnp.uint32), 2 * n.astype(jnp.uint32)
    square = jnp.zeros_like(k)
    for shift in reversed(range(0, bits, step)):
        digit = (k >> shift) & ((1 << step) - 1)
        square = ((square << step) + digit * k) % modulus
    return square
