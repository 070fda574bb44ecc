"""What JAX has that needs no masking rule, and the primitives of the installed JAX.

Three things may be said of a primitive: a rule masks it, `refuse.py` says why not, or it stands here.
"""

import sys

import jax.extend
import jax.image
import jax.nn
import jax.ops
import jax.random
import jax.scipy.linalg
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats  # noqa: F401  (all of them, for what they import)
from jax.extend.core import Primitive

_LOWERED = "stands only in what JAX makes of a program when it compiles it"
_DIFFERENTIATED = "stands only in what JAX makes of a program when it differentiates it"
_GENERATOR = "stands inside of `random_bits`, which has a rule"
_UNUSED = "no function of JAX makes one"

TRANSPARENT = {
    "after_all": "orders effects; a token has no shape",
    "axis_index": "takes no array; along a mapped axis it counts rows",
    "create_token": "takes no array",
    "platform_index": "takes no array; `lax.platform_dependent` is a `cond` on it",
}
"""Primitives that never meet anything ragged, and why."""

ABSENT = {
    "broadcast_to": "stands in kernels only",
    "custom_jvp_call_jaxpr": _UNUSED,
    "custom_lin": _DIFFERENTIATED,
    "dimension_size": _LOWERED,
    "empty2": _DIFFERENTIATED,
    "from_edtype": _DIFFERENTIATED,
    "iota_2x32_shape": _GENERATOR,
    "philox2x32": _GENERATOR,
    "philox4x32": _GENERATOR,
    "raw_bits": _GENERATOR,
    "select_and_scatter": _UNUSED,
    "shape_assertion": _LOWERED,
    "threefry4x32": _GENERATOR,
    "tie": _UNUSED,
    "to_edtype": _DIFFERENTIATED,
    "unreachable": "stands for a derivative that is never asked",
    "with_memory_space_constraint": "stands in kernels only",
    "zeros_like": _DIFFERENTIATED,
}
"""Primitives that are in no program of a user, and why."""

_KERNELS = ("pallas", "mosaic", "thunky", "triton")
"""Languages for kernels have primitives of their own, none of which is in a program that could be masked."""


def installed() -> set[str]:
    """The names of all primitives that `jax.numpy`, `scipy`, `lax`, `nn`, `random` and `image` may use."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("jax._src") and not any(kernel in name for kernel in _KERNELS)
    ]
    return {value.name for module in modules for value in vars(module).values() if isinstance(value, Primitive)}
