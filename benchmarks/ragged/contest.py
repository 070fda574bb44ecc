"""One contest: results compared first, then times, alternating."""

import collections
import dataclasses
import random
import statistics
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from benchmarks.ragged import contestants, data
from benchmarks.ragged.contestants import MODES, Contestant
from benchmarks.ragged.data import Data
from benchmarks.ragged.programs import Program

import maskax as mx

WRONG = 1e-3  # an error above this is no rounding


@dataclasses.dataclass
class Outcome:
    """What came of one contestant.

    Attributes:
        error: largest difference to the truth, of results and gradients, over the largest entry.
        compilations: how many.
        seconds: by mode, that the first call took longer than the later ones.
        ratios: by mode, time over the limit's; `counted`: the first call's.
        failure: why there is none of these.
    """

    name: str
    error: float = 0.0
    compilations: float = 0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    ratios: dict[str, float] = dataclasses.field(default_factory=dict)
    counted: dict[str, float] = dataclasses.field(default_factory=dict)
    failure: str = ""


def hold(
    program: Program,
    rows: Data,
    buckets: mx.Buckets,
    peers: Sequence[Callable[[Program], list[Contestant]]],
    rounds: int,
    measured: int,
) -> list[Outcome]:
    """Compares all results with the truth, then times everybody.

    Args:
        program: what to compute.
        rows: on what.
        buckets: the sizes to which rows are padded in batches of similar length.
        peers: each gives contestants for a program.
        rounds: how often everybody is timed; 0: results are only compared.
        measured: for how many lengths one compile per length is measured.
    """
    lengths = data.some_lengths(rows, measured)
    limits = contestants.limits(program, rows, buckets) if rounds else []
    alone = contestants.per_length(program, rows, lengths)
    entrants = [*contestants.masked(program, rows, buckets), *(found for peer in peers for found in peer(program))]
    entrants += [alone] if len(np.unique(rows.lengths)) > 1 else []
    outcomes = {c.name: Outcome(c.name) for c in [*limits, *entrants]}
    for contestant in [*limits, *entrants]:
        warm_up(contestant, rows, outcomes[contestant.name])
    running = [c for c in [*limits, *entrants] if not outcomes[c.name].failure]
    weighted = only(rows, lengths)
    expected = alone.results(weighted)
    for contestant in running[len(limits) :]:
        outcomes[contestant.name].error = error(contestant.results(weighted), expected)
    for mode in MODES if rounds else ():
        compete(mode, running, [limit.name for limit in limits], rows, rounds, outcomes)
    return list(outcomes.values())


def warm_up(contestant: Contestant, rows: Data, outcome: Outcome) -> None:
    """Calls everything once: what is compiled is compiled here."""
    before = len(contestants.compilations)
    try:
        with warnings.catch_warnings(action="ignore"):  # torch: nested tensors are a prototype
            prepared = contestant.prepared(rows)
            for mode in MODES:
                outcome.seconds[mode] = contestant.run(mode, prepared)[1]
    except (NotImplementedError, RuntimeError) as reason:  # what torch's nested tensors lack
        outcome.failure = str(reason).split("\n")[0][:60]
    outcome.compilations = (len(contestants.compilations) - before) * contestant.copies


def only(rows: Data, lengths: np.ndarray) -> Data:
    """The rows, those of other lengths with weight 0: batch mates that must not matter."""
    weights = np.random.default_rng(3).uniform(0.5, 1.5, len(rows.rows)) * np.isin(rows.lengths, lengths)
    return dataclasses.replace(rows, weights=weights.astype(np.float32))


def error(found: tuple[dict[int, np.ndarray], Any], expected: tuple[dict[int, np.ndarray], Any]) -> float:
    """The largest difference of results and gradients, over the largest entry; of the rows that are expected."""
    pairs = [(np.stack([found[0][row] for row in expected[0]]), np.stack(list(expected[0].values())))]
    pairs += zip(jax.tree.leaves(found[1]), jax.tree.leaves(expected[1]))
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def compete(
    mode: str,
    running: Sequence[Contestant],
    limits: Sequence[str],
    rows: Data,
    rounds: int,
    outcomes: dict[str, Outcome],
) -> None:
    """Times all contestants, in a new order each round; the limit is the faster of the limits."""
    prepared = {c.name: c.prepared(rows) for c in running}
    times = collections.defaultdict(list)
    for _ in range(rounds):
        for contestant in random.sample(running, len(running)):
            times[contestant.name].append(contestant.run(mode, prepared[contestant.name])[1] * contestant.scale)
    limit = min((times[name] for name in limits), key=statistics.median)
    for contestant in running:
        outcome, taken = outcomes[contestant.name], times[contestant.name]
        outcome.ratios[mode] = statistics.median(a / b for a, b in zip(taken, limit))
        seconds = outcome.seconds[mode] - statistics.median(taken) / contestant.scale
        outcome.seconds[mode] = max(0.0, seconds) * contestant.copies
        outcome.counted[mode] = outcome.ratios[mode] + outcome.seconds[mode] / statistics.median(limit)


def show(program: Program, kind: str, rows: Data, outcomes: Sequence[Outcome]) -> None:
    """Prints a table."""
    full = rows.lengths.sum() / (len(rows.rows) * program.size)
    heading = f"{program.name}, {kind} lengths ({full:.0%} full)"
    print(f"\n{heading:42s} forward gradient   error  compiled  seconds")
    for outcome in outcomes:
        if outcome.failure:
            print(f"{outcome.name:42s} not supported: {outcome.failure}")
            continue
        ratios = " ".join(f"{outcome.ratios[mode]:8.2f}" for mode in MODES)
        error = f"{outcome.error:8.0e}" if outcome.error else " " * 8
        compiled = f"{outcome.compilations:8.0f} {sum(outcome.seconds.values()):8.1f}" if outcome.compilations else ""
        print(f"{outcome.name:41s}{ratios}{error} {compiled}{' WRONG' if outcome.error > WRONG else ''}")
    if outcomes[-1].name == contestants.PER_LENGTH:
        counted = " ".join(f"{outcomes[-1].counted[mode]:8.0f}" for mode in MODES)
        print(f"{'  its compilations counted, for one pass':41s}{counted}", flush=True)
