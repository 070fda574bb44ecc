"""Which parameters an optax transformation touches, without traps (needs `pip install 'maskax[optax]'`).

`masked` transforms the selected leaves and passes the others through; `train_only` and `freeze` keep the
others exactly as they are; `partition` gives each group its own transformation; `grad` and `value_and_grad`
spare the backward pass of frozen leaves. In each, True means what the function's name says: transformed,
trained, frozen.
"""

from ._decay import decay_only
from ._extra import MissingOptaxError
from ._grad import grad, value_and_grad
from ._masked import freeze, masked, train_only
from ._partition import partition
from ._state import carry_over, reset_group, tree_map_params

__all__ = [
    "MissingOptaxError",
    "carry_over",
    "decay_only",
    "freeze",
    "grad",
    "masked",
    "partition",
    "reset_group",
    "train_only",
    "tree_map_params",
    "value_and_grad",
]
