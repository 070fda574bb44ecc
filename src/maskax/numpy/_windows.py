"""Windows of run-time width, to taper a signal with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax._extent import is_symbolic


def bartlett(M: Any) -> jax.Array:
    """`jax.numpy.bartlett`, of a run-time width too.

    Args:
        M: the width of the window: an int, or a dimension such as `x.shape[0]`.

    Returns:
        The window: `(M,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def tapered(x):  # x: (n,)
        ...     return x * mx.numpy.bartlett(x.shape[0])
        >>> print(abs(mx.mask(tapered, ["n"], "n")([jnp.ones(4)], {"n": 3}).round(3)))
        [0. 1. 0. 0.]
    """
    if not is_symbolic(M):
        return jnp.bartlett(M)
    return _window(M, lambda i, last: 1 - jnp.abs(2 * i - last) / last)


def blackman(M: Any) -> jax.Array:
    """`jax.numpy.blackman`, of a run-time width too.

    Args:
        M: the width of the window: an int, or a dimension such as `x.shape[0]`.

    Returns:
        The window: `(M,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def tapered(x):  # x: (n,)
        ...     return x * mx.numpy.blackman(x.shape[0])
        >>> print(abs(mx.mask(tapered, ["n"], "n")([jnp.ones(4)], {"n": 3}).round(3)))
        [0. 1. 0. 0.]
    """
    if not is_symbolic(M):
        return jnp.blackman(M)
    return _window(M, lambda i, last: 0.42 - 0.5 * jnp.cos(2 * np.pi * i / last) + 0.08 * jnp.cos(4 * np.pi * i / last))


def hamming(M: Any) -> jax.Array:
    """`jax.numpy.hamming`, of a run-time width too.

    Args:
        M: the width of the window: an int, or a dimension such as `x.shape[0]`.

    Returns:
        The window: `(M,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def tapered(x):  # x: (n,)
        ...     return x * mx.numpy.hamming(x.shape[0])
        >>> print(abs(mx.mask(tapered, ["n"], "n")([jnp.ones(4)], {"n": 3}).round(3)))
        [0.08 1.   0.08 0.  ]
    """
    if not is_symbolic(M):
        return jnp.hamming(M)
    return _window(M, lambda i, last: 0.54 - 0.46 * jnp.cos(2 * np.pi * i / last))


def hanning(M: Any) -> jax.Array:
    """`jax.numpy.hanning`, of a run-time width too.

    Args:
        M: the width of the window: an int, or a dimension such as `x.shape[0]`.

    Returns:
        The window: `(M,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def tapered(x):  # x: (n,)
        ...     return x * mx.numpy.hanning(x.shape[0])
        >>> print(abs(mx.mask(tapered, ["n"], "n")([jnp.ones(4)], {"n": 3}).round(3)))
        [0. 1. 0. 0.]
    """
    if not is_symbolic(M):
        return jnp.hanning(M)
    return _window(M, lambda i, last: 0.5 * (1 - jnp.cos(2 * np.pi * i / last)))


def kaiser(M: Any, beta: Any) -> jax.Array:
    """`jax.numpy.kaiser`, of a run-time width too.

    Args:
        M: the width of the window: an int, or a dimension such as `x.shape[0]`.
        beta: how fast it falls.

    Returns:
        The window: `(M,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def tapered(x):  # x: (n,)
        ...     return x * mx.numpy.kaiser(x.shape[0], 2.0)
        >>> print(mx.mask(tapered, ["n"], "n")([jnp.ones(4)], {"n": 3}).round(3))
        [0.439 1.    0.439 0.   ]
    """
    if not is_symbolic(M):
        return jnp.kaiser(M, beta)
    inside = lambda i, last: jnp.sqrt(1 - ((i - last / 2) / (last / 2)) ** 2)
    return _window(M, lambda i, last: jnp.i0(beta * inside(i, last)) / jnp.i0(beta))


def _window(width: Any, shape: Callable[[Any, Any], Any]) -> jax.Array:
    """`shape` of the positions and of the last one, as floats; one position alone has 1."""
    dtype = jnp.result_type(float)
    last = jnp.asarray(width - 1, dtype)
    return jnp.where(last <= 0, 1, shape(jnp.arange(width, dtype=dtype), jnp.maximum(last, 1)))
