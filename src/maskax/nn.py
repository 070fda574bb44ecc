"""Layers that `jax.nn` does not have, at run-time sizes: pooling to a fixed number of positions."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def adaptive_avg_pool(x: Any, output_size: int | Sequence[int], axes: int | Sequence[int] = 0) -> jax.Array:
    """Averages an axis of any size over a fixed number of windows.

    As in PyTorch: window `i` of `k` runs from `floor(i * n / k)` to `ceil((i + 1) * n / k)`, so windows may overlap,
    and none is empty.

    Args:
        x: the array: `(..., n, ...)`.
        output_size: the number of windows, or one per axis of `axes`.
        axes: the axis to pool, or several.

    Returns:
        The averages: `(..., output_size, ...)`. Integers become floats, as by `jnp.mean`.

    Raises:
        ValueError: a number of windows is not positive, or there is not one per axis.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def halves(x):  # x: (n,)
        ...     return mx.nn.adaptive_avg_pool(x, 2)
        >>> print(mx.mask(halves, ["n"], "_")([jnp.array([1.0, 3.0, 5.0, 7.0, 9.0])], {"n": 4}))
        [2. 6.]
    """
    return _pool(x, output_size, axes, lambda x, inside: jnp.mean(x, axis=-1, where=inside))


def adaptive_max_pool(x: Any, output_size: int | Sequence[int], axes: int | Sequence[int] = 0) -> jax.Array:
    """The maxima of an axis of any size over a fixed number of windows, see `adaptive_avg_pool`.

    Args:
        x: the array, of real numbers: `(..., n, ...)`.
        output_size: the number of windows, or one per axis of `axes`.
        axes: the axis to pool, or several.

    Returns:
        The maxima: `(..., output_size, ...)`.

    Raises:
        ValueError: a number of windows is not positive, or there is not one per axis.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def halves(x):  # x: (n,)
        ...     return mx.nn.adaptive_max_pool(x, 2)
        >>> print(mx.mask(halves, ["n"], "_")([jnp.array([1.0, 3.0, 5.0, 7.0, 9.0])], {"n": 4}))
        [3. 7.]
    """

    def largest(x: Any, inside: Any) -> Any:
        lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
        return jnp.max(x, axis=-1, where=inside, initial=lowest)

    return _pool(x, output_size, axes, largest)


def _pool(x: Any, output_size: Any, axes: Any, reduce: Callable[[Any, Any], Any]) -> jax.Array:
    axes = [axes] if isinstance(axes, int) else list(axes)
    counts = [output_size] * len(axes) if isinstance(output_size, int) else list(output_size)
    if len(counts) != len(axes) or min(counts) < 1:
        raise ValueError(f"output_size must be a positive int, or one per axis of {axes}, not {output_size}.")
    for axis, count in zip(axes, counts):
        x = jnp.moveaxis(jnp.asarray(x), axis, -1)
        size = jnp.asarray(x.shape[-1])
        window, position = jnp.arange(count)[:, None], jnp.arange(x.shape[-1])
        inside = (position >= window * size // count) & (position < -(-(window + 1) * size // count))
        windows = jnp.broadcast_to(x[..., None, :], (*x.shape[:-1], *inside.shape))
        x = jnp.moveaxis(reduce(windows, inside), -1, axis)
    return x
