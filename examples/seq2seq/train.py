"""Trains an encoder and a decoder to add numbers, character by character.

Run it with ``python examples/seq2seq/train.py``. A run that was killed goes on from its last checkpoint when
the same command is given again.
"""

import argparse
import dataclasses
import functools
import time

import data
import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
import runs
from masked import Params, batch_loss
from runs import Config, State
from tqdm import tqdm


@functools.partial(jax.jit, static_argnames="config", donate_argnames="state")
def train_step(
    config: Config, state: State, batch: data.Batch, sizes: data.Sizes, key: jax.Array
) -> tuple[State, jax.Array]:
    """Returns the state after a step, and the loss before it."""
    loss_of = functools.partial(batch_loss, config.model())
    loss, grads = jax.value_and_grad(loss_of)(state["params"], batch, sizes, key)
    updates, opt_state = config.optimizer().update(grads, state["opt_state"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss


def training_batch(config: Config, step: int) -> tuple[data.Batch, data.Sizes]:
    """Returns the batch of a step: the same one each time, so that a run can be taken up at any step."""
    rng = np.random.default_rng([config.seed, step])
    pairs = data.random_pairs(rng, config.batch_size, config.max_len_query_digit)
    return data.make_batch(pairs, config.max_len_query_digit)


def fresh_pairs(config: Config, count: int) -> np.ndarray:
    """Returns pairs of numbers that are in no training batch."""
    rng = np.random.default_rng([config.seed, 0, count])
    return data.random_pairs(rng, count, config.max_len_query_digit, held_out=True)


def is_right(pairs: np.ndarray, answers: list[str]) -> np.ndarray:
    """Says which answers are right to the last character."""
    return np.array([text == str(a + b) for (a, b), text in zip(pairs, answers, strict=True)])


def look(config: Config, params: Params) -> tuple[float, list[str]]:
    """Returns how many of some fresh sums are right, and a few of them, decoded greedily."""
    pairs = fresh_pairs(config, 100)
    answers = config.answer(params, pairs)
    right = is_right(pairs, answers)
    samples = [
        f"{a}+{b}={text} ({'correct' if ok else f'incorrect: {a + b}'})"
        for (a, b), text, ok in zip(pairs[:5], answers[:5], right[:5], strict=True)
    ]
    return float(right.mean()), samples


def train(config: Config) -> tuple[Params, runs.Metrics]:
    """Trains a model to the last step, from the last checkpoint of its directory if there is one.

    Args:
      config: the options of the run.

    Returns:
      The weights, and the metrics: a record for each look at the model.
    """
    workdir = runs.save_config(config)
    key = jax.random.key(config.seed)
    losses: list[jax.Array] = []
    with runs.open_checkpoints(workdir) as checkpoints:
        done, state = runs.restore(checkpoints, config)
        metrics = runs.read_metrics(workdir / "metrics.jsonl", done)
        with tqdm(total=config.num_train_steps, initial=done, unit="step", dynamic_ncols=True) as bar:
            if done:
                bar.write(f"{workdir}: going on after step {done}")
            for step in range(done + 1, config.num_train_steps + 1):
                batch, sizes = training_batch(config, step)
                state, loss = train_step(config, state, batch, sizes, jax.random.fold_in(key, step))
                losses.append(loss)
                bar.update()
                if step % config.decode_frequency and step < config.num_train_steps:
                    continue
                mean_loss = float(np.mean(jax.device_get(losses)))
                losses.clear()
                accuracy, samples = look(config, state["params"])
                bar.write(f"step {step}: loss {mean_loss:.4f}, {accuracy:.0%} of fresh sums right")
                bar.write("".join(f"    {sample}\n" for sample in samples), end="")
                metrics.append({"step": step, "loss": mean_loss, "accuracy": accuracy})
                # The checkpoint last: it says that all up to its step is on disk.
                runs.write_metrics(workdir / "metrics.jsonl", metrics)
                checkpoints.save(step, args=ocp.args.StandardSave(state))
    runs.plot_metrics(workdir / "curves.png", metrics)
    return state["params"], metrics


def evaluate(config: Config, params: Params, count: int = 1000) -> float:
    """Prints and returns how many of some fresh sums are right, decoded greedily without teacher forcing."""
    pairs = fresh_pairs(config, count)
    accuracy = float(is_right(pairs, config.answer(params, pairs)).mean())
    print(f"accuracy: {accuracy:.1%} of {count} fresh sums right")
    return accuracy


def parse_args(args: list[str] | None = None) -> Config:
    """Reads the options of the command line."""
    parser = argparse.ArgumentParser(
        description="Trains an encoder and a decoder to add numbers, character by character.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for field in dataclasses.fields(Config):
        kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
        parser.add_argument(f"--{field.name}", default=field.default, help=field.metadata["help"], **kind)
    return Config(**vars(parser.parse_args(args)))


def main() -> None:
    config = parse_args()
    start = time.monotonic()
    params, _ = train(config)
    print(f"trained in {time.monotonic() - start:.0f} s; checkpoints, metrics and curves: {config.workdir}")
    evaluate(config, params)


if __name__ == "__main__":
    main()
