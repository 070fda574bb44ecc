"""What people ran into with optimiser masks, each with its link and the right result."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from flax import nnx

import maskax.optim as mo
from maskax import tree as mt

PARAMS = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}
ZEROS = jax.tree.map(jnp.zeros_like, PARAMS)


def step(optimizer, grads, params):
    updates, state = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    return optax.apply_updates(params, updates), state


def test_a_module_that_is_callable_is_used_as_the_decay_mask():
    """optax 913 and 1007, equinox 771"""
    model = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    zeros, mask = jax.tree.map(jnp.zeros_like, model), jax.tree.map(lambda leaf: leaf.ndim > 1, model)
    for factory in (optax.adamw, optax.lamb, optax.lion, optax.adamaxw):
        after, _ = step(mo.decay_only(factory, mask)(1.0, weight_decay=0.5), zeros, model)
        np.testing.assert_array_equal(after.bias, model.bias)
        assert np.all(np.abs(after.weight) < np.abs(model.weight))


def test_label_trees_and_muon_specs_that_are_callable_modules():
    """equinox 193, 266 and 794"""
    model = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    labels = jax.tree.map(lambda leaf: "matrix" if leaf.ndim == 2 else "vector", model)
    optimizer = mo.partition({"matrix": optax.contrib.muon(0.1, ns_steps=1), "vector": optax.sgd(1.0)}, labels)
    after, _ = step(optimizer, model, model)
    np.testing.assert_array_equal(after.bias, jnp.zeros(2))
    assert not np.array_equal(after.weight, model.weight)


def test_muon_takes_a_callable_module_of_specs_as_a_function_that_returns_it():
    """equinox 266: optax calls the module itself."""
    model = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    spec = optax.contrib.MuonDimensionNumbers((0,), (1,))
    specs = eqx.tree_at(lambda tree: (tree.weight, tree.bias), model, (spec, None))
    inner = optax.contrib.muon(0.1, ns_steps=1, muon_weight_dimension_numbers=lambda params: specs)
    after, _ = step(mo.train_only(inner, where="weight"), model, model)
    expected, _ = step(inner, model, model)
    np.testing.assert_array_equal(after.weight, expected.weight)
    np.testing.assert_array_equal(after.bias, model.bias)


def test_decay_mask_under_inject_hyperparams():
    """optax 57 and 1373: a mask function was taken for a schedule; nothing decayed, or everything did."""
    matrices = jax.tree.map(lambda leaf: leaf.ndim > 1, PARAMS)
    model = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    masks = [
        {"mask": lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree)},
        {"mask": matrices},
        {"where": "w"},
        {"where": mt.ndim(min=2)},
        {"where": lambda path, leaf: path != "b"},
    ]
    for arguments in masks:
        factory = optax.inject_hyperparams(mo.decay_only(optax.adamw, **arguments))
        optimizer = factory(learning_rate=lambda count: 1.0 / (1 + count), weight_decay=0.5)
        after, state = step(optimizer, ZEROS, PARAMS)
        np.testing.assert_array_equal(after["w"], jnp.full((2, 2), 0.5))
        np.testing.assert_array_equal(after["b"], jnp.ones(2))
        assert set(state.hyperparams) >= {"learning_rate", "weight_decay"}
    # The module mask, which crashed.
    mask = jax.tree.map(lambda leaf: leaf.ndim > 1, model)
    optimizer = optax.inject_hyperparams(mo.decay_only(optax.adamw, mask))(learning_rate=1.0, weight_decay=0.5)
    after, _ = step(optimizer, jax.tree.map(jnp.zeros_like, model), model)
    np.testing.assert_array_equal(after.bias, model.bias)
    np.testing.assert_allclose(after.weight, 0.5 * model.weight, rtol=1e-6)

    # A mask function given to a factory of one's own is called with the step count. That is an error, not a wrong mask.
    @optax.inject_hyperparams
    def careless(decay, mask):
        return mo.masked(optax.add_decayed_weights(decay), mask)

    with pytest.raises(mt.MaskError, match="what is left of a mask function when optax"):
        careless(0.5, masks[0]["mask"]).init(PARAMS)


def test_masked_out_leaves_are_frozen_where_that_is_meant():
    """optax 159, 290 and 296: `masked` passes raw gradients through."""
    for optimizer in (mo.train_only(optax.sgd(0.1), {"w": True, "b": False}), mo.freeze(optax.sgd(0.1), where="b")):
        updates, _ = optimizer.update(PARAMS, optimizer.init(PARAMS))
        np.testing.assert_array_equal(updates["b"], jnp.zeros(2))
        np.testing.assert_allclose(updates["w"], -0.1 * PARAMS["w"])


def test_frozen_gradients_reach_nothing():
    """optax 477: neither decay of frozen leaves, nor their nan through the global norm."""
    inner = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.1, weight_decay=0.5))
    grads = {"w": jnp.full((2, 2), 3.0), "b": jnp.full(2, jnp.nan)}
    alone, _ = step(inner, {"w": grads["w"]}, {"w": PARAMS["w"]})
    for mask in ({"w": True, "b": False}, {"w": True, "b": jnp.array(False)}, {"w": True, "b": jnp.zeros(2, bool)}):
        after, _ = step(mo.train_only(inner, mask), grads, PARAMS)
        np.testing.assert_array_equal(after["b"], PARAMS["b"])
        np.testing.assert_allclose(after["w"], alone["w"], rtol=1e-6)


def test_buffers_do_not_shrink_under_decay():
    """equinox 866"""
    params = {"buffer": jnp.array(1.0), "w": jnp.array(2.0)}
    grads = jax.grad(lambda p: p["w"] * jax.lax.stop_gradient(p["buffer"]))(params)
    after, _ = step(mo.freeze(optax.adamw(0.1, weight_decay=0.5), where="buffer"), grads, params)
    assert after["buffer"] == 1.0 and after["w"] < 2.0


def test_containers_need_not_match():
    """optax 160, jax 31256: plain dicts and mapped masks for boxed nnx states."""
    state = nnx.state(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), nnx.Param)
    zeros = jax.tree.map(jnp.zeros_like, state)
    for mask in ({"kernel": True, "bias": False}, jax.tree.map(lambda leaf: leaf.ndim > 1, state)):
        after, _ = step(mo.masked(optax.add_decayed_weights(1.0), mask), zeros, state)
        np.testing.assert_array_equal(after["kernel"][...], 2 * state["kernel"][...])
        np.testing.assert_array_equal(after["bias"][...], state["bias"][...])


def test_other_trees_alongside_a_masked_state():
    """torchopt 232: no special is_leaf for the holes that a mask leaves in a state."""
    optimizer = mo.train_only(optax.adam(0.1), where="w")
    state = mo.tree_map_params(optimizer, lambda moment, param: moment + 2 * param, optimizer.init(PARAMS), PARAMS)
    np.testing.assert_array_equal(state.inner_state[0].nu["w"], jnp.full((2, 2), 2.0))


def test_none_is_no_parameter_everywhere():
    """optax 1538, equinox 908"""
    params = {"w": jnp.ones((2, 2)), "b": None}
    for mask in ({"w": True, "b": None}, {"w": True, "b": False}, {"w": True, "b": True}):
        after, _ = step(mo.train_only(optax.adamw(0.1), mask), params, params)
        assert after["b"] is None and after["w"][0, 0] < 1.0
    with pytest.raises(mt.MaskError, match="The mask at 'b' is None, which says that there is no parameter"):
        mo.train_only(optax.adamw(0.1), {"w": True, "b": None}).init(PARAMS)


def test_stacked_layers_count_as_their_own_layers():
    """optax 25, levanter 405: the scales of norms in stacked layers are one-dimensional."""
    params = {"layers": {"scale": jnp.ones((3, 4)), "w": jnp.ones((3, 4, 4))}, "head": jnp.ones((4, 2))}
    optimizer = mo.decay_only(optax.adamw, where=mt.ndim(min=2, stacked="layers"))(1.0, weight_decay=0.5)
    after, _ = step(optimizer, jax.tree.map(jnp.zeros_like, params), params)
    assert (after["layers"]["scale"][0, 0], after["layers"]["w"][0, 0, 0], after["head"][0, 0]) == (1.0, 0.5, 0.5)


def test_non_boolean_entries_are_errors():
    for mask in ({"w": True, "b": "False"}, {"w": True, "b": 0}):
        for wrap in (mo.masked, mo.train_only, mo.freeze):
            with pytest.raises(mt.MaskError, match=r"The mask at 'b' is .* not a boolean"):
                wrap(optax.sgd(0.1), mask)


def test_three_groups_disjoint_and_complete():
    """equinox 824, optax 129"""
    params = {"conv": {"w": jnp.ones(2)}, "linear": {"w": jnp.ones(2)}, "norm": {"scale": jnp.ones(2)}}
    groups = {"linear": optax.sgd(0.1), "conv": optax.sgd(0.2), "rest": optax.sgd(0.4)}
    after, _ = step(mo.partition(groups, where={"linear": "linear", "conv": "conv", "rest": ...}), params, params)
    np.testing.assert_allclose([leaf[0] for leaf in jax.tree.leaves(after)], [0.8, 0.9, 0.6], rtol=1e-6)
    with pytest.raises(mt.MaskError, match="Leaves without a label: 'norm/scale'"):
        mo.partition(groups, where={"linear": "linear", "conv": "conv", "rest": []}).init(params)
    with pytest.raises(mt.MaskError, match=r"Leaves with more than one label: 'conv/w \(conv, rest\)'"):
        mo.partition(groups, where={"linear": "linear", "conv": "conv", "rest": ["conv", "norm"]}).init(params)


DECAYING = [
    getattr(module, name)
    for module in (optax, optax.contrib)
    for name in dir(module)
    if name != "add_decayed_weights"
    and inspect.isfunction(getattr(module, name))
    and {"mask", "weight_decay_mask"} & set(inspect.signature(getattr(module, name)).parameters)
    and any("weight_decay" in parameter for parameter in inspect.signature(getattr(module, name)).parameters)
]


@pytest.mark.parametrize("factory", DECAYING, ids=lambda factory: factory.__name__)
def test_one_keyword_for_the_decay_mask_of_every_optimiser(factory):
    """optax 186 and 1538. Against the optimiser's own argument, given the same mask."""
    parameters = inspect.signature(factory).parameters
    own = "mask" if "mask" in parameters else "weight_decay_mask"
    decay = "weight_decay_rate" if "weight_decay_rate" in parameters else "weight_decay"
    rate = {} if "learning_rate" not in parameters or factory is optax.contrib.cocob else {"learning_rate": 0.1}
    mask = {"w": True, "b": False}
    ours = mo.decay_only(factory, where="w")(**rate, **{decay: 0.5})
    theirs = factory(**rate, **{decay: 0.5, own: mask})
    assert own not in inspect.signature(mo.decay_only(factory, where="w")).parameters
    extra = {"value": 1.0, "loss": 1.0, "obj_fn": lambda p: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(p))}
    results = []
    for optimizer in map(optax.with_extra_args_support, (ours, theirs)):
        updates, _ = optimizer.update(ZEROS, optimizer.init(PARAMS), PARAMS, **extra)
        results.append(updates)
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_masks_for_dataclasses():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Net:
        w: jax.Array
        b: jax.Array

    net = Net(jnp.ones((2, 2)), jnp.ones(2))
    after, _ = step(mo.train_only(optax.sgd(1.0), {"w": True, "b": False}), net, net)
    assert (after.w[0, 0], after.b[0]) == (0.0, 1.0)
