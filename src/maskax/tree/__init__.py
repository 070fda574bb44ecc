"""Boolean trees: which leaves of a pytree are kept, trained, transformed.

A mask is an ordinary pytree of booleans, so it works wherever one is asked for, in optax, Equinox or your own
code. True always means kept. `None` always means that there is no parameter.
"""

from ._explain import Explanation, count, explain
from ._masks import MaskError, PyTree, both, either, invert, minus, validate
from ._select import combine, is_mask, ndim, partition, select

__all__ = [
    "Explanation",
    "MaskError",
    "PyTree",
    "both",
    "combine",
    "count",
    "either",
    "explain",
    "invert",
    "is_mask",
    "minus",
    "ndim",
    "partition",
    "select",
    "validate",
]
