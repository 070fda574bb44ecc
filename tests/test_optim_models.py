"""Six kinds of model trees: masks chosen by path, and optax's documented behaviour reproduced on each of them."""

import dataclasses
import functools
import itertools
import warnings
from typing import NamedTuple

import equinox as eqx
import flax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from flax import linen, nnx

import maskax.optim as mo
from maskax import tree as mt


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(jnp.tanh(linen.Dense(4)(x)))


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.second = nnx.Linear(4, 2, rngs=rngs)


class Affine(NamedTuple):
    weight: jax.Array
    bias: jax.Array


@functools.partial(jax.tree_util.register_dataclass, data_fields=["first", "second"], meta_fields=["name"])
@dataclasses.dataclass
class Net:
    first: Affine
    second: Affine
    name: str


def _plain():
    def layer(rows, columns):
        return {"w": jnp.linspace(-1.0, 1.0, rows * columns).reshape(rows, columns), "b": jnp.arange(columns) * 0.1}

    return {"first": layer(3, 4), "second": layer(4, 2)}


def _frozen_dict():
    variables = Dense().init(jax.random.key(0), jnp.ones((1, 3)))
    return flax.core.freeze(variables)


def _nnx_state():
    return nnx.state(NnxNet(nnx.Rngs(0)), nnx.Param)


def _equinox():
    return eqx.filter(eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0)), eqx.is_inexact_array)


def _haiku():
    return hk.transform(lambda x: hk.nets.MLP([4, 2])(x)).init(jax.random.key(0), jnp.ones((1, 3)))


def _dataclass():
    plain = _plain()
    return Net(*(Affine(layer["w"], layer["b"]) for layer in plain.values()), name="net")


# The tree, a pattern for its biases, one for its first layer.
MODELS = {
    "dict": (_plain, "**/b", "first"),
    "FrozenDict": (_frozen_dict, "**/bias", "params/Dense_1"),
    "nnx.State": (_nnx_state, "**/bias", "first"),
    "equinox": (_equinox, "layers/*/bias", "layers/0"),
    "haiku": (_haiku, "**/b", "mlp/~/linear_0"),
    "dataclass": (_dataclass, "*/bias", "first"),
}

OPTIMIZERS = {
    "adabelief": lambda: optax.adabelief(1e-2),
    "adadelta": lambda: optax.adadelta(0.1),
    "adafactor": lambda: optax.adafactor(5e-3),
    "adagrad": lambda: optax.adagrad(1.0),
    "adam": lambda: optax.adam(1e-1),
    "adamax": lambda: optax.adamax(1e-1),
    "adamaxw": lambda: optax.adamaxw(1e-1),
    "adamw": lambda: optax.adamw(1e-1, weight_decay=0.1),
    "adan": lambda: optax.adan(1e-1),
    "amsgrad": lambda: optax.amsgrad(1e-1),
    "fromage": lambda: optax.fromage(5e-3),
    "lamb": lambda: optax.lamb(1e-3, weight_decay=0.1),
    "lars": lambda: optax.lars(1.0, weight_decay=0.1),
    "lion": lambda: optax.lion(1e-2, weight_decay=1e-4),
    "nadam": lambda: optax.nadam(1e-2),
    "nadamw": lambda: optax.nadamw(1e-2),
    "noisy_sgd": lambda: optax.noisy_sgd(1e-3, eta=1e-4, key=0),
    "novograd": lambda: optax.novograd(1e-3),
    "optimistic_adam_v2": lambda: optax.optimistic_adam_v2(2e-3),
    "optimistic_gradient_descent": lambda: optax.optimistic_gradient_descent(2e-3, alpha=0.7, beta=0.1),
    "polyak_sgd": lambda: optax.polyak_sgd(max_learning_rate=1.0),
    "radam": lambda: optax.radam(5e-3),
    "rmsprop": lambda: optax.rmsprop(5e-3, momentum=0.9),
    "rprop": lambda: optax.rprop(1e-1),
    "sgd": lambda: optax.sgd(1e-3, momentum=0.9),
    "sign_sgd": lambda: optax.sign_sgd(1e-1),
    "signum": lambda: optax.signum(1e-2),
    "sm3": lambda: optax.sm3(1.0),
    "yogi": lambda: optax.yogi(1e-1),
    "acprop": lambda: optax.contrib.acprop(1e-3),
    "ademamix": lambda: optax.contrib.ademamix(1e-3),
    "simplified_ademamix": lambda: optax.contrib.simplified_ademamix(1e-3),
    "adopt": lambda: optax.contrib.adopt(1e-2),
    "cocob": lambda: optax.contrib.cocob(weight_decay=1e-2),
    "dadapt_adamw": lambda: optax.contrib.dadapt_adamw(1e-1),
    "dog": lambda: optax.contrib.dog(1.0),
    "dowg": lambda: optax.contrib.dowg(1.0),
    "madgrad": lambda: optax.contrib.madgrad(1e-2),
    "momo": lambda: optax.contrib.momo(1e-1),
    "momo_adam": lambda: optax.contrib.momo_adam(1e-1),
    "prodigy": lambda: optax.contrib.prodigy(1e-1),
    "schedule_free_sgd": lambda: optax.contrib.schedule_free_sgd(1e-2),
    "schedule_free_adamw": lambda: optax.contrib.schedule_free_adamw(1e-2),
}
# Slow to compile, so on one kind of tree only.
SLOW = {
    "muon": lambda: optax.contrib.muon(1e-2, ns_steps=1),
    "galore": lambda: optax.contrib.galore(1e-2, rank=2),
    "sophia": lambda: optax.contrib.sophia(1e-2),
}


def same(one, other):
    """Both trees have the same structure, and every leaf the same bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(_same_leaf, one, other)


def _same_leaf(one, other):
    if jnp.issubdtype(jnp.asarray(one).dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    np.testing.assert_array_equal(one, other)


def _norm(params):
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def run(optimizer, params, steps=2):
    """The updates and the state after a few steps on fixed gradients."""
    extra = {"value": jnp.float32(1.0), "loss": jnp.float32(1.0), "obj_fn": _norm}
    state = optimizer.init(params)
    for _ in range(steps):
        grads = jax.tree.map(lambda leaf: jnp.cos(3.0 * leaf), params)
        updates, state = optimizer.update(grads, state, params, **extra)
        params = jax.tree.map(lambda leaf, update: leaf + update, params, updates)
    return updates, state


@pytest.mark.parametrize("kind", MODELS)
def test_patterns_select_the_same_leaves_in_every_kind_of_tree(kind):
    make, biases, first = MODELS[kind]
    params = make()
    matrices = jax.tree.map(lambda leaf: leaf.ndim == 2, params)
    same(mt.invert(mt.select(params, biases)), matrices)
    same(mt.select(params, mt.ndim(2)), matrices)
    assert mt.count(params, first) == 3 * 4 + 4
    assert mt.count(params) == 3 * 4 + 4 + 4 * 2 + 2
    same(mt.combine(*mt.partition(params, biases)), params)
    assert [row.trained for row in mt.explain(params, first).rows].count(0) == 2


@pytest.mark.parametrize("kind", MODELS)
def test_a_mask_made_of_plain_dicts_fits_every_kind_of_tree(kind):
    """https://github.com/google-deepmind/optax/issues/160"""
    params = MODELS[kind][0]()
    mask: dict = {}
    for row in mt.explain(params, True).rows:
        *nodes, last = row.path.split("/") if kind != "haiku" else row.path.rsplit("/", 1)
        level = mask
        for node in nodes:
            level = level.setdefault(node, {})
        level[last] = last in ("w", "weight", "kernel")
    same(mt.validate(mask, params), jax.tree.map(lambda leaf: leaf.ndim == 2, params))
    expected = optax.masked(optax.adam(0.1), lambda tree: jax.tree.map(lambda leaf: leaf.ndim == 2, tree))
    same(run(mo.masked(optax.adam(0.1), mask), params), run(expected, params))


@pytest.mark.parametrize("name, kind", [*itertools.product(OPTIMIZERS, MODELS), *((name, "dict") for name in SLOW)])
def test_optax_reproduced(name, kind):
    """`masked`, `freeze`, `selective_transform` and `partition`, bit for bit, states too."""
    make, biases, _ = MODELS[kind]
    params, inner = make(), (OPTIMIZERS | SLOW)[name]()
    steps = 1 if name in SLOW else 2

    def mask_fn(tree):
        return jax.tree.map(lambda leaf: leaf.ndim == 2, tree)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # some optimisers use what a newer JAX deprecates
        theirs = run(optax.masked(inner, mask_fn), params, steps)
        same(run(mo.masked(inner, mask_fn), params, steps), theirs)
        if name in SLOW:
            return

        frozen = run(optax.partition({"train": inner, "freeze": optax.set_to_zero()}, _labels), params, steps)
        same(run(mo.partition({"train": inner, "freeze": optax.set_to_zero()}, _labels), params, steps), frozen)
        # selective_transform is that partition; ours keeps the state of a mask.
        updates, state = run(mo.freeze(inner, where=biases), params, steps)
        same(updates, frozen[0])
        same(state, frozen[1].inner_states["train"])


@pytest.mark.parametrize("kind", MODELS)
def test_ways_to_say_the_same(kind):
    make, biases, _ = MODELS[kind]
    params, inner = make(), optax.adamw(0.1)
    expected = run(mo.freeze(inner, where=biases), params)
    mask = jax.tree.map(lambda leaf: leaf.ndim == 2, params)
    for optimizer in (
        mo.train_only(inner, mask),
        mo.train_only(inner, mask_value=mask),
        mo.train_only(inner, mask_fn=lambda tree: mask),
        mo.train_only(inner, where=mt.ndim(2)),
        mo.train_only(inner, where=mask),
        mo.freeze(inner, mt.invert(mask)),
    ):
        same(run(optimizer, params), expected)
    # Behind the optimiser only the updates can be frozen, as with optax.freeze.
    updates, _ = run(optax.chain(inner, mo.freeze(optax.identity(), where=biases)), params)
    same(updates, run(optax.chain(inner, optax.freeze(lambda tree: mt.select(tree, biases))), params)[0])


def _labels(tree):
    return jax.tree.map(lambda leaf: "train" if leaf.ndim == 2 else "freeze", tree)
