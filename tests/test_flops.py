"""What masking adds to the work, counted by XLA: at most a tenth of what masks written by hand add up to."""

import dataclasses
import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

_path = pathlib.Path(__file__).parent.parent / "benchmarks" / "overhead.py"
_spec = importlib.util.spec_from_file_location("overhead", _path)
overhead = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(overhead)

PROGRAMS = {p.name: dataclasses.replace(p, shape=(4, 64, p.shape[2])) for p in overhead.programs()}


@pytest.mark.parametrize("mode", ["forward", "with gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_within_a_tenth_of_hand_written_masks(name, mode):
    program = PROGRAMS[name]
    fs, args = overhead.variants(program)[mode], overhead.inputs(program)
    hand, masked = fs["hand"](*args), fs["maskax"](*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), hand, masked)
    assert overhead.flops(fs["maskax"], args) <= 1.1 * overhead.flops(fs["hand"], args)


@jax.custom_jvp
def _dense(w, x):
    return x @ w


_dense.defjvp(lambda primals, tangents: (_dense(*primals), tangents[1] @ primals[0]))

INSIDE = {
    "jit": jax.jit(lambda w, x: x @ w),
    "checkpoint": jax.checkpoint(lambda w, x: jnp.tanh(x @ w)),
    "cond": lambda w, x: jax.lax.cond(w.sum() > 0, lambda w, x: x @ w, lambda w, x: -x @ w, w, x),
    "scan": lambda w, x: jax.lax.scan(lambda c, _: (c @ w @ w.T, None), x, None, length=2)[0],
    "ragged scan": lambda w, x: jax.lax.scan(lambda c, v: (c + x @ w, v), x @ w, x)[0],
    "while": lambda w, x: jax.lax.while_loop(lambda c: jnp.sum(c) < 3, lambda c: c @ w @ w.T + 1, x),
    "custom_jvp": _dense,
}


@pytest.mark.parametrize("name", INSIDE)
def test_weights_get_no_copy_per_row(name):
    masked = mx.mask(INSIDE[name], [None, "n, _"])
    batched = jax.vmap(lambda w, x, n: masked([w, x], {"n": n})[0], (None, 0, 0))
    program = jax.make_jaxpr(batched)(jnp.ones((3, 4)), jnp.ones((8, 5, 3)), jnp.arange(8))
    assert "[8,3,4]" not in str(program)
