"""`Plan`: how `vmap` makes the cost of a batch follow its true sizes."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._arguments import holds
from maskax._buckets import Buckets, Cost
from maskax._errors import SpecError
from maskax._interpret import programs
from maskax._loops import Boxes, Value, trips
from maskax._mask import Program
from maskax._operand import split
from maskax._shapes import Shrink, Sizes

# Where the choice stands. On a CPU a trip's arrays should stay in the cache; an accelerator wants to be full.
TOKENS_PER_TRIP = {"cpu": 1024, "default": 1 << 16}
STEPS = {1: 8, 2: 3}  # by the number of ragged dimensions: into how many equal steps each is cut
"""Defaults of `Plan`."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Padding skipped inside one compiled program: rows run in trips, each at the padded size of its bucket.

    Rows are ordered by bucket. Each bucket has a loop of its own, whose every trip runs as many rows as fit a budget of
    tokens, and that makes as many trips as the batch needs. Results go back to the places of their rows.

    Attributes:
        buckets: the padded sizes: one `Buckets` for every ragged dimension, or a dict of them by name. The padded size
            of the batch is always one more. By default 8 equal steps.
        tokens_per_trip: how many elements, padding included, one trip runs, along all ragged dimensions of its rows.
            By default 1024 on a CPU, 65536 on an accelerator.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([1.0, 2.0, 6.0])])
        >>> plan = mx.Plan(buckets=mx.Buckets([2, 4]), tokens_per_trip=8)
        >>> mx.vmap(lambda x: x - x.mean(), plan=plan)(xs).to_list()
        [Array([-1.,  1.], dtype=float32), Array([-2., -1.,  3.], dtype=float32)]
    """

    buckets: Buckets | Mapping[str, Buckets] | None = None
    tokens_per_trip: int | None = None
    prefixes: int = 8

    @classmethod
    def fit(cls, lengths: Any, k: int = 8, cost: Cost = "linear", tokens_per_trip: int | None = None) -> "Plan":
        """The plan whose `k` buckets pad rows of these lengths with the least work, see `Buckets.fit`."""
        return cls(Buckets.fit(lengths, k, cost), tokens_per_trip)

    def boxes(self, limits: Mapping[str, int], rows: int, constraints: Sequence[str] = ()) -> Boxes:
        """The padded sizes of trips over `rows` rows whose dimensions run up to `limits` and keep `constraints`."""
        steps = [self._steps(name, limit, len(limits)) for name, limit in limits.items()]
        extents = sorted(itertools.product(*steps), key=lambda box: (math.prod(box), box))
        *some, whole = extents
        extents = [*(e for e in some if all(holds(c, dict(zip(limits, e))) for c in constraints)), whole]
        budget = self.tokens_per_trip or TOKENS_PER_TRIP.get(jax.default_backend(), TOKENS_PER_TRIP["default"])
        return Boxes(tuple(extents), tuple(max(1, min(rows, budget // max(1, math.prod(box)))) for box in extents))

    def _steps(self, name: str, limit: int, dimensions: int) -> list[int]:
        buckets = self.buckets.get(name) if isinstance(self.buckets, Mapping) else self.buckets
        count = STEPS.get(dimensions, 2)
        sizes = [-(-limit * i // count) for i in range(1, count)] if buckets is None else buckets.sizes
        return sorted({size for size in sizes if size < limit} | {limit})


def can_skip(data: Iterable[Any], options: Mapping[str, Any]) -> bool:
    """Whether rows can run in trips.

    Not where they are ragged batches themselves, where they must run side by side for a collective over them or for a
    mesh axis, nor inside a masked function, where their number may be a run-time size.
    """
    shapes = [getattr(x, "shape", None) for x in data]
    alone = not any(options.values())
    return alone and all(shape is not None and all(isinstance(d, int) for d in shape) for shape in shapes)


def run_planned(
    program: Program, plan: Plan, data: Sequence[Any], variables: Mapping[str, Any]
) -> tuple[list[Any], Sizes]:
    """The results of `program` on every row, flat, padded to the largest size; and what the dimensions are there.

    Args:
        program: a function of one row.
        plan: how to run it.
        data: the rows' arrays, `(rows, ...)`.
        variables: the true size of each dimension variable, `(rows,)`.
    """
    scope, consts = program.scope, [jnp.asarray(c) for c in program.consts]
    names = list(variables)
    sizes = [jnp.asarray(variables[name], _compat.dimension_dtype()) for name in names]
    limits = program.limits([x.shape[1:] for x in data])
    count = len(sizes[0])

    def side_by_side(
        consts: Sequence[Any], sizes: Sequence[Any], data: Sequence[Any], shrink: Shrink | None = None
    ) -> list[Any]:
        """Rows at whatever padded size they have."""

        def row(sizes: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
            out = program.run(arrays, consts, dict(zip(names, sizes)), shrink=shrink)
            return jax.tree.leaves(out.outputs)

        return jax.vmap(row)(sizes, data)

    if scanned := list(_scanned(program.jaxpr, limits)):
        by = [scope.local(name) for name in names].index(scanned[0])
        order = jnp.argsort(-sizes[by], stable=True)
        outputs = side_by_side(
            consts,
            [_arranged(s, order) for s in sizes],
            [_arranged(x, order) for x in data],
            Shrink(plan.prefixes, scanned[0]),
        )
        back = jnp.argsort(order)
        return [_arranged(out, back) for out in outputs], Sizes(limits, {}, scope)
    boxes = plan.boxes({name: limits[scope.local(name)] for name in names}, count, program.constraints)
    frames = [Sizes(dict(zip(map(scope.local, names), extents)), {}, scope) for extents in boxes.extents]

    def in_rows(shape: Sequence[Any], dtype: Any, dims: Sequence[Any]) -> Value:
        return Value((count, *shape), dtype, tuple(frame.padded(dims) for frame in frames))

    def body(_: int, values: Sequence[Any]) -> Sequence[Any]:
        shared, sizes, arrays = split(values, len(consts), len(consts) + len(names))
        return side_by_side(shared, sizes, arrays)

    dims = [a.dims for a in program.arguments if a.is_array]
    takes = [Value(c.shape, c.dtype) for c in consts]
    takes += [in_rows((), size.dtype, ()) for size in sizes]
    takes += [in_rows(x.shape[1:], x.dtype, d) for x, d in zip(data, dims)]
    gives = [in_rows(frames[-1].padded(aval.shape), aval.dtype, aval.shape) for aval in program.avals]
    return trips(body, boxes, jnp.stack(sizes), [*consts, *sizes, *data], takes, gives), frames[-1]


def _arranged(x: Any, order: Any) -> Any:
    return x.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _scanned(jaxpr: Any, limits: Mapping[str, Any]) -> Iterator[str]:
    """The variables that lengths of scans depend on."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield from sorted(limits.keys() & _compat.variables(eqn.params["length"]))
        for inner in programs(eqn):
            yield from _scanned(inner, limits)


def as_plan(plan: "Plan | str | None") -> Plan | None:
    """The plan that is meant: `"auto"` is one with all defaults.

    Raises:
        SpecError: neither a plan nor `"auto"`.
    """
    if plan is None or isinstance(plan, Plan):
        return plan
    if plan != "auto":
        raise SpecError(f"plan: a maskax.Plan, 'auto' or None is needed, not {plan!r}.")
    return Plan()
