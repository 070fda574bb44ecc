"""Where values lie among the elements of a sorted array of run-time size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax._extent import extend, has_symbolic, inexact, is_symbolic
from maskax.numpy._spaced import linspace


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> jax.Array:
    """`jax.numpy.searchsorted`, in an array of run-time size too.

    Args:
        a: `(n,)`, sorted, unless `sorter` is given.
        v: the values to look for, of any shape.
        side: `"left"` or `"right"`: where to insert among equals.
        sorter: `(n,)`, the positions that sort `a`.
        method: how to search, as for JAX; the results are the same. At run-time sizes `"sort"` is done as `"scan"`.

    Returns:
        Per value where to insert it, from 0 to n, in the shape of `v`.

    Raises:
        ValueError: `a` is not one-dimensional.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def rank(a, v):  # a: (n,)
        ...     return mx.numpy.searchsorted(a, v)
        >>> print(mx.mask(rank, ["n", ""], "")([jnp.array([1.0, 3.0, 5.0, 0.0]), 9.0], {"n": 3}))
        3
    """
    if not has_symbolic(a, v):
        return jnp.searchsorted(a, v, side, sorter, method=method)
    a = a if sorter is None else a[sorter]
    if jnp.ndim(a) != 1:
        raise ValueError(f"searchsorted: a must be 1-dimensional, but has the shape {jnp.shape(a)}.")
    # The last element is as good as any end: what lies beyond it is found at the end, and nothing else is.
    found = jnp.searchsorted(extend(jnp.asarray(a)), v, side, method="scan" if method == "sort" else method)
    return jnp.minimum(found, jnp.asarray(a.shape[0], found.dtype))


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> jax.Array:
    """`jax.numpy.digitize`, between a run-time number of edges too.

    Args:
        x: the values, of any shape.
        bins: `(n,)`, the edges, increasing or decreasing.
        right: whether the right edge belongs to a bin, rather than the left one.
        method: how to search, see `searchsorted`.

    Returns:
        Per value the index of its bin, from 0 to n, in the shape of `x`.

    Raises:
        ValueError: `bins` is not one-dimensional.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> masked = mx.mask(mx.numpy.digitize, ["_", "n"], "_")
        >>> print(masked([jnp.array([0.5, 1.5, 9.0]), jnp.array([1.0, 2.0, 0.0])], {"n": 2}))
        [0 1 2]
    """
    if not has_symbolic(x, bins):
        return jnp.digitize(x, bins, right, method=method)
    bins = jnp.asarray(bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be 1-dimensional, but has the shape {bins.shape}.")
    side, options = "left" if right else "right", {} if method is None else {"method": method}
    rising = searchsorted(bins, x, side, **options)
    falling = jnp.asarray(bins.shape[0], rising.dtype) - searchsorted(jnp.flip(bins), x, side, **options)
    return jnp.where(bins[-1] >= bins[0], rising, falling)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> jax.Array:
    """`jax.numpy.histogram_bin_edges`, for a run-time number of bins too.

    Args:
        a: the values, of any shape.
        bins: the number of bins, or their edges: `(n + 1,)`.
        range: from where to where; default: from the least value to the greatest, from 0 to 1 where there is none.
        weights: not used.

    Returns:
        The edges of the bins: `(n + 1,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def edges(x):  # x: (n,)
        ...     return mx.numpy.histogram_bin_edges(x, bins=x.shape[0])
        >>> print(mx.mask(edges, ["n"], "n + 1")([jnp.array([0.0, 4.0, 9.0])], {"n": 2}))
        [0. 2. 4. 0.]
    """
    if range is None and has_symbolic(a):
        some = jnp.asarray(jnp.size(a)) > 0
        range = jnp.where(some, jnp.min(a), 0), jnp.where(some, jnp.max(a), 1)
    if not is_symbolic(bins):
        return jnp.histogram_bin_edges(a, bins, range, weights)
    low, high = jnp.histogram_bin_edges(a, 1, range)
    return linspace(low, high, bins + 1, dtype=low.dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[jax.Array, jax.Array]:
    """`jax.numpy.histogram`, over a run-time number of bins too.

    Args:
        a: the values, of any shape.
        bins: the number of bins, or their edges: `(n + 1,)`.
        range: from where to where, for a number of bins; default: from the least value to the greatest.
        weights: what each value counts, in the shape of `a`; default: 1.
        density: whether to divide by widths and total, so that the integral is 1.

    Returns:
        The counts `(n,)` and the edges `(n + 1,)`.

    Raises:
        ValueError: `weights` has another shape than `a`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def counts(x, edges):  # x: (n,), edges: (m,)
        ...     return mx.numpy.histogram(x, edges)[0]
        >>> x, edges = jnp.array([0.5, 0.7, 2.0, 0.1]), jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> print(mx.mask(counts, ["n", "m"], "m - 1")([x, edges], {"n": 3, "m": 3}))
        [2. 1. 0.]
    """
    if not (is_symbolic(bins) or has_symbolic(bins)):
        edges = histogram_bin_edges(a, bins, range) if has_symbolic(a) else bins
        return jnp.histogram(a, edges, range, weights, density)
    if weights is not None and jnp.shape(a) != jnp.shape(weights):
        raise ValueError(f"histogram: weights {jnp.shape(weights)} must have the shape of a, {jnp.shape(a)}.")
    dtype = inexact(a) if weights is None else inexact(a, weights)
    values = jnp.asarray(a, dtype)
    counted = jnp.ones_like(values) if weights is None else jnp.asarray(weights, dtype)
    edges = histogram_bin_edges(values, bins, range)
    last = jnp.asarray(edges.shape[0] - 1)
    index = jnp.where(values == edges[-1], last, searchsorted(edges, values, side="right"))
    counts = jnp.zeros(edges.shape, counted.dtype).at[index].add(counted)[1:]
    if density:
        counts = counts / jnp.diff(edges) / counts.sum()
    return counts, edges


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> jax.Array:
    """`jax.numpy.interp`, between a run-time number of points too.

    Args:
        x: where to interpolate, of any shape.
        xp: `(n,)`, the increasing positions of the points.
        fp: `(n,)`, their values.
        left: the value below `xp[0]`, or `"extrapolate"`; default: `fp[0]`.
        right: the value above `xp[-1]`, or `"extrapolate"`; default: `fp[-1]`.
        period: the period of `x`, if it has one; `left` and `right` then do not count.

    Returns:
        The values at `x`, in its shape.

    Raises:
        ValueError: `xp` and `fp` are not one-dimensional and of equal size, `period` is no scalar, `x` is complex, or
            `left` or `right` is a string other than `"extrapolate"`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> masked = mx.mask(mx.numpy.interp, ["_", "n", "n"], "_")
        >>> times, values = jnp.array([0.0, 1.0, 2.0, 9.0]), jnp.array([0.0, 10.0, 30.0, jnp.nan])
        >>> print(masked([jnp.array([0.5, 1.5, 7.0]), times, values], {"n": 3}))
        [ 5. 20. 30.]
    """
    if not has_symbolic(x, xp, fp):
        return jnp.interp(x, xp, fp, left, right, period)
    if jnp.shape(xp) != jnp.shape(fp) or jnp.ndim(xp) != 1:
        shapes = f"{jnp.shape(xp)} and {jnp.shape(fp)}"
        raise ValueError(f"interp: xp and fp must be one-dimensional arrays of equal size, not of shapes {shapes}.")
    if wrong := [end for end in (left, right) if isinstance(end, str) and end != "extrapolate"]:
        raise ValueError(f"interp: the only string for left and right is 'extrapolate', not {wrong[0]!r}.")
    if period is not None and jnp.ndim(period) != 0:
        raise ValueError(f"interp: period must be a scalar, but has the shape {jnp.shape(period)}.")
    positions = inexact(x, xp)
    x, xp, fp = jnp.asarray(x, positions), jnp.asarray(xp, positions), jnp.asarray(fp, inexact(fp))
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError("interp: complex positions are not ordered; interpolate over their real parts, say.")
    if period is not None:
        period = jnp.abs(period)
        x, (xp, fp) = x % period, jax.lax.sort_key_val(xp % period, fp)
        xp = jnp.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = jnp.concatenate([fp[-1:], fp, fp[:1]])
    i = jnp.clip(searchsorted(xp, x, side="right"), 1, jnp.asarray(xp.shape[0] - 1))
    rise, run, delta = fp[i] - fp[i - 1], xp[i] - xp[i - 1], x - xp[i - 1]
    tied = jnp.abs(run) <= np.spacing(np.finfo(xp.dtype).eps)  # no slope, and none that is nan
    between = jnp.where(tied, fp[i - 1], fp[i - 1] + (delta / jnp.where(tied, 1, run)) * rise)
    if period is None and not isinstance(left, str):
        between = jnp.where(x < xp[0], fp[0] if left is None else left, between)
    if period is None and not isinstance(right, str):
        between = jnp.where(x > xp[-1], fp[-1] if right is None else right, between)
    return between
