"""Programs of the kind that `jax.mask` was made for in 2021, those that it could not do included."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import maskax as mx

close = functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)


def data(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


def agrees(fun, specs, out_shape, args, sizes):
    """Masked, jitted, with nan in the padding, cut: `fun` on what is cut. Gradients too."""
    padded, plain = [], []
    for x, spec in zip(args, specs):
        shape = [eval(dim, {}, dict(sizes)) for dim in spec.split(",")]
        inside = np.ones(x.shape, bool)
        for axis, size in enumerate(shape):
            inside &= np.expand_dims(np.arange(x.shape[axis]) < size, [a for a in range(x.ndim) if a != axis])
        padded.append(jnp.where(inside, x, jnp.nan))
        plain.append(x[tuple(map(slice, shape))])
    masked = mx.mask(fun, specs, out_shape)

    def summed(function):
        return lambda args: sum((jnp.sum(o * o) for o in jax.tree.leaves(function(args))), jnp.float32(0))

    got = jax.jit(masked)(padded, sizes)
    grads = jax.jit(jax.grad(summed(lambda args: masked(args, sizes))))(padded)
    want, slopes = fun(*plain), jax.grad(summed(lambda args: fun(*args)))(plain)
    for g, w in zip([*jax.tree.leaves(got), *grads], [*jax.tree.leaves(want), *slopes], strict=True):
        close(g[tuple(map(slice, w.shape))], w)
        assert jnp.sum(jnp.abs(g)) == pytest.approx(float(jnp.sum(jnp.abs(w))), rel=1e-4)


def test_sums_of_every_size_under_vmap():
    rows = jnp.tile(jnp.arange(1.0, 6.0), (6, 1))
    got = jax.vmap(mx.mask(jnp.sum, in_shapes=["n"], out_shape=""))([rows], {"n": jnp.arange(6)})
    np.testing.assert_array_equal(got, [0, 1, 3, 6, 10, 15])


@pytest.mark.parametrize("m,n", [(1, 1), (2, 5), (4, 3)])
def test_arithmetic_with_broadcasting(m, n):
    fun = lambda x, y, a: (x * y - x / (1 + y * y), (x + a) ** 2, -x + jnp.float32(x.shape[0]))
    agrees(fun, ["m,n", "n", "m,1"], "m, n", [data(4, 5), data(5), data(4, 1)], {"m": m, "n": n})


def rnn(weights, xs, state):
    return lax.scan(lambda h, x: (jnp.tanh(weights[0] @ h + weights[1] @ x), h.sum()), state, xs)


def test_ragged_rnn_and_its_gradient_against_one_row_at_a_time():
    weights, rows, lengths = (data(3, 3), data(3, 2)), data(5, 6, 2), jnp.array([0, 6, 1, 4, 3])
    masked = mx.mask(rnn, [None, "t, _", "_"], ("_", "t"))

    def loss(weights, rows):
        (state, trace) = jax.vmap(masked, ([None, 0, None], 0))([weights, rows, jnp.ones(3)], {"t": lengths})
        return jnp.sum(state**2) + jnp.sum(trace * 0.5)

    def one_by_one(weights, rows):
        each = [rnn(weights, row[:size], jnp.ones(3)) for row, size in zip(rows, map(int, lengths))]
        return sum(jnp.sum(state**2) + jnp.sum(trace * 0.5) for state, trace in each)

    close(loss(weights, rows), one_by_one(weights, rows))
    jax.tree.map(close, jax.jit(jax.grad(loss, (0, 1)))(weights, rows), jax.grad(one_by_one, (0, 1))(weights, rows))


@pytest.mark.parametrize("n", [1, 3, 5])
def test_stack_and_concatenate(n):
    fun = lambda x, y: (jnp.stack([x, y * 2]), jnp.concatenate([x, y]), jnp.concatenate([y[:1], x, jnp.ones(2)]))
    agrees(fun, ["n", "n"], ("2, n", "2*n", "n + 3"), [data(5), data(5)], {"n": n})


@pytest.mark.parametrize("n", [3])
@pytest.mark.parametrize(
    "config", [(0, 0, 0), (1, 0, 0), (0, 2, 0), (1, 2, 0), (0, 0, 1), (2, 1, 2), (-1, 0, 0), (0, -1, 0), (-1, -1, 1)]
)
def test_pad(config, n):
    fun = lambda x: lax.pad(x, jnp.float32(3), [config, (0, 1, 0)])
    size = max(n + (n - 1) * config[2], 0) + config[0] + config[1]
    out, shape = jax.jit(mx.mask(fun, ["n, 2"], constraints="n >= 2"))([data(4, 2)], {"n": n})
    assert shape.shape[0] == size
    close(out[:size], fun(data(4, 2)[:n]))


LAYOUTS = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("HWNC", "HWIO", "NHWC")]


@pytest.mark.parametrize("layout", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("stride,dilation,padding", [(1, 1, "VALID"), (2, 1, "SAME"), (2, 2, "SAME")])
def test_convolution(layout, stride, dilation, padding):
    lengths = {"N": 1, "C": 2, "H": 7, "W": 8}
    x, spec = data(*[lengths[a] for a in layout[0]]), ["h" if a == "H" else "w" if a == "W" else "_" for a in layout[0]]
    kernel = data(*[{"H": 3, "W": 2, "I": 2, "O": 3}[a] for a in layout[1]])

    def fun(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), padding, rhs_dilation=(dilation, 1), dimension_numbers=layout
        )

    cut = tuple(slice({"H": 6, "W": 5}.get(a)) for a in layout[0])
    masked = mx.mask(fun, [", ".join(spec), None], constraints=["h >= 5", "w >= 2"])
    poisoned = jnp.full_like(x, jnp.nan).at[cut].set(x[cut])
    out, shape = jax.jit(masked)([poisoned, kernel], {"h": 6, "w": 5})
    want = fun(x[cut], kernel)
    assert tuple(map(int, shape.shape)) == want.shape
    close(out[tuple(map(slice, want.shape))], want)
    grad = jax.jit(jax.grad(lambda k: jnp.sum(masked([poisoned, k], {"h": 6, "w": 5})[0] ** 2)))(kernel)
    np.testing.assert_allclose(grad, jax.grad(lambda k: jnp.sum(fun(x[cut], k) ** 2))(kernel), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "fun,out_shape",
    [
        (lambda x: x[0], "2"),
        (lambda x: x[-1], "2"),
        (lambda x: x[1:], "n+-1, 2"),
        (lambda x: x[:-1], "(n - 1, 2)"),
        (lambda x: x[::2], "floordiv(n + 1, 2), 2"),
        (lambda x: x[::-1], "n, 2"),
        (lambda x: x[jnp.arange(x.shape[0])[::-1]], "n, 2"),
        (lambda x: x[x.shape[0] - 1 - jnp.arange(x.shape[0])], "n, 2"),
        (lambda x: jnp.split(x, [1]), ["1, 2", "n - 1, 2"]),
        (lambda x: jax.scipy.special.expit(x), "n, 2"),
        (lambda x: x.reshape(x.shape[0] * 2), "2*n"),
        (lambda x: x.reshape(-1), "2*n"),
        (lambda x: x.T.reshape(-1), "2*n"),
        (lambda x: x.reshape(1, x.shape[0], 2), "1, n, 2"),
        (lambda x: x.reshape(2, x.shape[0]), "2, n"),
    ],
)
def test_indexing_and_reshaping(fun, out_shape, n):
    agrees(fun, ["n,2"], out_shape, [data(5, 2)], {"n": n})


@pytest.mark.parametrize("n,m", [(1, 3), (4, 2), (2, 1)])
def test_reshape_of_two_ragged_dimensions(n, m):
    fun = lambda x: (x.reshape(-1), x.reshape(x.shape[1], x.shape[0]), x.T.ravel())
    agrees(fun, ["n,m"], ("n*m", "m, n", "n*m"), [data(4, 3)], {"n": n, "m": m})


def test_split_in_equal_parts():
    agrees(lambda x: jnp.split(x, 2), ["2*n"], "n", [data(8)], {"n": 3})


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_uniform_draws(n):
    draw = lambda key, x: jax.random.uniform(key, x.shape)
    key = jax.random.key(5)
    out = mx.mask(draw, [None, "n, 3"], "n, 3")([key, jnp.zeros((7, 3))], {"n": n})
    np.testing.assert_array_equal(out[:n], jax.random.uniform(key, (n, 3)))
    assert not out[n:].any()


def test_masked_function_of_a_vmap_of_a_masked_function():
    def score(row):
        return jnp.log(jnp.sum(jnp.exp(row)))

    @functools.partial(mx.mask, in_shapes=["n, _", "n"], out_shape="")
    def mean_score(rows, lengths):
        return jax.vmap(mx.mask(score, ["m"], ""))([rows], {"m": lengths}).mean()

    rows, lengths = data(4, 6), jnp.array([2, 6, 3, 99])
    got = mean_score([rows, lengths], {"n": 3})
    close(got, np.mean([score(rows[i, : lengths[i]]) for i in range(3)]))
    grads = jax.jit(jax.grad(lambda rows: mean_score([rows, lengths], {"n": 3})))(rows)
    want = jax.grad(lambda rows: sum(score(rows[i, : int(lengths[i])]) for i in range(3)) / 3)(rows)
    close(grads, want)


def test_vmap_of_a_masked_function_of_a_masked_function():
    inner = mx.mask(lambda x: x / x.sum(), ["n"], "n")
    outer = mx.mask(lambda x, k: inner([x], {"n": k}) * x.shape[0], ["n", ""], "n")
    rows = jnp.ones((2, 4))
    got = jax.vmap(outer)([rows, jnp.array([1, 2])], {"n": jnp.array([4, 3])})
    np.testing.assert_array_equal(got, [[4, 0, 0, 0], [1.5, 1.5, 0, 0]])


def test_closed_over_tracers_of_every_enclosing_transform():
    def f(w, x, n):
        return mx.mask(lambda x: jnp.sum(jnp.sqrt(x) * w), ["n"], "")([x], {"n": n})

    rows, w, sizes = jnp.abs(data(3, 4)) + 0.5, jnp.array([1.0, 2.0, 3.0]), jnp.array([0, 2, 4])
    got = jax.jit(jax.vmap(jax.grad(f, argnums=0)))(w, rows, sizes)
    close(got, [jnp.sqrt(row[:n]).sum() for row, n in zip(rows, sizes)])


def test_weights_of_a_scan_around_a_masked_function():
    def step(w, inputs):
        x, n = inputs
        return w * 0.5 + mx.mask(lambda x: jnp.sum(x * w), ["n"], "")([x], {"n": n}), w

    rows, sizes = data(4, 3), jnp.array([0, 1, 3, 2])
    got = lax.scan(step, jnp.float32(1), (rows, sizes))[0]
    want = 1.0
    for row, n in zip(rows, sizes):
        want = want * 0.5 + jnp.sum(row[:n] * want)
    close(got, want)


def test_errors_of_shape_and_tree_show_both():
    x = jnp.ones(4)
    with pytest.raises(mx.ShapeError, match=r"has the logical shape \(2\*n,\), but the declared one is 'n'"):
        mx.mask(lambda x: jnp.concatenate([x, x]), ["n"], "n")([x], {"n": 2})
    with pytest.raises(mx.ShapeError, match=r"(?s)out_shape: \('n', 'n'\).*the result: \('\*', '\*', '\*'\)"):
        mx.mask(lambda x: (x, x, x), ["n"], ("n", "n"))([x], {"n": 2})
    with pytest.raises(mx.SpecError, match=r"(?s)in_shapes: \('n', 'n'\).*args: \('\*',\)"):
        mx.mask(lambda x: x, ["n", "n"], "n")([x], {"n": 2})
