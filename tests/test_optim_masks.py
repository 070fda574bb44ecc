"""How a mask is read, masks of arrays, and what the errors of `maskax.optim` say."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial

import maskax.optim as mo
from maskax import tree as mt

PARAMS = {"w": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "b": jnp.array([5.0, 6.0])}
GRADS = {"w": jnp.array([[0.5, -1.0], [2.0, 1.0]]), "b": jnp.array([1.0, -2.0])}
DECAY = optax.add_decayed_weights(0.5)


def matrices(tree):
    return jax.tree.map(lambda leaf: jnp.ndim(leaf) > 1, tree)


def by_flag(biases, tree):
    return {"w": True, "b": biases}


class Matrices(eqx.Module):
    """A mask function that is itself a pytree."""

    least: jax.Array

    def __call__(self, tree):
        return matrices(tree)


class Labeller(eqx.Module):
    kernel: str
    bias: str

    def __call__(self, x):
        raise AssertionError("a tree of labels was called")


def decayed(optimizer, params=PARAMS):
    """Which leaves the transformation decays."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = jax.jit(optimizer.update)(zeros, optimizer.init(params), params)
    return {name: bool(jnp.any(leaf != 0)) for name, leaf in updates.items()}


@pytest.mark.parametrize(
    "arguments",
    [
        {"mask": {"w": True, "b": False}},
        {"mask": matrices},
        {"mask": functools.partial(by_flag, False)},
        {"mask": Partial(matrices)},
        {"mask": Partial(lambda scale, tree: matrices(tree), jnp.array(2.0))},
        {"mask": Matrices(jnp.array(2.0))},
        {"mask": eqx.filter_jit(matrices)},
        {"mask_fn": Partial(by_flag, False)},
        {"mask_fn": Matrices(jnp.array(2.0))},
        {"mask_value": {"w": np.True_, "b": np.array(False)}},
        {"where": "w"},
        {"where": mt.ndim(min=2)},
        {"where": lambda path, leaf: path == "w"},
        {"where": ["w"]},
    ],
)
def test_a_mask_function_is_called_and_a_mask_is_not(arguments):
    """Mask functions that are pytrees: https://github.com/google-deepmind/optax/issues/913 and 1007"""
    assert decayed(mo.masked(DECAY, **arguments)) == {"w": True, "b": False}


def test_a_callable_tree_of_booleans_is_a_mask():
    model = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    mask = jax.tree.map(lambda leaf: leaf.ndim == 2, model)
    assert callable(mask)
    optimizer = mo.masked(DECAY, mask)
    updates, _ = optimizer.update(model, optimizer.init(model), model)
    np.testing.assert_array_equal(updates.bias, model.bias)
    np.testing.assert_array_equal(updates.weight, model.weight * 1.5)


class Bare(eqx.Module):
    def __call__(self, tree):
        return tree


ASK = "Write mask_value=... if it is the mask, mask_fn=... if it is to be called with parameters."


@pytest.mark.parametrize(
    "mask, why",
    [
        (Bare(), "It is a Bare: callable, and a pytree without leaves."),
        (Partial(by_flag, False), "It is a Partial: a function whose bound arguments look like a mask."),
        (
            jax.tree.map(
                lambda leaf: True if eqx.is_array(leaf) else leaf, eqx.nn.MLP(1, 1, 1, 1, key=jax.random.key(0))
            ),
            "It is a MLP: callable, and a pytree in which only some leaves are those of a mask.",
        ),
        (
            True,
            "It is a bool: one boolean for the whole tree, which is also what is left of a mask function when "
            "optax.inject_hyperparams has called it as a schedule.",
        ),
        (jnp.array(True), "It is a ArrayImpl: one boolean for the whole tree"),
    ],
    ids=["no leaves", "partial", "mixed", "bool", "array"],
)
def test_what_could_be_both_is_an_error(mask, why):
    for wrap in (mo.masked, mo.train_only, mo.freeze):
        with pytest.raises(mt.MaskError) as caught:
            wrap(DECAY, mask)
        text = str(caught.value)
        assert text.startswith(f"Is mask the mask itself, or a function that makes it? {why}") and text.endswith(ASK)


def test_one_boolean_for_the_whole_tree_is_said_with_mask_value():
    """As in `optax.freeze(True)`."""
    theirs = optax.freeze(True)
    ours = mo.freeze(optax.identity(), mask_value=True)
    state = ours.init(PARAMS)
    assert state == theirs.init(PARAMS)
    np.testing.assert_array_equal(ours.update(GRADS, state)[0]["w"], jnp.zeros((2, 2)))
    assert decayed(mo.masked(DECAY, mask_value=False)) == {"w": False, "b": False}


@pytest.mark.parametrize(
    "wrap, message",
    [
        (lambda: mo.masked(DECAY), "Give exactly one of mask, mask_fn, mask_value, where; got none."),
        (
            lambda: mo.train_only(DECAY, matrices, where="w"),
            "Give exactly one of mask, mask_fn, mask_value, where; got mask and where.",
        ),
        (
            lambda: mo.masked(DECAY, {"w": True, "b": "False"}),
            "The mask at 'b' is 'False' (str), not a boolean. Write True or False.",
        ),
        (lambda: mo.masked(DECAY, mask_value={"w": 1, "b": True}), "The mask at 'w' is 1 (int), not a boolean."),
        (
            lambda: mo.masked(DECAY, mask_fn={"w": True}),
            "mask_fn must be a function of the parameters, not {'w': True}. "
            "If it was one: optax.inject_hyperparams calls functions as schedules; list 'mask_fn' in its static_args.",
        ),
        (lambda: mo.masked(DECAY, "w"), "'w' is not a mask but a way to choose leaves: write where='w'."),
        (
            lambda: mo.freeze({"w": True, "b": False}, where="w"),
            "freeze wraps an optax transformation, and was given a dict. Write freeze(optax.adam(1e-3), ...).",
        ),
        (
            lambda: mo.masked(DECAY, {"w": True}).init(PARAMS),
            "The mask does not fit the tree:\n  'b' (float32[2]) has no entry in the mask, nor has a node above it\n",
        ),
        (
            lambda: mo.masked(DECAY, {"w": True, "b": True, "c": True}).init(PARAMS),
            "The mask does not fit the tree:\n  'c' is in the mask but not in the tree, which has 'b', 'w' there\n",
        ),
        (
            lambda: mo.masked(DECAY, lambda tree: {"w": "yes", "b": True}).init(PARAMS),
            "The mask at 'w' is 'yes' (str), not a boolean.",
        ),
        (lambda: mo.masked(DECAY, where="bias").init(PARAMS), "The pattern 'bias' matches no path of the tree. "),
        (lambda: mo.partition({"a": DECAY}), "Give exactly one of labels, labels_fn, labels_value, where; got none."),
        (
            lambda: mo.partition({"a": DECAY, "b": DECAY}, where={"a": "w"}),
            "where has the labels 'a', transforms has 'a', 'b': each needs the other.",
        ),
        (
            lambda: mo.partition({"a": DECAY}, {"w": "a", "b": "c"}),
            "The label at 'b' is 'c'; the transforms have the labels 'a'.",
        ),
        (
            lambda: mo.partition({"a": DECAY}, lambda tree: {"w": "a", "b": "c"}).init(PARAMS),
            "The label at 'b' is 'c'; the transforms have the labels 'a'.",
        ),
        (
            lambda: mo.partition({"a": DECAY}, {"w": "a"}).init(PARAMS),
            "The mask does not fit the tree:\n  'b' (float32[2])",
        ),
        (
            lambda: mo.partition({"a": DECAY, "b": DECAY}, where={"a": "w", "b": ["w", "b"]}).init(PARAMS),
            "Leaves with more than one label: 'w (a, b)'. Groups must not overlap.",
        ),
        (
            lambda: mo.partition({"a": DECAY}, where={"a": "w"}).init(PARAMS),
            "Leaves without a label: 'b'. Give one label `...` for the rest.",
        ),
        (
            lambda: mo.partition({"a": DECAY, "b": DECAY}, where={"a": ..., "b": ...}).init(PARAMS),
            "Only one label can have the rest (...); 'a', 'b' have it.",
        ),
        (
            lambda: mo.partition({"a": DECAY}, where={"a": {"w": jnp.array(True), "b": True}}).init(PARAMS),
            "The group 'a' has an array for 'w'; a leaf has one label.",
        ),
        (
            lambda: mo.decay_only(optax.sgd, where="w"),
            "sgd has no weight-decay mask. Use masked(optax.add_decayed_weights(...), ...) in a chain.",
        ),
        (
            lambda: mo.decay_only(optax.adamw, mask_value={"w": jnp.array(True), "b": False})(0.1).init(PARAMS),
            "The mask at 'w' is an array; a weight-decay mask needs True or False.",
        ),
        (
            lambda: mo.decay_only(optax.inject_hyperparams(optax.adamw), where="w")(0.1).init(PARAMS),
            "The mask function was called with a step count, as a schedule. Put inject_hyperparams outside: ",
        ),
    ],
)
def test_errors(wrap, message):
    with pytest.raises(mt.MaskError, match="^" + re.escape(message)):
        wrap()


def test_labels_that_are_callable():
    """https://github.com/patrick-kidger/equinox/issues/794"""
    labels = Labeller("a", "b")
    params = {"kernel": jnp.ones(2), "bias": jnp.ones(2)}
    for arguments in ({"labels": labels}, {"labels_value": labels}, {"labels_fn": lambda tree: labels}):
        optimizer = mo.partition({"a": optax.sgd(1.0), "b": optax.set_to_zero()}, **arguments)
        updates, _ = optimizer.update(params, optimizer.init(params))
        assert (updates["kernel"][0], updates["bias"][0]) == (-1.0, 0.0)


def test_labels_may_be_none_where_there_is_no_parameter():
    params = {"w": jnp.ones(2), "n": None, "deep": (jnp.ones(1), None)}
    for labels in ({"w": "a", "n": None, "deep": "b"}, {"w": "a", "n": "b", "deep": ("b", None)}):
        optimizer = mo.partition({"a": optax.sgd(1.0), "b": optax.sgd(2.0)}, labels)
        updates, _ = optimizer.update(params, optimizer.init(params), params)
        assert (updates["w"][0], updates["n"], updates["deep"][0][0], updates["deep"][1]) == (-1.0, None, -2.0, None)
    inner = mo.partition({"a": optax.sgd(1.0)}, {"w": "a", "b": None})
    updates, _ = mo.masked(inner, where="w").update(PARAMS, mo.masked(inner, where="w").init(PARAMS))
    assert (updates["w"][0, 0], updates["b"][0]) == (-1.0, 5.0)
    with pytest.raises(mt.MaskError, match="The label at 'w' is None; the transforms have the labels 'a', 'b'"):
        mo.partition({"a": optax.sgd(1.0), "b": optax.sgd(2.0)}, {"w": None, "n": None, "deep": "b"}).init(params)
