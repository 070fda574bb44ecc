"""Masks: choosing leaves, fitting them to a tree, combining them, and what the errors say."""

import io
import re
import subprocess
import sys
from typing import NamedTuple

import equinox as eqx
import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from maskax import tree as mt
from maskax._errors import MaskaxError

PARAMS = {
    "decoder": {"bias": jnp.zeros(2), "kernel": jnp.ones((2, 2))},
    "encoder": {
        "norm": {"bias": jnp.zeros(3), "scale": jnp.ones(3)},
        "out": {"bias": jnp.zeros(2, jnp.bfloat16), "kernel": jnp.ones((3, 2), jnp.bfloat16)},
    },
    "step": jnp.array(0),
}


def chosen(where, params=PARAMS):
    """The paths that `where` selects."""
    return [row.path for row in mt.explain(params, where).rows if row.trained]


@pytest.mark.parametrize(
    "where, expected",
    [
        ("encoder/**/bias", ["encoder/norm/bias", "encoder/out/bias"]),
        ("*/bias", ["decoder/bias"]),
        ("**/bias", ["decoder/bias", "encoder/norm/bias", "encoder/out/bias"]),
        ("encoder/norm", ["encoder/norm/bias", "encoder/norm/scale"]),
        ("encoder/*/[bk]*", ["encoder/norm/bias", "encoder/out/bias", "encoder/out/kernel"]),
        ("**/s????", ["encoder/norm/scale"]),
        ("**/norm/**", ["encoder/norm/bias", "encoder/norm/scale"]),
        (re.compile("norm.*e$"), ["encoder/norm/scale"]),
        (lambda path, leaf: leaf.ndim == 2 and "out" in path, ["encoder/out/kernel"]),
        (jnp.bfloat16, ["encoder/out/bias", "encoder/out/kernel"]),
        (np.dtype("int32"), ["step"]),
        (jnp.integer, ["step"]),
        (mt.ndim(0), ["step"]),
        (mt.ndim(min=2), ["decoder/kernel", "encoder/out/kernel"]),
        (mt.ndim(min=1, max=1), ["decoder/bias", "encoder/norm/bias", "encoder/norm/scale", "encoder/out/bias"]),
        (["step", "decoder/bias"], ["decoder/bias", "step"]),
        (
            [mt.ndim(0), re.compile("scale"), {"decoder": True, "encoder": False, "step": False}],
            ["decoder/bias", "decoder/kernel", "encoder/norm/scale", "step"],
        ),
        ([], []),
        (False, []),
        (
            {"decoder": False, "encoder": {"norm": True, "out": {"bias": False, "kernel": True}}, "step": False},
            ["encoder/norm/bias", "encoder/norm/scale", "encoder/out/kernel"],
        ),
    ],
)
def test_select(where, expected):
    assert chosen(where) == expected


def test_select_by_type_takes_what_is_inside_nodes_of_that_type():
    class Block(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.LayerNorm

    block = Block(eqx.nn.Linear(2, 3, key=jax.random.key(0)), eqx.nn.LayerNorm(3))
    assert chosen(eqx.nn.LayerNorm, block) == ["norm/weight", "norm/bias"]
    state = nnx.state(nnx.BatchNorm(3, rngs=nnx.Rngs(0)))
    assert chosen(nnx.Param, state) == ["bias", "scale"]
    assert chosen(nnx.BatchStat, state) == ["mean", "var"]


def test_list_of_booleans_is_a_mask_for_a_list():
    assert mt.select([jnp.ones(2), jnp.ones(3)], [True, False]) == [True, False]


def test_stacked_layers_do_not_count_as_a_dimension():
    params = {"layers": {"scale": jnp.ones((5, 4)), "kernel": jnp.ones((5, 4, 4))}, "embed": jnp.ones((7, 4))}
    assert chosen(mt.ndim(min=2, stacked="layers"), params) == ["embed", "layers/kernel"]


def test_mask_with_the_names_of_the_tree_fits_any_container():
    class Affine(NamedTuple):
        weight: jax.Array
        bias: jax.Array

    mask = {"weight": True, "bias": False}
    assert mt.validate(mask, Affine(jnp.ones(2), jnp.ones(1))) == Affine(True, False)
    assert mt.validate(mask, flax.core.freeze({"weight": 1.0, "bias": 2.0})) == flax.core.freeze(mask)
    assert mt.validate([True, False], (1.0, 2.0)) == (True, False)
    linear = mt.validate(mask, eqx.nn.Linear(2, 2, key=jax.random.key(0)))
    assert (linear.weight, linear.bias) == (True, False)
    # nnx: a plain mask for boxed variables, and a boxed one for plain arrays.
    state = nnx.state(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
    boxed = jax.tree.map(lambda leaf: leaf.ndim == 2, state)
    assert jax.tree.leaves(mt.validate({"kernel": True, "bias": False}, state)) == [False, True]
    assert mt.validate(boxed, {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}) == {"kernel": True, "bias": False}


def test_a_field_called_value_is_a_box_only_where_it_is_alone():
    class Pair(NamedTuple):
        value: float
        other: float

    class Box(NamedTuple):
        value: float

    assert [row.path for row in mt.explain({"a": Pair(1.0, 2.0), "b": Box(3.0)}, True).rows] == [
        "a/value",
        "a/other",
        "b",
    ]
    assert chosen("b/value", {"a": Pair(1.0, 2.0), "b": Box(3.0)}) == ["b"]


def test_none_means_no_parameter():
    tree = {"a": 1.0, "b": None, "c": jax.nn.relu}
    assert mt.select(tree, "a") == {"a": True, "b": None, "c": False}
    assert mt.validate({"a": True, "b": True, "c": None}, tree) == {"a": True, "b": None, "c": False}
    assert mt.invert({"a": True, "b": None}) == {"a": False, "b": None}
    with pytest.raises(
        mt.MaskError,
        match="The mask at 'a' is None, which says that there is no parameter, but the tree has one",
    ):
        mt.validate({"a": None, "b": None, "c": None}, tree)


def test_algebra_on_masks_of_different_fineness():
    fine, coarse = {"a": {"b": True, "c": False}, "d": True}, {"a": True, "d": False}
    assert mt.both(fine, coarse) == {"a": {"b": True, "c": False}, "d": False}
    assert mt.either(fine, coarse) == {"a": {"b": True, "c": True}, "d": True}
    assert mt.minus(coarse, fine) == {"a": {"b": False, "c": True}, "d": False}
    assert mt.both(fine) == fine
    rows = np.array([[True], [False]])
    np.testing.assert_array_equal(mt.both({"a": rows}, {"a": True})["a"], rows)
    np.testing.assert_array_equal(mt.either({"a": rows}, {"a": False})["a"], rows)
    assert mt.both({"a": rows}, {"a": False}) == {"a": False}
    assert jax.jit(lambda flag: mt.minus({"a": True}, {"a": flag})["a"])(True) == False  # noqa: E712


def test_partition_and_combine():
    model = eqx.nn.MLP(2, 2, 3, 1, key=jax.random.key(0))
    biases, rest = mt.partition(model, "layers/*/bias")
    assert biases.layers[0].weight is None and rest.layers[0].bias is None and rest.activation is model.activation
    assert eqx.tree_equal(mt.combine(biases, rest), model)
    with pytest.raises(mt.MaskError, match=re.escape("The mask at 'a' is an array (bool[2]); partition needs True or")):
        mt.partition({"a": jnp.ones(2)}, {"a": np.array([True, False])})


def test_count_and_explain():
    shapes = jax.eval_shape(lambda: PARAMS)
    assert mt.count(shapes) == 6 + 6 + 8 + 1
    assert mt.count(shapes, "encoder") == 14
    rows = np.array([[True], [False], [True]])
    mask = {"decoder": False, "encoder": {"norm": False, "out": {"bias": True, "kernel": rows}}, "step": False}
    assert mt.count(PARAMS, mask) == 2 + 2 * 2
    table = mt.explain(PARAMS, mask)
    assert (table.total, table.trained) == (21, 6)
    assert (
        str(table)
        == """\
path                shape          parameters  trained
---------------------------------------------------------
decoder/bias        float32[2]              2  no
decoder/kernel      float32[2,2]            4  no
encoder/norm/bias   float32[3]              3  no
encoder/norm/scale  float32[3]              3  no
encoder/out/bias    bfloat16[2]             2  yes
encoder/out/kernel  bfloat16[3,2]           6  4 of 6
step                int32[]                 1  no
---------------------------------------------------------
total                                      21  6 (28.6 %)"""
    )


def test_explain_in_rich_and_notebooks():
    from rich.console import Console

    table = mt.explain({"<b>": jnp.ones((2, 3)), "w": jnp.ones(1), "f": len}, "w")
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table)
    text = console.export_text()
    assert "float32[2,3]" in text and "1 (14.3 %)" in text
    page = table._repr_html_()
    assert page.count("<tr") == 5 and "&lt;b&gt;" in page and page.count("#888") == 2


def test_explain_says_that_a_traced_entry_changes():
    seen = []

    @jax.jit
    def step(flag):
        seen.append(mt.explain({"w": jnp.ones(2)}, {"w": flag}).rows[0].verdict)
        return flag

    step(True)
    assert seen == ["changes"]


@pytest.mark.parametrize(
    "where, message",
    [
        (
            "bias",
            "The pattern 'bias' matches no path of the tree. Patterns start at the root: '**/bias' matches "
            "'decoder/bias', 'encoder/norm/bias', 'encoder/out/bias'.",
        ),
        (
            "encoder/norm/sclae",
            "The pattern 'encoder/norm/sclae' matches no path of the tree. Near it: "
            "'encoder/norm/scale', 'encoder/norm/bias', 'encoder/out/bias', 'encoder/out/kernel', "
            "'decoder/bias'.",
        ),
        (
            "xyz",
            "The pattern 'xyz' matches no path of the tree. The paths are 'decoder/bias', 'decoder/kernel', "
            "'encoder/norm/bias', 'encoder/norm/scale', 'encoder/out/bias' and 2 more.",
        ),
        (["step", "xyz"], "The pattern 'xyz' matches no path"),
        (re.compile("^bias"), "The expression '^bias' is found in no path of the tree. The paths are 'decoder/bias',"),
        (
            eqx.nn.LayerNorm,
            "No leaf of the tree is a LayerNorm or lies inside one. The leaves are ArrayImpl. A tree of "
            "parameters alone does not know the modules that they came from: select those by path.",
        ),
        (
            lambda tree: tree,
            "A predicate takes two arguments, the path (a string) and the leaf. A function of the whole "
            "tree is for mask_fn= in mx.optim; here, call it: select(tree, fn(tree)).",
        ),
        (lambda path, leaf: "no", "The predicate gave 'no' (str) for 'decoder/bias', not a boolean."),
    ],
)
def test_errors_of_select(where, message):
    with pytest.raises(mt.MaskError, match="^" + re.escape(message)):
        mt.select(PARAMS, where)


@pytest.mark.parametrize(
    "mask, message",
    [
        (
            {"a": True},
            "The mask does not fit the tree:\n"
            "  'c/d' (float32[2]) has no entry in the mask, nor has a node above it\n"
            "Give True or False for each leaf, or for a node above it. mx.tree.select builds such a mask.",
        ),
        (
            {"a": True, "c": {"d": True, "e": True}},
            "The mask does not fit the tree:\n  'c/e' is in the mask but not in the tree, which has 'c/d' there\n",
        ),
        ({"a": True, "c": {"d": "False"}}, "The mask at 'c/d' is 'False' (str), not a boolean. Write True or False."),
        ({"a": 1, "c": True}, "The mask at 'a' is 1 (int), not a boolean. Write True or False."),
        (
            {"a": True, "c": {"d": np.array([True])}, "extra": True},
            "The mask does not fit the tree:\n  'extra' is in the mask but not in the tree, which has 'a', 'c/d' there",
        ),
        (
            {"a": np.ones((2, 1), bool), "c": True},
            "The mask at 'a' has shape [2, 1], the leaf there is float32[3,2]. A boolean array needs as many "
            "dimensions as its leaf, each of the leaf's size or 1.",
        ),
        ({"a": True, "c": np.ones((1, 2), bool)}, "The mask at 'c' has shape [1, 2], the leaf there is float32[2]."),
    ],
)
def test_errors_of_masks(mask, message):
    with pytest.raises(mt.MaskError, match="^" + re.escape(message)) as caught:
        mt.validate(mask, {"a": jnp.ones((3, 2)), "c": {"d": jnp.ones(2)}})
    assert isinstance(caught.value, MaskaxError) and isinstance(caught.value, ValueError)


def test_trees_need_neither_optax_nor_rich():
    code = """
import sys
for name in ("optax", "equinox", "flax", "haiku", "rich"):
    sys.modules[name] = None
import maskax.tree as mt, maskax.optim as mo
print(mt.explain({"a": 1.0}, "a").trained)
try:
    mo.masked(None, where="a")
except mo.MissingOptaxError as error:
    print(error)
try:
    mo.partition({}, {})
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message = "This function of maskax.optim needs optax: pip install 'maskax[optax]'"
    assert done.stdout.split("\n") == ["1", message, message, ""]
