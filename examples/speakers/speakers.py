"""Who is speaking? A model for ONE series of any length, and its training on batches, on any number of devices."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import matplotlib
import numpy as np
import optax
import vowels
from jax.sharding import NamedSharding, PartitionSpec
from tqdm import tqdm

import maskax as mx

Metrics = list[dict[str, float]]


def option(default: Any, description: str) -> Any:
    """Declares a field of `Config` that is also an option of the command line."""
    return dataclasses.field(default=default, metadata={"help": description})


@dataclasses.dataclass(frozen=True)
class Config:
    """The options of a run."""

    epochs: int = option(60, "times that training sees every utterance")
    batch_size: int = option(32, "utterances in a batch")
    hidden_size: int = option(64, "channels of the model")
    learning_rate: float = option(3e-3, "highest learning rate")
    weight_decay: float = option(1.0, "how much the optimiser pulls weights to 0")
    buckets: int = option(3, "padded lengths, and so compilations of a step")
    seed: int = option(0, "seed of the weights and of the order of the utterances")


class Listener(eqx.Module):
    """Says who is speaking, from one series. No mask, length or batch axis is in it."""

    convolutions: list[eqx.nn.Conv1d]
    attention: eqx.nn.Linear
    speaker: eqx.nn.Linear

    def __init__(self, size: int, key: jax.Array):
        keys = jax.random.split(key, 4)
        self.convolutions = [
            eqx.nn.Conv1d(vowels.CHANNELS, size, kernel_size=3, padding=1, key=keys[0]),
            eqx.nn.Conv1d(size, size, kernel_size=3, padding=1, key=keys[1]),
        ]
        self.attention = eqx.nn.Linear(size, "scalar", key=keys[2])
        self.speaker = eqx.nn.Linear(size, vowels.SPEAKERS, key=keys[3])

    def __call__(self, series: jax.Array) -> jax.Array:
        """Returns a logit for each speaker, (9,), from a series of shape (n, 12)."""
        x = series.T
        for convolution in self.convolutions:
            x = jax.nn.gelu(convolution(x))
        weights = jax.nn.softmax(jax.vmap(self.attention)(x.T))  # which frames to listen to, (n,)
        return self.speaker(x @ weights)


def judge(model: Listener, batch: vowels.Batch, real: jax.Array) -> tuple[mx.Mean, mx.Mean]:
    """Returns the mean loss and the accuracy over the real rows of a batch, as sums and counts."""
    logits = mx.vmap(lambda model, series: model(series), in_axes=(None, 0))(model, batch["series"])
    losses = optax.softmax_cross_entropy(logits, jax.nn.one_hot(batch["speaker"], vowels.SPEAKERS))
    hits = logits.argmax(-1) == batch["speaker"]
    return mx.mean(losses, per="row", where=real), mx.mean(hits, per="row", where=real)


def put(tree: Any, mesh: jax.sharding.Mesh, *axes: str) -> Any:
    """Puts arrays that every process has whole on the devices of a mesh: rows over `axes`, or copies everywhere."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.tree.map(lambda x: jax.make_array_from_callback(np.shape(x), sharding, np.asarray(x).__getitem__), tree)


@eqx.filter_jit
def train_step(optimizer: Any, model: Listener, state: Any, batch: Any) -> tuple[Listener, Any, mx.Mean]:
    """Returns the model and the state of its optimiser after a step, and the loss before it."""

    def loss_of(model: Listener) -> tuple[jax.Array, mx.Mean]:
        loss, _ = judge(model, *batch)
        return loss.value, loss

    grads, loss = eqx.filter_grad(loss_of, has_aux=True)(model)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, loss


@eqx.filter_jit
def accuracy_step(model: Listener, batch: Any) -> mx.Mean:
    """Returns the accuracy over a batch."""
    return judge(model, *batch)[1]


def total(parts: Sequence[mx.Mean]) -> float:
    """Returns the mean over the rows of all batches."""
    return float(sum(jax.device_get(parts), mx.Mean()).value)


def train(
    config: Config, rows: Sequence[vowels.Row], test_rows: Sequence[vowels.Row], mesh: jax.sharding.Mesh | None = None
) -> tuple[Listener, Metrics]:
    """Trains a model, on all devices of a mesh whose one axis is "rows". The numbers do not depend on the mesh.

    Args:
      config: the options of the run.
      rows: the utterances to train on.
      test_rows: those to test with after each epoch.
      mesh: the devices, of one process or of several; by default the first one.

    Returns:
      The model, and the metrics: a record for each epoch.

    Raises:
      ValueError: if the devices cannot share the rows of a batch evenly.
    """
    mesh = mesh or jax.make_mesh((1,), ("rows",), devices=jax.devices()[:1])
    if config.batch_size % mesh.size:
        raise ValueError(f"batch_size: {config.batch_size} is no multiple of {mesh.size}, the number of devices")
    buckets = mx.Buckets.fit([len(row["series"]) for row in [*rows, *test_rows]], config.buckets)
    load = functools.partial(vowels.batches, size=config.batch_size, buckets=buckets, seed=config.seed)
    test_batches = [put(batch, mesh, "rows") for batch in load(test_rows, shuffle=False)]
    steps = config.epochs * -(-len(rows) // config.batch_size)

    model = Listener(config.hidden_size, jax.random.key(config.seed))
    schedule = optax.cosine_decay_schedule(config.learning_rate, steps)
    optimizer = optax.adamw(schedule, weight_decay=config.weight_decay)
    model, state = put((model, optimizer.init(model)), mesh)
    metrics: Metrics = []
    with tqdm(total=steps, unit="step", dynamic_ncols=True, disable=jax.process_index() > 0) as bar:
        for epoch in range(1, config.epochs + 1):
            losses = []
            for batch in load(rows, epoch=epoch):
                model, state, loss = train_step(optimizer, model, state, put(batch, mesh, "rows"))
                losses.append(loss)
                bar.update()
            hits = [accuracy_step(model, batch) for batch in test_batches]
            metrics.append({"epoch": epoch, "loss": total(losses), "accuracy": total(hits)})
            bar.set_postfix(loss=f"{metrics[-1]['loss']:.4f}", accuracy=f"{metrics[-1]['accuracy']:.1%}")
    return model, metrics


def plot(path: pathlib.Path, metrics: Metrics) -> None:
    """Draws the curves of a run."""
    matplotlib.use("Agg")  # draws to files, and needs no screen
    from matplotlib import pyplot as plt

    epochs = [record["epoch"] for record in metrics]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.semilogy(epochs, [record["loss"] for record in metrics], marker=".")
    left.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy per utterance")
    right.plot(epochs, [100 * record["accuracy"] for record in metrics], marker=".")
    right.set(title="Test utterances", xlabel="epoch", ylabel="right, %", ylim=(0, 102))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
