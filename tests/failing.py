"""How the tests of errors call a masked function that must fail."""

import re

import jax.numpy as jnp
import pytest

import maskax as mx

X, Y = jnp.arange(6.0), jnp.arange(4.0)
BOTH = {"n": 3, "m": 2}


def text_of(kind, fun, *args, **options):
    """The error's text, with `LINE` for a line of the test file."""
    with pytest.raises(kind) as caught:
        fun(*args, **options)
    assert type(caught.value) is kind
    text = str(caught.value).split("\n-----", 1)[0]
    return re.sub(r"test_\w+\.py:\d+ \((\w+|<lambda>)\)", r"LINE (\1)", text)


def run(fun, in_shapes=("n", "m"), args=(X, Y), sizes=BOTH, **options):
    return mx.mask(fun, list(in_shapes), **options)(list(args), sizes)
