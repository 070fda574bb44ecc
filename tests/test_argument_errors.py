"""Every error says what, where and what to do: the exact text, for sizes, shape strings and constraints."""

import jax
import jax.numpy as jnp
import pytest
from failing import BOTH, X, Y, run, text_of

import maskax as mx

# --- sizes -------------------------------------------------------------------------------------------------------


def test_size_out_of_range():
    tree = [{"query": jnp.ones((5, 2))}]
    masked = mx.mask(lambda d: d["query"].sum(), [{"query": "(n, _)"}], "")
    for size in (6, -1):
        assert text_of(mx.SizeError, masked, tree, {"n": size}) == (
            f"sizes['n'] is {size}, out of range: args[0]['query'] with the shape '(n, _)' is padded to (5, 2), "
            "so 'n' runs from 0 to 5."
        )
    batched = jax.vmap(masked, (None, 0))
    assert text_of(mx.SizeError, batched, tree, {"n": jnp.array([3, 5, 7, 9])}) == (
        "sizes['n'][2] is 7, out of range: args[0]['query'] with the shape '(n, _)' is padded to (5, 2), "
        "so 'n' runs from 0 to 5."
    )
    assert text_of(mx.SizeError, jax.vmap(batched, (None, 0)), tree, {"n": jnp.array([[3, 5], [4, -2]])}).startswith(
        "sizes['n'][1][1] is -2, out of range"
    )


def test_size_of_an_expression_out_of_range():
    assert text_of(mx.SizeError, run, lambda x, y: x, ["2*n + 1", "m"]) == (
        "sizes['n'] is 3, out of range: args[0] with the shape '2*n + 1' is padded to (6,), so 'n' runs from 0 to 2."
    )


def test_missing_and_unknown_sizes():
    assert text_of(mx.SizeError, run, lambda x, y: x, sizes={"n": 3}) == (
        "sizes: no size is given for 'm', which args[1] has in 'm'. Given: 'n'."
    )
    assert text_of(mx.SizeError, run, lambda x, y: x, sizes=BOTH | {"k": 1}) == (
        "sizes: there is no dimension 'k' in in_shapes; its dimensions are 'n', 'm'."
    )


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (2.0, "float64[]"),
        (jnp.float32(2), "float32[]"),
        (True, "bool[]"),
        (jnp.arange(3), "int32[3]"),
        ([1, 2], "int64[2]"),
    ],
)
def test_size_that_is_no_integer_scalar(size, shown):
    assert text_of(mx.SizeError, run, lambda x, y: x, sizes={"n": size, "m": 1}) == (
        f"sizes['n'] must be an integer scalar, not {shown}. "
        "For a batch, map over arrays and sizes: jax.vmap(masked)([xs], dict(n=lengths))."
    )


# --- specs -------------------------------------------------------------------------------------------------------

ENTRIES = (
    "  Write one entry per dimension: a name ('n'), an expression ('n + 1', '2*n'), a number, or '_' for a dimension "
    "that is not ragged; '...' for all that remain."
)


def test_spec_that_cannot_be_read():
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n +", "m"]) == (
        "args[0]: the shape string 'n +' does not fit an array of shape (6,).\n"
        "  syntax error in symbolic shape 'n +' in dimension 0: "
        "expecting one of {NAME, MINUS, NUMBER} but found ENDMARKER. Parsed '', remaining ''.\n" + ENTRIES
    )
    assert text_of(mx.SpecError, run, lambda x, y: x, ["5", "m"]).startswith(
        "args[0]: the shape string '5' does not fit an array of shape (6,).\n"
    )


def test_spec_of_wrong_rank():
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n, _", "m"]) == (
        "args[0]: the shape string 'n, _' does not fit an array of shape (6,).\n"
        "  syntax error in symbolic shape 'n, _' in dimension 1: cannot resolve placeholder '_' because we parsed 1 "
        "already and 'like' shape has only 1 dimensions. Parsed 'n, ', remaining '_'.\n" + ENTRIES
    )
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n, 2", "m"]) == (
        "args[0]: the shape string 'n, 2' does not fit an array of shape (6,).\n  It has more entries.\n" + ENTRIES
    )
    assert text_of(mx.SpecError, run, lambda x, y: x, [{"a": "n"}, "m"], [{"a": jnp.ones((6, 2))}, Y]) == (
        "args[0]['a']: the shape string 'n' has 1 dimension(s), but the array has 2: its shape is (6, 2). "
        "Write '_' for a dimension that is not ragged."
    )


def test_spec_tree_mismatch():
    assert text_of(mx.SpecError, run, lambda x, y: x, [{"a": "n"}, "m"]) == (
        "in_shapes does not have the structure of args.\n"
        "  in_shapes: ({'a': 'n'}, 'm')\n"
        "  args: ('*', '*')\n"
        "  Give one shape string per array, or one string or None for a whole part of args."
    )
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n", ("m", 3)], [X, (Y, Y)]) == (
        "in_shapes[1][1] must be a shape string such as 'n, _' or None, not 3."
    )


def test_spec_of_what_is_no_array():
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n", "m"], [X, jnp.sin]).startswith(
        "args[1] has the shape string 'm' but is not an array: <"
    )


def test_arguments_that_are_no_list():
    assert text_of(mx.SpecError, mx.mask(jnp.sum, ["n"]), X, {"n": 3}) == (
        "args: the arguments must be a list or tuple, not a value of type ArrayImpl: masked([x], dict(n=3))."
    )


def test_unbounded_variable():
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n*m", "n"]) == (
        "in_shapes: nothing says how large 'm' can get: it stands only in 'm*n' of args[0]. "
        "Let one array have a dimension of the form 'a*m + b'."
    )


def test_arrays_too_small_for_any_size():
    assert text_of(mx.SpecError, run, lambda x, y: x, ["n + 9", "m"]) == (
        "in_shapes: the padded arrays are too small for any size 'n' >= 0: 'n + 9' of args[0]."
    )


def test_constraints():
    assert text_of(mx.SpecError, run, lambda x, y: x, constraints=["n is even"]) == (
        "constraints: 'n is even' is not one JAX understands: Constraint parsing error: must contain one of '==' "
        "or '>=' or '<='\n  Write 'a >= b', 'a <= b' or 'a == b', for instance 'n >= 2' or 'mod(n, 4) == 0'."
    )
    assert text_of(mx.SpecError, run, lambda x, y: x, constraints="k >= 2") == (
        "constraints: 'k >= 2' is about 'k', which is no dimension in in_shapes; its dimensions are 'n', 'm'."
    )
    assert text_of(mx.SizeError, run, lambda x, y: x, constraints="n <= m") == (
        "sizes: the constraint 'n <= m' does not hold."
    )
