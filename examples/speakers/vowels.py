"""JapaneseVowels: nine speakers say two vowels, and each utterance is a series of 12 numbers per frame.

The data set (Kudo, Toyama, Shimbo 1999) comes inside the package `aeon`, as text; nothing is downloaded, and `aeon`
is not imported, only found. Utterances have 7 to 29 frames: 270 of them to train on and 370 to test with.
"""

import importlib.util
import pathlib
from collections.abc import Sequence
from typing import Any

import grain
import numpy as np

import maskax as mx

SPEAKERS = 9
CHANNELS = 12
SPLITS = ("TRAIN", "TEST")

Row = dict[str, Any]  # "series": (n, 12), and "speaker": an integer from 0 to 8
Batch = dict[str, Any]  # "series": `mx.Ragged`, and "speaker": (rows,)


def parse(text: str) -> list[Row]:
    r"""Reads the text format of the data set: after `@data` a line per series, channel by channel, the label last.

    >>> parse("@data\n1,2,3:4,5,6:2")
    [{'series': array([[1., 4.],
           [2., 5.],
           [3., 6.]], dtype=float32), 'speaker': 1}]
    """
    rows = []
    for line in text.split("@data\n", 1)[1].splitlines():
        *channels, label = line.split(":")
        series = np.array([channel.split(",") for channel in channels], np.float32).T
        rows.append({"series": series, "speaker": int(label) - 1})
    return rows


def find() -> pathlib.Path | None:
    """Returns the folder of the data set in the installed `aeon`, or None where that is not installed."""
    spec = importlib.util.find_spec("aeon")
    folders = spec.submodule_search_locations if spec else None
    return pathlib.Path(folders[0], "datasets", "data", "JapaneseVowels") if folders else None


def load() -> tuple[list[Row], list[Row]]:
    """Returns the utterances to train on and those to test with, each channel scaled by its statistics in training.

    Raises:
      FileNotFoundError: if `aeon` is not installed.
    """
    folder = find()
    if folder is None:
        raise FileNotFoundError("JapaneseVowels comes with the package aeon: pip install '.[examples,speakers]'")
    train, test = (parse((folder / f"JapaneseVowels_{split}.ts").read_text()) for split in SPLITS)
    frames = np.concatenate([row["series"] for row in train])
    mean, std = frames.mean(axis=0), frames.std(axis=0)
    scale = lambda row: {**row, "series": (row["series"] - mean) / std}
    return [scale(row) for row in train], [scale(row) for row in test]


def synthetic(count: int, seed: int = 0) -> list[Row]:
    """Makes rows of the same form: noise around a direction per speaker. For tests without `aeon`."""
    directions = np.random.default_rng(0).normal(size=(SPEAKERS, CHANNELS))
    rng = np.random.default_rng([seed, count])
    rows = []
    for speaker, size in zip(rng.integers(SPEAKERS, size=count), rng.integers(7, 30, count)):
        series = directions[speaker] + 0.5 * rng.normal(size=(size, CHANNELS))
        rows.append({"series": series.astype(np.float32), "speaker": int(speaker)})
    return rows


def batches(
    rows: Sequence[Row], size: int, *, buckets: mx.Buckets, shuffle: bool = True, seed: int = 0, epoch: int = 0
) -> grain.IterDataset:
    """Loads batches of rows of similar length, all of equally many rows, with grain: read ahead in threads.

    Args:
      rows: the rows; each is in one batch.
      size: how many of them are in a batch. What the last batch lacks are empty rows.
      buckets: the padded lengths.
      shuffle: whether rows and batches come in random order.
      seed: of that order.
      epoch: another one gives another order.

    Returns:
      The batches, and with each the booleans `(size,)` that say which rows are real.
    """
    made = mx.batches(rows, rows_per_batch=size, buckets=buckets, shuffle=shuffle, seed=seed, epoch=epoch, fill=True)
    return grain.MapDataset.source(made).to_iter_dataset()
