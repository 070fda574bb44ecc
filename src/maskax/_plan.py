"""`Plan`: how `vmap` makes the cost of a batch follow its true sizes."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from maskax._arguments import holds
from maskax._buckets import Buckets, Cost
from maskax._errors import SpecError
from maskax._loops import Boxes

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
