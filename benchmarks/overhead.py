"""What `mx.mask` costs over masks written by hand: FLOPs (XLA's cost analysis) and time, forward and with gradient.

    python benchmarks/overhead.py [--rounds 12]

Three programs, each written once for one example and once for a padded batch with hand-written masks. The hand-written
ones are held to the same promise (nan in the padding changes no value and no gradient), and their results are compared
before anything is timed. Variants alternate within one process; the figures are ratios of medians.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import maskax as mx


@dataclasses.dataclass(frozen=True)
class Program:
    """One program in both forms; `hand(params, xs, lengths)` and `plain(params, x)` give the same per row."""

    name: str
    plain: Callable[..., Any]
    hand: Callable[..., Any]
    params: Any
    shape: tuple[int, int, int]  # rows, padded length, features


# --- statistics of a row ---------------------------------------------------------------------------------------------


def statistics_plain(scale, x):  # x: (n, d)
    x = x * scale
    mean, var = x.mean(0), x.var(0)
    return jnp.concatenate([mean, var, x.max(0), x.min(0), ((x - mean) / jnp.sqrt(var + 1e-3)).sum(0)])


def statistics_hand(scale, xs, lengths):
    keep = (jnp.arange(xs.shape[1]) < lengths[:, None])[..., None]
    n = lengths[:, None].astype(xs.dtype)
    x = jnp.where(keep, xs, 0) * scale
    mean = jnp.where(keep, x, 0).sum(1) / n
    centered = jnp.where(keep, x - mean[:, None], 0)
    var = (centered**2).sum(1) / n
    top = jnp.where(keep, x, -jnp.inf).max(1)
    low = jnp.where(keep, x, jnp.inf).min(1)
    standard = jnp.where(keep, (x - mean[:, None]) / jnp.sqrt(var + 1e-3)[:, None], 0).sum(1)
    return jnp.concatenate([mean, var, top, low, standard], axis=1)


# --- LSTM encoder ----------------------------------------------------------------------------------------------------


def lstm_params(rng, d, h):
    return {
        "x": jnp.asarray(rng.normal(size=(d, 4 * h)) / np.sqrt(d), jnp.float32),
        "h": jnp.asarray(rng.normal(size=(h, 4 * h)) / np.sqrt(h), jnp.float32),
        "b": jnp.zeros(4 * h),
    }


def lstm_cell(params, carry, x):
    c, h = carry
    i, f, g, o = jnp.split(x @ params["x"] + h @ params["h"] + params["b"], 4, axis=-1)
    c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)


def lstm_plain(params, x):  # x: (n, d)
    zero = jnp.zeros(params["h"].shape[0])
    return jax.lax.scan(lambda carry, x: (lstm_cell(params, carry, x), None), (zero, zero), x)[0][1]


def lstm_hand(params, xs, lengths):
    zero = jnp.zeros((xs.shape[0], params["h"].shape[0]))
    xs = jnp.where((jnp.arange(xs.shape[1]) < lengths[:, None])[..., None], xs, 0)

    def step(carry, item):
        t, x = item
        new = lstm_cell(params, carry, x)
        keep = (t < lengths)[:, None]
        return jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, carry), None

    return jax.lax.scan(step, (zero, zero), (jnp.arange(xs.shape[1]), xs.swapaxes(0, 1)))[0][1]


# --- transformer block -----------------------------------------------------------------------------------------------

HEADS = 4


def block_params(rng, d):
    sizes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    return {k: jnp.asarray(rng.normal(size=s) / np.sqrt(s[0]), jnp.float32) for k, s in sizes.items()}


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def block_plain(params, x):  # x: (n, d)
    n, d = x.shape
    q, k, v = jnp.split(norm(x) @ params["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(n, HEADS, d // HEADS) for a in (q, k, v))
    weights = jax.nn.softmax(jnp.einsum("qhc,khc->hqk", q, k) / jnp.sqrt(d / HEADS), axis=-1)
    x = x + jnp.einsum("hqk,khc->qhc", weights, v).reshape(n, d) @ params["out"]
    x = x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]
    return x.mean(0)


def block_hand(params, xs, lengths):
    b, n, d = xs.shape
    keep = jnp.arange(n) < lengths[:, None]
    x = jnp.where(keep[..., None], xs, 0)
    q, k, v = jnp.split(norm(x) @ params["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(b, n, HEADS, d // HEADS) for a in (q, k, v))
    logits = jnp.einsum("bqhc,bkhc->bhqk", q, k) / jnp.sqrt(d / HEADS)
    weights = jax.nn.softmax(jnp.where(keep[:, None, None], logits, -1e30), axis=-1)
    x = x + jnp.einsum("bhqk,bkhc->bqhc", weights, v).reshape(b, n, d) @ params["out"]
    x = x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]
    return jnp.where(keep[..., None], x, 0).sum(1) / lengths[:, None]


def programs() -> list[Program]:
    rng = np.random.default_rng(0)
    return [
        Program("masked statistics", statistics_plain, statistics_hand, jnp.float32(1.5), (256, 512, 32)),
        Program("LSTM encoder", lstm_plain, lstm_hand, lstm_params(rng, 64, 128), (64, 128, 64)),
        Program("transformer block", block_plain, block_hand, block_params(rng, 128), (16, 256, 128)),
    ]


def variants(program: Program) -> dict[str, dict[str, Callable[..., Any]]]:
    """`{"forward" or "with gradient": {"hand" or "maskax": jitted function of (params, xs, lengths)}}`."""

    def masked(params, xs, lengths):
        one = mx.mask(program.plain, [None, "n, _"], out_shape="_")
        return jax.vmap(lambda x, n: one([params, x], {"n": n}))(xs, lengths)

    def with_gradient(f):
        return jax.value_and_grad(lambda params, xs, lengths: jnp.sin(f(params, xs, lengths)).sum(), argnums=(0, 1))

    both = {"hand": program.hand, "maskax": masked}
    return {
        "forward": {name: jax.jit(f) for name, f in both.items()},
        "with gradient": {name: jax.jit(with_gradient(f)) for name, f in both.items()},
    }


def inputs(program: Program) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    b, n, _ = program.shape
    lengths = jnp.asarray(rng.integers(n // 4, n + 1, b), jnp.int32).at[0].set(n)
    xs = jnp.asarray(rng.normal(size=program.shape), jnp.float32)
    return program.params, jnp.where((jnp.arange(n) < lengths[:, None])[..., None], xs, jnp.nan), lengths


def flops(f: Callable[..., Any], args: Any) -> float:
    """XLA's count for one call."""
    return f.lower(*args).compile().cost_analysis()["flops"]


def time_ratio(fs: dict[str, Callable[..., Any]], args: Any, rounds: int) -> float:
    """Median time of maskax over that of hand-written masks, alternating."""
    times: dict[str, list[float]] = {name: [] for name in fs}
    for round_ in range(rounds + 1):
        for name in sorted(fs, reverse=round_ % 2 == 1):
            start = time.perf_counter()
            jax.block_until_ready(fs[name](*args))
            if round_:
                times[name].append(time.perf_counter() - start)
    return statistics.median(times["maskax"]) / statistics.median(times["hand"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    print(f"{'maskax / hand-written masks':34s} {'FLOPs':>7s} {'time':>7s}")
    for program in programs():
        args = inputs(program)
        for mode, fs in variants(program).items():
            hand, ours = fs["hand"](*args), fs["maskax"](*args)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), hand, ours)
            ratio = flops(fs["maskax"], args) / flops(fs["hand"], args)
            print(f"{program.name + ', ' + mode:34s} {ratio:7.3f} {time_ratio(fs, args, rounds):7.3f}", flush=True)


if __name__ == "__main__":
    main()
