"""Padded arrays, and how a rule sees one: at its logical shape, with fills that cost nothing where nothing is to do."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat, _signs
from maskax._shapes import Dim, Sizes
from maskax._watch import watch


class Padded(NamedTuple):
    """A padded array.

    Attributes:
        data: the array; its padding is finite.
        pad: what is known to lie in the padding of every axis, or `None`; for a scalar, its value, if known.
        raw: the array that `data` was filled from, if any. Filling again starts from it: XLA does not merge selects.
        dim: the dimension that a scalar is the run-time value of, if any.
        spread: the operand that `data` is a broadcast of, if any, and
        respread: that broadcast.
        pad_axes: the axes whose padding holds `pad`, where not all do.
        note: what a rule wants a later rule to know.
        sign: whether it may be negative, see `_signs`.
        reduced: whether a ragged axis was reduced on the way. Over no element that may give nan: a mean, for one.
    """

    data: Any
    pad: Any = None
    raw: Any = None
    dim: Any = None
    spread: "Operand | None" = None
    respread: Callable[[Any], Any] | None = None
    pad_axes: tuple[int, ...] | None = None
    note: Any = None
    reduced: bool = False
    sign: int = _signs.UNKNOWN


@dataclasses.dataclass(frozen=True)
class Operand:
    """One operand of one equation: a padded array seen at its logical shape."""

    value: Padded
    aval: Any
    sizes: Sizes

    @property
    def data(self) -> Any:
        """The padded array."""
        return self.value.data

    @property
    def pad(self) -> Any:
        """What is known to lie in the padding of every axis, or `None`."""
        return self.value.pad if self.value.pad_axes is None else None

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The logical shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ragged(self) -> tuple[int, ...]:
        """The axes that have padding."""
        return self.sizes.ragged_axes(self.shape)

    def keep(self, axes: Sequence[int] | None = None) -> Any:
        """Boolean mask, broadcastable to the array: true where real. `None` if no axis of `axes` has padding."""
        return self.sizes.keep(self.shape, axes)

    def fill(self, value: Any, axes: Sequence[int] | None = None) -> Any:
        """The array with `value` in the padding of `axes` (default: of every axis)."""
        axes = [axis for axis in self.ragged if axes is None or axis in axes]
        if known_equal(self.value.pad, value):
            done = self.ragged if self.value.pad_axes is None else self.value.pad_axes
            axes = [axis for axis in axes if axis not in done]
        if not axes:
            return self.data
        watch().fill(self, value, axes)
        whole = len(axes) == len(self.ragged)
        source = self.value.raw if whole and self.value.raw is not None else self.data
        return select(self.keep(axes), source, value)

    def safe(self, value: Any, shape: Sequence[Dim] | None = None) -> Any:
        """The array with `value` wherever the result will not be used: in padding and on steps past a row's end.

        Copies that a broadcast made in the padding are true values elsewhere, and stay: what is filled is the operand
        of the broadcast, which is smaller. Only what was reduced over an axis with no true position is filled too.

        Args:
            value: harmless for the primitive.
            shape: the logical shape that the operand is about to be broadcast to, if not its own.
        """
        if value == 1 and self.value.sign == _signs.POSITIVE and not self.value.reduced:
            return self.data  # as harmless as 1 is
        base = self.value.spread or self
        shape = self.shape if shape is None else shape
        masks = [base.keep(), self.sizes.alive]
        if self.value.reduced:
            masks += [self.sizes.true(dim) > 0 for dim in set(shape) - set(base.shape) if self.sizes.is_ragged(dim)]
        masks = [mask for mask in masks if mask is not None]
        if not masks or (len(masks) == 1 and base.ragged and known_equal(base.pad, value)):
            return self.data
        watch().fill(base, value, None)
        source = base.data if base.value.raw is None else base.value.raw
        filled = select(functools.reduce(operator.and_, masks), source, value)
        return self.value.respread(filled) if self.value.respread else filled


def is_wild(pad: Any) -> bool:
    """Whether padding is known to hold nan or inf."""
    return pad is not None and _compat.is_concrete(pad) and not np.all(np.isfinite(np.asarray(pad, np.complex128)))


def known_equal(pad: Any, value: Any) -> bool:
    """Whether padding known to hold `pad` already holds `value`."""
    return pad is not None and np.ndim(value) == 0 and _compat.is_concrete(value) and bool(np.all(np.equal(pad, value)))


def select(mask: Any, data: Any, value: Any) -> Any:
    """`data` where `mask`, else the scalar `value`; for typed PRNG keys, the key whose data is all zeros."""
    if jnp.issubdtype(data.dtype, jax.dtypes.prng_key):
        fill = jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(data)), impl=jax.random.key_impl(data))
    else:
        fill = jnp.asarray(value, data.dtype)
        if not isinstance(data, jax.Array):  # a number that the program writes down, where JAX runs without jit
            data = jnp.asarray(data)
    return jax.lax.select_n(jnp.broadcast_to(mask, data.shape), jnp.broadcast_to(fill, data.shape), data)


def zeros(aval: Any) -> Any:
    """Zeros of a type; for typed PRNG keys, those whose data is all zeros."""
    if not jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jnp.zeros(aval.shape, aval.dtype)
    key = jax.eval_shape(jax.random.key_data, aval)
    return jax.random.wrap_key_data(jnp.zeros(key.shape, key.dtype), impl=aval.dtype._impl.name)


def split(values: Sequence[Any], *stops: int) -> list[list[Any]]:
    """A list in parts."""
    edges = [0, *stops, len(values)]
    return [list(values[a:b]) for a, b in zip(edges, edges[1:])]
