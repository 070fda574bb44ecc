"""Masking rules, a file per family. Importing this package registers them all."""

from maskax._rules import (
    contract,
    control,
    derivatives,
    elementwise,
    index,
    linalg,
    random,
    reduce,
    reshape,
    scan,
    shape,
    softmax,
    sort,
    spectrum,
    while_loop,
    window,
)

__all__ = [
    "contract",
    "control",
    "derivatives",
    "elementwise",
    "index",
    "linalg",
    "random",
    "reduce",
    "reshape",
    "scan",
    "shape",
    "softmax",
    "sort",
    "spectrum",
    "while_loop",
    "window",
]
