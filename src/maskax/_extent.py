"""What the drop-in functions ask of a size that is known at run time only."""

import bisect
import operator
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._errors import UnmaskableError

_LIMIT = 2**31


def is_symbolic(*dims: Any) -> bool:
    """Whether any of these is known at run time only; what is no dimension is not."""
    return any(map(jax.export.is_symbolic_dim, dims))


def has_symbolic(*arrays: Any) -> bool:
    """Whether the shape of any of these arrays is known at run time only."""
    return any(is_symbolic(*jnp.shape(x)) for x in arrays)


def holds(comparison: Any, left: Any, right: Any) -> bool:
    """Whether `comparison(left, right)` is known to hold for all sizes."""
    try:
        return comparison(left, right)
    except _compat.InconclusiveDimension:
        return False


def greatest(dim: Any) -> int:
    """The greatest value that a dimension is known to take: in a masked function, its padded size.

    Raises:
        UnmaskableError: nothing is known of it.
    """
    bound = bisect.bisect_left(range(_LIMIT), True, key=lambda size: holds(operator.le, dim, size))
    if bound == _LIMIT:
        raise UnmaskableError(
            f"Nothing says how large the run-time size {dim} can get.\n"
            f"  Call the function through maskax.mask, which knows, or add the constraint '{dim} <= 1024', say."
        )
    return bound


def extend(x: Any, axis: int = 0) -> Any:
    """`x` at its greatest extent, which is static: beyond its end the last element is repeated."""
    size = x.shape[axis]
    if not is_symbolic(size):
        return x
    positions = jnp.clip(jnp.arange(greatest(size)), max=jnp.asarray(size - 1))
    return jnp.take(x, jnp.maximum(positions, 0), axis, mode="clip")


def inexact(*arrays: Any) -> Any:
    """The inexact dtype that arrays or dtypes have in common, by JAX's rules for division."""
    like = jax.ShapeDtypeStruct((), jnp.result_type(*arrays))
    return jax.eval_shape(jnp.true_divide, like, like).dtype
