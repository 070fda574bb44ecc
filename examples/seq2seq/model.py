"""An encoder and a decoder for ONE example.

Nothing here knows of batches, padding, lengths or masks. The encoder reads a query of any length, the decoder
says an answer of any length; `mx.mask` makes a model over padded batches of it (see `masked.py`).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

State = tuple[jax.Array, jax.Array]


class Encoder(nn.Module):
    """Reads a text with an LSTM, from its end to its beginning, and returns the LSTM's last state.

    Read from its end, the query's first characters come last, next to the answer's first characters, which
    depend on them: a short way from the one to the other is easier to learn (Sutskever et al., 2014). The
    plain ``query[::-1]`` is right in a padded batch too, where each row turns around within its own length.

    Attributes:
      hidden_size: units of the LSTM.
    """

    hidden_size: int

    @nn.compact
    def __call__(self, query: jax.Array) -> State:
        """Reads one-hot characters of shape ``(n, vocabulary)``."""
        lstm = nn.RNN(nn.OptimizedLSTMCell(self.hidden_size), return_carry=True)
        state, _ = lstm(query[::-1])
        return state


class DecoderStep(nn.Module):
    """Says one character of the answer.

    Attributes:
      hidden_size: units of the LSTM.
      teacher_force: whether the character before comes from the true answer, or from the decoder itself.
      sample: whether to draw the character (from the random stream ``sample``), or to take the likeliest.
    """

    hidden_size: int
    teacher_force: bool
    sample: bool

    @nn.compact
    def __call__(self, carry: tuple[State, jax.Array], true_before: jax.Array):
        """Goes from (state, character before) to the same one character later, and (logits, character)."""
        state, said_before = carry
        before = true_before if self.teacher_force else said_before
        state, hidden = nn.OptimizedLSTMCell(self.hidden_size)(state, before)
        logits = nn.Dense(before.shape[-1])(hidden)
        index = jax.random.categorical(self.make_rng("sample"), logits) if self.sample else jnp.argmax(logits)
        said = jax.nn.one_hot(index, before.shape[-1])
        return (state, said), (logits, said)


class Seq2seq(nn.Module):
    """Reads a query and says an answer.

    Attributes:
      hidden_size: units of both LSTMs.
      teacher_force: whether the decoder is given the true characters, or goes on from what it said itself.
      sample: whether the decoder draws its characters (from the random stream ``sample``), or takes the
        likeliest.
    """

    hidden_size: int
    teacher_force: bool = True
    sample: bool = False

    @nn.compact
    def __call__(self, query: jax.Array, answer: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Runs the model on one example.

        Args:
          query: one-hot characters of shape ``(n, vocabulary)``.
          answer: one-hot characters of shape ``(m + 1, vocabulary)``. The first is what the decoder starts
            from; it is the only one read unless the decoder is teacher-forced.

        Returns:
          The logits of the ``m`` characters that follow, and the characters said, one-hot: both of shape
          ``(m, vocabulary)``.
        """
        state = Encoder(self.hidden_size, name="encoder")(query)
        decoder = nn.scan(DecoderStep, variable_broadcast="params", split_rngs={"params": False, "sample": True})(
            self.hidden_size, self.teacher_force, self.sample, name="decoder"
        )
        _, (logits, said) = decoder((state, answer[0]), answer[:-1])
        return logits, said
