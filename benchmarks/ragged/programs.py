"""The programs: for one example (`plain`), and for a padded batch with masks written by hand (`hand`)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks import overhead


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        plain: of `(params, x)`, with `x` one row `(n, d)`, to a vector.
        hand: of `(params, xs, lengths)`, with `xs` a batch `(b, n, d)`, to a matrix; for any padding.
        rows, batch, size, features: of the data; `size` is the largest length.
        pairs: whether the work has a part that grows with the square of a length.
    """

    name: str
    plain: Callable[..., Any]
    hand: Callable[..., Any]
    params: Any
    rows: int
    batch: int
    size: int
    features: int
    pairs: bool = False


def sets_params(rng: np.random.Generator, d: int, h: int) -> Any:
    sizes = {"up": (d, h), "down": (h, d), "score": (d, 1), "out": (3 * d, d)}
    return {k: jnp.asarray(rng.normal(size=s) / np.sqrt(s[0]), jnp.float32) for k, s in sizes.items()}


def sets_elements(params: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ params["up"]) @ params["down"]


def sets_plain(params: Any, x: Any) -> Any:  # x: (n, d), in any order
    x = sets_elements(params, x)
    weights = jax.nn.softmax(x @ params["score"], axis=0)
    return jnp.concatenate([x.mean(0), x.max(0), (weights * x).sum(0)]) @ params["out"]


def sets_hand(params: Any, xs: Any, lengths: Any) -> Any:
    keep = (jnp.arange(xs.shape[1]) < lengths[:, None])[..., None]
    x = sets_elements(params, jnp.where(keep, xs, 0))
    weights = jax.nn.softmax(jnp.where(keep, x @ params["score"], -1e30), axis=1)
    mean = jnp.where(keep, x, 0).sum(1) / lengths[:, None]
    return jnp.concatenate([mean, jnp.where(keep, x, -jnp.inf).max(1), (weights * x).sum(1)], axis=1) @ params["out"]


def order_plain(scale: Any, x: Any) -> Any:  # x: (n, d)
    x, n = jnp.sort(x * scale, axis=0), jnp.asarray(x.shape[0])
    return jnp.concatenate([x[n // 4], (x[(n - 1) // 2] + x[n // 2]) / 2])


def order_hand(scale: Any, xs: Any, lengths: Any) -> Any:
    keep = (jnp.arange(xs.shape[1]) < lengths[:, None])[..., None]
    x = jnp.sort(jnp.where(keep, jnp.where(keep, xs, 0) * scale, jnp.inf), axis=1)
    at = lambda i: jnp.take_along_axis(x, i[:, None, None], axis=1)[:, 0]
    return jnp.concatenate([at(lengths // 4), (at((lengths - 1) // 2) + at(lengths // 2)) / 2], axis=1)


def programs(size: str = "batches") -> list[Program]:
    """All of them.

    Args:
        size: `"batches"`: of many rows, in batches of some; `"quick"`: of a quarter of those rows; `"batch"`: of one
            batch that is much larger than the cache, as a device holds it in a training step.
    """
    rng = np.random.default_rng(0)
    lstm, block, sets = overhead.lstm_params, overhead.block_params, sets_params
    scale = jnp.float32(1.5)
    if size == "batch":
        return [
            Program("LSTM", overhead.lstm_plain, overhead.lstm_hand, lstm(rng, 128, 128), 64, 64, 256, 128),
            Program("block", overhead.block_plain, overhead.block_hand, block(rng, 256), 32, 32, 512, 256, pairs=True),
            Program("sets", sets_plain, sets_hand, sets(rng, 128, 128), 256, 256, 512, 128),
            Program("statistics", overhead.statistics_plain, overhead.statistics_hand, scale, 512, 512, 512, 32),
            Program("order", order_plain, order_hand, scale, 256, 256, 512, 8),
        ]
    found = [
        Program("LSTM", overhead.lstm_plain, overhead.lstm_hand, lstm(rng, 64, 128), 512, 64, 64, 64),
        Program("block", overhead.block_plain, overhead.block_hand, block(rng, 64), 256, 32, 128, 64, pairs=True),
        Program("sets", sets_plain, sets_hand, sets(rng, 64, 128), 1024, 128, 128, 64),
        Program("statistics", overhead.statistics_plain, overhead.statistics_hand, scale, 1024, 128, 256, 32),
        Program("order", order_plain, order_hand, scale, 512, 64, 256, 8),
    ]
    return [dataclasses.replace(p, rows=p.rows // 4) for p in found] if size == "quick" else found
