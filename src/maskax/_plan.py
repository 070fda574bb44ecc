"""`Plan`: how `vmap` makes the cost of a batch follow its true sizes."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from maskax._arguments import holds
from maskax._buckets import Buckets, Cost
from maskax._errors import SpecError
from maskax._loops import Boxes

# Where the choice stands. On a CPU a trip's arrays should stay in the cache; an accelerator wants to be full.
BYTES_PER_TRIP = {"cpu": 1 << 20, "default": 1 << 28}
TRIPS_PER_BOX = 2
WORTH_IT = 16  # a batch of less than this part of a trip runs padded: a loop costs more than its padding
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
            By default as many as let the program's largest array take 1 MiB on a CPU, 256 MiB on an accelerator; a
            batch that is much smaller runs as without a plan.
        prefixes: how many loops a scan over a ragged length becomes, over ever fewer of the rows: all, 71 %, half, ...

    A program with such a scan does not run in trips: its rows are ordered by length, and the scan runs, step by step,
    those that are not at their ends.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([1.0, 2.0, 6.0])])
        >>> plan = mx.Plan(buckets=mx.Buckets([2, 4]), tokens_per_trip=8)
        >>> mx.vmap(lambda x: x - x.mean(), plan=plan)(xs).to_list()
        [Array([-1.,  1.], dtype=float32), Array([-2., -1.,  3.], dtype=float32)]
    """

    buckets: Buckets | Mapping[str, Buckets] | None = None
    tokens_per_trip: int | None = None
    prefixes: int = 10

    @classmethod
    def fit(cls, lengths: Any, k: int = 8, cost: Cost = "linear", tokens_per_trip: int | None = None) -> "Plan":
        """The plan whose `k` buckets pad rows of these lengths with the least work, see `Buckets.fit`."""
        return cls(Buckets.fit(lengths, k, cost), tokens_per_trip)

    def waste(self, lengths: Any, name: str = "n") -> float:
        """The share of padding in the work on rows of these lengths, `(rows,)`, of the dimension `name`."""
        return self._buckets(lengths, name).waste(lengths)

    def plot(self, lengths: Any, axes: Any = None, name: str = "n") -> Any:
        """Bars of what is true, computed and padded, longest row first; returns the matplotlib axes.

        Args:
            lengths: the lengths of the rows of a batch, `(rows,)`.
            axes: where to draw.
            name: the dimension that they are of.
        """
        import matplotlib.pyplot as plt

        axes = axes or plt.subplots()[1]
        true = np.sort(np.asarray(lengths))[::-1]
        computed, rows = self._buckets(true, name).round(true), np.arange(len(true))
        padded = np.full(len(true), true[0])
        shades = {"padded": (padded, "0.85"), "computed": (computed, "C1"), "true": (true, "C0")}
        for label, (size, color) in shades.items():
            share = size.sum() / padded.sum()
            axes.barh(rows, size, height=1.0, color=color, label=f"{label} ({share:.0%})")
        axes.set(xlabel=name, ylabel="row", title="area of a batch")
        axes.invert_yaxis()
        axes.legend()
        return axes

    def _buckets(self, lengths: Any, name: str) -> Buckets:
        """The sizes at which rows of a batch padded to the longest of them run."""
        return Buckets(self._steps(name, int(np.max(lengths)), 1))

    def boxes(
        self, limits: Mapping[str, int], rows: int, bytes_per_row: Callable[..., int], constraints: Sequence[str] = ()
    ) -> Boxes:
        """The padded sizes of trips.

        Args:
            limits: up to where the dimensions run.
            rows: how many rows there are.
            bytes_per_row: how large the program's largest array gets, for one row of these padded sizes.
            constraints: what the sizes keep to.
        """
        steps = [self._steps(name, limit, len(limits)) for name, limit in limits.items()]
        *some, whole = sorted(itertools.product(*steps), key=lambda box: (math.prod(box), box))
        kept = [box for box in some if all(holds(c, dict(zip(limits, box))) for c in constraints)]
        extents = (*kept, whole)
        budget = BYTES_PER_TRIP.get(jax.default_backend(), BYTES_PER_TRIP["default"])
        if self.tokens_per_trip is None and rows * bytes_per_row(whole) <= budget // WORTH_IT:
            return Boxes((whole,), (rows,))
        # Half of a box's last trip is empty, on average: let there be a few trips to each.
        most = max(1, rows // (TRIPS_PER_BOX * len(extents)))

        def fit(box: tuple[int, ...]) -> int:
            if self.tokens_per_trip is not None:
                return self.tokens_per_trip // max(1, math.prod(box))
            return min(most, budget // max(1, bytes_per_row(box)))

        return Boxes(extents, tuple(max(1, min(rows, fit(box))) for box in extents))

    def _steps(self, name: str, limit: int, dimensions: int) -> list[int]:
        buckets = self.buckets.get(name) if isinstance(self.buckets, Mapping) else self.buckets
        count = STEPS.get(dimensions, 2)
        sizes = [-(-limit * i // count) for i in range(1, count)] if buckets is None else buckets.sizes
        return sorted({size for size in sizes if size < limit} | {limit})


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
