"""Host callbacks: what the user's function is given, and how often it is called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import maskax as mx

ROWS = jnp.array([[1.0, 2.0, jnp.nan], [3.0, 4.0, 5.0], [jnp.nan] * 3])
SIZES = {"n": jnp.array([2, 3, 0])}


def batched(fun):
    jax.block_until_ready(jax.jit(jax.vmap(lambda x, sizes: mx.mask(fun, ["n"])([x], sizes)))(ROWS, SIZES))
    jax.effects_barrier()


def one_call_per_batch(seen, method):
    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) * np.asarray(y)[..., None]

    return lambda x: jax.pure_callback(host, x, x, jnp.float32(2), vmap_method=method)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_arrays_are_cut_to_their_true_size(method):
    seen = []
    batched(one_call_per_batch(seen, method))
    lead = () if method == "sequential" else (1,)
    assert sorted(seen) == [((*lead, n), lead) for n in (0, 2, 3)]


def test_rows_of_one_size_are_one_call():
    seen = []
    fun = mx.mask(one_call_per_batch(seen, "broadcast_all"), ["n"], "n")
    out = jax.vmap(lambda x: fun([x], {"n": 2}))(ROWS)
    assert seen == [((3, 2), (3,))]
    np.testing.assert_array_equal(out[1], [6, 8, 0])


def test_print_shows_true_elements(capfd):
    batched(lambda x: jax.debug.print("x = {x}, sum {}", x.sum(), x=x))
    lines = sorted(line for line in capfd.readouterr().out.splitlines() if line)
    assert lines == ["x = [1. 2.], sum 3.0", "x = [3. 4. 5.], sum 12.0", "x = [], sum 0.0"]


def test_steps_past_the_end_call_nothing():
    printed, written = [], []

    def step(total, v):
        jax.debug.callback(lambda v: printed.append(float(v)), v)
        return total + v, io_callback(lambda v: written.append(float(v)) or np.float32(v), v, v)

    batched(lambda x: jax.lax.scan(step, 0.0, x))
    assert sorted(printed) == sorted(written) == [1, 2, 3, 4, 5]


def test_a_result_of_another_shape_is_refused():
    fun = mx.mask(lambda x: jax.pure_callback(lambda x: np.asarray(x)[:1], x, x), ["n"])
    with pytest.raises(Exception, match=r"returned an array of shape \(1,\), but it is declared as \(3,\)"):
        jax.block_until_ready(fun([ROWS[1]], {"n": 3}))
