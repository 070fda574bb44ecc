"""Does the cost of a plan follow the true sizes? Time against the sum of lengths, at one padded size.

    python -m benchmarks.scaling [--rounds 10]

Batches of one padded shape, with uniform lengths of five different means, run through one compiled program (one
compilation serves them all). Printed per program and mean: time over that of full rows, and the same of the sum of
the lengths. Then the fit of time to that sum (and for attention to the sum of squares too): the share of the time's
variance that it explains, and how much of the time of full rows remains where there is nothing to do.
"""

import argparse
import random
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.ragged.programs import Program, programs

import maskax as mx

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


def batch(program: Program, share: float) -> Any:
    """Rows of uniform lengths around a share of the padded size; one is full."""
    rng = np.random.default_rng(0)
    half = min(share, 1 - share)
    lengths = np.clip(program.size * rng.uniform(share - half, share + half, program.rows), 1, program.size).astype(int)
    data = rng.normal(size=(program.rows, program.size, program.features)).astype(np.float32)
    return mx.Ragged.from_padded(jnp.asarray(data), jnp.asarray(lengths, jnp.int32))


def measure(program: Program, rounds: int) -> None:
    """Prints a table."""
    f = jax.jit(mx.vmap(program.plain, (None, 0), plan="auto"))
    batches = {share: batch(program, share) for share in SHARES}
    times: dict[float, list[float]] = {share: [] for share in SHARES}
    for round_ in range(rounds + 1):
        for share in random.sample(SHARES, len(SHARES)):
            start = time.perf_counter()
            jax.block_until_ready(f(program.params, batches[share]))
            if round_:  # the first compiles
                times[share].append(time.perf_counter() - start)
    full = statistics.median(times[1.0])
    taken = np.array([statistics.median(times[share]) / full for share in SHARES])
    lengths = [np.asarray(batches[share].lengths, float) for share in SHARES]
    work = [np.array([(n**power).sum() for n in lengths]) for power in (1, 2)[: 1 + program.pairs]]
    work = [w / w[-1] for w in work]
    terms = np.stack([np.ones(len(SHARES)), *work], axis=1)
    rest = taken - terms @ np.linalg.lstsq(terms, taken)[0]
    offset = np.linalg.lstsq(terms, taken)[0][0]
    print(f"\n{program.name}: {program.rows} rows padded to {program.size}, {f._cache_size()} compilation")
    print("sum of lengths " + " ".join(f"{w:6.2f}" for w in work[0]))
    if program.pairs:
        print("sum of squares " + " ".join(f"{w:6.2f}" for w in work[1]))
    print("time           " + " ".join(f"{t:6.2f}" for t in taken))
    print(f"fit: {1 - rest.var() / taken.var():.1%} explained, {offset:.2f} at no work", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    for program in programs("batch"):
        measure(program, rounds)


if __name__ == "__main__":
    main()
