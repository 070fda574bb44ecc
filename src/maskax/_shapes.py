"""Shape strings, and sizes: what a dimension is at run time (`true`) and how large it can get (`bound`)."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import export

from maskax import _compat
from maskax._bounds import Dim, bounds, outer_dim
from maskax._errors import MaskaxError, SpecError

# --- shape strings -----------------------------------------------------------------------------------------------


_NAME = r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z]\w*"


def names_in(text: str) -> list[str]:
    """The dimension names in a shape string or constraint, each once."""
    return list(dict.fromkeys(re.findall(_NAME, text)))


def entries(text: str) -> list[str]:
    """The entries of a shape string: `"(floordiv(n, 2), _)"` has two."""
    text = text.strip()
    depth = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    if text.startswith("(") and depth[-1] == 0 and all(depth[:-1]):
        return entries(text[1:-1])
    cuts = [i for i, c in enumerate(text) if c == "," and not depth[i]]
    return [text[a + 1 : b].strip() for a, b in zip([-1, *cuts], [*cuts, len(text)])]


class Scope:
    """Where dimension names live while one function is traced.

    JAX never lets dimensions of two scopes meet, so a masked function that is traced inside another one's trace shares
    the outer scope and gets fresh names (`n` becomes `n__1`) there.
    """

    _current: ContextVar["Scope | None"] = ContextVar("maskax_scope", default=None)

    def __init__(self) -> None:
        outer = Scope._current.get()
        self.symbolic = outer.symbolic if outer else export.SymbolicScope()
        self.depth: list[int] = outer.depth if outer else [0]
        self._suffix = f"__{self.depth[0]}" if outer else ""
        self.depth[0] += 1
        self.names: list[str] = []

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While active, masked functions that are called join this scope."""
        token = Scope._current.set(self)
        try:
            yield
        finally:
            Scope._current.reset(token)

    def local(self, text: str) -> str:
        """`text` with this scope's own spelling of each name."""
        return re.sub(_NAME, rf"\g<0>{self._suffix}", text) if self._suffix else text

    def name(self, variable: str) -> str:
        """The user's spelling of a variable."""
        return variable.removesuffix(self._suffix)

    def show(self, shape: Any) -> str:
        """A shape or dimension as the user would write it."""
        text = shape if isinstance(shape, str) else _shape_text(shape) if isinstance(shape, tuple) else str(shape)
        return text.replace(self._suffix, "") if self._suffix else text

    def parse(
        self, spec: str, shape: Sequence[Dim] | None, where: str, error: type[MaskaxError] = SpecError
    ) -> tuple[Dim, ...]:
        """The dimensions that `spec` gives to an array of padded shape `shape` (`None`: of any shape)."""
        text = ", ".join(entries(spec))
        try:
            like = None if shape is None else tuple(shape)
            dims = export.symbolic_shape(self.local(text), scope=self.symbolic, like=like) if text else []
        except (ValueError, IndexError) as problem:  # an IndexError where there are more entries than dimensions
            fit = "cannot be read" if shape is None else f"does not fit an array of shape {_shape_text(shape)}"
            raise error(
                f"{where}: the shape string {spec!r} {fit}.\n"
                f"  {_first_line(problem) if isinstance(problem, ValueError) else 'It has more entries.'}\n"
                "  Write one entry per dimension: a name ('n'), an expression ('n + 1', '2*n'), a number, or '_' for a "
                "dimension that is not ragged; '...' for all that remain."
            ) from None
        self.names += [name for name in names_in(text) if name not in self.names]
        if shape is not None and len(dims) != len(shape):
            raise error(
                f"{where}: the shape string {spec!r} has {len(dims)} dimension(s), but the array has {len(shape)}: its "
                f"shape is {_shape_text(shape)}. Write '_' for a dimension that is not ragged."
            )
        return tuple(dims)

    def constrain(self, constraints: Sequence[str]) -> None:
        """Tells JAX what may be assumed while tracing, such as `'n >= 2'`."""
        for constraint in constraints:
            try:
                _compat.add_constraints(self.symbolic, [self.local(constraint)])
            except (ValueError, NotImplementedError) as error:
                raise SpecError(
                    f"constraints: {constraint!r} is not one JAX understands: {_first_line(error)}\n"
                    "  Write 'a >= b', 'a <= b' or 'a == b', for instance 'n >= 2' or 'mod(n, 4) == 0'."
                ) from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _shape_text(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# --- sizes -------------------------------------------------------------------------------------------------------


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
        values: the true size of each variable, an integer scalar.
        alive: a boolean scalar, false on the steps of a loop that run past a row's own end; `None` outside such loops.
            Whatever is computed while it is false is thrown away, but must not produce nan on the way.
        scope: how names are shown to the user.
        shrink: how scans run ever fewer rows of a batch; `None`: they run all rows to the last end.
    """

    limits: Mapping[str, Dim]
    values: Mapping[str, Any]
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
        env = lambda name: self.values[name] if name in self.values else outer_dim(dim, name)
        return _compat.evaluate_dim(dim, env, jnp.maximum, jnp.minimum)

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
