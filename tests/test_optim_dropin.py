"""In the place of `optax.masked`: state types, tree utilities, wrappers, checkpoints, compilation."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import maskax.optim as mo
from maskax.tree import MaskError, validate

PARAMS = {"a": {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}, "c": (jnp.ones(2), jnp.zeros(1))}
GRADS = jax.tree.map(lambda leaf: leaf + 0.5, PARAMS)
MASK = {"a": {"w": True, "b": False}, "c": (False, True)}
PREFIX = {"a": True, "c": False}


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def pair(inner, mask):
    return mo.masked(inner, mask), optax.masked(inner, mask)


@pytest.mark.parametrize("mask", [MASK, PREFIX], ids=["full", "prefix"])
def test_same_state_and_same_program_as_optax(mask):
    """The compiled program is optax's own, so it takes the same time, has no callback and traces once."""
    ours, theirs = pair(optax.adamw(1e-2), mask)
    state = ours.init(PARAMS)
    same(state, theirs.init(PARAMS))
    assert isinstance(state, optax.MaskedState)
    programs = [str(jax.make_jaxpr(one.update)(GRADS, state, PARAMS)) for one in (ours, theirs)]
    assert programs[0] == programs[1] and "callback" not in programs[0]


def test_one_trace_serves_all_steps():
    traces = []

    def mask_fn(tree):
        traces.append(None)
        return MASK

    optimizer = mo.train_only(optax.adam(1e-2), mask_fn=mask_fn)
    state, update = optimizer.init(PARAMS), jax.jit(optimizer.update)
    for _ in range(4):
        _, state = update(GRADS, state, PARAMS)
    assert len(traces) == 2  # in init, and in the one trace of update


@pytest.mark.parametrize("container", [list, tuple, dict])
def test_empty_trees(container):
    optimizer = mo.masked(optax.sgd(1.0), container())
    assert optimizer.update(container(), optimizer.init(container()))[0] == container()


def test_tree_map_params_and_tree_get():
    for mask in (MASK, PREFIX):
        ours, theirs = pair(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)), mask)
        state = ours.init(PARAMS)
        shifted = [optax.tree_map_params(one, lambda leaf: leaf + 1.0, state) for one in (ours, theirs)]
        same(*shifted)
        assert optax.tree_utils.tree_get(state, "count") == 0
        counted = optax.tree_utils.tree_set(state, count=jnp.array(7, jnp.int32))
        assert optax.tree_utils.tree_get(counted, "count") == 7
        # Other trees alongside, without naming the holes: https://github.com/metaopt/torchopt/issues/232
        added = mo.tree_map_params(ours, lambda leaf, param, tag: leaf + param + tag, state, PARAMS, _tags())
        np.testing.assert_array_equal(optax.tree_utils.tree_get(added, "mu")["a"]["w"], jnp.full((2, 3), 3.0))
        assert jax.tree.structure(added) == jax.tree.structure(state)


def _tags():
    return jax.tree.map(lambda _: 2.0, PARAMS)


def test_extra_args_are_passed_and_masked_on_request():
    def update(updates, state, params=None, *, tags, **extra):
        return jax.tree.map(lambda update, tag: update * tag, updates, tags), state

    scale = optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
    ours = mo.masked(scale, MASK, mask_compatible_extra_args=True)
    theirs = optax.masked(scale, MASK, mask_compatible_extra_args=True)
    same(*(one.update(GRADS, one.init(PARAMS), PARAMS, tags=_tags())[0] for one in (ours, theirs)))
    labels = {"a": {"w": "x", "b": "y"}, "c": "x"}
    groups = {"x": scale, "y": optax.sgd(1.0)}
    ours = mo.partition(groups, labels, mask_compatible_extra_args=True)
    theirs = optax.partition(groups, labels, mask_compatible_extra_args=True)
    same(*(one.update(GRADS, one.init(PARAMS), PARAMS, tags=_tags()) for one in (ours, theirs)))
    polyak = mo.train_only(optax.polyak_sgd(), MASK)
    polyak.update(GRADS, polyak.init(PARAMS), PARAMS, value=jnp.array(1.0))


@pytest.mark.parametrize(
    "outer, inner", [(MASK, PREFIX), (PREFIX, MASK), ({"a": {"w": False, "b": True}, "c": True}, PREFIX)]
)
def test_nested_masks_intersect(outer, inner):
    """https://github.com/google-deepmind/optax/issues/271"""
    nested = mo.masked(mo.masked(optax.scale(-2.0), inner), outer)
    updates, _ = jax.jit(nested.update)(GRADS, nested.init(PARAMS), PARAMS)
    flat = [jax.tree.leaves(validate(one, PARAMS)) for one in (outer, inner)]
    for update, grad, *both in zip(jax.tree.leaves(updates), jax.tree.leaves(GRADS), *flat):
        np.testing.assert_array_equal(update, -2.0 * grad if all(both) else grad)


def test_a_pattern_inside_a_mask_may_find_all_its_leaves_taken_out():
    decay = mo.masked(optax.add_decayed_weights(0.1), where="a/w")
    optimizer = mo.partition(
        {"x": decay, "y": optax.chain(decay, optax.sgd(1.0))}, {"a": {"w": "x", "b": "y"}, "c": "y"}
    )
    optimizer.update(GRADS, optimizer.init(PARAMS), PARAMS)


def test_partition_has_the_state_of_optax():
    groups = {"x": optax.adam(0.1), "y": optax.sgd(0.1, momentum=0.9), "unused": optax.adam(1.0)}
    for labels in ({"a": "x", "c": "y"}, {"a": {"w": "x", "b": "y"}, "c": ("y", "x")}):
        ours, theirs = mo.partition(groups, labels), optax.partition(groups, labels)
        same(ours.init(PARAMS), theirs.init(PARAMS))
        same(ours.update(GRADS, ours.init(PARAMS), PARAMS), theirs.update(GRADS, theirs.init(PARAMS), PARAMS))
        mapped = [optax.tree_map_params(one, lambda leaf: leaf + 1.0, ours.init(PARAMS)) for one in (ours, theirs)]
        same(*mapped)


@pytest.mark.parametrize("make", [mo.masked, mo.train_only])
def test_inside_and_around_other_wrappers(make):
    """Against the same wrapper around a mask that optax applies leaf by leaf."""
    zero = (
        optax.masked(optax.set_to_zero(), jax.tree.map(lambda kept: not kept, MASK)) if make is mo.train_only else None
    )

    def theirs(inner):
        one = optax.masked(inner, MASK)
        return one if zero is None else optax.chain(one, zero)

    wrappers = [
        lambda wrap: optax.MultiSteps(wrap(optax.adam(0.1)), 2).gradient_transformation(),
        lambda wrap: wrap(optax.MultiSteps(optax.adam(0.1), 2).gradient_transformation()),
        lambda wrap: optax.apply_if_finite(wrap(optax.adam(0.1)), 3),
        lambda wrap: optax.chain(optax.scale(2.0), wrap(optax.adam(0.1))),
        lambda wrap: optax.named_chain(("x", wrap(optax.adam(0.1)))),
        lambda wrap: optax.inject_hyperparams(lambda rate: wrap(optax.adam(rate)))(
            rate=optax.linear_schedule(1.0, 0.1, 5)
        ),
        lambda wrap: wrap(optax.inject_hyperparams(optax.adam)(learning_rate=lambda count: 0.1 / (count + 1))),
    ]
    for wrapper in wrappers:
        results = []
        for wrap in (lambda inner: make(inner, MASK), theirs):
            optimizer, params = wrapper(wrap), PARAMS
            state, update = optimizer.init(params), jax.jit(optimizer.update)
            for _ in range(3):
                updates, state = update(GRADS, state, params)
                params = optax.apply_updates(params, updates)
            results.append(params)
        same(*results)


def test_checkpoint_round_trip(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import orbax.checkpoint as ocp

        optimizer = mo.train_only(optax.adam(0.1), PREFIX)
        _, state = optimizer.update(GRADS, optimizer.init(PARAMS), PARAMS)
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "state", state)
            checkpointer.wait_until_finished()
            # A checkpoint of ours restores into a state of optax's, and the reverse.
            target = optax.masked(optax.adam(0.1), PREFIX).init(PARAMS)
            same(checkpointer.restore(tmp_path / "state", target), state)


def test_carry_over_between_runs_that_train_different_leaves():
    """https://github.com/google-deepmind/optax/issues/290: freeze, save, unfreeze, load."""
    frozen, whole = mo.train_only(optax.adam(0.1), MASK), optax.adam(0.1)
    _, saved = frozen.update(GRADS, frozen.init(PARAMS), PARAMS)
    state = mo.carry_over(saved, whole.init(PARAMS))
    assert jax.tree.structure(state) == jax.tree.structure(whole.init(PARAMS))
    np.testing.assert_array_equal(state[0].mu["a"]["w"], saved.inner_state[0].mu["a"]["w"])
    np.testing.assert_array_equal(state[0].mu["a"]["b"], jnp.zeros(3))
    assert state[0].count == 1
    whole.update(GRADS, state, PARAMS)
    # And back: what is frozen again loses its state.
    same(mo.carry_over(state, frozen.init(PARAMS)), saved)
    with pytest.raises(MaskError, match="Nothing of the saved state fits the new one"):
        mo.carry_over({"other": jnp.ones(1)}, whole.init(PARAMS))
    with pytest.raises(
        MaskError, match=r"The state at '0/mu/a' was saved as float32\[2\], the new one is float32\[3\]\."
    ):
        mo.carry_over(whole.init({"a": jnp.ones(2)}), whole.init({"a": jnp.ones(3)}))


def test_reset_of_one_group():
    """https://github.com/google-deepmind/optax/issues/1371"""
    groups = {"x": optax.adam(0.1), "y": optax.adam(0.1)}
    optimizer = optax.chain(optax.clip(1.0), mo.partition(groups, {"a": "x", "c": "y"}))
    _, state = optimizer.update(GRADS, optimizer.init(PARAMS), PARAMS)
    reset = mo.reset_group(optimizer, state, PARAMS, "x")
    same(reset[1].inner_states["x"], optimizer.init(PARAMS)[1].inner_states["x"])
    same(reset[1].inner_states["y"], state[1].inner_states["y"])
    optimizer.update(GRADS, reset, PARAMS)
    with pytest.raises(MaskError, match="No partition in the state has the label 'z'; the labels are 'x', 'y'"):
        mo.reset_group(optimizer, state, PARAMS, "z")
