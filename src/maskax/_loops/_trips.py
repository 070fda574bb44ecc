"""Rows in trips: a map over the rows of a batch whose cost follows their true sizes, as one primitive.

Rows are ordered by box, the padded sizes that they fit in. Each box has a while loop of its own; a trip gathers a few
of its rows, runs the body on them at the box's padded sizes, and puts the results back in their places. So there is one
compilation per box inside one program, no conditional, and no more trips than the batch needs.

A while loop has no reverse mode, so the map is a primitive that knows its own derivatives: the derivative of rows in
trips is rows in trips, of the body's derivative. Nothing is kept but the operands; a trip computes again what it needs.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from maskax import _compat
from maskax._loops._types import transpose_of, type_like
from maskax._operand import select, zeros

Body = Callable[[int, Sequence[Any]], Sequence[Any]]
"""`(box, operands) -> results`: a few rows in front of whatever comes in rows, at the padded sizes of a box."""


@dataclasses.dataclass(frozen=True)
class Value:
    """An operand or a result: in rows, or shared by all of them (a result: a sum over them).

    Attributes:
        shape: of all rows at full padded size, or of what is shared.
        dtype: its dtype.
        windows: the padded shape of one row in each box; `None` for what is shared.
        linear: whether sums are linear in it. It is 0 in the lanes of a trip that have no row.
    """

    shape: tuple[int, ...]
    dtype: Any
    windows: tuple[tuple[int, ...], ...] | None = None
    linear: bool = False

    def struct(self, box: int, rows: int) -> jax.ShapeDtypeStruct:
        """What a trip of so many rows sees."""
        return jax.ShapeDtypeStruct(self.shape if self.windows is None else (rows, *self.windows[box]), self.dtype)


@dataclasses.dataclass(frozen=True)
class Boxes:
    """The boxes, cheapest first; the last one holds every row.

    Attributes:
        extents: per box the padded size of each dimension variable.
        rows: per box the number of rows in a trip.
    """

    extents: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]

    def of(self, sizes: Any) -> Any:
        """The first box that holds each row; `sizes` is `(variables, rows)`."""
        fits = jnp.all(sizes <= jnp.asarray(self.extents)[:, :, None], axis=1)
        return jnp.argmax(fits.at[-1].set(True), axis=0)


def trips(
    body: Body, boxes: Boxes, sizes: Any, operands: Sequence[Any], takes: Sequence[Value], gives: Sequence[Value]
) -> list[Any]:
    """Runs `body` on all rows.

    Args:
        body: what to run. Rows must not depend on each other; results that are not in rows are summed over the trips.
        boxes: the padded sizes.
        sizes: `(variables, rows)`, the true sizes.
        operands: what the body takes, and
        takes: how.
        gives: the body's results.
    """
    operands = _compat.varying_alike([sizes, *operands])
    return _trips_p.bind(*operands, body=body, boxes=boxes, takes=tuple(takes), gives=tuple(gives))


_trips_p = Primitive("trips")
_trips_p.multiple_results = True


def _run(sizes: Any, *operands: Any, body: Body, boxes: Boxes, takes: Sequence[Value], gives: Sequence[Value]) -> Any:
    box_of = boxes.of(sizes)
    order = jnp.argsort(box_of, stable=True)
    ends = jnp.cumsum(jnp.bincount(box_of, length=len(boxes.rows)))
    outs = [zeros(jax.ShapeDtypeStruct(v.shape, _wide(v))) for v in gives]
    outs = list(_compat.varying_alike([*outs, sizes, *operands])[: len(outs)])
    for box, rows in enumerate(boxes.rows):
        start = ends[box - 1] if box else jnp.zeros_like(ends[0])
        outs = _loop(box, rows, order, start, ends[box], operands, outs, body, takes, gives)
    return [out.astype(v.dtype) if out.dtype != v.dtype else out for out, v in zip(outs, gives)]


def _loop(
    box: int,
    rows: int,
    order: Any,
    start: Any,
    end: Any,
    operands: Sequence[Any],
    outs: list[Any],
    body: Body,
    takes: Sequence[Value],
    gives: Sequence[Value],
) -> list[Any]:
    """The trips of one box."""

    def trip(state: Any) -> Any:
        at, outs = state
        lanes = at + jnp.arange(rows)
        real = lanes < end
        # A lane without a row repeats the last one: whatever is computed there is computed for a true row as well.
        index = order[jnp.minimum(lanes, end - 1)]
        values = [_read(x, index, real, box, v) for x, v in zip(operands, takes)]
        results = body(box, values)
        place = jnp.where(real, index, order.shape[0])
        return at + rows, [_write(out, new, place, box, v) for out, new, v in zip(outs, results, gives, strict=True)]

    return jax.lax.while_loop(lambda state: state[0] < end, trip, (start, outs))[1]


def _read(x: Any, index: Any, real: Any, box: int, value: Value) -> Any:
    """A few rows at the padded sizes of a box; only those are read."""
    if value.windows is None:
        return x
    window = value.windows[box]
    rows = jax.vmap(lambda i: jax.lax.dynamic_slice(x, (i, *[0] * len(window)), (1, *window))[0])(index)
    return select(jax.lax.expand_dims(real, range(1, rows.ndim)), rows, 0) if value.linear else rows


def _write(out: Any, new: Any, place: Any, box: int, value: Value) -> Any:
    if value.windows is None:
        return out + new.astype(out.dtype)
    return out.at[(place, *[slice(0, size) for size in value.windows[box]])].set(new, mode="drop", unique_indices=True)


def _wide(value: Value) -> Any:
    """Sums over many trips: half precision is summed up in single."""
    half = value.windows is None and jnp.issubdtype(value.dtype, jnp.floating) and jnp.finfo(value.dtype).bits < 32
    return jnp.float32 if half else value.dtype


def _whole(operands: Sequence[Any], body: Body, boxes: Boxes) -> Sequence[Any]:
    """All rows at once, at full padded size."""
    return body(len(boxes.rows) - 1, operands)


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.inexact)


@_trips_p.def_abstract_eval
def _(sizes: Any, *operands: Any, gives: Sequence[Value], **_: Any) -> list[Any]:
    return [type_like(sizes, v.shape, v.dtype) for v in gives]


@_trips_p.def_impl
def _(*operands: Any, **params: Any) -> Any:
    return jax.jit(lambda *operands: _run(*operands, **params))(*operands)


mlir.register_lowering(_trips_p, mlir.lower_fun(_run, multiple_results=True))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, body: Body, boxes: Boxes, takes: Any, gives: Any) -> Any:
    sizes, *operands = primals
    active = [i for i, t in enumerate(tangents[1:]) if type(t) is not ad.Zero]
    floats = [i for i, v in enumerate(gives) if _is_float(v)]

    def slope(box: int, values: Sequence[Any]) -> list[Any]:
        fixed, moving = values[: len(takes)], values[len(takes) :]

        def of_active(*some: Any) -> list[Any]:
            new = list(fixed)
            for i, x in zip(active, some):
                new[i] = x
            results = body(box, new)
            return [results[i] for i in floats]

        return jax.jvp(of_active, [fixed[i] for i in active], list(moving))[1]

    outs = trips(body, boxes, sizes, operands, takes, gives)
    slopes = trips(
        slope,
        boxes,
        sizes,
        [*operands, *[tangents[1 + i] for i in active]],
        [*takes, *[takes[i] for i in active]],
        [gives[i] for i in floats],
    )
    out_tangents = [ad.Zero(jax.typeof(out).to_tangent_aval()) for out in outs]
    for i, t in zip(floats, slopes):
        out_tangents[i] = t
    return outs, out_tangents


ad.primitive_jvps[_trips_p] = _jvp


def _transpose(cts: Sequence[Any], sizes: Any, *operands: Any, body: Body, boxes: Boxes, takes: Any, gives: Any) -> Any:
    moving = [i for i, x in enumerate(operands) if ad.is_undefined_primal(x)]
    fixed = [i for i in range(len(operands)) if i not in moving]
    pulled = [i for i, ct in enumerate(cts) if type(ct) is not ad.Zero]

    def pullback(box: int, values: Sequence[Any]) -> Sequence[Any]:
        known, pulls = values[: len(fixed)], values[len(fixed) :]
        ways = [*[takes[i] for i in fixed], *[gives[i] for i in pulled]]
        rows = next(len(x) for x, v in zip(values, ways) if v.windows is not None)

        def linear(*some: Any) -> list[Any]:
            new = dict(zip(fixed, known)) | dict(zip(moving, some))
            results = body(box, [new[i] for i in range(len(takes))])
            return [results[i] for i in pulled]

        return transpose_of(linear, [takes[i].struct(box, rows) for i in moving], values)(list(pulls))

    found = trips(
        pullback,
        boxes,
        sizes,
        [*[operands[i] for i in fixed], *[cts[i] for i in pulled]],
        [*[takes[i] for i in fixed], *[dataclasses.replace(gives[i], linear=True) for i in pulled]],
        [dataclasses.replace(takes[i], linear=False) for i in moving],
    )
    results: list[Any] = [None] * len(operands)
    for i, ct in zip(moving, found):
        results[i] = ct
    return [None, *results]


ad.primitive_transposes[_trips_p] = _transpose


def _batched(args: Sequence[Any], dims: Sequence[Any], *, body: Body, boxes: Boxes, takes: Any, gives: Any) -> Any:
    """Rows of rows are rows, unless each batch has its own shared operands or sums."""
    count = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    front = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    mapped = [d is not None for d in dims]
    alone = any(m and v.windows is None for m, v in zip(mapped[1:], takes)) or any(v.windows is None for v in gives)
    if alone:
        axes = [0 if m else None for m in mapped[1:]]
        outs = jax.vmap(lambda *operands: _whole(operands, body, boxes), axes)(*front[1:])
        return outs, [0] * len(outs)

    def merged(x: Any, is_mapped: bool) -> Any:
        x = x if is_mapped else jnp.broadcast_to(x, (count, *x.shape))
        return x.reshape(count * x.shape[1], *x.shape[2:])

    def more(values: Sequence[Value]) -> list[Value]:
        return [
            v if v.windows is None else dataclasses.replace(v, shape=(count * v.shape[0], *v.shape[1:])) for v in values
        ]

    sizes = front[0] if mapped[0] else jnp.broadcast_to(front[0], (count, *front[0].shape))
    sizes = jnp.moveaxis(sizes, 0, 1).reshape(sizes.shape[1], -1)
    operands = [x if v.windows is None else merged(x, m) for x, m, v in zip(front[1:], mapped[1:], takes)]
    outs = trips(body, boxes, sizes, operands, more(takes), more(gives))
    return [out.reshape(count, -1, *out.shape[1:]) for out in outs], [0] * len(outs)


batching.primitive_batchers[_trips_p] = _batched
