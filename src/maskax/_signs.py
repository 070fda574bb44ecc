"""Which values cannot be negative: where `sqrt(var + eps)` is away from its pole by itself, nothing is filled.

What is said of a value holds for its padding too. It holds unless the value is nan.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat

UNKNOWN, NOT_NEGATIVE, POSITIVE = range(3)

_SAME = {"broadcast_in_dim", "copy", "reduce_max", "reshape", "sqrt", "squeeze", "stop_gradient", "transpose"}


def of_constant(value: Any) -> int:
    """The sign of a number that the program writes down."""
    if getattr(value, "dtype", None) == jax.dtypes.float0:  # the tangent of an integer
        return UNKNOWN
    if value is None or not _compat.is_concrete(value) or np.iscomplexobj(value):
        return UNKNOWN
    with np.errstate(invalid="ignore"):  # NumPy warns of comparing a nan in half precision
        return UNKNOWN if np.any(value < 0) else NOT_NEGATIVE if np.any(value == 0) else POSITIVE


def of_result(eqn: Any, signs: Sequence[int]) -> int:
    """The sign of an equation's result, from those of its operands."""
    aval = eqn.outvars[0].aval
    if not jnp.issubdtype(getattr(aval, "dtype", bool), jnp.floating):
        return UNKNOWN
    match eqn.primitive.name:
        case "abs" | "exp" | "square":
            return NOT_NEGATIVE
        case "integer_pow":
            return NOT_NEGATIVE if eqn.params["y"] % 2 == 0 else min(signs[0], NOT_NEGATIVE)
        case "mul" if eqn.invars[0] is eqn.invars[1]:
            return NOT_NEGATIVE
        case "mul" | "div":
            return min(*signs, NOT_NEGATIVE)  # a product of small numbers may be 0
        case "add":
            return max(signs) if min(signs) > UNKNOWN else UNKNOWN
        case "max":
            return max(signs)
        case "select_n":
            return min(signs[1:])
        case "reduce_sum" | "convert_element_type":
            return min(signs[0], NOT_NEGATIVE)  # of nothing, or too small for the new dtype
        case name if name in _SAME:
            return signs[0]
    return UNKNOWN
