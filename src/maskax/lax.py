"""`jax.lax` where JAX wants the size of an axis as a number: the same functions, at run-time sizes too."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from maskax._extent import extend, is_symbolic


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """`jax.lax.associative_scan`, at run-time sizes too.

    Each prefix is combined in the same order as by JAX, whatever the size, in as many parallel steps as the padded
    size takes. Past the end `fn` is given elements of the scan, never what lies in the padding.

    Args:
        fn: an associative function of two trees like `elems`, which combines the elements along `axis`.
        elems: a tree of arrays with the same size along `axis`: `(..., n, ...)`.
        reverse: whether to scan from the end.
        axis: the axis to scan along.

    Returns:
        A tree like `elems`: at each position the combination of all elements up to there.

    Raises:
        ValueError: the arrays differ in size along `axis`.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def running(x):  # x: (n,)
        ...     return mx.lax.associative_scan(jnp.multiply, x)
        >>> print(mx.mask(running, ["n"], "n")([jnp.array([1.0, 2.0, 3.0, jnp.nan])], {"n": 3}))
        [1. 2. 6. 0.]
    """
    leaves, tree = jax.tree.flatten(elems)
    if not callable(fn) or not leaves or not is_symbolic(*[jnp.shape(x)[axis] for x in leaves]):
        return jax.lax.associative_scan(fn, elems, reverse=reverse, axis=axis)
    axis = range(jnp.ndim(leaves[0]))[axis]
    leaves = [jnp.moveaxis(jnp.asarray(x), axis, 0) for x in leaves]
    size = leaves[0].shape[0]
    if any(x.shape[0] != size for x in leaves):
        sizes = ", ".join(str(x.shape[0]) for x in leaves)
        raise ValueError(
            f"associative_scan: all arrays of elems must have the same size along axis {axis}, not {sizes}."
        )
    if reverse:
        leaves = [jnp.flip(x, 0) for x in leaves]
    everything = [extend(x) for x in leaves]
    # What the first combination takes is harmless where a result is thrown away: it is combined in any case.
    left, right = ([x[jnp.minimum(i, jnp.asarray(size - 1))] for x in leaves] for i in (0, 1))

    def guarded(a: Any, b: Any) -> Any:
        (_, first), (real, second) = a, b
        first = [jnp.where(_along(real, x), x, safe) for x, safe in zip(first, left)]
        second = [jnp.where(_along(real, x), x, safe) for x, safe in zip(second, right)]
        moved = [[jnp.moveaxis(x, 0, axis) for x in side] for side in (first, second)]
        out = fn(*[jax.tree.unflatten(tree, side) for side in moved])
        return real, [jnp.moveaxis(x, axis, 0) for x in jax.tree.leaves(out)]

    real = jnp.arange(everything[0].shape[0]) < jnp.asarray(size)
    _, scanned = jax.lax.associative_scan(guarded, (real, everything))
    results = [x[:size] for x in scanned]
    if reverse:
        results = [jnp.flip(x, 0) for x in results]
    return jax.tree.unflatten(tree, [jnp.moveaxis(x, 0, axis) for x in results])


def _along(flags: Any, x: Any) -> Any:
    """One flag per element along the first axis of `x`."""
    return jax.lax.expand_dims(flags, range(1, x.ndim))
