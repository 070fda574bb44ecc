"""`jax.random` where JAX wants the size of an axis as a number: the same draws, at run-time sizes too.

What is drawn is what `jax.random` draws at the true size, with the default generator. `categorical` without replacement
and the distributions need no drop-in.
"""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax._extent import has_symbolic, holds, inexact, is_symbolic
from maskax.numpy import searchsorted

_MOST = (0, 1625, 2642245)
"""The largest size that JAX shuffles by no, one or two sorts: `ceil(3 * log(size) / log(2**32 - 1))` of them."""


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> jax.Array:
    """`jax.random.permutation`, of an axis of run-time size too.

    Args:
        key: the key to draw with.
        x: the array to shuffle, `(..., n, ...)`; or a size n, for a permutation of `0..n-1`.
        axis: the axis to shuffle along.
        independent: whether each vector along the axis is shuffled by itself.

    Returns:
        The array with its elements in another order, or `(n,)`: what `jax.random.permutation` gives at the true size.

    Raises:
        TypeError: `x` is a scalar that is no integer.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import maskax as mx
        >>> key = jax.random.key(0)
        >>> def shuffled(x):  # x: (n,)
        ...     return mx.random.permutation(key, x)
        >>> masked = mx.mask(shuffled, ["n"], "n")([jnp.arange(6)], {"n": 4})
        >>> bool((masked[:4] == jax.random.permutation(key, 4)).all())
        True
    """
    if not (is_symbolic(x) or has_symbolic(x)):
        return jax.random.permutation(key, x, axis, independent)
    if is_symbolic(x):
        return _shuffle(key, jnp.arange(x), 0)
    axis = range(x.ndim)[axis]
    if independent or x.ndim == 1:
        return _shuffle(key, x, axis)
    order = _shuffle(key, jnp.arange(x.shape[axis]), 0)
    return jnp.take(x, order, axis, unique_indices=True)


def _shuffle(key: Any, x: Any, axis: int) -> jax.Array:
    """Sorts by random keys, as often as JAX does at the true size."""
    count = functools.reduce(operator.mul, x.shape)
    for most in _MOST:
        if holds(operator.le, count, max(most, 1)):
            break
        key, used = jax.random.split(key)
        _, again = jax.lax.sort_key_val(jax.random.bits(used, x.shape, "uint32"), x, axis)
        x = again if most == 0 else jnp.where(jnp.asarray(count) > most, again, x)
    return x


def choice(
    key: Any,
    a: Any,
    shape: Sequence[Any] = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> jax.Array:
    """`jax.random.choice`, from a run-time number of elements too.

    Args:
        key: the key to draw with.
        a: the array to choose from, `(..., n, ...)`; or a size n, for numbers of `0..n-1`.
        shape: how many to draw; dimensions such as `x.shape[0]` may be among them.
        replace: whether an element may be drawn more than once.
        p: `(n,)`, how probable each element is; default: all alike. The last bit of their running sum decides in rare
            cases: it is that of the unpadded call wherever `jnp.cumsum`'s is.
        axis: the axis to choose along.
        mode: of the Gumbel noise, as for JAX, where `p` is given and `replace` is not.

    Returns:
        The chosen elements, with `shape` in the place of `axis`: what `jax.random.choice` gives at the true size.

    Raises:
        ValueError: `p` is not of shape `(n,)`.
        UnmaskableError: without replacement, where it is not known that there are as many elements as are drawn. The
            constraint that says so is named: `mask(..., constraints=("n >= 3",))`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import maskax as mx
        >>> key, p = jax.random.key(0), jnp.array([0.1, 0.2, 0.7, 0.0])
        >>> def drawn(p):  # p: (n,)
        ...     return mx.random.choice(key, p.shape[0], (5,), p=p)
        >>> masked = mx.mask(drawn, ["n"], "_")([p], {"n": 3})
        >>> bool((masked == jax.random.choice(key, 3, (5,), p=p[:3])).all())
        True
    """
    if not (is_symbolic(a, *shape) or has_symbolic(a) or (p is not None and has_symbolic(p))):
        return jax.random.choice(key, a, shape, replace, p, axis, mode)
    whole = is_symbolic(a) or jnp.ndim(a) == 0
    axis = 0 if whole else range(jnp.ndim(a))[axis]
    size, draws = a if whole else a.shape[axis], math.prod(shape)
    if p is not None and tuple(jnp.shape(p)) != (size,):
        raise ValueError(f"choice: p must have the shape {(size,)} of what is chosen from, not {jnp.shape(p)}.")
    if not replace and draws > size:
        raise ValueError(f"choice: {draws} draws from {size} elements with replace=False; draw at most as many.")
    if p is None and not replace:
        chosen = permutation(key, jnp.arange(a) if whole else a, axis)
        return _reshaped(chosen[(*[slice(None)] * axis, slice(draws))], shape, axis)
    if p is None:
        index = jax.random.randint(key, shape, 0, jnp.asarray(size))
    elif replace:
        total = jnp.cumsum(jnp.asarray(p, inexact(p)))
        drawn = total[-1] * (1 - jax.random.uniform(key, shape, total.dtype))
        index = searchsorted(total, drawn)
    else:
        p = jnp.asarray(p, inexact(p))
        noise = jax.random.gumbel(key, (size,), p.dtype, mode) + jnp.log(p)
        index = jax.lax.top_k(noise, draws)[1]
    return _reshaped(index if whole else jnp.take(a, index.ravel(), axis), shape, axis)


def _reshaped(x: Any, shape: Sequence[Any], axis: int) -> jax.Array:
    return x.reshape(*x.shape[:axis], *shape, *x.shape[axis + 1 :])
