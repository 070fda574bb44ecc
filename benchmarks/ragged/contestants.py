"""The contestants: how each makes its batches and calls the program."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.ragged import data as batches
from benchmarks.ragged.data import Batch, Data
from benchmarks.ragged.programs import Program

import maskax as mx

MODES = ("forward", "gradient")
PER_LENGTH = "one compile per length"

compilations: list[str] = []  # of contestants' functions, by name; what JAX compiles beside them is not counted


def _listen(event: str, seconds: float, fun_name: str = "", **_: object) -> None:
    if event.endswith("backend_compile_duration") and "contest_" in fun_name:
        compilations.append(fun_name)


jax.monitoring.register_event_duration_secs_listener(_listen)


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way to compute a program on rows of unequal length.

    Attributes:
        batches: of data.
        prepare: of a batch, what the program takes; not timed.
        calls: by mode, of `(params, prepared, weights)`: results `(b, k)`, or a pair: a weighted sum of them and its
            gradient.
        params: in the contestant's own form.
        scale: by what its time is to be multiplied, where its work is not all of the data's.
        copies: the same for compilations.
    """

    name: str
    batches: Callable[[Data], list[Batch]]
    prepare: Callable[[Batch], Any]
    calls: dict[str, Callable[..., Any]]
    params: Any
    scale: float = 1.0
    copies: float = 1.0

    def prepared(self, data: Data) -> list[tuple[Any, Any]]:
        """Arguments of every call."""
        return [(self.prepare(batch), np.asarray(batch.weights)) for batch in self.batches(data)]

    def run(self, mode: str, prepared: Sequence[tuple[Any, Any]]) -> tuple[list[Any], float]:
        """Results of all calls, and how long they took."""
        start = time.perf_counter()
        results = jax.block_until_ready([self.calls[mode](self.params, *args) for args in prepared])
        return results, time.perf_counter() - start

    def results(self, data: Data) -> tuple[dict[int, np.ndarray], Any]:
        """The result of every row, and the gradient of the sum over all."""
        prepared = self.prepared(data)
        values = {}
        for batch, result in zip(self.batches(data), self.run("forward", prepared)[0]):
            values |= dict(zip(batch.picked.tolist(), np.asarray(result)))
        gradients = [gradient for _, gradient in self.run("gradient", prepared)[0]]
        return values, jax.tree.map(lambda *parts: np.sum([np.asarray(part) for part in parts], axis=0), *gradients)


def in_jax(name: str, program: Program, f: Callable[..., Any], batches: Any, prepare: Any) -> Contestant:
    """A contestant that calls `f(params, prepared)` under `jit`."""

    def contest_forward(params: Any, prepared: Any, weights: Any) -> Any:
        return f(params, prepared)

    def contest_sum(params: Any, prepared: Any, weights: Any) -> Any:
        return (weights[:, None] * jnp.sin(f(params, prepared))).sum()

    calls = {"forward": jax.jit(contest_forward), "gradient": jax.jit(jax.value_and_grad(contest_sum))}
    return Contestant(name, batches, lambda batch: jax.device_put(prepare(batch)), calls, program.params)


def unmasked(name: str, program: Program, batches: Any) -> Contestant:
    """The plain function on rows of equal length."""
    return in_jax(name, program, jax.vmap(program.plain, (None, 0)), batches, lambda batch: batch.xs)


def limits(program: Program, rows: Data, buckets: mx.Buckets) -> list[Contestant]:
    """Dense work without masks: in batches as large as the padded ones, and in as many as the buckets make."""
    few = -(-rows.lengths.sum() // (program.batch * program.size))
    many = len(batches.in_buckets(program, rows, buckets, 0))
    found = []
    for parts in sorted({int(few), many}):
        dense, scale = batches.dense(program, rows, parts)
        contestant = unmasked(f"limit, {parts} batches", program, lambda _, dense=dense: dense)
        found.append(dataclasses.replace(contestant, scale=scale))
    return found


def per_length(program: Program, rows: Data, lengths: np.ndarray) -> Contestant:
    """Rows of equal length together; only of these lengths."""
    work = batches.work(program, rows.lengths)
    share = work[np.isin(rows.lengths, lengths)].sum() / work.sum()
    found = unmasked(PER_LENGTH, program, lambda data: batches.by_length(data, lengths))
    return dataclasses.replace(found, scale=1 / share, copies=len(np.unique(rows.lengths)) / len(lengths))


def masked(program: Program, rows: Data, buckets: mx.Buckets) -> list[Contestant]:
    """The library and masks written by hand, padded and (where lengths differ) with buckets."""

    def padded(data: Data) -> list[Batch]:
        return batches.in_order(program, data, np.nan)

    def bucketed(data: Data) -> list[Batch]:
        return batches.in_buckets(program, data, buckets, np.nan)

    ours = mx.vmap(program.plain, in_axes=(None, 0)), lambda batch: mx.Ragged.from_padded(batch.xs, batch.lengths)
    hand = lambda params, prepared: program.hand(params, *prepared), lambda batch: (batch.xs, batch.lengths)
    ways = {"": padded} | ({", buckets": bucketed} if len(np.unique(rows.lengths)) > 1 else {})
    found = [
        in_jax(name + how, program, f, made, prepare)
        for how, made in ways.items()
        for name, (f, prepare) in {"maskax": ours, "hand-written masks": hand}.items()
    ]
    return [*found, *planned(program, padded, ours[1])]


def planned(program: Program, padded: Any, prepare: Any) -> list[Contestant]:
    """The library with padding skipped inside the program; and with its own gradient of row losses."""
    plan = in_jax("maskax, plan", program, mx.vmap(program.plain, (None, 0), plan="auto"), padded, prepare)

    def contest_losses(params: Any, prepared: Any, weights: Any) -> Any:
        loss = lambda params, x: jnp.sin(program.plain(params, x)).sum()
        mean = mx.value_and_grad(loss, in_axes=(None, 0), weights=weights)(params, prepared)
        return jax.tree.map(lambda x: x * weights.sum(), mean)

    calls = plan.calls | {"gradient": jax.jit(contest_losses)}
    return [plan, dataclasses.replace(plan, name="maskax, value_and_grad", calls=calls)]
