"""Addition problems as text, and text as padded one-hot arrays with their true sizes.

A query is ``"12+345"`` and its answer ``"=357."``: the sign that the decoder starts from, the digits of the
sum, and the full stop by which the decoder says that it is done. There is no padding character: padding is
rows of zeros, and the masked model never looks at it.
"""

import re
from collections.abc import Sequence

import numpy as np

START = "="
END = "."
CHARACTERS = "0123456789+" + START + END
VOCAB_SIZE = len(CHARACTERS)

Batch = dict[str, np.ndarray]
Sizes = dict[str, np.ndarray]


def max_query_size(digits: int) -> int:
    """Returns the characters in the longest query, ``"999+999"`` for three digits.

    >>> max_query_size(3)
    7
    """
    return 2 * digits + 1


def max_answer_size(digits: int) -> int:
    """Returns the most characters that a decoder has to say, ``"1998."`` for three digits.

    This is the padded ``m``. An answer has the shape ``(m + 1, _)``, because it also holds the sign the
    decoder starts from, which it is given and does not say.

    >>> max_answer_size(3)
    5
    """
    return digits + 2


def encode(texts: Sequence[str], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Encodes texts as one-hot characters, padded to one length.

    >>> arrays, sizes = encode(["1+2", "34+5"], length=6)
    >>> arrays.shape, sizes
    ((2, 6, 13), array([3, 4], dtype=int32))
    >>> decode(arrays)
    ['1+2', '34+5']

    Args:
      texts: the texts, of characters in `CHARACTERS`.
      length: the padded length.

    Returns:
      An array of shape ``(texts, length, VOCAB_SIZE)`` that is zero past the end of each text, and the true
      lengths.

    Raises:
      ValueError: if a text is longer than `length` or holds a character that is not in `CHARACTERS`.
    """
    sizes = np.array([len(text) for text in texts], np.int32)
    if sizes.max(initial=0) > length:
        raise ValueError(f"{max(texts, key=len)!r} has more than {length} characters")
    # NumPy pads byte strings with zero bytes, and no character is a zero byte: padding gets rows of zeros.
    codes = np.array(texts, f"S{length}").reshape(-1, 1).view(np.uint8)
    one_hot = codes[..., None] == np.frombuffer(CHARACTERS.encode(), np.uint8)
    if one_hot.sum() != sizes.sum():
        raise ValueError(f"texts may hold the characters {CHARACTERS!r} only")
    return one_hot.astype(np.float32), sizes


def decode(one_hot: np.ndarray) -> list[str]:
    """Decodes one-hot characters to texts; rows of zeros are nothing.

    >>> decode(encode(["=357."], length=8)[0])
    ['=357.']
    """
    indices = np.where(one_hot.any(-1), one_hot.argmax(-1), VOCAB_SIZE)
    table = [*CHARACTERS, ""]
    return ["".join(table[index] for index in row) for row in indices]


def said(text: str) -> str:
    """Returns what a decoder had said when it said that it was done.

    >>> said("357.41")
    '357'
    """
    return text.split(END, 1)[0]


def is_held_out(pairs: np.ndarray, digits: int) -> np.ndarray:
    """Says which pairs of numbers are kept from training, so that evaluation asks only for sums never seen.

    About one in twelve of the pairs with a number of the full length, ``b+a`` together with ``a+b``. Eleven has
    no factor in common with ten: both sets have every digit at every place. Sums of shorter numbers are all
    taught; they are few, and ``1+1`` does not follow from the others.

    >>> is_held_out(np.array([[102, 4], [4, 102], [102, 5], [3, 4]]), digits=3)
    array([ True,  True, False, False])
    """
    return (pairs.prod(-1) % 11 == 1) & (pairs.max(-1) >= 10 ** (digits - 1))


def random_pairs(rng: np.random.Generator, count: int, digits: int, *, held_out: bool = False) -> np.ndarray:
    """Draws pairs of numbers of at most some digits, to train on or to evaluate with.

    Pairs to evaluate with are drawn evenly: below 1000, nine numbers in ten have three digits. To train
    on, the number of digits is drawn first, evenly: a model learns the short sums soon and the long ones from
    them, in a fraction of the steps that it takes to learn from long ones alone.

    Args:
      rng: the generator to draw from.
      count: how many pairs.
      digits: the most digits of a number.
      held_out: whether to draw pairs to evaluate with, never those of training.

    Returns:
      An integer array of shape ``(count, 2)``.
    """
    pairs = np.zeros((count, 2), int)
    wrong = np.full(count, True)
    while wrong.any():
        shape = (wrong.sum(), 2)
        lengths = digits if held_out else rng.integers(1, digits + 1, shape)
        pairs[wrong] = rng.integers(0, 10**lengths, shape)
        wrong = is_held_out(pairs, digits) != held_out
    return pairs


def make_batch(pairs: np.ndarray, digits: int) -> tuple[Batch, Sizes]:
    """Writes pairs of numbers as addition problems.

    >>> batch, sizes = make_batch(np.array([[12, 345], [999, 1]]), digits=3)
    >>> decode(batch["query"]), decode(batch["answer"])
    (['12+345', '999+1'], ['=357.', '=1000.'])
    >>> sizes["n"], sizes["m"]
    (array([6, 5], dtype=int32), array([4, 5], dtype=int32))

    Args:
      pairs: the numbers to add, of shape ``(count, 2)``.
      digits: the most digits of a number, which sets the padded sizes.

    Returns:
      The padded queries and answers, and the true sizes that make their shapes ``(n, _)`` and ``(m + 1, _)``.
    """
    query, n = encode([f"{a}+{b}" for a, b in pairs], max_query_size(digits))
    answer, length = encode([f"{START}{a + b}{END}" for a, b in pairs], max_answer_size(digits) + 1)
    return {"query": query, "answer": answer}, {"n": n, "m": length - 1}


def parse_query(text: str, digits: int) -> tuple[int, int]:
    """Reads an addition problem that a person typed.

    >>> parse_query(" 12 + 345 ", digits=3)
    (12, 345)

    Args:
      text: the problem.
      digits: the most digits of a number.

    Returns:
      The two numbers.

    Raises:
      ValueError: if the text is no addition problem, or a number has too many digits.
    """
    match = re.fullmatch(r"\s*(\d+)\s*\+\s*(\d+)\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not of the form 12+345")
    a, b = (int(number) for number in match.groups())
    if max(a, b) >= 10**digits:
        raise ValueError(f"{text!r}: this model was trained on numbers of at most {digits} digits")
    return a, b
