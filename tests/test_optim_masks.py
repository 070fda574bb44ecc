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
    ids=str,
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


def test_rows_of_an_embedding():
    rows = np.array([[False], [True], [True]])
    params, grads = {"e": jnp.ones((3, 2))}, {"e": jnp.full((3, 2), jnp.nan).at[1:].set(0.5)}
    # The nan of the frozen row stays out of the global norm, and its moments stay 0.
    optimizer = mo.train_only(
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.1, weight_decay=1.0)), {"e": rows}
    )
    updates, state = optimizer.update(grads, optimizer.init(params), params)
    alone = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.1, weight_decay=1.0))
    expected, _ = alone.update({"e": grads["e"][1:]}, alone.init({"e": params["e"][1:]}), {"e": params["e"][1:]})
    np.testing.assert_array_equal(updates["e"][0], [0.0, 0.0])
    np.testing.assert_allclose(updates["e"][1:], expected["e"], rtol=1e-6)
    np.testing.assert_array_equal(optax.tree_utils.tree_get(state, "mu")["e"][0], [0.0, 0.0])
    # `masked` passes the raw gradient through instead.
    raw, _ = mo.masked(optax.sgd(1.0), {"e": rows}).update(grads, optax.MaskedState(optax.sgd(1.0).init(params)))
    np.testing.assert_array_equal(raw["e"], [[np.nan, np.nan], [-0.5, -0.5], [-0.5, -0.5]])


def test_a_mask_that_changes_under_jit_keeps_the_state_of_both_groups():
    """Alternating groups: each has the moments that it would have had on its own steps."""
    inner = optax.scale_by_adam(b1=0.9, b2=0.99)

    def optimizer(even):
        return mo.train_only(inner, mask_value={"w": even, "b": ~even})

    @jax.jit
    def step(state, count):
        return optimizer(count % 2 == 0).update(GRADS, state, PARAMS)

    state = optimizer(jnp.array(True)).init(PARAMS)
    for count in range(5):
        updates, state = step(state, jnp.array(count))
        moving, still = ("w", "b") if count % 2 == 0 else ("b", "w")
        assert jnp.all(updates[still] == 0) and jnp.all(updates[moving] != 0)
    assert step._cache_size() == 1
    mu = state.inner_state.mu
    np.testing.assert_allclose(mu["w"], GRADS["w"] * (1 - 0.9**3), rtol=1e-6)
    np.testing.assert_allclose(mu["b"], GRADS["b"] * (1 - 0.9**2), rtol=1e-6)


def test_unfreezing_by_schedule():
    @optax.inject_hyperparams
    def optimizer(learning_rate, unfrozen):
        return mo.train_only(optax.adam(learning_rate), mask_value={"w": unfrozen, "b": True})

    tx = optimizer(0.1, unfrozen=lambda count: count >= 2)
    state, moved, update = tx.init(PARAMS), [], jax.jit(tx.update)
    for _ in range(4):
        updates, state = update(GRADS, state, PARAMS)
        moved.append([bool(jnp.any(updates[name] != 0)) for name in ("w", "b")])
    assert moved == [[False, True], [False, True], [True, True], [True, True]]
    assert update._cache_size() == 1


def test_a_mask_made_from_values_is_made_from_the_parameters():
    """Not from the gradients, which is what `update` would otherwise hand to the function."""

    def large(tree):
        return jax.tree.map(lambda leaf: jnp.abs(leaf) > 2.5, tree)

    optimizer = mo.train_only(optax.sgd(1.0), large)
    updates, _ = jax.jit(optimizer.update)(GRADS, optimizer.init(PARAMS), PARAMS)
    np.testing.assert_array_equal(updates["w"], [[0.0, 0.0], [-2.0, -1.0]])
    with pytest.raises(
        mt.MaskError, match=r"made from the values of the parameters, .* call update\(grads, state, params"
    ):
        optimizer.update(GRADS, optimizer.init(PARAMS))


def test_state_made_with_plain_booleans_lacks_what_an_array_needs():
    state = mo.train_only(optax.adam(0.1), {"w": False, "b": True}).init(PARAMS)
    optimizer = mo.train_only(optax.adam(0.1), {"w": jnp.array(True), "b": jnp.array(True)})
    with pytest.raises((TypeError, ValueError)) as caught:
        optimizer.update(GRADS, state, PARAMS)
    assert "call init with a mask of arrays too" in caught.value.__notes__[0]


@pytest.mark.parametrize("make", [optax.adafactor, optax.sm3, optax.lamb, optax.novograd, optax.yogi, optax.adamw])
def test_array_masks_agree_with_plain_ones(make):
    """The updates of plain booleans, for optimisers with states of other shapes too."""
    plain = {"w": True, "b": False}
    arrays = jax.tree.map(jnp.array, plain)
    full = {"w": jnp.ones((2, 2), bool), "b": jnp.zeros(2, bool)}
    results = []
    for mask in (plain, arrays, full):
        optimizer, params = mo.train_only(make(0.1), mask), PARAMS
        state, update = optimizer.init(params), jax.jit(optimizer.update)
        for _ in range(3):
            updates, state = update(GRADS, state, params)
            params = optax.apply_updates(params, updates)
        results.append(params)
    for params in results[1:]:
        np.testing.assert_allclose(params["w"], results[0]["w"], rtol=1e-6)
        np.testing.assert_array_equal(params["b"], PARAMS["b"])


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


def test_gradients_of_selected_leaves():
    def loss(params, x, scale=1.0):
        return scale * jnp.sum(jnp.tanh(x @ params["w"]) * params["b"]), x

    x = jnp.array([0.1, 0.2])
    (value, aux), gradient = mo.value_and_grad(loss, "b", has_aux=True)(PARAMS, x, scale=2.0)
    (whole, _), expected = jax.value_and_grad(loss, has_aux=True)(PARAMS, x, scale=2.0)
    assert value == whole and aux is x
    np.testing.assert_array_equal(gradient["b"], expected["b"])
    np.testing.assert_array_equal(gradient["w"], jnp.zeros((2, 2)))
    gradient, _ = mo.grad(loss, {"w": np.array([[True, False]]), "b": False}, has_aux=True)(PARAMS, x, scale=2.0)
    np.testing.assert_array_equal(gradient["w"], expected["w"].at[:, 1].set(0.0))
    np.testing.assert_array_equal(
        mo.grad(lambda x, params: loss(params, x)[0], "b", argnums=1)(x, PARAMS)["b"], expected["b"] / 2
    )
    model = eqx.nn.MLP(2, 1, 3, 1, key=jax.random.key(0))
    ours = mo.grad(lambda model: model(x)[0])(model)
    assert eqx.tree_equal(ours, eqx.filter_grad(lambda model: model(x)[0])(model))


def test_gradients_need_the_parameters_by_position():
    assert mo.grad(lambda x, params: x * params["a"], "a", argnums=-1)(3.0, {"a": 2.0})["a"] == 3.0
    with pytest.raises(TypeError, match=r"^Argument 0 holds the parameters and must be given by position; got 0"):
        mo.grad(lambda params: params["a"])(params={"a": 2.0})


def test_gradients_without_the_frozen_leaves_are_named_as_the_fault():
    optimizer = mo.train_only(optax.adam(0.1), where="w")
    with pytest.raises(mt.MaskError, match=r"The mask at 'b' is None") as caught:
        optimizer.update({"w": GRADS["w"], "b": None}, optimizer.init(PARAMS), PARAMS)
    assert "maskax.optim.grad gives gradients that fit" in caught.value.__notes__[0]


def test_a_frozen_backbone_costs_no_backward_memory():
    params = {"backbone": [jnp.ones((64, 64))] * 8, "head": jnp.ones((64, 1))}
    x = jnp.ones((512, 64))

    def loss(params):
        hidden = x
        for weight in params["backbone"]:
            hidden = jnp.tanh(hidden @ weight)
        return jnp.sum(hidden @ params["head"])

    def memory(function):
        return jax.jit(function).lower(params).compile().memory_analysis().temp_size_in_bytes

    layer = 512 * 64 * 4
    assert memory(jax.grad(loss)) > 7 * layer  # the activations of every layer are kept
    assert memory(mo.grad(loss, "head")) < 4 * layer
    flops = [
        jax.jit(g).lower(params).compile().cost_analysis()["flops"] for g in (jax.grad(loss), mo.grad(loss, "head"))
    ]
    assert flops[1] < 0.5 * flops[0]
