"""The model over padded batches: what `mx.mask` makes of the model for one example."""

import functools
from typing import Any

import data
import jax
import jax.numpy as jnp
import optax
from model import Seq2seq

import maskax as mx

IN_SHAPES = [{"query": "(n, _)", "answer": "(m + 1, _)"}]
OUT_SHAPE = (f"(m, {data.VOCAB_SIZE})", f"(m, {data.VOCAB_SIZE})")

Params = Any  # a tree of arrays, as flax makes it


def batch_loss(model: Seq2seq, params: Params, batch: data.Batch, sizes: data.Sizes, key: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy over the true characters of a batch.

    Args:
      model: the model.
      params: its weights.
      batch: padded one-hot queries and answers.
      sizes: their true sizes: queries have the shape ``(n, _)``, answers ``(m + 1, _)``.
      key: for the characters that a decoder without teacher forcing draws.
    """

    # The function sees no padding, so the sum over its characters needs no mask. Divided by the number of all
    # true characters, the sums are the mean in which each character counts alike, in long answers and short.
    @functools.partial(mx.mask, in_shapes=[*IN_SHAPES, None], out_shape="")
    def example_loss(example, key):
        logits, _ = model.apply({"params": params}, example["query"], example["answer"], rngs={"sample": key})
        return optax.softmax_cross_entropy(logits, example["answer"][1:]).sum()

    keys = jax.random.split(key, len(batch["query"]))
    return jax.vmap(example_loss)([batch, keys], sizes).sum() / sizes["m"].sum()


@functools.partial(jax.jit, static_argnames=("model", "longest"))
def answer(model: Seq2seq, params: Params, query: jax.Array, n: jax.Array, longest: int) -> jax.Array:
    """Answers padded queries, told nothing of the true answers, not even how long they are.

    Args:
      model: a model without teacher forcing.
      params: its weights.
      query: one-hot queries of shape ``(batch, padded n, vocabulary)``.
      n: their true sizes.
      longest: how many characters to say.

    Returns:
      One-hot characters of shape ``(batch, longest, vocabulary)``. `data.said` cuts them where the decoder is
      done.
    """

    @functools.partial(mx.mask, in_shapes=IN_SHAPES, out_shape=OUT_SHAPE)
    def run(example):
        return model.apply({"params": params}, example["query"], example["answer"])

    start, _ = data.encode([data.START] * len(query), longest + 1)
    example = {"query": query, "answer": jnp.asarray(start)}
    _, said = jax.vmap(run)([example], {"n": n, "m": jnp.full(len(query), longest)})
    return said
