"""Types of what loops take and give; inside `shard_map` they say over which axes of devices a value varies."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from maskax import _compat
from maskax._operand import zeros


def type_like(aval: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Of this shape and dtype, on the mesh of `aval` and varying as that does."""
    whole = aval.sharding.update(spec=PartitionSpec(*[None] * len(shape)))
    return aval.update(shape=tuple(shape), dtype=dtype, sharding=whole, weak_type=False)


def transpose_of(linear: Callable[..., Any], structs: Sequence[Any], known: Sequence[Any]) -> Callable[..., Any]:
    """`jax.linear_transpose`, where what is given varies as do the known values that `linear` closes over."""
    return jax.linear_transpose(linear, *_compat.varying_alike([*map(zeros, structs), *known])[: len(structs)])
