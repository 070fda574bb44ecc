"""Collectives over rows whose number may be a run-time size."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import core
from jax._src.lax import parallel

_psum, _pvary = parallel._psum, parallel.pvary


def _psum_of_sizes(x: Any, axis_name: Any, **options: Any) -> Any:
    """`psum` where sizes are symbolic: that of a row is no constant, and there may be as many rows as such a size."""
    names = axis_name if isinstance(axis_name, tuple | list) else (axis_name,)
    rows = math.prod(core.get_axis_env().axis_size(name) for name in names if not isinstance(name, int))
    x = jax.tree.map(lambda v: jnp.asarray(v) if jax.export.is_symbolic_dim(v) else v, x)
    if jax.export.is_symbolic_dim(rows) and not any(isinstance(v, core.Tracer) for v in jax.tree.leaves(x)):
        return jax.tree.map(lambda v: rows * v, x)
    return _psum(x, axis_name, **options)


def _pvary_over_devices(x: Any, axis_name: Any) -> Any:
    """`pvary` with words for what it only asserts: inside `shard_map` its axes are those of devices."""
    try:
        return _pvary(x, axis_name)
    except AssertionError:
        raise NotImplementedError(f"JAX has no collective over {axis_name}, a vmap inside shard_map.") from None


parallel._psum, parallel.pvary = _psum_of_sizes, _pvary_over_devices
