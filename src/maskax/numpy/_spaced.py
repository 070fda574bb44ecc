"""A run-time number of points."""

from typing import Any

import jax
import jax.numpy as jnp

from maskax._extent import inexact, is_symbolic


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """`jax.numpy.linspace`, for a run-time number of points too.

    Args:
        start: the first point, a scalar or an array.
        stop: the last point, likewise.
        num: the number of points: an int, or a dimension such as `x.shape[0]`.
        endpoint: whether `stop` is the last point; if not, it would be the next.
        retstep: whether to return the distance of points too.
        dtype: of the result; default: the inexact dtype of start and stop.
        axis: along which to put the points, among those of start and stop.

    Returns:
        The points: for scalars `(num,)`. With `retstep` the pair of points and distance.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def times(x):  # x: (n,)
        ...     return mx.numpy.linspace(0, 1, x.shape[0])
        >>> print(mx.mask(times, ["n"], "n")([jnp.zeros(4)], {"n": 3}))
        [0.  0.5 1.  0. ]
    """
    if not is_symbolic(num):
        return jnp.linspace(start, stop, num, endpoint, retstep, dtype, axis)
    # JAX's own arithmetic, in which the last point is exactly `stop` and one point is `start`.
    like = jax.eval_shape(lambda a, b: jnp.linspace(a, b, 2, dtype=dtype), start, stop)
    inner = inexact(like.dtype)
    real = jnp.finfo(inner).dtype
    start, stop = (jnp.broadcast_to(jnp.asarray(x, inner), like.shape[1:])[None] for x in (start, stop))
    count = jnp.asarray(num)
    steps = jnp.maximum(count - 1 if endpoint else count, 1)
    i = jax.lax.expand_dims(jnp.arange(num, dtype=real), range(1, start.ndim))
    points = start * (1 - i / steps.astype(real)).astype(inner) + (stop / steps.astype(inner)) * i.astype(inner)
    if endpoint:
        points = jnp.where((i == (count - 1).astype(real)) & (count > 1), stop, points)
    points = jnp.floor(points) if jnp.issubdtype(like.dtype, jnp.integer) else points
    points = jnp.moveaxis(points, 0, axis).astype(like.dtype)
    if not retstep:
        return points
    step = (stop - start)[0] / steps.astype(inner)
    return points, jnp.where(count < (2 if endpoint else 1), jnp.nan, step).astype(inner)


def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> jax.Array:
    """`jax.numpy.logspace`, for a run-time number of points too.

    Args:
        start: the exponent of the first point, a scalar or an array.
        stop: the exponent of the last point, likewise.
        num: the number of points: an int, or a dimension such as `x.shape[0]`.
        endpoint: whether `stop` is the last point.
        base: what to raise.
        dtype: of the result; default: the inexact dtype of start and stop.
        axis: along which to put the points.

    Returns:
        The points: for scalars `(num,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def powers(x):  # x: (n,)
        ...     return mx.numpy.logspace(0, 2, x.shape[0], base=2)
        >>> print(mx.mask(powers, ["n"], "n")([jnp.zeros(4)], {"n": 3}).round(3))
        [1. 2. 4. 0.]
    """
    if not is_symbolic(num):
        return jnp.logspace(start, stop, num, endpoint, base, dtype, axis)
    like = jax.eval_shape(lambda a, b: jnp.logspace(a, b, 2, dtype=dtype), start, stop)
    inner = inexact(like.dtype)
    exponents = linspace(jnp.asarray(start, inner), jnp.asarray(stop, inner), num, endpoint, axis=axis)
    return jnp.power(base, exponents).astype(like.dtype)


def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> jax.Array:
    """`jax.numpy.geomspace`, for a run-time number of points too.

    Args:
        start: the first point, a scalar or an array.
        stop: the last point, likewise, of the same sign.
        num: the number of points: an int, or a dimension such as `x.shape[0]`.
        endpoint: whether `stop` is the last point.
        dtype: of the result; default: the inexact dtype of start and stop.
        axis: along which to put the points.

    Returns:
        The points: for scalars `(num,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def scales(x):  # x: (n,)
        ...     return mx.numpy.geomspace(1, 4, x.shape[0])
        >>> print(mx.mask(scales, ["n"], "n")([jnp.zeros(4)], {"n": 3}).round(3))
        [1. 2. 4. 0.]
    """
    if not is_symbolic(num):
        return jnp.geomspace(start, stop, num, endpoint, dtype, axis)
    like = jax.eval_shape(lambda a, b: jnp.geomspace(a, b, 2, dtype=dtype), start, stop)
    inner = inexact(like.dtype)
    start, stop = (jnp.asarray(x, inner) for x in (start, stop))
    sign = jnp.sign(start)
    points = sign * logspace(jnp.log10(start / sign), jnp.log10(stop / sign), num, endpoint, 10.0, inner)
    return jnp.moveaxis(points, 0, axis).astype(like.dtype)
