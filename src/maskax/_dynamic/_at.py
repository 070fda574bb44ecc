"""Boolean indexing: to read, to set, to add."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._dynamic._select import places, take
from maskax._dynamic._size import anywhere


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
        values = jnp.asarray(values, x.dtype)
        if values.ndim == x.ndim:  # each has its turn
            count = jnp.sum(keep)
            if _compat.is_concrete(count) and values.shape[0] not in (1, int(count)):
                raise ValueError(f"at: there are {int(count)} places, but {values.shape[0]} values.")
            values = jnp.take(values, jnp.cumsum(keep) - 1, axis=0, mode="clip")
        along = jnp.expand_dims(keep, range(1, x.ndim))
        return jnp.where(along, combine(x, values), x).reshape(self._x.shape)


def _flat(x: Any, keep: Any) -> Any:
    """`x` with the axes that `keep` has merged into one."""
    return x if keep.ndim == 1 else x.reshape(-1, *x.shape[keep.ndim :])


@anywhere
def _get(x: Any, keep: Any, max_size: Any) -> jax.Array:
    return take(_flat(x, keep), places(jnp.ravel(keep), max_size))
