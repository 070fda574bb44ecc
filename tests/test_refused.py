"""What has no masked form is an error that gives a reason and an alternative."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import pytest
from jax import lax
from jax.custom_derivatives import linear_call

import maskax as mx

WORDS = jnp.arange(4, dtype=jnp.uint32)
ALONG = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]),
}
REFUSED = {
    "the default generator": lambda x: lax.rng_bit_generator(WORDS, x.shape)[1],
    "draws what the unpadded call draws": lambda x: lax.rng_uniform(0.0, 1.0, x.shape),
    "carry it through a scan": lambda x: jax.new_ref(x)[...],
    "Factor the updated matrix": lambda x: lax.linalg.cholesky_update(jnp.diag(x), x),
    "with jax.custom_vjp": lambda x: linear_call(lambda _, x: 2 * x, lambda _, ct: 2 * ct, (), x),
}
MATRICES = {
    "full_matrices=False": lambda a: jnp.linalg.svd(a),
    "mode='reduced'": lambda a: jnp.linalg.qr(a, mode="complete"),
    "use jnp.linalg.qr": lambda a: lax.linalg.lu(a),
    "Use jnp.linalg.svd": lambda a: jsl.qr(a, mode="economic", pivoting=True),
}


@pytest.mark.parametrize("name", ALONG)
def test_collectives_of_ragged_arrays(name):
    rows, sizes = jnp.ones((2, 3)), jnp.array([1, 2])
    masked = mx.mask(ALONG[name], ["n"])
    with pytest.raises(mx.UnmaskableError, match="Reduce to a static shape first"):
        jax.vmap(lambda x, n: masked([x], {"n": n})[0], axis_name="i")(rows, sizes)


def test_collectives_of_static_arrays():
    def share(x):
        most, index, firsts = lax.pmax(x.shape[0], "i"), lax.axis_index("i"), lax.all_gather(x[0], "i")
        return x.sum() / lax.psum(x.sum(), "i"), most, index, firsts

    rows, sizes = jnp.array([[1.0, jnp.nan], [1.0, 2.0]]), jnp.array([1, 2])
    masked = mx.mask(share, ["n"], ("", "", "", "_"))
    shares, most, index, firsts = jax.vmap(lambda x, n: masked([x], {"n": n}), axis_name="i")(rows, sizes)
    assert shares.tolist() == [0.25, 0.75]
    assert most.tolist() == [2, 2]
    assert index.tolist() == [0, 1]
    assert firsts.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("instead", REFUSED)
def test_arrays(instead):
    with pytest.raises(mx.UnmaskableError, match=instead):
        mx.mask(REFUSED[instead], ["n"])([jnp.ones(3)], {"n": 2})


@pytest.mark.parametrize("instead", MATRICES)
def test_matrices(instead):
    with pytest.raises(mx.UnmaskableError, match=instead):
        mx.mask(MATRICES[instead], ["n, m"])([jnp.ones((3, 4))], {"n": 2, "m": 3})
