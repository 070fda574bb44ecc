"""Cases for functions with derivatives of their own, and for derivatives taken inside the masked function."""

import functools

import jax
import jax.numpy as jnp
from contract import Arg, Case
from jax import lax


@jax.custom_jvp
def _relu(x):
    return jnp.maximum(x, 0)


_relu.defjvps(lambda t, out, x: jnp.where(x > 0, t, 0))


@jax.custom_jvp
def _log_sum_exp(x):
    top = lax.stop_gradient(x.max())
    return top + jnp.log(jnp.sum(jnp.exp(x - top)))


@_log_sum_exp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    out = _log_sum_exp(x)
    return out, jnp.sum(jnp.exp(x - out) * t)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _apply(function, power, x):
    return function(x) ** power


@_apply.defjvp
def _(function, power, primals, tangents):
    """Three times the true derivative: a rule that was inlined away would show."""
    (x,), (t,) = primals, tangents
    return function(x) ** power, 3 * t * x.sum()


@jax.custom_jvp
def _product(x, y, z):
    return x * y.sum() * z, jnp.sin(y)


def _product_jvp(primals, tangents):
    (x, y, z), (dx, dy, dz) = primals, tangents
    out = _product(x, y, z)
    zero = lambda t: type(t) is jax.custom_derivatives.SymbolicZero
    first = sum(
        (jnp.zeros_like(out[0]) if zero(t) else scale * t.sum() * p)
        for t, p, scale in [(dx, y.sum() * z, 1.0), (dy, x * z, 2.0), (dz, x * y.sum(), 3.0)]
    )
    return out, (first, dy if zero(dy) else jnp.cos(y) * dy)


_product.defjvp(_product_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _pick(i, x):
    return x[i] * x.sum()


@_pick.defjvp
def _(primals, tangents):
    (i, x), (_, t) = primals, tangents
    return _pick(i, x), t[i] * 2


_TABLE = jnp.array([0.5, 2.0])


def _closes_over(x):
    """Over an array, and over a run-time size; JAX allows no tracers in a rule."""
    n = x.shape[0]

    @jax.custom_jvp
    def inner(v):
        return v * _TABLE.sum() + jnp.ones(n)

    inner.defjvp(lambda p, t: (inner(*p), 5 * t[0] * _TABLE[1]))
    return inner(jnp.sin(x))


@jax.custom_vjp
def _normalize(x, w):
    return (x @ w) / jnp.sqrt(jnp.sum(x * x) + 1)


def _normalize_fwd(x, w):
    out = _normalize(x, w)
    return out, (x, jnp.exp(-x), w, out)


def _normalize_bwd(residuals, ct):
    """Not the true derivative, on purpose."""
    x, decay, w, out = residuals
    return 2 * decay * (ct @ w.T), x.T @ (ct * out)


_normalize.defvjp(_normalize_fwd, _normalize_bwd)


@jax.custom_vjp
def _log_ratio(x, y):
    return jnp.log(x) - jnp.log(y)


_log_ratio.defvjp(lambda x, y: (_log_ratio(x, y), (x, y)), lambda res, ct: (ct / res[0], None))


@jax.custom_vjp
def _gather_rows(x, index):
    return x[index]


_gather_rows.defvjp(
    lambda x, index: (x[index], (index, x)), lambda res, ct: (jnp.zeros_like(res[1]).at[res[0]].add(2 * ct), None)
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _clip_gradient(limit, x):
    return x


_clip_gradient.defvjp(lambda limit, x: (x, None), lambda limit, _, ct: (jnp.clip(ct, -limit, limit),))


@jax.custom_vjp
def _pair(x, y):
    return x * y, x.sum()


def _pair_fwd(x, y):
    return _pair(x.value, y.value), (x.value, y.value if x.perturbed else None)


def _pair_bwd(residuals, cts):
    x, y = residuals
    ct, total = cts
    zero = lambda t: type(t) is jax.custom_derivatives.SymbolicZero
    of_x = None if y is None else (0 if zero(ct) else ct * y) + (0 if zero(total) else 3 * total)
    return jnp.broadcast_to(of_x, x.shape) if of_x is not None else None, jnp.zeros_like(x) if zero(ct) else ct * x


_pair.defvjp(_pair_fwd, _pair_bwd, symbolic_zeros=True)


@jax.custom_vjp
def _tree(inputs):
    return {"a": inputs["x"] * 2, "b": inputs["y"].sum()}


_tree.defvjp(
    lambda inputs: (_tree(inputs), inputs["x"]),
    lambda x, ct: ({"x": ct["a"] * x, "y": jnp.broadcast_to(ct["b"], x.shape)},),
)


def _vjp_closes_over(x, w):
    """Over a run-time size."""

    @jax.custom_vjp
    def layer(v, w):
        return jnp.tanh(v @ w) * jnp.float32(x.shape[0])

    layer.defvjp(lambda v, w: (layer(v, w), (v, w)), lambda res, ct: (4 * ct @ res[1].T, res[0].T @ ct))
    return layer(x * 2, w)


@jax.custom_vjp
def _sorted_with_order(x):
    order = jnp.argsort(x)
    return x[order], order


_sorted_with_order.defvjp(
    lambda x: (_sorted_with_order(x), jnp.argsort(x)),
    lambda order, cts: (jnp.zeros_like(cts[0]).at[order].set(cts[0]),),
)


def _in_scan(x):
    """Both kinds inside the body of a ragged scan."""

    def step(c, v):
        return _relu(c + v), _clip_gradient(0.3, jnp.log(c + 1.5))

    return lax.scan(step, jnp.float32(0.1), x)


def _energy(x):
    return jnp.sum(jnp.log(jnp.cosh(x))) + 0.5 * jnp.sum(x[:, None] * x[None, :] / (1 + (x[:, None] - x[None, :]) ** 2))


def _forces(x):
    return -jax.grad(_energy)(x)


def _hessian(x):
    return jax.hessian(lambda v: jnp.sum(jnp.exp(0.3 * v)) * jnp.sum(v * v))(x)


def _jacobians(x):
    function = lambda v: jnp.sin(v) * v.sum()
    return jax.jacfwd(function)(x) - jax.jacrev(function)(x)[::-1]


def _jvp_inside(x, t):
    out, tangent = jax.jvp(lambda v: jax.nn.softmax(v) * jnp.log(v * v + 1), (x,), (t,))
    return out, tangent


def _vjp_inside(x, ct):
    out, pull = jax.vjp(lambda v: jnp.cumsum(jnp.sqrt(v * v + 0.5)), x)
    return out, pull(ct)[0]


def _linearize_inside(x, t):
    out, push = jax.linearize(lambda v: v / (1 + jnp.sum(v * v)), x)
    return out, push(t), jax.linear_transpose(push, x)(t)[0]


def _value_and_grad(x, w):
    """A gradient step inside, as in meta-learning."""
    loss = lambda w: jnp.sum((x @ w - 1) ** 2)
    value, gradient = jax.value_and_grad(loss)(w)
    return value, loss(w - 0.1 * gradient)


def _grad_of_custom(x):
    return jax.grad(lambda v: jnp.sum(_relu(v) ** 2) + _log_sum_exp(v))(x)


def _grad_through_scan(x):
    return jax.grad(lambda v: lax.scan(lambda c, a: (jnp.sin(c * a + a), None), jnp.float32(0.5), v)[0])(x)


def _hessian_vector(x, t):
    return jax.jvp(jax.grad(lambda v: jnp.sum(jnp.cos(v)) ** 3), (x,), (t,))[1]


FLOATS = ("float32", "float64")
INDEX = Arg("m", 0, 1, "int32")

CASES = [
    Case("custom_jvp, relu", lambda x: _relu(x - x.mean()), ["n"], (*FLOATS, "bfloat16")),
    Case("jax.nn.relu and friends", lambda x: jax.nn.relu(x) + jax.nn.silu(x) + jax.nn.relu6(x), ["n, 2"], FLOATS),
    Case("custom_jvp, logsumexp", _log_sum_exp, ["n"], FLOATS, zero=None),
    Case("custom_jvp, nondiff", lambda x: _apply(jnp.sin, 2, x), ["n"]),
    Case("custom_jvp, symbolic zeros", lambda x, y: _product(x, y, jnp.ones_like(x)), ["n", "m"], FLOATS),
    Case("custom_jvp, integers", lambda i, x: _pick(i, x), [Arg("", 0, 0, "int32"), "n"], zero=None),
    Case("custom_jvp, closes over", _closes_over, ["n"]),
    Case("custom_vjp, ragged residuals", _normalize, ["n, 3", "3, 2"], FLOATS, forward=False),
    Case("custom_vjp, residuals are inputs", _log_ratio, [Arg("n", 0.5, 2), Arg("n", 0.5, 2)], FLOATS, forward=False),
    Case("custom_vjp, integers", lambda x, i: _gather_rows(x, i), ["n, 2", INDEX], least=2, forward=False),
    Case("custom_vjp, nondiff", lambda x: jnp.sum(_clip_gradient(0.5, x) * x), ["n"], forward=False),
    Case("custom_vjp, symbolic zeros", lambda x: _pair(jnp.sin(x), jnp.ones_like(x)), ["n"], forward=False),
    Case("custom_vjp, one result used", lambda x, y: _pair(x, y)[0], ["n", "n"], forward=False),
    Case("custom_vjp, trees", lambda x, y: _tree({"x": x, "y": y}), ["n", "n"], forward=False),
    Case("custom_vjp, closes over", _vjp_closes_over, ["n, 3", "3, 2"], forward=False),
    Case("custom_vjp, integer result", _sorted_with_order, ["n"], forward=False),
    Case("custom derivatives in a scan", _in_scan, ["n"], forward=False),
    Case("grad inside: forces", _forces, ["n"], FLOATS),
    Case("hessian inside", _hessian, ["n"], FLOATS),
    Case("jacobians inside", _jacobians, ["n"]),
    Case("jvp inside", _jvp_inside, ["n", "n"]),
    Case("vjp inside", _vjp_inside, ["n", "n"]),
    Case("linearize inside", _linearize_inside, ["n", "n"]),
    Case("value_and_grad inside", _value_and_grad, ["n, 3", "3"], zero=None),
    Case("grad of custom_jvp inside", _grad_of_custom, ["n"], zero=None),
    Case("grad through a scan inside", _grad_through_scan, ["n"]),
    Case("hessian-vector product inside", _hessian_vector, ["n", "n"]),
]
