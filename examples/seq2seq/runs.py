"""A run: its options, and the directory that holds its options, checkpoints, metrics and curves."""

import dataclasses
import json
import pathlib
from typing import Any

import data
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
import orbax.checkpoint as ocp
from masked import answer
from model import Seq2seq

State = dict[str, Any]  # "params" and "opt_state", trees of arrays
Metrics = list[dict[str, float]]


def option(default: Any, description: str, **kwargs: Any) -> Any:
    """Declares a field of `Config` that is also an option of the command line."""
    return dataclasses.field(default=default, metadata={"help": description}, **kwargs)


@dataclasses.dataclass(frozen=True)
class Config:
    """The options of a run."""

    learning_rate: float = option(4e-3, "highest learning rate")
    batch_size: int = option(128, "sums in a batch")
    hidden_size: int = option(512, "units of each LSTM")
    num_train_steps: int = option(2500, "batches to train on")
    decode_frequency: int = option(100, "steps from one look to the next: samples, metrics, a checkpoint")
    max_len_query_digit: int = option(3, "most digits of a number to add")
    teacher_force: bool = option(True, "give the decoder the true characters, or what it said itself")
    seed: int = option(0, "seed of the weights and of the sums")
    # Not compared: where the files lie changes no computation, and so needs no compilation of its own.
    workdir: str = option("runs/seq2seq", "directory of checkpoints, metrics and curves", compare=False)

    def model(self) -> Seq2seq:
        """Returns the model to train. Without teacher forcing it draws its characters, to try several."""
        return Seq2seq(self.hidden_size, teacher_force=self.teacher_force, sample=not self.teacher_force)

    def optimizer(self) -> optax.GradientTransformation:
        """Returns Adam on clipped gradients; the learning rate rises for a short while, then falls to 0."""
        schedule = optax.warmup_cosine_decay_schedule(
            init_value=0.0,
            peak_value=self.learning_rate,
            warmup_steps=self.num_train_steps // 20,
            decay_steps=max(1, self.num_train_steps),
        )
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))

    def init(self) -> State:
        """Returns the state before the first step."""
        text = jnp.zeros((2, data.VOCAB_SIZE))
        params = Seq2seq(self.hidden_size).init(jax.random.key(self.seed), query=text, answer=text)["params"]
        return {"params": params, "opt_state": self.optimizer().init(params)}

    def answer(self, params: Any, pairs: np.ndarray) -> list[str]:
        """Returns a model's sums of pairs of numbers, decoded greedily without teacher forcing."""
        batch, sizes = data.make_batch(pairs, self.max_len_query_digit)
        model = Seq2seq(self.hidden_size, teacher_force=False)
        longest = data.max_answer_size(self.max_len_query_digit)
        said = answer(model, params, batch["query"], sizes["n"], longest)
        return [data.said(text) for text in data.decode(np.asarray(said))]


def save_config(config: Config) -> pathlib.Path:
    """Makes the directory of a run and writes its options there.

    Args:
      config: the options.

    Returns:
      The directory.

    Raises:
      ValueError: if the directory holds a run of another model.
    """
    workdir = pathlib.Path(config.workdir)
    if (workdir / "config.json").exists():
        before = load_config(workdir)
        for name in ("hidden_size", "max_len_query_digit"):
            old, new = getattr(before, name), getattr(config, name)
            if old != new:
                raise ValueError(f"{workdir} holds a run with {name}={old}, not {new}: take another workdir")
    workdir.mkdir(parents=True, exist_ok=True)
    replace(workdir / "config.json", json.dumps(dataclasses.asdict(config), indent=2) + "\n")
    return workdir


def load_config(workdir: pathlib.Path) -> Config:
    """Reads the options of the run in a directory."""
    path = workdir / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{workdir} holds no run: train one first, see train.py")
    return Config(**json.loads(path.read_text()))


def open_checkpoints(workdir: pathlib.Path) -> ocp.CheckpointManager:
    """Opens the checkpoints of a run, of which the last two are kept."""
    # Written before training goes on: an asynchronous write reads arrays that the next step donates.
    options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    return ocp.CheckpointManager(workdir.absolute() / "checkpoints", options=options)


def restore(checkpoints: ocp.CheckpointManager, config: Config) -> tuple[int, State]:
    """Returns the step and the state of the last checkpoint, or of the start if there is none."""
    step = checkpoints.latest_step()
    if step is None:
        return 0, config.init()
    return step, checkpoints.restore(step, args=ocp.args.StandardRestore(jax.eval_shape(config.init)))


def read_metrics(path: pathlib.Path, last_step: int) -> Metrics:
    """Reads the metrics of a run up to a step: what was killed after its last checkpoint is done again."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if record["step"] <= last_step]


def write_metrics(path: pathlib.Path, metrics: Metrics) -> None:
    """Writes the metrics of a run, one JSON object a line."""
    replace(path, "".join(json.dumps(record) + "\n" for record in metrics))


def replace(path: pathlib.Path, text: str) -> None:
    """Writes a file whole or not at all, whenever the run is killed."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def plot_metrics(path: pathlib.Path, metrics: Metrics) -> None:
    """Draws the curves of a run."""
    matplotlib.use("Agg")  # draws to files, and needs no screen
    from matplotlib import pyplot as plt

    steps = [record["step"] for record in metrics]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.semilogy(steps, [record["loss"] for record in metrics], marker=".")
    left.set(title="Training loss", xlabel="step", ylabel="cross-entropy per true character")
    right.plot(steps, [100 * record["accuracy"] for record in metrics], marker=".")
    right.set(title="Fresh sums, decoded greedily", xlabel="step", ylabel="right, %", ylim=(0, 102))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
