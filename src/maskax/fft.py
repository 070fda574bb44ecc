"""`jax.numpy.fft` where JAX wants a size as a number: the same functions, at run-time sizes too."""

from typing import Any

import jax
import jax.numpy as jnp

from maskax._extent import is_symbolic


def rfftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> jax.Array:
    """`jax.numpy.fft.rfftfreq`, for a run-time length too.

    JAX's own gives one frequency too few for a run-time length that is even: it cannot know.

    Args:
        n: the length of the signal: an int, or a dimension such as `x.shape[0]`.
        d: the distance of its samples.
        dtype: of the result; default: JAX's default float.

    Returns:
        The frequencies of `jax.numpy.fft.rfft`: `(n // 2 + 1,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def frequencies(x):  # x: (n,)
        ...     return mx.fft.rfftfreq(x.shape[0])
        >>> print(mx.mask(frequencies, ["n"], "floordiv(n, 2) + 1")([jnp.zeros(6)], {"n": 4}))
        [0.   0.25 0.5  0.  ]
    """
    if not is_symbolic(n):
        return jnp.fft.rfftfreq(n, d, dtype=dtype)
    dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    return jnp.arange(n // 2 + 1, dtype=dtype) / jnp.asarray(d * jnp.asarray(n), dtype)


def fftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> jax.Array:
    """`jax.numpy.fft.fftfreq`, which JAX computes at run-time lengths as well: here beside `rfftfreq`.

    Args:
        n: the length of the signal: an int, or a dimension such as `x.shape[0]`.
        d: the distance of its samples.
        dtype: of the result; default: JAX's default float.

    Returns:
        The frequencies of `jax.numpy.fft.fft`: `(n,)`, the negative ones last.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> print(mx.mask(lambda x: mx.fft.fftfreq(x.shape[0]), ["n"], "n")([jnp.zeros(5)], {"n": 4}))
        [ 0.    0.25 -0.5  -0.25  0.  ]
    """
    return jnp.fft.fftfreq(n, d, dtype=dtype)
