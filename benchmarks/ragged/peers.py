"""The peers: flax's RNN with `seq_lengths`; torch's packed sequences, jagged nested tensors, and a loop over rows."""

import os
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from benchmarks import overhead
from benchmarks.ragged import data as batches
from benchmarks.ragged.contestants import Contestant, in_jax
from benchmarks.ragged.data import Batch, Data
from benchmarks.ragged.programs import Program


def in_flax(program: Program) -> list[Contestant]:
    """The RNN, which is told the lengths; nothing for other programs."""
    import flax.linen as nn

    if program.name != "LSTM":
        return []
    rnn = nn.RNN(nn.OptimizedLSTMCell(program.params["h"].shape[0]), return_carry=True)

    def f(params: Any, prepared: Any) -> Any:
        gates = {}
        parts = [jnp.split(params[key], 4, axis=-1) for key in ("x", "h", "b")]
        for gate, x, h, b in zip("ifgo", *parts):
            gates |= {f"i{gate}": {"kernel": x}, f"h{gate}": {"kernel": h, "bias": b + (gate == "f")}}
        xs, lengths = prepared
        (_, h), _ = rnn.apply({"params": {"cell": gates}}, xs, seq_lengths=lengths)
        return h

    return [
        in_jax(
            "flax RNN(seq_lengths)",
            program,
            f,
            lambda data: batches.in_order(program, data, 0),
            lambda batch: (batch.xs, batch.lengths),
        )
    ]


def in_torch(program: Program) -> list[Contestant]:
    """Eager torch, with as many threads as there are cores and denormals flushed, as XLA does."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    torch.set_flush_denormal(True)
    functional = torch.nn.functional

    def contestant(name: str, f: Callable[..., Any], prepare: Callable[[Batch], Any]) -> Contestant:
        leaves = {key: torch.tensor(np.asarray(value)).requires_grad_() for key, value in flat(program.params).items()}

        def forward(params: Any, prepared: Any, weights: Any) -> Any:
            with torch.no_grad():
                return f(params, prepared).numpy()

        def gradient(params: Any, prepared: Any, weights: Any) -> Any:
            loss = (torch.from_numpy(weights)[:, None] * torch.sin(f(params, prepared))).sum()
            found = torch.autograd.grad(loss, list(params.values()))
            found = {key: value.numpy() for key, value in zip(params, found)}
            return loss.item(), found if isinstance(program.params, dict) else found[""]

        def made(data: Data) -> list[Batch]:
            return batches.in_order(program, data, 0)

        return Contestant(name, made, prepare, {"forward": forward, "gradient": gradient}, leaves)

    def rows(batch: Batch) -> Any:
        return [torch.from_numpy(x[:n]) for x, n in zip(batch.xs, batch.lengths)]

    def nested(batch: Batch) -> Any:
        return torch.nested.nested_tensor(rows(batch), layout=torch.jagged)

    def pooled(x: Any, how: str) -> Any:  # the methods of a nested tensor have no gradient for mean and sum
        return torch.segment_reduce(x.values(), how, offsets=x.offsets(), axis=0)

    def norm(x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], eps=1e-6)

    def gelu(x: Any) -> Any:
        return functional.gelu(x, approximate="tanh")

    # --- LSTM ----------------------------------------------------------------------------------------------------

    def packed(batch: Batch) -> Any:
        return torch.nn.utils.rnn.pack_padded_sequence(
            torch.from_numpy(batch.xs), torch.from_numpy(batch.lengths).long(), batch_first=True, enforce_sorted=False
        )

    def lstm(params: Any, x: Any) -> Any:
        d, h = params["x"].shape[0], params["h"].shape[0]
        forget = torch.cat([torch.zeros(h), torch.ones(h), torch.zeros(2 * h)])
        own = {"weight_ih_l0": params["x"].T, "weight_hh_l0": params["h"].T, "bias_ih_l0": params["b"] + forget}
        own = {key: value.contiguous() for key, value in own.items()} | {"bias_hh_l0": torch.zeros(4 * h)}
        with torch.device("meta"):
            module = torch.nn.LSTM(d, h)
        _, (last, _) = torch.func.functional_call(module, own, (x,))
        return last[0]

    # --- transformer block ---------------------------------------------------------------------------------------

    def block(params: Any, x: Any) -> Any:  # (b, n, d), jagged or of one length
        normed = norm(x)
        q, k, v = (
            (normed @ w.contiguous()).unflatten(-1, (overhead.HEADS, -1)).transpose(1, 2)
            for w in params["qkv"].chunk(3, dim=1)
        )
        attended = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = x + attended @ params["out"]
        return x + gelu(norm(x) @ params["up"]) @ params["down"]

    # --- deep sets -----------------------------------------------------------------------------------------------

    def sets_nested(params: Any, x: Any) -> Any:
        x = gelu(x @ params["up"]) @ params["down"]
        weights = torch.softmax(x @ params["score"], dim=1)
        return torch.cat([pooled(x, "mean"), pooled(x, "max"), pooled(weights * x, "sum")], dim=1) @ params["out"]

    def sets_row(params: Any, x: Any) -> Any:
        x = gelu(x @ params["up"]) @ params["down"]
        weights = torch.softmax(x @ params["score"], dim=0)
        return torch.cat([x.mean(0), x.amax(0), (weights * x).sum(0)]) @ params["out"]

    # --- statistics of a row -------------------------------------------------------------------------------------

    def statistics_row(params: Any, x: Any) -> Any:
        x = x * params[""]
        mean, var = x.mean(0), x.var(0, correction=0)
        standard = ((x - mean) / torch.sqrt(var + 1e-3)).sum(0)
        return torch.cat([mean, var, x.amax(0), x.amin(0), standard])

    def statistics_nested(params: Any, x: Any) -> Any:
        x = x * params[""]
        mean = pooled(x, "mean")
        centered = x - mean[:, None]
        var = pooled(centered**2, "mean")
        standard = pooled(centered / torch.sqrt(var + 1e-3)[:, None], "sum")
        return torch.cat([mean, var, pooled(x, "max"), pooled(x, "min"), standard], dim=1)

    def each(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda params, rows: torch.stack([f(params, row) for row in rows])

    name_nested, name_rows = "torch jagged nested tensors", "torch, row by row"
    return {
        "LSTM": lambda: [contestant("torch pack_padded_sequence", lstm, packed)],
        "block": lambda: [
            contestant(name_nested, lambda params, x: pooled(block(params, x), "mean"), nested),
            contestant(name_rows, each(lambda params, x: block(params, x[None])[0].mean(0)), rows),
        ],
        "sets": lambda: [contestant(name_nested, sets_nested, nested), contestant(name_rows, each(sets_row), rows)],
        "statistics": lambda: [
            contestant(name_nested, statistics_nested, nested),
            contestant(name_rows, each(statistics_row), rows),
        ],
    }[program.name]()


def flat(params: Any) -> dict[str, Any]:
    return params if isinstance(params, dict) else {"": params}
