"""How a `Ragged` is shown."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskax import _compat

_SHORT = {"float": "f", "uint": "u", "int": "i", "complex": "c", "bfloat": "bf"}
_SHOWN = 8


def text(batch: Any) -> str:
    """`Ragged(f32[3, n<=5, 8], n=[3, 5, 2])`; safe on anything that a pytree may hold while it is rebuilt."""
    flat = batch.data
    outer = []
    while hasattr(flat, "dims"):
        outer, flat = [*outer, flat.dims[0]], flat.data
    shape = getattr(flat, "shape", None)
    if shape is None or len(shape) < len(batch.dims):
        return f"Ragged({flat!r}, dims={batch.dims})"
    names = [*[""] * (len(shape) - len(batch.dims) - len(outer)), *outer, *batch.dims]
    axes = [str(size) if name in ("", "_") else f"{name}<={size}" for name, size in zip(names, shape)]
    sizes = [f"{name}={_values(size)}" for name, size in batch.sizes.items()]
    return f"Ragged({_dtype(flat)}[{', '.join(axes)}], {', '.join(sizes)})"


def renamed(dim: str, names: Mapping[str, str]) -> str:
    """`dim` with other names of variables."""
    return re.sub(r"[A-Za-z]\w*", lambda m: names.get(m[0], m[0]), dim)


def _dtype(array: Any) -> str:
    name = str(array.dtype)
    for long, short in _SHORT.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def _values(size: Any) -> str:
    if hasattr(size, "to_list"):
        return str([np.asarray(row).tolist() for row in size.to_list()])
    if not _compat.is_concrete(size) or not hasattr(size, "shape"):
        return f"{_dtype(size)}{list(size.shape)}" if hasattr(size, "dtype") else repr(size)
    flat = np.asarray(size)
    return str(flat.tolist()) if flat.size <= _SHOWN else f"[{', '.join(map(str, flat.ravel()[:_SHOWN]))}, ...]"
