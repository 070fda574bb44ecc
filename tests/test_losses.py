"""`value_and_grad`: the mean loss of rows and its gradient equal those of the rows alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from test_plan import FUNCTIONS, LENGTHS, PLAN, ROWS, W, poisoned

import maskax as mx

close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)
TARGETS = jnp.arange(8.0)
PLANS = {"plan": PLAN, "none": None}


@pytest.fixture(params=FUNCTIONS)
def loss(request):
    fun = FUNCTIONS[request.param]
    return lambda w, x, y: (fun(w, x) - y) ** 2


@pytest.mark.parametrize("plan", PLANS)
def test_the_mean_of_rows(loss, plan):
    weights = jnp.array([1, 2, 0, 1, 0.5, 1, 1, 3])
    graded = mx.value_and_grad(
        lambda w, x, y: (loss(w, x, y), {"doubled": x * 2, "loss": loss(w, x, y)}),
        (0, 1),
        in_axes=(None, 0, 0),
        weights=weights,
        has_aux=True,
        plan=PLANS[plan],
    )
    (value, aux), (by_w, by_x) = jax.jit(graded)(W, poisoned(), TARGETS)

    def plain(w, rows):
        losses = jnp.stack([loss(w, x, y) for x, y in zip(rows, TARGETS)])
        return (losses * weights).sum() / weights.sum(), losses

    (want, losses), (want_w, want_x) = jax.jit(jax.value_and_grad(plain, (0, 1), has_aux=True))(W, ROWS)
    close(value, want)
    close(by_w, want_w, rtol=1e-3)
    close(aux["loss"], losses * (weights > 0))
    found = zip(jax.device_get(by_x), jax.device_get(aux["doubled"]), want_x, ROWS, weights)
    for got, doubled, want, row, weight in found:
        close(got, want, rtol=1e-3)
        close(doubled, 2 * row * (weight > 0))
    assert not np.any(np.where(by_x.mask[..., None], 0, by_x.data))


@pytest.mark.parametrize("per", ["row", "token"])
def test_losses_of_tokens(per):
    token = lambda w, x: jnp.sum((x @ w) ** 2, axis=1)  # (n,)
    value, gradient = jax.jit(mx.value_and_grad(token, in_axes=(None, 0), per=per, plan=PLAN))(W, poisoned())

    def plain(w):
        losses = [token(w, row) for row in ROWS if len(row)]
        return jnp.concatenate(losses).mean() if per == "token" else jnp.stack([x.mean() for x in losses]).mean()

    want, want_w = jax.jit(jax.value_and_grad(plain))(W)
    close(value, want)
    close(gradient, want_w)


def test_second_derivatives(loss):
    def steep(w):
        return mx.value_and_grad(loss, in_axes=(None, 0, 0), plan=PLAN)(w, poisoned(), TARGETS)[1]

    plain = lambda w: jnp.stack([loss(w, x, y) for x, y in zip(ROWS, TARGETS)]).mean()
    close(jax.jit(jax.jacfwd(steep))(W), jax.jit(jax.hessian(plain))(W), rtol=2e-3, atol=2e-3)


def test_shards_add_up(loss):
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = PartitionSpec("rows"), PartitionSpec()
    weights = (LENGTHS > 0).astype(np.float32)  # shards of unequal weight

    def part(w, xs, ys, weights):
        return mx.value_and_grad(loss, in_axes=(None, 0, 0), weights=weights, axis_name="rows", plan=PLAN)(w, xs, ys)

    parts = jax.shard_map(part, mesh=mesh, in_specs=(whole, rows, rows, rows), out_specs=(whole, whole))
    value, gradient = jax.jit(parts)(W, poisoned(), TARGETS, weights)
    want, want_w = mx.value_and_grad(loss, in_axes=(None, 0, 0), weights=weights)(W, poisoned(), TARGETS)
    close(value, want)
    close(gradient, want_w, rtol=1e-3)


def test_rows_of_weight_zero_may_be_anything():
    logs = lambda w, x: jnp.log(w * x.sum())
    xs = mx.ragged([np.float32([2, 3]), np.float32([-1]), np.float32([])])
    value, gradient = mx.value_and_grad(logs, in_axes=(None, 0), weights=[1, 0, 0])(jnp.float32(2), xs)
    close((value, gradient), (np.log(10), 0.5))
    value, gradient = mx.value_and_grad(logs, in_axes=(None, 0), weights=[0, 0, 0])(jnp.float32(2), xs)
    assert np.isnan(value) and gradient == 0


def test_arrays_and_arguments_of_every_kind():
    """No `Ragged` at all, numbers, trees, functions, keywords, an axis behind, one array twice, several argnums."""
    xs = jnp.arange(6.0).reshape(2, 3)

    def loss(f, p, q, x, *, scale):
        return f(p["a"] * x).sum() * q * scale

    w = jnp.float32(0.5)
    graded = mx.value_and_grad(loss, (1, 2, 3), in_axes=(None, None, None, 1))
    value, (by_p, by_q, by_x) = graded(jnp.sin, {"a": w}, w, xs, scale=jnp.ones(3))
    plain = lambda p, q, x: (jnp.sin(p * x).sum() * q) / 3
    want, wanted = jax.value_and_grad(plain, (0, 1, 2))(w, w, xs)
    close(value, want)
    close([by_p["a"], by_q], wanted[:2])
    close(by_x, wanted[2])


def test_mistakes():
    xs = mx.ragged([np.float32([2, 3]), np.float32([-1])])
    call = lambda loss, *args, **options: mx.value_and_grad(loss, **options)(*args)
    with pytest.raises(mx.SpecError, match="per: one of 'row', 'token' is needed, not 'batch'"):
        mx.value_and_grad(jnp.sum, per="batch")
    with pytest.raises(mx.SpecError, match=r"argnums: there is no argument 2; fun was called with 1\."):
        call(jnp.sum, xs, argnums=2)
    with pytest.raises(mx.SpecError, match=r"argnums: args\[0\] is int32; a gradient is taken by real numbers\."):
        call(jnp.sum, mx.ragged([[1, 2]]))
    with pytest.raises(mx.SpecError, match=r"weights: one entry per row is needed, shape \(2,\), not \(3,\)\."):
        call(jnp.sum, xs, weights=[1, 2, 3])
    with pytest.raises(mx.SpecError, match="has_aux: fun must return a pair"):
        call(jnp.sum, xs, has_aux=True)
    with pytest.raises(mx.SpecError, match="fun must return one real number or array"):
        call(lambda x: (x, x), xs)
    with pytest.raises(mx.SpecError, match=r"argnums: args\[0\] is handed over whole"):
        call(lambda xs, y: y, xs, xs, in_axes=(None, 0))
