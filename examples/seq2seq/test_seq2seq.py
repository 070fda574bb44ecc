"""The masked model against one masked by hand and the plain one on unpadded examples; runs; predictions."""

import functools
import json
import pathlib

import data
import jax
import jax.numpy as jnp
import numpy as np
import predict
import pytest
import runs
import train
from masked import answer, batch_loss
from model import Seq2seq

import maskax as mx

DIGITS = 2
HIDDEN = 8
FORCED = Seq2seq(HIDDEN)
GREEDY = Seq2seq(HIDDEN, teacher_force=False)
SAMPLED = Seq2seq(HIDDEN, teacher_force=False, sample=True)
KEY = jax.random.key(1)
PAIRS = np.array([[1, 2], [99, 99], [47, 5]])  # the shortest and the longest among them


@pytest.fixture(scope="module")
def params():
    return runs.Config(hidden_size=HIDDEN, max_len_query_digit=DIGITS).init()["params"]


@pytest.fixture(scope="module")
def padded():
    return data.make_batch(PAIRS, DIGITS)


def assert_trees_close(actual, expected):
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=1e-6), actual, expected)


def assert_trees_identical(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def hand_lstm(cell, state, x):
    """One step of a batch of LSTMs, from flax's parameters."""
    c, h = state
    i, f, g, o = (x @ cell["i" + k]["kernel"] + h @ cell["h" + k]["kernel"] + cell["h" + k]["bias"] for k in "ifgo")
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)


def hand_masked_loss(params, batch, sizes, teacher_force):
    """The batch's mean loss with every mask written by hand, in loops over the padded lengths."""
    query, true = batch["query"], batch["answer"]
    n, m = sizes["n"], sizes["m"]
    rows = np.arange(len(query))
    state = (jnp.zeros((len(query), HIDDEN)), jnp.zeros((len(query), HIDDEN)))
    for t in range(query.shape[1]):
        # Backwards within the true length; what the index wraps to past the end is not kept.
        new = hand_lstm(params["encoder"]["OptimizedLSTMCell_0"], state, query[rows, n - 1 - t])
        state = jax.tree.map(functools.partial(jnp.where, (t < n)[:, None]), new, state)
    total, before = 0.0, true[:, 0]
    for t in range(true.shape[1] - 1):
        state = hand_lstm(params["decoder"]["OptimizedLSTMCell_0"], state, before)
        dense = params["decoder"]["Dense_0"]
        log_probs = jax.nn.log_softmax(state[1] @ dense["kernel"] + dense["bias"])
        total += jnp.where(t < m, -(log_probs * true[:, t + 1]).sum(-1), 0.0).sum()
        before = true[:, t + 1] if teacher_force else jax.nn.one_hot(log_probs.argmax(-1), data.VOCAB_SIZE)
    return total / m.sum()


def unpadded_loss(model, params, batch, sizes, key):
    """The same mean from the plain model, one unpadded example at a time."""
    total = 0.0
    for row, (n, m, row_key) in enumerate(zip(sizes["n"], sizes["m"], jax.random.split(key, len(PAIRS)))):
        query, true = batch["query"][row, :n], batch["answer"][row, : m + 1]
        logits, _ = model.apply({"params": params}, query, true, rngs={"sample": row_key})
        total -= (jax.nn.log_softmax(logits) * true[1:]).sum()
    return total / sizes["m"].sum()


@functools.cache  # one compilation a model, for all tests
def masked_value_and_grad(model):
    return jax.jit(jax.value_and_grad(functools.partial(batch_loss, model)))


@pytest.mark.parametrize("model", [FORCED, GREEDY], ids=["forced", "greedy"])
def test_gradients_equal_those_of_a_model_masked_by_hand(params, padded, model):
    by_hand = jax.jit(jax.value_and_grad(hand_masked_loss), static_argnums=3)
    expected = by_hand(params, *padded, model.teacher_force)
    assert_trees_close(masked_value_and_grad(model)(params, *padded, KEY), expected)


@pytest.mark.parametrize("model", [FORCED, SAMPLED], ids=["forced", "sampled"])
def test_gradients_equal_those_of_the_plain_model_on_unpadded_examples(params, padded, model):
    expected = jax.jit(jax.value_and_grad(lambda params: unpadded_loss(model, params, *padded, KEY)))(params)
    assert_trees_close(masked_value_and_grad(model)(params, *padded, KEY), expected)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 7.0])
@pytest.mark.parametrize("model", [FORCED, SAMPLED], ids=["forced", "sampled"])
def test_padding_changes_no_bit(params, padded, model, poison):
    batch, sizes = padded
    poisoned = {name: np.where(array.any(-1, keepdims=True), array, poison) for name, array in batch.items()}
    assert all((poisoned[name] != batch[name]).any() for name in batch)
    loss_and_grad = masked_value_and_grad(model)
    assert_trees_identical(loss_and_grad(params, poisoned, sizes, KEY), loss_and_grad(params, *padded, KEY))


@pytest.mark.parametrize("name", ["n", "m"])
def test_a_size_above_the_padded_one_raises(params, padded, name):
    batch, sizes = padded
    assert sizes["n"].max() == batch["query"].shape[1] and sizes["m"].max() + 1 == batch["answer"].shape[1]
    too_large = {**sizes, name: sizes[name] + 1}
    with pytest.raises(mx.MaskaxError, match=name):
        batch_loss(FORCED, params, batch, too_large, KEY)


def test_answers_are_those_of_the_plain_model_left_to_itself(params, padded):
    batch, sizes = padded
    longest = data.max_answer_size(DIGITS)
    start, _ = data.encode([data.START], longest + 1)
    said = answer(GREEDY, params, batch["query"], sizes["n"], longest)
    for row, n in enumerate(sizes["n"]):
        _, alone = GREEDY.apply({"params": params}, batch["query"][row, :n], jnp.asarray(start[0]))
        np.testing.assert_array_equal(said[row], alone)


def test_texts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="'1234' has more than 3 characters"):
        data.encode(["1", "1234"], length=3)
    with pytest.raises(ValueError, match="characters"):
        data.encode(["1-2"], length=3)


def test_fresh_sums_are_in_no_training_batch():
    config = runs.Config(max_len_query_digit=1, batch_size=1000)
    batch, _ = train.training_batch(config, step=1)
    trained = set(data.decode(batch["query"]))
    fresh = {f"{a}+{b}" for a, b in train.fresh_pairs(config, 1000)}
    assert len(trained) == 91 and len(fresh) == 9 and not trained & fresh
    assert train.training_batch(config, step=1)[0]["query"].tolist() == batch["query"].tolist()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small run from start to end: its options, its weights, its metrics."""
    config = runs.Config(
        learning_rate=0.02,
        batch_size=16,
        hidden_size=16,
        num_train_steps=60,
        decode_frequency=20,
        max_len_query_digit=1,
        workdir=str(tmp_path_factory.mktemp("runs") / "finished"),
    )
    return config, *train.train(config)


def test_a_run_learns_and_leaves_its_files(finished, capsys):
    config, params, metrics = finished
    workdir = pathlib.Path(config.workdir)
    assert [record["step"] for record in metrics] == [20, 40, 60]
    assert metrics[-1]["loss"] < metrics[0]["loss"] < 3
    assert [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()] == metrics
    assert (workdir / "curves.png").read_bytes().startswith(b"\x89PNG")
    accuracy = train.evaluate(config, params, count=50)
    assert f"accuracy: {accuracy:.1%} of 50 fresh sums right" in capsys.readouterr().out


def test_a_killed_run_resumes_on_the_same_path(finished, tmp_path, monkeypatch):
    config, params, metrics = finished
    config = train.parse_args(["--workdir", str(tmp_path), *options(config)])
    batch_of = train.training_batch

    def batch_until_killed(config, step):
        if step == 45:
            raise KeyboardInterrupt
        return batch_of(config, step)

    monkeypatch.setattr(train, "training_batch", batch_until_killed)
    with pytest.raises(KeyboardInterrupt):
        train.train(config)
    # As if killed after writing the metrics of a look, before its checkpoint.
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "loss": 0, "accuracy": 0}\n')

    steps = []

    def batch_noted(config, step):
        steps.append(step)
        return batch_of(config, step)

    monkeypatch.setattr(train, "training_batch", batch_noted)
    resumed_params, resumed_metrics = train.train(config)
    assert steps == list(range(41, 61))
    assert resumed_metrics == metrics
    assert_trees_identical(resumed_params, params)


def options(config):
    """The command line of a run, but for its directory."""
    names = ("learning_rate", "batch_size", "hidden_size", "num_train_steps", "decode_frequency")
    return [f"--{name}={getattr(config, name)}" for name in (*names, "max_len_query_digit")]


def test_another_model_in_the_same_directory_is_refused(finished):
    config, _, _ = finished
    other = train.parse_args(["--workdir", config.workdir, *options(config), "--hidden_size", "32"])
    with pytest.raises(ValueError, match="hidden_size=16, not 32"):
        train.train(other)


def test_predict_answers_from_the_checkpoint(finished, capsys):
    config, params, _ = finished
    queries = ["1+2", " 9 + 9 "]
    predict.main([*queries, "--workdir", config.workdir])
    answers = config.answer(params, np.array([[1, 2], [9, 9]]))
    assert capsys.readouterr().out == "".join(f"{q}={a}\n" for q, a in zip(queries, answers, strict=True))


@pytest.mark.parametrize(("query", "message"), [("1-2", "not of the form"), ("12+3", "at most 1 digits")])
def test_predict_refuses_what_it_cannot_answer(finished, capsys, query, message):
    with pytest.raises(SystemExit):
        predict.main([query, "--workdir", finished[0].workdir])
    assert message in capsys.readouterr().err


def test_predict_says_that_there_is_no_run(tmp_path, capsys):
    with pytest.raises(SystemExit):
        predict.main(["1+2", "--workdir", str(tmp_path / "nothing")])
    assert "train one first" in capsys.readouterr().err
