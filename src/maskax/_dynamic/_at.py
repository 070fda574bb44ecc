"""Boolean indexing: to read, to set, to add."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._dynamic._places import places, take
from maskax._dynamic._size import anywhere
from maskax._extent import is_symbolic


def at(x: Any) -> "At":
    """`x[keep]` of NumPy, with booleans: `mx.at(x)[keep].get()`, `.set(values)`, `.add(values)` and their kin.

    Args:
        x: the array, `(n, ...)`.

    Returns:
        What booleans `(n,)`, or of as many first axes as they have, index.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> x = jnp.array([1.0, -2.0, 3.0])
        >>> mx.at(x)[x > 0].get().tolist()
        [1.0, 3.0]
        >>> mx.at(x)[x > 0].set(mx.at(x)[x > 0].get() * 10).tolist()
        [10.0, -2.0, 30.0]
    """
    return At(jnp.asarray(x))


@dataclasses.dataclass(frozen=True)
class At:
    """An array to be indexed by booleans."""

    _x: Any

    def __getitem__(self, keep: Any) -> "Chosen":
        keep = jnp.asarray(keep)
        if keep.dtype != bool or keep.ndim == 0 or keep.ndim > self._x.ndim:
            raise TypeError(
                f"at: booleans of 1 to {self._x.ndim} dimensions are needed, not {keep.dtype}{list(keep.shape)}; with "
                "integers, x[index] and x.at[index] do."
            )
        if keep.shape != self._x.shape[: keep.ndim]:
            raise IndexError(f"at: booleans of the shape {keep.shape} do not index an array of shape {self._x.shape}.")
        return Chosen(self._x, keep)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The elements of an array at which booleans are true, in order, `(k, ...)`."""

    _x: Any
    _keep: Any

    def get(self, *, max_size: Any = None) -> jax.Array:
        """The elements, `(k, ...)`, up to `max_size` of them."""
        return _get(self._x, self._keep, max_size)

    def set(self, values: Any) -> jax.Array:
        """The array with other elements there: `values`, `(k, ...)` or one for all."""
        return self._update(values, lambda old, new: new)

    def add(self, values: Any) -> jax.Array:
        """The array with `values` added there, `(k, ...)` or one for all."""
        return self._update(values, jnp.add)

    def multiply(self, values: Any) -> jax.Array:
        """The array multiplied there, by `(k, ...)` or one for all."""
        return self._update(values, jnp.multiply)

    def min(self, values: Any) -> jax.Array:
        """The array with the lesser of its elements and `values` there."""
        return self._update(values, jnp.minimum)

    def max(self, values: Any) -> jax.Array:
        """The array with the greater of its elements and `values` there."""
        return self._update(values, jnp.maximum)

    def _update(self, values: Any, combine: Callable[[Any, Any], Any]) -> jax.Array:
        x, keep = _flat(self._x, self._keep), jnp.ravel(self._keep)
        values = jnp.asarray(values)
        if not jnp.can_cast(values.dtype, x.dtype, "same_kind"):
            raise TypeError(f"at: {values.dtype} values do not fit into {x.dtype}.")
        values = values.astype(x.dtype)
        if values.ndim == x.ndim:  # each has its turn
            turn = jnp.cumsum(keep) - 1 + _excess(values.shape[0], jnp.sum(keep, dtype=jnp.int32))
            values = take(values, turn)
        along = jnp.expand_dims(keep, range(1, x.ndim))
        old = x
        if jnp.issubdtype(x.dtype, jnp.inexact):  # what is not chosen, nan perhaps, is not for derivatives by `values`
            old = jnp.where(along, x, jnp.zeros_like(x))
        return jnp.where(along, combine(old, values), x).reshape(self._x.shape)


def _excess(values: Any, places: Any) -> Any:
    """By how many `values` there are more than places, which must be 0, or one value for all."""
    if _compat.is_concrete(places) and not is_symbolic(values):
        if values not in (1, int(places)):
            raise ValueError(f"at: there are {int(places)} places, but {values} values.")
        return 0
    if isinstance(values, int) and values == 1:
        return 0
    excess = jnp.asarray(values, jnp.int32) - places
    excess = jnp.where(jnp.asarray(values) == 1, 0, excess)
    return 0 * _compat.size_check(excess, 0, 0, f"{_compat.source_line()}: at: {{size}} more values than places.")


def _flat(x: Any, keep: Any) -> Any:
    """`x` with the axes that `keep` has merged into one."""
    return x if keep.ndim == 1 else x.reshape(math.prod(keep.shape), *x.shape[keep.ndim :])


@anywhere
def _get(x: Any, keep: Any, max_size: Any) -> jax.Array:
    return take(_flat(x, keep), places(keep, max_size))
