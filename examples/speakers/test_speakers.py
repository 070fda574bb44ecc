"""The batched model against the plain one on single series; one device against eight and against two processes."""

import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
import speakers
import vowels

import maskax as mx

CONFIG = speakers.Config(epochs=2, batch_size=8, hidden_size=8, learning_rate=0.03, buckets=1)
ROWS, TEST_ROWS = vowels.synthetic(70), vowels.synthetic(30)
SAME = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def metrics():
    """Those of a small run on one device."""
    return speakers.train(CONFIG, ROWS, TEST_ROWS)[1]


def assert_same(metrics, expected):
    assert [list(record) for record in metrics] == [["epoch", "loss", "accuracy"]] * CONFIG.epochs
    for record, other in zip(metrics, expected, strict=True):
        np.testing.assert_allclose(list(record.values()), list(other.values()), **SAME)


def plain(model, rows):
    """Loss and accuracy, as means over rows, one unpadded series at a time."""
    logits = [model(row["series"]) for row in rows]
    losses = [optax.softmax_cross_entropy_with_integer_labels(x, row["speaker"]) for x, row in zip(logits, rows)]
    return sum(losses) / len(rows), sum(x.argmax() == row["speaker"] for x, row in zip(logits, rows)) / len(rows)


def test_loss_and_gradients_on_eight_devices_are_those_of_the_plain_model_on_single_series():
    rows = ROWS[:3]  # and five empty rows
    ((batch, real),) = vowels.batches(rows, 8, buckets=mx.Buckets([32]))
    assert real.tolist() == [True] * 3 + [False] * 5
    hole = ~batch["series"].mask
    assert hole[3:].all() and hole[:3].any()
    batch["series"].data[hole] = np.nan
    model, mesh = speakers.Listener(4, jax.random.key(1)), jax.make_mesh((8,), ("rows",))
    (sharded, real), copies = speakers.put((batch, real), mesh, "rows"), speakers.put(model, mesh)
    assert [shard.data.shape for shard in sharded["series"].data.addressable_shards] == [(1, 32, 12)] * 8

    def padded(model, batch, real):
        loss, accuracy = speakers.judge(model, batch, real)
        return loss.value, accuracy.value

    results = eqx.filter_jit(eqx.filter_value_and_grad(padded, has_aux=True))(copies, sharded, real)
    expected = eqx.filter_jit(eqx.filter_value_and_grad(plain, has_aux=True))(model, rows)
    assert len(jax.tree.leaves(expected)) == 10
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **SAME), results, expected)


def test_training_learns(metrics):
    assert metrics[1]["loss"] < 0.8 * metrics[0]["loss"]
    assert metrics[1]["accuracy"] > 0.4  # of nine speakers


def test_a_mesh_of_eight_devices_gives_the_numbers_of_one(metrics):
    assert len(ROWS) % CONFIG.batch_size  # the last batch is partial
    assert_same(speakers.train(CONFIG, ROWS, TEST_ROWS, jax.make_mesh((8,), ("rows",)))[1], metrics)


def test_two_processes_give_the_numbers_of_one_device(metrics, tmp_path):
    options = [f"--{name}={getattr(CONFIG, name)}" for name in ("epochs", "batch_size", "hidden_size")]
    options += [f"--learning_rate={CONFIG.learning_rate}", f"--buckets={CONFIG.buckets}", "--synthetic"]
    command = [sys.executable, str(pathlib.Path(__file__).with_name("train.py")), *options]
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag]
    run = subprocess.run(
        [*command, "--processes=2", f"--workdir={tmp_path}"],
        env={**os.environ, "XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "2 device(s), 2 process(es)" in run.stdout
    assert f"accuracy: {metrics[-1]['accuracy']:.1%} of 30 test utterances right" in run.stdout
    assert_same([json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()], metrics)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def contents(batches):
    """The real rows of batches, as comparable values, batch by batch."""
    return [[(batch["speaker"][i], batch["series"][i].tobytes()) for i in np.flatnonzero(r)] for batch, r in batches]


def test_every_row_is_in_one_batch_an_epoch_and_shapes_are_few():
    buckets = mx.Buckets.fit([len(row["series"]) for row in ROWS], 3)
    first, again, second = (list(vowels.batches(ROWS, 24, buckets=buckets, epoch=epoch)) for epoch in (1, 1, 2))
    expected = sorted((row["speaker"], row["series"].tobytes()) for row in ROWS)
    assert sorted(itertools.chain(*contents(first))) == sorted(itertools.chain(*contents(second))) == expected
    assert contents(first) == contents(again) != contents(second)
    assert sorted(map(len, contents(first))) == [22, 24, 24]
    assert {batch["series"].data.shape[:2] for batch, _ in first} <= {(24, size) for size in buckets.sizes}


def test_a_step_is_compiled_once_per_bucket():
    config = dataclasses.replace(CONFIG, buckets=2, hidden_size=4)
    with mx.testing.count_compilations("train_step") as compilations:
        speakers.train(config, ROWS, TEST_ROWS)
    assert compilations.count == 2, compilations


def test_devices_that_cannot_share_a_batch_are_refused():
    with pytest.raises(ValueError, match="6 is no multiple of 8"):
        mesh = jax.make_mesh((8,), ("rows",))
        speakers.train(dataclasses.replace(CONFIG, batch_size=6), ROWS, TEST_ROWS, mesh)


@pytest.mark.skipif(vowels.find() is None, reason="JapaneseVowels comes with the package aeon, which is not installed")
def test_real_data():
    rows, test_rows = vowels.load()
    assert (len(rows), len(test_rows)) == (270, 370)
    lengths = [len(row["series"]) for row in [*rows, *test_rows]]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert np.bincount([row["speaker"] for row in rows]).tolist() == [30] * 9
    frames = mx.ragged([row["series"] for row in rows]).to_packed().values
    np.testing.assert_allclose(frames.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(frames.std(axis=0), 1, rtol=1e-4)
    config = speakers.Config(epochs=15, hidden_size=32, buckets=1)
    assert speakers.train(config, rows, test_rows)[1][-1]["accuracy"] > 0.9
