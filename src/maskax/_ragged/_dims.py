"""Dimensions of a row written as text (`"n"`, `"n - 1"`, `"_"`), and array helpers that know NumPy, JAX and keys."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from maskax import _compat
from maskax._errors import SpecError
from maskax._scope import entries, names_in

STATIC = "_"
_DEFAULT = ("n", "m", "k", "l", "i", "j")


def default_name(axis: int) -> str:
    """The name of a ragged axis that has none: the same in every batch, so that batches go together."""
    return _DEFAULT[axis] if axis < len(_DEFAULT) else f"n{axis}"


def read(spec: str | Sequence[str | None] | None, rank: int, where: str) -> tuple[str, ...] | None:
    """One dimension per axis from a shape string or a sequence of names; `None` if it is to be found out.

    Axes that it does not mention are static.
    """
    if spec is None:
        return None
    names = entries(spec) if isinstance(spec, str) else [name or STATIC for name in spec]
    names = [name for name in names if name and name != "..."]
    if len(names) > rank:
        raise SpecError(
            f"{where} has {len(names)} entries, {spec!r}, but the rows have {rank} axes: give one name per axis, "
            "'_' for an axis that is not ragged."
        )
    return (*names, *[STATIC] * (rank - len(names)))


_SCOPE = jax.export.SymbolicScope()


@functools.cache
def _parsed(dim: str) -> Any:
    try:
        return jax.export.symbolic_shape(dim, scope=_SCOPE)[0]
    except ValueError as error:
        raise SpecError(
            f"dims: {dim!r} cannot be read: {str(error).splitlines()[0]}\n  Write a name ('n'), an expression "
            "('n + 1', '2*n', 'floordiv(n, 2)'), or '_' for an axis that is not ragged."
        ) from None


def variables(dims: Sequence[str]) -> tuple[str, ...]:
    """The names in `dims`, each once."""
    return tuple(dict.fromkeys(name for dim in dims if dim != STATIC for name in names_in(dim)))


def linear(dim: str) -> bool:
    """Whether `dim` is `a*n + b`: an array padded in it says how large `n` can get."""
    return _compat.linear_parts(_parsed(dim)) is not None


def shorter(dim: str) -> bool:
    """Whether `dim` is `n - b`: JAX does not know that it is not empty."""
    match _compat.linear_parts(_parsed(dim)):
        case (_, 1, b):
            return b < 0
        case _:
            return False


def substitute(dim: Any, expressions: Mapping[str, str]) -> str:
    """The dimension `dim` with an expression for every variable, written out."""
    of_variable = lambda name: _parsed(expressions[name])
    return str(_compat.evaluate_dim(dim, of_variable, _compat.max_dim, _compat.min_dim))


def evaluate(dim: str, sizes: Mapping[str, Any]) -> Any:
    """The run-time value of `dim`, an integer array, at least 0."""
    xp = numpy_of(*sizes.values())
    return xp.maximum(_compat.evaluate_dim(_parsed(dim), sizes.__getitem__, xp.maximum, xp.minimum), 0)


def innermost(batch: Any) -> Any:
    """The array that holds the values of a batch, of a batch of batches too."""
    return innermost(batch.data) if hasattr(batch.data, "dims") else batch.data


def row_dims(batch: Any) -> tuple[str, ...]:
    """The dimensions of a row of the innermost array: of a batch of batches those of rows of rows, too."""
    if not hasattr(batch.data, "dims"):
        return batch.dims
    outer, rank = row_dims(batch.data), len(batch.dims)
    own = [theirs if dim == STATIC else dim for dim, theirs in zip(batch.dims, outer[len(outer) - rank :])]
    return (*outer[: len(outer) - rank], *own)


def numpy_of(*arrays: Any) -> Any:
    """`numpy` for arrays on the host, else `jax.numpy`."""
    return np if all(isinstance(x, np.ndarray | np.generic) for x in arrays) else jnp


def is_key(array: Any) -> bool:
    """Whether `array` holds typed PRNG keys."""
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def resize(array: Any, shape: Sequence[int]) -> Any:
    """`array` cut, or padded with zeros, at the end of every axis."""
    array = array[tuple(slice(0, size) for size in shape)]
    widths = [(0, size - old) for size, old in zip(shape, array.shape)]
    if not any(after for _, after in widths):
        return array
    if is_key(array):
        data = jnp.pad(jax.random.key_data(array), [*widths, (0, 0)])
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    return numpy_of(array).pad(array, widths)


def on_host(array: Any) -> Any:
    """`array` as a NumPy array where its values are known: cutting or padding there compiles nothing."""
    return array if isinstance(array, Tracer) or is_key(array) else np.asarray(array)


def like(array: Any, model: Any) -> Any:
    """`array`, which may have been taken to the host, as `model` is: NumPy's or JAX's."""
    return array if isinstance(model, np.ndarray) else jnp.asarray(array)
