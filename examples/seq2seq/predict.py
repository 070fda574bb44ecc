"""Answers sums with a trained model: ``python examples/seq2seq/predict.py 12+345``."""

import argparse
import pathlib

import data
import numpy as np
import runs


def predict(queries: list[str], workdir: pathlib.Path) -> list[str]:
    """Answers sums from the last checkpoint of a run.

    Args:
      queries: sums such as ``"12+345"``.
      workdir: the directory of the run.

    Returns:
      The model's answers, right or wrong.
    """
    config = runs.load_config(workdir)
    pairs = np.array([data.parse_query(query, config.max_len_query_digit) for query in queries])
    with runs.open_checkpoints(workdir) as checkpoints:
        step, state = runs.restore(checkpoints, config)
    if step == 0:
        raise FileNotFoundError(f"{workdir} holds no checkpoint yet: train on")
    return config.answer(state["params"], pairs)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Answers sums with a trained model.")
    parser.add_argument("queries", nargs="+", metavar="SUM", help="such as 12+345")
    parser.add_argument("--workdir", default=runs.Config.workdir, help="directory of the run")
    options = parser.parse_args(args)
    try:
        answers = predict(options.queries, pathlib.Path(options.workdir))
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    for query, answer in zip(options.queries, answers, strict=True):
        print(f"{query}={answer}")


if __name__ == "__main__":
    main()
