"""Masks of arrays, masks that change while a compiled step runs, and gradients of selected leaves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import maskax.optim as mo
from maskax import tree as mt

PARAMS = {"w": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "b": jnp.array([5.0, 6.0])}
GRADS = {"w": jnp.array([[0.5, -1.0], [2.0, 1.0]]), "b": jnp.array([1.0, -2.0])}


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

    traces = []

    @jax.jit
    def step(state, count):
        traces.append(1)
        return optimizer(count % 2 == 0).update(GRADS, state, PARAMS)

    state = optimizer(jnp.array(True)).init(PARAMS)
    for count in range(5):
        updates, state = step(state, jnp.array(count))
        moving, still = ("w", "b") if count % 2 == 0 else ("b", "w")
        assert jnp.all(updates[still] == 0) and jnp.all(updates[moving] != 0)
    assert len(traces) == 1
    mu = state.inner_state.mu
    np.testing.assert_allclose(mu["w"], GRADS["w"] * (1 - 0.9**3), rtol=1e-6)
    np.testing.assert_allclose(mu["b"], GRADS["b"] * (1 - 0.9**2), rtol=1e-6)


def test_unfreezing_by_schedule():
    @optax.inject_hyperparams
    def optimizer(learning_rate, unfrozen):
        return mo.train_only(optax.adam(learning_rate), mask_value={"w": unfrozen, "b": True})

    tx = optimizer(0.1, unfrozen=lambda count: count >= 2)
    traces = []
    update = jax.jit(lambda *args: (traces.append(1), tx.update(*args))[1])
    state, moved = tx.init(PARAMS), []
    for _ in range(4):
        updates, state = update(GRADS, state, PARAMS)
        moved.append([bool(jnp.any(updates[name] != 0)) for name in ("w", "b")])
    assert moved == [[False, True], [False, True], [True, True], [True, True]]
    assert len(traces) == 1


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
