"""The rows of a batch, run as a plan says: all at once, longest first, or in trips."""

import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import programs
from maskax._loops import Value, trips
from maskax._mask import Program
from maskax._operand import split
from maskax._plan import Plan
from maskax._shapes import Shrink, Sizes


def can_skip(data: Iterable[Any], options: Mapping[str, Any]) -> bool:
    """Whether rows can run in trips.

    Not where they are ragged batches themselves, where they must run side by side for a collective over them or for a
    mesh axis, nor inside a masked function, where their number may be a run-time size.
    """
    shapes = [getattr(x, "shape", None) for x in data]
    alone = not any(options.values())
    return alone and all(shape is not None and all(isinstance(d, int) for d in shape) for shape in shapes)


class Rows:
    """Rows of a batch, to be run by a plan.

    Attributes:
        program: a function of one row.
        sizes: the true size of each dimension variable, `(rows,)`.
        data: the arrays of the rows, `(rows, ...)`.
        shared: the arrays that the program takes behind those, the same for all rows.
        frame: what the dimensions are at full padded size.
    """

    def __init__(
        self, program: Program, variables: Mapping[str, Any], data: Sequence[Any], shared: Sequence[Any] = ()
    ) -> None:
        sizes = [jnp.asarray(size, _compat.dimension_dtype()) for size in variables.values()]
        consts = [jnp.asarray(c) for c in program.consts]
        # Inside `shard_map` all vary, so that nothing is summed over devices on the way.
        self.sizes, self.data, self.shared, self._consts = split(
            _compat.varying_alike([*sizes, *data, *shared, *consts]),
            *itertools.accumulate([len(sizes), len(data), len(shared)]),
        )
        self.program, self._names = program, list(variables)
        limits = program.limits([*(x.shape[1:] for x in data), *(x.shape for x in shared)])
        self.frame = Sizes(limits, dict(zip(map(program.scope.local, self._names), self.sizes)), program.scope)

    def take(self, order: Any) -> "Rows":
        """Other rows of the same: those at `order`."""
        new = copy.copy(self)
        new.data, new.sizes = (
            [x.at[order].get(mode="promise_in_bounds") for x in xs] for xs in (self.data, self.sizes)
        )
        new.frame = self.frame.replace(values=dict(zip(self.frame.values, new.sizes)))
        return new

    def run(self, plan: Plan | None) -> list[Any]:
        """The results of every row, flat, padded to the largest size."""
        gives = [(aval.shape, aval.dtype) for aval in self.program.avals]
        return self.map(plan, lambda run, data, shared, _: run(data, shared), [], gives)

    def map(
        self, plan: Plan | None, body: Callable[..., Sequence[Any]], scales: Sequence[Any], gives: Sequence[Any]
    ) -> list[Any]:
        """What `body` makes of a few rows at a time, for all of them.

        Args:
            plan: how to run them; `None`: all at once.
            body: `(run, data, shared, scales) -> results`, where `run(data, shared)` gives the program's results.
            scales: more arrays in rows, which what is summed over rows is linear in.
            gives: of each result its logical shape and dtype, as one row has it, and its padded shape where that is
                not the usual one; or, where it is summed over rows, a type.
        """
        scanned = list(_scanned(self.program.jaxpr, self.frame.limits))
        if plan is None or not self.sizes or self.program.scope.made:
            return list(body(self._run(self._consts, self.sizes), self.data, self.shared, scales))
        if scanned:
            return self._shrink(body, scales, gives, Shrink(plan.prefixes, scanned[0]))
        return self._trips(plan, body, scales, gives)

    def _run(self, consts: Sequence[Any], sizes: Sequence[Any], shrink: Shrink | None = None) -> Callable[..., Any]:
        """The program on rows of these sizes, at whatever padded size they have."""

        def run(data: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
            def row(sizes: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
                out = self.program.run([*arrays, *shared], consts, dict(zip(self._names, sizes)), shrink=shrink)
                return jax.tree.leaves(out.outputs)

            return jax.vmap(row, axis_size=None if sizes else data[0].shape[0])(sizes, data)

        return run

    def _shrink(self, body: Any, scales: Sequence[Any], gives: Sequence[Any], shrink: Shrink) -> list[Any]:
        """All rows at once, longest first, for scans that run ever fewer of them."""
        order = jnp.argsort(-self.frame.values[shrink.by], stable=True)
        back = jnp.argsort(order)
        rows = self.take(order)
        run = rows._run(rows._consts, rows.sizes, shrink)
        results = body(run, rows.data, rows.shared, [x[order] for x in scales])
        return [x if _is_sum(how) else x[back] for x, how in zip(results, gives)]

    def _trips(self, plan: Plan, body: Any, scales: Sequence[Any], gives: Sequence[Any]) -> list[Any]:
        scope, count = self.program.scope, len(self.sizes[0])
        limits = {name: self.frame.limits[scope.local(name)] for name in self._names}
        frame_of = lambda extents: Sizes(dict(zip(map(scope.local, limits), extents)), {}, scope)
        bytes_per_row = lambda extents: _largest(self.program.jaxpr, frame_of(extents))
        boxes = plan.boxes(limits, count, bytes_per_row, self.program.constraints)
        if boxes.rows == (count,):  # in one trip, of rows as they are
            return list(body(self._run(self._consts, self.sizes), self.data, self.shared, scales))
        frames = list(map(frame_of, boxes.extents))
        own, own_sizes, own_data = len(self._consts), len(self.sizes), len(self.data)

        def in_rows(dims: Sequence[Any], dtype: Any, shape: Sequence[Any] | None = None) -> Value:
            whole = frames[-1].padded(dims) if shape is None else shape
            return Value((count, *whole), dtype, tuple(frame.padded(dims) for frame in frames))

        def trip(_: int, values: Sequence[Any]) -> Sequence[Any]:
            ends = itertools.accumulate([own, own_sizes, own_data, len(self.shared)])
            consts, sizes, data, shared, scales = split(values, *ends)
            return body(self._run(consts, sizes), data, shared, scales)

        dims = [a.dims for a in self.program.arguments if a.is_array]
        takes = [Value(c.shape, c.dtype) for c in self._consts]
        takes += [in_rows((), size.dtype) for size in self.sizes]
        takes += [in_rows(d, x.dtype, x.shape[1:]) for x, d in zip(self.data, dims)]
        takes += [Value(x.shape, x.dtype) for x in self.shared]
        takes += [dataclasses.replace(in_rows((), x.dtype), linear=True) for x in scales]
        ways = [Value(how.shape, how.dtype) if _is_sum(how) else in_rows(*how) for how in gives]
        operands = [*self._consts, *self.sizes, *self.data, *self.shared, *scales]
        return trips(trip, boxes, jnp.stack(self.sizes), operands, takes, ways)


def _is_sum(how: Any) -> bool:
    return isinstance(how, jax.ShapeDtypeStruct)


def _largest(jaxpr: Any, frame: Sizes) -> int:
    """How many bytes the largest array in a program takes, at these padded sizes."""
    arrays = [var.aval for var in [*jaxpr.invars, *(var for eqn in jaxpr.eqns for var in eqn.outvars)]]
    sizes = [math.prod(frame.padded(aval.shape)) * aval.dtype.itemsize for aval in arrays]
    inner = [_largest(program, frame) for eqn in jaxpr.eqns for program in programs(eqn)]
    return max([0, *sizes, *inner])


def _scanned(jaxpr: Any, limits: Mapping[str, Any]) -> Iterator[str]:
    """The variables that lengths of scans depend on."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield from sorted(limits.keys() & _compat.variables(eqn.params["length"]))
        for inner in programs(eqn):
            yield from _scanned(inner, limits)
