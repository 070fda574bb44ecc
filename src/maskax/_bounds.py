"""How large and how small a dimension expression gets: what padded shapes are made of."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jax import export

from maskax import _compat

Dim = Any
"""A dimension: an int or one of JAX's symbolic expressions such as `2*n + 1`."""

_GRID_LIMIT = 1 << 20  # up to so many combinations of sizes the bound is exact: all of them are looked at


@dataclasses.dataclass(frozen=True)
class _Interval:
    """Bounds of an integer expression; ends may be symbolic dimensions of an enclosing trace."""

    lo: Any
    hi: Any

    @staticmethod
    def of(value: Any) -> "_Interval":
        return value if isinstance(value, _Interval) else _Interval(value, value)

    def __add__(self, other: Any) -> "_Interval":
        other = _Interval.of(other)
        return _Interval(self.lo + other.lo, self.hi + other.hi)

    def __mul__(self, other: Any) -> "_Interval":
        other = _Interval.of(other)
        if other.lo is other.hi and isinstance(other.lo, int):
            ends = (self.lo * other.lo, self.hi * other.lo)
            return _Interval(*(ends if other.lo >= 0 else ends[::-1]))
        corners = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return _Interval(-_compat.max_dim(*[-c for c in corners]), _compat.max_dim(*corners))

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> "_Interval":
        divisor = _Interval.of(other)
        if divisor.lo is divisor.hi and isinstance(divisor.lo, int) and divisor.lo > 0:
            return _Interval(self.lo // divisor.lo, self.hi // divisor.lo)
        size = _compat.max_dim(self.hi, -self.lo)
        return _Interval(-size, size)

    def __mod__(self, other: Any) -> "_Interval":
        return _Interval(0, _Interval.of(other).hi - 1)

    def __rfloordiv__(self, other: Any) -> "_Interval":
        return _Interval.of(other) // self

    def __rmod__(self, other: Any) -> "_Interval":
        return _Interval.of(other) % self

    @staticmethod
    def maximum(a: Any, b: Any) -> "_Interval":
        a, b = _Interval.of(a), _Interval.of(b)
        return _Interval(_compat.max_dim(a.lo, b.lo), _compat.max_dim(a.hi, b.hi))

    @staticmethod
    def minimum(a: Any, b: Any) -> "_Interval":
        a, b = _Interval.of(a), _Interval.of(b)
        return _Interval(-_compat.max_dim(-a.lo, -b.lo), -_compat.max_dim(-a.hi, -b.hi))


def outer_dim(dim: Dim, name: str) -> Dim:
    """A variable of an enclosing trace: a static dimension as far as this one is concerned."""
    (outer,) = export.symbolic_shape(name, scope=dim.scope)
    return outer


@functools.lru_cache(maxsize=4096)
def bounds(dim: Dim, limits: tuple[tuple[str, Dim], ...]) -> tuple[Dim, Dim]:
    """The least and the greatest value of `dim` while each variable runs from 0 to its limit."""
    names = _compat.variables(dim)
    limit = {name: value for name, value in limits if name in names}
    known = len(limit) == len(names) and all(isinstance(v, int) for v in limit.values())
    if known and math.prod(v + 1 for v in limit.values()) <= _GRID_LIMIT:
        axes = np.meshgrid(*[np.arange(v + 1) for v in limit.values()], indexing="ij", sparse=True)
        with np.errstate(divide="ignore"):  # mod(1, n): at n = 0 NumPy gives 0
            grid = _compat.evaluate_dim(dim, dict(zip(limit, axes)).__getitem__, np.maximum, np.minimum)
        return int(np.min(grid)), int(np.max(grid))
    interval = _Interval.of(
        _compat.evaluate_dim(
            dim,
            lambda name: _Interval(0, limit[name]) if name in limit else _Interval.of(outer_dim(dim, name)),
            _Interval.maximum,
            _Interval.minimum,
        )
    )
    return interval.lo, interval.hi
