"""Every error says what, where and what to do: the exact text, for programs and their results."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from failing import run, text_of
from jax import lax
from jax.extend import core

import maskax as mx

# --- programs ----------------------------------------------------------------------------------------------------


def test_the_line_is_the_one_that_failed():
    def model(x, y):
        total = x.sum()
        return total + x + y

    with pytest.raises(mx.UnmaskableError) as caught:
        run(model)
    line = inspect.getsourcelines(model)[1] + 2
    assert str(caught.value).startswith(f"test_errors.py:{line} (model): add got incompatible shapes")


def test_missing_rule():
    odd = core.Primitive("odd_one_out")
    odd.def_abstract_eval(lambda x, y: x)

    def model(x, y):
        return odd.bind(x, y[0])

    assert text_of(mx.MissingRuleError, run, model) == (
        "LINE (model): odd_one_out: float32[n], float32[] -> float32[n]\n"
        "  There is no masking rule for 'odd_one_out'.\n"
        "  Keep the ragged dimension out of this step, or write a rule for it: maskax.register_rule(primitive)."
    )


def test_inconclusive_comparison():
    def model(x, y):
        return x[:2] if x.shape[0] > 3 else x[:1]

    assert text_of(mx.UnmaskableError, run, model) == (
        "LINE (model): whether n > 3 depends on a run-time size, but the program must be the same for all sizes.\n"
        "  If it holds for all sizes, say so: mask(..., constraints=('n >= 4',)); "
        "if it never does: mask(..., constraints=('n <= 3',)).\n"
        "  If it differs from row to row, use jnp.where or jax.lax.cond on the size as a value: jnp.asarray(n);\n"
        "  for the greater of two sizes, jnp.maximum(n, 1)."
    )


@pytest.mark.parametrize(
    ("fun", "constraint"),
    [
        (lambda x, y: lax.dynamic_slice(x, (0,), (2,)), "n >= 2"),
        (lambda x, y: lax.top_k(x, 3)[0], "n >= 3"),
        (lambda x, y: x if x.shape[0] >= y.shape[0] else -x, "n >= m"),
        (lambda x, y: x if x.shape[0] < y.shape[0] else -x, "n >= m"),
        (lambda x, y: jnp.linspace(0, 1, x.shape[0]), "n >= 2"),
    ],
)
def test_the_constraint_that_an_inconclusive_comparison_names_settles_it(fun, constraint):
    text = text_of(mx.UnmaskableError, run, fun)
    assert text.startswith("LINE (<lambda>): whether ") and f"constraints=({constraint!r},)" in text
    run(fun, constraints=(constraint,), sizes={"n": 4, "m": 2})


AS_INT = (
    "  A run-time size cannot be an int while tracing. Use it in shapes as it is (x.shape[0], not len(x)), or as a\n"
    "  value: jnp.asarray(n). To loop over it: jax.lax.fori_loop, or jax.lax.scan over the array, or over\n"
    "  jnp.arange(n) where only the length counts."
)
AS_VALUE = "  jax.numpy computes with sizes, as values: jnp.sqrt(n), jnp.asarray(n) ** 0.5, jnp.array(x.shape)."
NAMES = (
    "  Dimensions of different names are different sizes. Where they are always equal, use one name in in_shapes,\n"
    "  or say so: mask(..., constraints=('n == m',))."
)


@pytest.mark.parametrize(
    ("fun", "text"),
    [
        (
            lambda x, y: x[: int(x.shape[0])],
            "Symbolic dimension 'n' used in a context that requires a constant\n" + AS_INT,
        ),
        (lambda x, y: x / len(x), "'_DimExpr' object cannot be interpreted as an integer\n" + AS_INT),
        (
            lambda x, y: sum(x[i] for i in range(x.shape[0])),
            "'_DimExpr' object cannot be interpreted as an integer\n" + AS_INT,
        ),
        (
            lambda x, y: x / np.sqrt(x.shape[0]),
            "loop of ufunc does not support argument 0 of type _DimExpr which has no callable sqrt method\n" + AS_VALUE,
        ),
        (
            lambda x, y: x * x.shape[0] ** 0.5,
            "Symbolic dimension cannot be raised to non-integer powers: 'n' ** '0.5'\n" + AS_VALUE,
        ),
        (
            lambda x, y: jnp.array([1] * x.shape[0]),
            "unsupported operand type(s) for *: 'list' and 'DynamicJaxprTracer'\n" + AS_INT,
        ),
        (lambda x, y: np.zeros(x.shape[0]), "expected a sequence of integers or a single integer, got 'n'\n" + AS_INT),
        (
            lambda x, y: lax.scan(lambda c, _: (c, c), 0, None, length=x.shape[0]),
            "Symbolic dimension 'n' used in a context that requires a constant\n" + AS_INT,
        ),
        (lambda x, y: x + y, "add got incompatible shapes for broadcasting: (n,), (m,).\n" + NAMES),
        (lambda x, y: jnp.stack([x, y]), "All input arrays must have the same shape. Got (n,), (m,).\n" + NAMES),
        (
            lambda x, y: x @ y,
            "dot_general requires contracting dimensions to have the same shape, got (n,) and (m,).\n" + NAMES,
        ),
        (
            lambda x, y: x.reshape(-1, 2),
            "Cannot divide evenly the sizes of shapes (n,) and (-1, 2). The remainder mod(n, - 2) should be 0.\n"
            "  Write the dimension as a multiple in in_shapes: '2*k' instead of 'n'.",
        ),
        (
            lambda x, y: lax.associative_scan(jnp.add, x),
            "associative scan over axis of non-constant size: n. You may be able to avoid this on TPU. "
            "See b/274176030.\n"
            "  Use maskax.lax.associative_scan: the same function, at run-time sizes too.",
        ),
        (
            lambda x, y: jax.random.permutation(jax.random.key(0), x),
            "shape polymorphism for `permutation` or `shuffle` for arrays of non-constant size: n\n"
            "  Use maskax.random.permutation: the same function, at run-time sizes too.",
        ),
        (
            lambda x, y: x[x.shape[0] // 2],
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid "
            "indices. Got floordiv(n, 2)\n"
            "  To index by a size, make it a value: x[jnp.asarray(n // 2)]. Slices take it as it is: x[: n // 2].",
        ),
    ],
)
def test_what_does_not_trace(fun, text):
    assert re.sub(r"LINE \([^)]*\)", "LINE", text_of(mx.UnmaskableError, run, fun)) == f"LINE: {text}"


@pytest.mark.parametrize(
    ("fun", "hint"), [(lambda x, y: x * np.array(x.shape), AS_VALUE), (lambda x, y: sum(v for v in x), AS_INT)]
)
def test_what_does_not_trace_in_the_words_of_one_version(fun, hint):
    assert text_of(mx.UnmaskableError, run, fun).endswith(hint)


@pytest.mark.parametrize("fun", [lambda x, y: np.asarray(x), lambda x, y: x.tolist(), lambda x, y: float(x.sum())])
def test_what_jax_says_of_values_stays(fun):
    with pytest.raises(jax.errors.JAXTypeError):
        run(fun)


def test_boolean_index():
    with pytest.raises(mx.UnmaskableError) as caught:
        mx.mask(lambda x: x[x > 0], ["n"])([jnp.ones(3)], {"n": 2})
    assert str(caught.value).endswith(
        "(<lambda>): how many elements a boolean index takes depends on the data.\n"
        "  Use maskax.at(x)[keep], or maskax.compress(keep, x): as many results as the data say; to set, jnp.where."
    )


@pytest.mark.parametrize(
    ("there", "fun"),
    [
        ("numpy.searchsorted", lambda x, y: jnp.searchsorted(x, x)),
        ("numpy.digitize", lambda x, y: jnp.digitize(x, x)),
        ("numpy.interp", lambda x, y: jnp.interp(x, x, x)),
        ("numpy.histogram", lambda x, y: jnp.histogram(x, bins=x)),
        ("numpy.convolve", lambda x, y: jnp.convolve(x, jnp.ones(3))),
        ("numpy.correlate", lambda x, y: jnp.correlate(x, x)),
        ("numpy.array_split", lambda x, y: jnp.array_split(x, 2)),
        ("numpy.pad", lambda x, y: jnp.pad(x, 1, mode="wrap")),
        ("numpy.hanning", lambda x, y: jnp.hanning(x.shape[0])),
        ("numpy.geomspace", lambda x, y: jnp.geomspace(1, 2, x.shape[0])),
        ("random.permutation", lambda x, y: jax.random.permutation(jax.random.key(0), x.shape[0])),
        ("random.choice", lambda x, y: jax.random.choice(jax.random.key(0), x, (2,), replace=False)),
    ],
)
def test_drop_ins_are_pointed_at(there, fun):
    text = text_of(mx.UnmaskableError, run, fun)
    assert text.endswith(f"\n  Use maskax.{there}: the same function, at run-time sizes too.")


def test_errors_of_the_function_itself_pass_untouched():
    def model(x, y):
        raise ValueError("sizes of my own (m, n) differ: mine")

    with pytest.raises(TypeError, match=r"\(3,\), \(4,\)"):
        run(lambda x, y: jnp.ones(3) + jnp.ones(4))
    with pytest.raises(KeyError, match="mine"):
        run(lambda x, y: {}["mine"])
    with pytest.raises(jax.errors.TracerBoolConversionError):
        run(lambda x, y: x if x.sum() > 0 else y)


# --- results -----------------------------------------------------------------------------------------------------


def test_shape_mismatch():
    assert text_of(
        mx.ShapeError, run, lambda x, y: {"a": x, "b": [x[1:], y]}, out_shape={"a": "n", "b": ["n", "m"]}
    ) == ("out_shape['b'][0]: the result has the logical shape (n - 1,), but the declared one is 'n'.")
    assert text_of(mx.ShapeError, run, lambda x, y: x, out_shape="n, 2") == (
        "out_shape: the result has the logical shape (n,), but the declared one is 'n, 2'."
    )
    assert text_of(mx.ShapeError, run, lambda x, y: x, out_shape="_") == (
        "out_shape: the result has the logical shape (n,), but the declared one is '_'."
    )


def test_result_tree_mismatch():
    assert text_of(mx.ShapeError, run, lambda x, y: (x, {"y": y}), out_shape=("n", "m", "m")) == (
        "out_shape does not have the structure of the result.\n"
        "  out_shape: ('n', 'm', 'm')\n"
        "  the result: ('*', {'y': '*'})\n"
        "  Give one shape string per array, or one string or None for a whole part of the result."
    )


def test_nested_errors_show_the_names_that_the_user_wrote():
    def outer(x, y):
        return mx.mask(lambda x, z: x + z, ["n", "m"])([x, y], {"n": 1, "m": 1})

    assert text_of(mx.UnmaskableError, run, outer).endswith(
        "add got incompatible shapes for broadcasting: (n,), (m,).\n" + NAMES
    )
