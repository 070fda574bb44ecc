"""Sizes: what a dimension is at run time (`true`) and how large it can get (`bound`)."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._bounds import Dim, bounds, outer_dim
from maskax._errors import SpecError, UnmaskableError
from maskax._scope import Scope


class Shrink(NamedTuple):
    """How the scans of a batch shrink.

    Attributes:
        prefixes: through how many prefixes of the rows.
        by: the variable in whose order rows come, longest first; `""`: in any order.
    """

    prefixes: int
    by: str = ""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The dimension variables of one masked call.

    Attributes:
        limits: the padded size of each variable (an int, or a dimension of an enclosing trace).
        values: the true size of each variable, an integer scalar; those that the program makes come in as it runs.
        alive: a boolean scalar, false on the steps of a loop that run past a row's own end; `None` outside such loops.
            Whatever is computed while it is false is thrown away, but must not produce nan on the way.
        scope: how names are shown to the user.
        shrink: how scans run ever fewer rows of a batch; `None`: they run all rows to the last end.
    """

    limits: Mapping[str, Dim]
    values: dict[str, Any]
    scope: Scope
    alive: Any = None
    shrink: Shrink | None = None

    def replace(self, **changes: Any) -> "Sizes":
        """A copy with some attributes changed."""
        return dataclasses.replace(self, **changes)

    def is_ragged(self, dim: Dim) -> bool:
        """Whether `dim` is only known at run time."""
        return not self.limits.keys().isdisjoint(_compat.variables(dim))

    def ragged_axes(self, shape: Sequence[Dim]) -> tuple[int, ...]:
        """The axes of `shape` that have padding."""
        return tuple(axis for axis, dim in enumerate(shape) if self.is_ragged(dim))

    def true(self, dim: Dim) -> Any:
        """The run-time size: an int for a static dimension, else an integer scalar of at least 0."""
        return jnp.maximum(self.value(dim), 0) if self.is_ragged(dim) else dim

    def value(self, dim: Dim) -> Any:
        """Like `true`, for expressions that may be negative (`n - 1` where n is 0, a left padding)."""
        if not self.is_ragged(dim):
            return dim
        return _compat.evaluate_dim(dim, lambda name: self._of_name(name, dim), jnp.maximum, jnp.minimum)

    def _of_name(self, name: str, dim: Dim) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.limits:
            raise UnmaskableError(
                f"{_compat.source_line()}: {self.scope.name(name)!r}, a size known at run time only, is used outside "
                "of the loop, branch or checkpoint that makes it.\n"
                "  Return what does not have it in its shape: a sum, or values put into an array of the padded size."
            )
        return outer_dim(dim, name)

    def define(self, name: str, value: Any) -> None:
        """Says what a size is that the program makes."""
        if name in self.values:
            raise UnmaskableError(
                f"{_compat.source_line()}: a function that JAX has traced once makes the size {name!r} twice.\n"
                "  Take jax.jit off the function that makes it."
            )
        self.values[name] = value

    def inside(self) -> "Sizes":
        """These sizes in a program of its own: what is made in it stays in it."""
        return self.replace(values=dict(self.values))

    def bounds(self, dim: Dim) -> tuple[Dim, Dim]:
        """The least and the greatest value of `dim` while every variable runs from 0 to its padded size."""
        return bounds(dim, self._limit_items) if self.is_ragged(dim) else (dim, dim)

    @functools.cached_property
    def _limit_items(self) -> tuple[tuple[str, Dim], ...]:
        return tuple(self.limits.items())

    def bound(self, dim: Dim) -> Dim:
        """The padded size of `dim`: the extent that arrays have in that dimension."""
        if not self.is_ragged(dim):
            return dim
        return _compat.max_dim(self.bounds(dim)[1], 0)

    def padded(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The padded shape of a logical one."""
        return tuple(map(self.bound, shape))

    def keep(self, shape: Sequence[Dim], axes: Sequence[int] | None = None) -> Any:
        """Boolean mask of what is real, broadcastable to the padded `shape`; `None` where all of it is.

        Only raggedness along `axes` (default: every axis) is looked at.
        """
        mask = None
        for axis in self.ragged_axes(shape):
            if axes is None or axis in axes:
                positions = jax.lax.iota(_compat.dimension_dtype(), self.bound(shape[axis]))
                others = [a for a in range(len(shape)) if a != axis]
                inside = jax.lax.expand_dims(positions < self.true(shape[axis]), others)
                mask = inside if mask is None else mask & inside
        return mask


def solve_limits(specs: Sequence[tuple[str, tuple[Dim, ...], Sequence[Dim]]], scope: Scope) -> dict[str, Dim]:
    """The largest value of each variable at which every array's true shape still fits its padded one.

    Args:
        specs: per array its name for errors, its logical and its padded shape.
        scope: where the names live.

    Raises:
        SpecError: a variable never stands in a dimension of the form `a*n + b`, so nothing bounds it.
    """
    limits: dict[str, Dim] = {}
    seen: dict[str, str] = {}
    for where, logical, padded in specs:
        for dim, size in zip(logical, padded):
            for name in _compat.variables(dim) - _compat.variables(size):
                seen.setdefault(name, f"{scope.show(dim)!r} of {where}")
            match _compat.linear_parts(dim):
                case name, a, b if a > 0 and name in seen:
                    limit = (size - b) // a
                    limits[name] = -_compat.max_dim(-limits[name], -limit) if name in limits else limit
    if missing := sorted(seen.keys() - limits.keys()):
        raise SpecError(
            f"in_shapes: nothing says how large {scope.name(missing[0])!r} can get: it stands only in "
            f"{seen[missing[0]]}. Let one array have a dimension of the form 'a*{scope.name(missing[0])} + b'."
        )
    for name, limit in limits.items():
        if isinstance(limit, int) and limit < 0:
            raise SpecError(
                f"in_shapes: the padded arrays are too small for any size {scope.name(name)!r} >= 0: {seen[name]}."
            )
    return limits
