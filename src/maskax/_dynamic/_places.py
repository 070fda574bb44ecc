"""Where an array of booleans is true, with a size that the data decides, and what is there."""

import math
import operator
from typing import Any

import jax.numpy as jnp

from maskax._dynamic._size import size_of
from maskax._extent import is_symbolic
from maskax._scope import Scope


def places(given: Any, max_size: Any = None) -> Any:
    """The positions at which booleans, raveled, are true, in order: `(k,)`; the same `k` for the same array."""
    keep, size = jnp.ravel(given), math.prod(given.shape)
    bound = _least(size, max_size)

    def find() -> Any:
        k = size_of(jnp.sum(keep, dtype=jnp.int32), bound)
        # Each true position is written where its turn is, the others behind; a scatter costs less than a sort.
        room = max(size + 1, 2) if isinstance(size, int) else size + 1  # JAX takes x[:k] of one element for all of it
        turn = jnp.where(keep, jnp.cumsum(keep, dtype=jnp.int32) - 1, size)
        return jnp.zeros(room, jnp.int32).at[turn].set(jnp.arange(size), mode="promise_in_bounds")[:k]

    scope = Scope.current()
    return find() if scope is None else scope.once(given, bound, find)


def take(a: Any, index: Any, axis: int = 0) -> Any:
    """`jnp.take` of `(k,)` slices, of which there are none where the array is empty: JAX asks that of `k` itself."""
    if a.shape[axis] == 0:
        return jnp.zeros((*a.shape[:axis], *index.shape, *a.shape[axis + 1 :]), a.dtype)
    return jnp.take(a, index, axis=axis, mode="clip")


def _least(size: Any, max_size: Any) -> Any:
    if max_size is None:
        return size
    max_size = max_size if is_symbolic(max_size) else operator.index(max_size)
    return size if isinstance(size, int) and isinstance(max_size, int) and size <= max_size else max_size


def true(a: Any) -> Any:
    """Where an array is not 0; booleans as they are, so that `places` knows them again."""
    return a if a.dtype == bool else a != 0
