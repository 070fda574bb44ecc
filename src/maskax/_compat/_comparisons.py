"""Run-time sizes compared in a user's own code: decided only where the answer is the same for all sizes from 0 on.

JAX takes a size to be at least 1, and two that it cannot tell to be equal for different, which its documentation calls
unsound: https://docs.jax.dev/en/latest/export/shape_poly.html#comparison-of-symbolic-dimensions-is-partially-supported.
JAX's own code is written for that. A user's `if n == 0:` or `if n % 2 == 0:` would go one way for all rows, silently.
"""

import dis
import functools
import math
import numbers
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax._src.export import shape_poly

from maskax._compat._dims import add_constraints, evaluate_dim, max_dim, min_dim
from maskax._compat._source import is_numpys, is_users

_GATHERING = "_gather_shape_rule"
"""Where JAX asks whether there is something to gather from: at sizes at which there is not, nothing may be gathered."""
_DECIDING = ("_cofactor_solve", "histogram_bin_edges", "rfftfreq")
"""Functions of JAX with a special case that only some sizes are."""


class SizeScope(jax.export.SymbolicScope):
    """Where the names of sizes live that may be 0."""


def _from_zero(scope: SizeScope, *dims: Any) -> list[Any]:
    """The dimensions with `n - 1` for each name `n`, which JAX takes to be at least 1, and what is known of them."""
    shifted = jax.export.SymbolicScope()

    def of(dim: Any) -> Any:
        name = lambda name: jax.export.symbolic_shape(name, scope=shifted)[0] - 1
        return evaluate_dim(dim, name, max_dim, min_dim)

    for known in scope._explicit_constraints:
        difference, equal = of(known.diff), known.cmp == shape_poly.Comparator.EQ
        if jax.export.is_symbolic_dim(difference):
            add_constraints(shifted, [f"{difference} >= 0"] + [f"{difference} <= 0"] * equal)
    return [of(dim) for dim in dims]


def _step(frame: FrameType) -> str:
    """The bytecode instruction that is being run."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def _is_asked_by_user(frame: FrameType, relation: str) -> bool:
    """Whether the user's code compares, or one of the functions above. Caches compare for equality too: they do not."""
    code = frame.f_code
    compares = _step(frame) in ("COMPARE_OP", "CONTAINS_OP") or relation not in ("==", "!=")
    if not compares or code.co_name in ("__eq__", "__ne__"):
        return False
    while is_numpys(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name in _DECIDING or is_users(frame.f_code.co_filename)


def _decided(relation: str, left: Any, right: Any, scope: SizeScope) -> bool:
    gap = operator.sub(*_from_zero(scope, left, right))
    low, high = shape_poly._bounds_decision(gap, shape_poly.BoundsPrecision.BEST)
    at_least, at_most, more, less = low >= 0, high <= 0, low > 0, high < 0
    equal, unequal = at_least and at_most, more or less
    yes, no = {
        "==": (equal, unequal),
        "!=": (unequal, equal),
        ">=": (at_least, less),
        "<=": (at_most, more),
        ">": (more, at_most),
        "<": (less, at_least),
    }[relation]
    if yes or no:
        return yes
    raise core.InconclusiveDimensionOperation(
        f"Symbolic dimension comparison '{left}' {relation} '{right}' is inconclusive."
    )


def _assumed(plain: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return plain(left, right)
    except core.InconclusiveDimensionOperation:
        return True


def _compared(relation: str, plain: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    @functools.wraps(plain)
    def compare(self: Any, other: Any) -> Any:
        frame = sys._getframe(1)
        if not isinstance(self.scope, SizeScope):
            return plain(self, other)
        if not _is_asked_by_user(frame, relation):
            return _assumed(plain, self, other) if _GATHERING in frame.f_code.co_qualname else plain(self, other)
        if isinstance(other, jax.Array | np.ndarray):  # as JAX's arithmetic of sizes with arrays: values
            return getattr(self.__jax_array__(), plain.__name__)(other)
        if isinstance(other, numbers.Real) and not isinstance(other, numbers.Integral):
            if relation in ("==", "!=") and other != math.floor(other):
                return relation == "!="
            other = math.ceil(other) if relation in (">=", "<") else math.floor(other)
        comparable = core.is_dim(other) and getattr(other, "scope", self.scope) is self.scope
        return _decided(relation, self, other, self.scope) if comparable else plain(self, other)

    return compare


def _looked_up(plain: Callable[[Any], int]) -> Callable[[Any], int]:
    @functools.wraps(plain)
    def hashed(self: Any) -> int:
        frame = sys._getframe(1)
        if isinstance(self.scope, SizeScope) and _step(frame) == "CONTAINS_OP" and is_users(frame.f_code.co_filename):
            raise core.InconclusiveDimensionOperation(f"Whether '{self}' is in a set depends on a run-time size.")
        return plain(self)

    return hashed


def _is_not_zero(self: Any) -> bool:
    asked = isinstance(self.scope, SizeScope) and _is_asked_by_user(sys._getframe(1), "bool")
    return _decided("!=", self, 0, self.scope) if asked else True


def _instead(plain: Any) -> dict[str, Callable[..., Any]]:
    """The methods of JAX's dimensions that a user's code is answered by."""
    relations = {"==": "__eq__", "!=": "__ne__", ">=": "__ge__", "<=": "__le__", ">": "__gt__", "<": "__lt__"}
    compared = {name: _compared(relation, getattr(plain, name)) for relation, name in relations.items()}
    return compared | {"__hash__": _looked_up(plain.__hash__), "__bool__": _is_not_zero}


for _name, _method in _instead(shape_poly._DimExpr).items():
    setattr(shape_poly._DimExpr, _name, _method)
