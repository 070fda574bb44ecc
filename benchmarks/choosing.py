"""Rows that hold, out of many: `mx.compress` against gathers written by hand.

    python -m benchmarks.choosing [--rounds 10]

256 rows of 2048 steps of 64 features, of which a share holds. Every contestant gives the same array, the chosen steps
in front and 0 behind them, and the number of them; results are compared first. Contestants alternate in one process; a
figure is the median of its time over that of the fastest one written by hand.
"""

import argparse
import random
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import maskax as mx

ROWS, STEPS, FEATURES = 256, 2048, 64
SHARES = (0.1, 0.5, 0.9)


def kept(x: Any, index: Any, count: Any) -> Any:
    return jnp.where((jnp.arange(len(index)) < count)[:, None], x[index], 0), count


def by_nonzero(keep: Any, x: Any) -> Any:
    return kept(x, jnp.nonzero(keep, size=len(keep), fill_value=0)[0], keep.sum())


def by_argsort(keep: Any, x: Any) -> Any:
    return kept(x, jnp.argsort(~keep, stable=True), keep.sum())


def by_scatter(keep: Any, x: Any) -> Any:
    turn = jnp.where(keep, jnp.cumsum(keep) - 1, len(keep))
    index = jnp.zeros(len(keep), jnp.int32).at[turn].set(jnp.arange(len(keep)), mode="drop", unique_indices=True)
    return kept(x, index, keep.sum())


def ours(keep: Any, x: Any) -> Any:
    chosen = mx.vmap(lambda keep, x: mx.compress(keep, x, axis=0))(keep, x)
    return chosen.data, chosen.lengths


HAND = {"nonzero": by_nonzero, "argsort": by_argsort, "scatter": by_scatter}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    contestants = {name: jax.jit(jax.vmap(f)) for name, f in HAND.items()} | {"mx.compress": jax.jit(ours)}
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(ROWS, STEPS, FEATURES)), jnp.float32)
    print("share   " + " ".join(f"{name:>12s}" for name in contestants))
    for share in SHARES:
        keep = jnp.asarray(rng.random((ROWS, STEPS)) < share)
        expected = contestants["nonzero"](keep, x)
        for f in contestants.values():
            jax.tree.map(np.testing.assert_array_equal, f(keep, x), expected)
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for name in random.sample(list(contestants), len(contestants)):
                start = time.perf_counter()
                jax.block_until_ready(contestants[name](keep, x))
                times[name].append(time.perf_counter() - start)
        best = min((times[name] for name in HAND), key=statistics.median)
        ratios = [statistics.median(a / b for a, b in zip(taken, best)) for taken in times.values()]
        print(f"{share:4.0%}    " + " ".join(f"{ratio:12.2f}" for ratio in ratios), flush=True)


if __name__ == "__main__":
    main()
