"""Two programs from a public discussion of `optax.masked` and callable pytrees (google-deepmind/optax issue 913)."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import maskax.optim as mo


class BeliefState(NamedTuple):
    count: jax.Array
    mu: optax.Params
    nu: optax.Params


def adabelief_of_2024(learning_rate):
    """AdaBelief as optax had it when the numbers below were printed: the error is taken from the old mean."""

    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return BeliefState(jnp.zeros([], jnp.int32), zeros, zeros)

    def update(grads, state, params=None):
        count = state.count + 1
        mu = jax.tree.map(lambda g, m: 0.1 * g + 0.9 * m, grads, state.mu)
        nu = jax.tree.map(lambda g, m, n: 0.001 * (g - m) ** 2 + 0.999 * n, grads, state.mu, state.nu)

        def step(m, n):
            m, n = m / (1 - 0.9**count), n / (1 - 0.999**count)
            return -learning_rate * m / (jnp.sqrt(n + 1e-16) + 1e-16)

        return jax.tree.map(step, mu, nu), BeliefState(count, mu, nu)

    return optax.GradientTransformation(init, update)


def program(make_optimizer):
    """The program of the discussion: the losses of two steps, and which biases had their raw gradient for update."""
    key, subkey = jax.random.split(jax.random.PRNGKey(0))
    xs, ys = jnp.ones((100,)), jax.random.normal(key, (1,))
    model = eqx.nn.MLP(100, 1, 10, 1, key=subkey)
    optim = make_optimizer(model)

    @eqx.filter_value_and_grad
    def grad_loss(model, input, output):
        return jnp.mean(jnp.square(model(input) - output))

    @eqx.filter_jit
    def make_step(input, output, model, opt_state):
        loss, grads = grad_loss(model, input, output)
        updates, opt_state = optim.update(grads, opt_state)
        raw = [(grads.layers[i].bias == updates.layers[i].bias).all() for i in (0, 1)]
        return loss, raw, eqx.apply_updates(model, updates), opt_state

    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    losses, raws = [], []
    for _ in range(2):
        loss, raw, model, opt_state = make_step(xs, ys, model, opt_state)
        losses.append(float(loss))
        raws.append([bool(one) for one in raw])
    assert raws[0] == raws[1]
    return losses, raws[0]


FORMS = {
    "tree": lambda inner, spec, model: mo.masked(inner, spec(model)),
    "function": lambda inner, spec, model: mo.masked(inner, spec),
    "mask=": lambda inner, spec, model: mo.masked(inner, mask=spec(model)),
    "mask_value": lambda inner, spec, model: mo.masked(inner, mask_value=spec(model)),
    "mask_fn": lambda inner, spec, model: mo.masked(inner, mask_fn=spec),
}


def spec_of(biases):
    """The mask function of the discussion: True but for the biases, which are as given."""

    def spec(model):
        every = jax.tree.map(lambda _: True, model)
        return eqx.tree_at(lambda tree: (tree.layers[0].bias, tree.layers[1].bias), every, replace=biases)

    return spec


@functools.cache
def by_optax(biases):
    """What the installed optax gives for a mask that it cannot misread."""
    return program(lambda model: optax.masked(optax.adabelief(1e-2), lambda tree: spec_of(biases)(tree)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "biases, second_loss",
    [
        ((False, False), 0.309080570936203),
        ((True, False), 0.33416470885276794),
        ((False, True), 0.47130754590034485),
    ],
)
def test_the_programs_print_the_same_losses(form, biases, second_loss):
    spec = spec_of(biases)
    # The random numbers of the time.
    with jax.threefry_partitionable(False):
        losses, raw = program(lambda model: FORMS[form](adabelief_of_2024(1e-2), spec, model))
        assert losses[0] == pytest.approx(0.0036341827362775803, rel=1e-6)
        assert losses[1] == pytest.approx(second_loss, rel=2e-6)
        assert raw == [not biases[0], not biases[1]]
        ours = program(lambda model: FORMS[form](optax.adabelief(1e-2), spec, model))
        assert ours == by_optax(biases)
        assert ours[0][0] == losses[0]


def test_flipping_the_biases_by_pattern_is_the_same_program():
    def spec(model):
        every = jax.tree.map(lambda _: True, model)
        return eqx.tree_at(lambda tree: tree.layers[0].bias, every, replace=False)

    by_tree = program(lambda model: mo.masked(optax.adabelief(1e-2), spec(model)))
    by_path = program(lambda model: mo.masked(optax.adabelief(1e-2), where=["layers/*/weight", "layers/1/bias"]))
    np.testing.assert_array_equal(by_tree[0], by_path[0])
    assert by_tree[1] == by_path[1] == [True, False]
