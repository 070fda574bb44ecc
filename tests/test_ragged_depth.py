"""Batches of batches of batches, to any depth, against nested lists."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

RNG = np.random.default_rng(2)


def nested(depth):
    """Lists of lists of rows; some rows are empty."""
    if depth == 0:
        return RNG.normal(size=(RNG.integers(0, 4), 2)).astype(np.float32)
    return [nested(depth - 1) for _ in range(RNG.integers(1, 4))]


def batch_of(tree, **options):
    return mx.ragged([batch_of(row) if isinstance(row, list) else row for row in tree], **options)


def poisoned(batch):
    """The batch with nan in all its padding."""
    if isinstance(batch.data, mx.Ragged):
        inner = batch.data
        while isinstance(inner.data, mx.Ragged):
            inner = inner.data
        mask = batch.mask.reshape(*batch.mask.shape, *[1] * (inner.data.ndim - batch.mask.ndim))
        bad = np.where(mask, inner.data, np.nan)
        return jax.tree.map(lambda leaf: bad if leaf is inner.data else leaf, batch)
    return dataclasses.replace(batch, data=batch.to_padded(np.nan))


def same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, want)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_in_and_out(depth):
    tree = nested(depth)
    batch = poisoned(batch_of(tree))
    same(batch.to_list(), tree)
    same([row.to_list() for row in batch], tree)
    same(mx.Ragged.concatenate([batch, batch_of(tree[:1])]).to_list(), tree + tree[:1])
    same(batch[[-1, 0]].to_list(), [tree[-1], tree[0]])
    assert mx.mean(batch, per="token").count == sum(row.size for row in jax.tree.leaves(tree))
    assert repr(batch).startswith("Ragged(f32[" + f"{len(tree)}, n<=")


def test_documents_of_paragraphs_of_sentences_of_words():
    tree, w = nested(3), jnp.array([[0.5, -1.0], [2.0, 0.3]])

    def sentence(w, words):  # (words, 2) -> (2,)
        return jnp.tanh(words @ w).sum(axis=0)

    def paragraph(w, sentences):
        return jnp.cos(mx.vmap(sentence, in_axes=(None, 0))(w, sentences)).sum(axis=0)

    def document(w, paragraphs):
        return mx.vmap(paragraph, in_axes=(None, 0))(w, paragraphs).max(axis=0)

    @jax.jit
    def plain(w):
        of_paragraph = lambda sentences: sum(jnp.cos(sentence(w, words)) for words in sentences)
        return jnp.stack([jnp.stack([of_paragraph(p) for p in paragraphs]).max(axis=0) for paragraphs in tree])

    masked = lambda w: mx.vmap(document, in_axes=(None, 0))(w, poisoned(batch_of(tree)))
    (got, gradient), want = jax.jit(lambda w: (masked(w), jax.grad(lambda w: masked(w).sum())(w)))(w), plain(w)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(lambda w: plain(w).sum()))(w), rtol=1e-3, atol=1e-4)


def test_words_of_any_depth_come_back():
    tree = nested(3)
    got = jax.jit(mx.vmap(mx.vmap(mx.vmap(lambda words: words[1:] - words[:-1]))))(poisoned(batch_of(tree)))
    same(jax.device_get(got).to_list(), jax.tree.map(lambda words: words[1:] - words[:-1], tree))


def test_every_name_is_rounded():
    words = [[np.ones(n) for n in lengths] for lengths in ((2, 5, 1), (3,))]
    documents = [mx.ragged(rows, dims="w") for rows in words]
    shape = lambda batch: batch.data.data.shape
    assert shape(mx.ragged(documents)) == (2, 3, 5)
    assert shape(mx.ragged(documents, buckets=mx.Buckets([4, 8]))) == (2, 4, 8)
    assert shape(mx.ragged(documents, buckets={"w": mx.Buckets([6])})) == (2, 3, 6)
    by_name = mx.ragged(documents, dims="s", buckets={"s": mx.Buckets([7]), "w": mx.Buckets([9])})
    assert shape(by_name) == (2, 7, 9) and by_name.sizes["w"].data.shape == (2, 7)
    same(by_name.to_list(), words)
    labelled = [{"text": document, "label": i} for i, document in enumerate(documents)]
    batch = mx.ragged(labelled, buckets={"w": mx.Buckets([6])})
    assert shape(batch["text"]) == (2, 3, 6) and batch["label"].tolist() == [0, 1]
    same(batch["text"].to_list(), words)
    with pytest.raises(mx.SpecError, match=r"no dimension 'q' in the rows, but \['n', 'w'\]"):
        mx.ragged(documents, buckets={"q": mx.Buckets([6])})


def test_batches_of_documents_have_one_padded_number_of_words():
    documents = [mx.ragged([np.full(n, i) for n in lengths]) for i, lengths in enumerate(((2, 9, 1), (3,), (1, 1)))]
    found = list(mx.batches(documents, rows_per_batch=1, buckets=mx.Buckets([1, 4]), shuffle=False))
    assert {batch.data.data.shape[2] for batch in found} == {9}
    same([batch.to_list() for batch in found], [[documents[i].to_list()] for i in (1, 0, 2)])


def test_awkward_arrays_of_any_depth():
    awkward = pytest.importorskip("awkward")
    values = [[[[1.0, 2.0], []], [[3.0]]], [[[4.0, 5.0, 6.0]]], [[[], [7.0]]]]
    batch = mx.from_awkward(awkward.Array(values))
    assert jax.tree.map(lambda row: row.tolist(), batch.to_list()) == values
    assert mx.to_awkward(batch).to_list() == values


def test_plots_of_areas_and_of_what_documents_hold():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = [
        (mx.ragged([np.ones((2, 3)), np.ones((4, 1))]), "42% full", "n x m, padded to 12"),
        (batch_of([[np.ones(2), np.ones(3)], [np.ones(1)]]), "50% full", "n x n, padded to 6"),
        (mx.ragged([np.ones(2)])[:0], "0% full", "n, padded to 2"),
    ]
    for batch, title, label in titles:
        axes = batch.plot()
        assert (axes.get_title(), axes.get_xlabel()) == (title, label)
    pyplot.close("all")
