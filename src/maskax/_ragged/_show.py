"""How a `Ragged` is shown: as text, in notebooks, by treescope and as a picture of its padding."""

import html
import math
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from maskax import _compat
from maskax._errors import SizeError
from maskax._ragged._dims import innermost, is_key, row_dims

_SHORT = {"float": "f", "uint": "u", "int": "i", "complex": "c", "bfloat": "bf"}
_SHOWN = 8
_GREY = "color: #aaa; background: #eee"


def text(batch: Any) -> str:
    """`Ragged(f32[3, n<=5, 8], n=[3, 5, 2])`; safe on anything that a pytree may hold while it is rebuilt."""
    flat, dims = innermost(batch), row_dims(batch)
    shape = getattr(flat, "shape", None)
    if shape is None or len(shape) < len(dims) or not isinstance(batch.sizes, dict):
        return f"Ragged({flat!r}, dims={dims})"
    names = [*[""] * (len(shape) - len(dims)), *dims]
    axes = [str(size) if name in ("", "_") else f"{name}<={size}" for name, size in zip(names, shape)]
    sizes = [f"{name}={_values(size)}" for name, size in batch.sizes.items()]
    return f"Ragged({', '.join([f'{_dtype(flat)}[' + ', '.join(axes) + ']', *sizes])})"


def as_html(batch: Any) -> str:
    """A table of the first rows, padding in grey; the text alone where values are not known or rows have more axes."""
    title = f"<code>{html.escape(text(batch))}</code>"
    if not _is_known(batch) or np.ndim(batch.data) not in (2, 3):
        return title
    data, mask = np.asarray(batch.data), np.asarray(batch.mask)
    rows = []
    for row, keep in list(zip(data, mask))[:_SHOWN]:
        cells = [
            f'<td style="{"" if np.all(real) else _GREY}">{html.escape(_cell(value))}</td>'
            for value, real in list(zip(row, keep))[:_SHOWN]
        ]
        rows.append(f"<tr>{''.join(cells)}{'<td>...</td>' if data.shape[1] > _SHOWN else ''}</tr>")
    more = "<tr><td>...</td></tr>" if len(data) > _SHOWN else ""
    return f"{title}<table>{''.join(rows)}{more}</table>"


def as_treescope(batch: Any, path: Any, subtree_renderer: Any) -> Any:
    """For treescope: the data as a picture in which padding is marked as not valid."""
    import treescope

    data = batch.data
    if _is_known(batch) and data.size and data.dtype.kind in "biuf":
        mask = np.asarray(batch.mask)
        mask = np.broadcast_to(mask.reshape(*mask.shape, *[1] * (data.ndim - mask.ndim)), data.shape)
        data = treescope.render_array(np.asarray(data), valid_mask=mask, truncate=True)
    return treescope.repr_lib.render_object_constructor(
        object_type=type(batch),
        attributes={"data": data, "sizes": batch.sizes, "dims": batch.dims},
        path=path,
        subtree_renderer=subtree_renderer,
    )


def plot(batch: Any, axes: Any = None) -> Any:
    """Bars of true length over the padded one, longest row first; returns the matplotlib axes.

    Of rows with several ragged axes, and of batches of batches, it is what they hold: an area, a number of words.

    Raises:
        SizeError: sizes that are not known, under `jit`.
    """
    import matplotlib.pyplot as plt

    axes = axes or plt.subplots()[1]
    flat, dims = batch._flat(), row_dims(batch)
    if not all(map(_compat.is_concrete, flat.sizes.values())):
        raise SizeError("plot: sizes are not known while tracing; plot the batch outside of the compiled function.")
    rows = np.arange(len(batch))
    area = np.prod([np.asarray(flat._true(axis)) for axis in flat._ragged_axes], axis=0)
    true = np.sort(area.sum(axis=tuple(range(1, area.ndim))))[::-1]
    ragged = [axis for axis, dim in enumerate(dims) if dim != "_"]
    padded = math.prod(flat.data.shape[flat.data.ndim - len(dims) + axis] for axis in ragged)
    axes.barh(rows, np.full(len(rows), padded), height=1.0, color="0.85", label="padding")
    axes.barh(rows, true, height=1.0, color="C0", label="true")
    share = true.sum() / max(padded * len(rows), 1)
    names = " x ".join(dims[axis] for axis in ragged)
    axes.set(xlabel=f"{names}, padded to {padded}", ylabel="row", title=f"{share:.0%} full")
    axes.invert_yaxis()
    axes.legend()
    return axes


def _is_known(batch: Any) -> bool:
    """Whether it holds numbers, not tracers, keys, nor what a tree may hold while it is rebuilt."""
    leaves = [batch.data, *batch.sizes.values()]
    arrays = all(isinstance(leaf, np.ndarray | jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves)
    return arrays and not is_key(batch.data)


def renamed(dim: str, names: Mapping[str, str]) -> str:
    """`dim` with other names of variables."""
    return re.sub(r"[A-Za-z]\w*", lambda m: names.get(m[0], m[0]), dim)


def _dtype(array: Any) -> str:
    name = "float0" if array.dtype == jax.dtypes.float0 else str(array.dtype)  # of the sizes in a gradient
    for long, short in _SHORT.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def _cell(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=3, threshold=4, edgeitems=1)


def _values(size: Any) -> str:
    if hasattr(size, "to_list"):
        return str(jax.tree.map(lambda row: np.asarray(row).tolist(), size.to_list()))
    if not hasattr(size, "shape") or not _compat.is_concrete(size) or size.dtype.kind not in "iu":
        return f"{_dtype(size)}{list(size.shape)}" if hasattr(size, "dtype") else repr(size)
    flat = np.asarray(size)
    return str(flat.tolist()) if flat.size <= _SHOWN else f"[{', '.join(map(str, flat.ravel()[:_SHOWN]))}, ...]"
