"""What is beyond the edges of an array of run-time size, and cuts into it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax._errors import UnmaskableError
from maskax._extent import has_symbolic, is_symbolic

_PERIODIC = ("reflect", "symmetric", "wrap")


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> jax.Array:
    """`jax.numpy.pad`, for arrays of run-time size in the modes `reflect`, `symmetric` and `wrap` too.

    The other modes JAX pads at run-time sizes as well.

    Args:
        array: the array, of any shape.
        pad_width: how many elements to put before and after, as for JAX: a number, a pair, or a pair per axis.
        mode: what to put there, as for JAX.
        **kwargs: the options of the mode, as for JAX.

    Returns:
        The padded array: for one axis `(before + n + after,)`.

    Raises:
        ValueError: a width is negative.
        UnmaskableError: `reflect_type="odd"` at a run-time size: rounding would differ from JAX's.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def wider(x):  # x: (n,)
        ...     return mx.numpy.pad(x, 2, mode="reflect")
        >>> print(mx.mask(wider, ["n"], "n + 4")([jnp.array([1.0, 2.0, 3.0, 9.0])], {"n": 3}))
        [3. 2. 1. 2. 3. 2. 1. 0.]
    """
    if mode not in _PERIODIC or not (has_symbolic(array) or is_symbolic(*jax.tree.leaves(pad_width))):
        return jnp.pad(array, pad_width, mode, **kwargs)
    jax.eval_shape(lambda: jnp.pad(jnp.zeros((2,) * jnp.ndim(array)), 0, mode, **kwargs))  # JAX's errors for options
    if kwargs.get("reflect_type", "even") != "even":
        raise UnmaskableError(
            f"pad: reflect_type={kwargs['reflect_type']!r} at a run-time size would not round as JAX's own does.\n"
            "  Use reflect_type='even', or pad before the mask."
        )
    for axis, (before, after) in enumerate(np.broadcast_to(np.array(pad_width, object), (jnp.ndim(array), 2))):
        if not is_symbolic(before, after) and min(before, after) < 0:
            raise ValueError(f"pad: the widths of axis {axis} must not be negative: {before}, {after}.")
        if is_symbolic(before, after) or (before, after) != (0, 0):
            size = array.shape[axis]
            position = jnp.arange(before + size + after) - jnp.asarray(before)
            array = jnp.take(array, _inside(position, jnp.asarray(size), mode), axis, mode="clip")
    return array


def _inside(position: Any, size: Any, mode: str) -> Any:
    """Which element of an axis stands at a position outside of it."""
    if mode == "wrap":
        return position % jnp.maximum(size, 1)
    last = size - 1 if mode == "reflect" else size
    folded = position % jnp.maximum(2 * last, 1)
    return jnp.minimum(folded, 2 * last - folded - (mode == "symmetric"))


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[jax.Array]:
    """`jax.numpy.array_split`, of an axis of run-time size too.

    Args:
        ary: the array, of any shape.
        indices_or_sections: the number of parts, or where each but the first begins.
        axis: the axis to split.

    Returns:
        The parts. The first ones have one element more where the size is no multiple of their number.

    Raises:
        ValueError: the number of parts is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def halves(x):  # x: (n,)
        ...     return mx.numpy.array_split(x, 2)
        >>> for half in mx.mask(halves, ["n"])([jnp.arange(1.0, 7.0)], {"n": 5})[0]:
        ...     print(half)
        [1. 2. 3.]
        [4. 5. 0.]
    """
    if not has_symbolic(ary):
        return jnp.array_split(ary, indices_or_sections, axis)
    if np.ndim(indices_or_sections):
        cuts, before = [0, *indices_or_sections, None], (slice(None),) * range(ary.ndim)[axis]
        return [ary[(*before, slice(a, b))] for a, b in zip(cuts, cuts[1:])]
    sections = int(indices_or_sections)
    if sections <= 0:
        raise ValueError(f"array_split: the number of parts must be positive, not {sections}.")
    size, parts, start = ary.shape[axis], [], jnp.asarray(0)
    for i in range(sections):
        length = (size + sections - 1 - i) // sections
        parts.append(jnp.take(ary, start + jnp.arange(length), axis, mode="clip"))
        start = start + jnp.asarray(length)
    return parts
