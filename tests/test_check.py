"""`mx.testing.check` and `check_padded`: right functions pass, each kind of fault is found and named.

Faults are wrong rules, registered for the length of a test, and hand-written masks that leak.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx
from maskax._registry import RULES

X = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
W = np.array([[0.5, 0.1], [-0.2, 0.3]], np.float32)


def line_of(function, text, name=None):
    """`test_check.py:12 (function)`, the line of a function that has `text` in it."""
    lines, start = inspect.getsourcelines(function)
    line = start + next(i for i, line in enumerate(lines) if text in line)
    return f"test_check.py:{line} ({name or function.__name__})"


def wrong(monkeypatch, primitive, rule):
    monkeypatch.setitem(RULES, primitive, rule)


def fails(function, *args, **kwargs):
    check = mx.testing.check_padded if kwargs.pop("padded", False) else mx.testing.check
    with pytest.raises(mx.CheckError) as caught:
        check(function, *args, **kwargs)
    assert isinstance(caught.value, AssertionError)
    return caught.value


def rnn(params, x, lookup):  # x: (n, 2); lookup: (n,) of 0..2
    def step(carry, item):
        row, index = item
        carry = jnp.tanh(carry @ params["w"] + row + params["table"][index])
        return carry, jnp.log(2 + carry.sum())

    last, logs = jax.lax.scan(step, jnp.zeros(2), (x, lookup))
    return {"last": last, "weights": jax.nn.softmax(logs), "order": jnp.argsort(x[:, 0])}


RNN = [None, "n, _", "n"]
PARAMS = {"w": W, "table": X[:3]}
LOOKUP = np.array([2, 0, 1, 2])


def test_what_is_masked_right_passes():
    mx.testing.check(rnn, RNN, PARAMS, X, LOOKUP)


def test_two_sizes_a_constraint_a_function_and_a_key():
    def fun(activation, key, x, y):
        noise = jax.random.normal(key, x.shape)
        return activation(x + noise).mean(), jnp.pad(x, (0, y.shape[0] - x.shape[0])) + y

    mx.testing.check(fun, [None, None, "n", "m"], jnp.tanh, jax.random.key(1), X[:3, 0], X[:, 1], constraints="n <= m")


def test_a_wrong_rule_is_named_with_its_line(monkeypatch):
    def layer(w, x):
        hidden = jnp.tanh(x @ w)
        return {"sum": (hidden + 1).sum(axis=0), "peak": hidden.max()}

    wrong(monkeypatch, "reduce_sum", lambda ctx, x, **_: ctx.bind(x.data))
    error = fails(layer, [None, "n, _"], W, X, sizes={"n": [4, 2]})
    assert (error.where, error.row, error.position) == ("output['sum']", {"n": 2}, (0,))
    assert f"{line_of(layer, '.sum(')}: reduce_sum: float32[n, 2] -> float32[2]\n    at [0]: " in error.step
    good = (np.tanh(X[:2] @ W) + 1).sum(0)[0]
    assert f"layer: output['sum'] is wrong at {{'n': 2}}: at [0]: {good + 2:.6g} masked, {good:.6g} plain" in str(error)
    assert "2 of 2 elements differ" in str(error)
    assert error.step in str(error)


def test_the_step_may_be_inside_a_loop(monkeypatch):
    wrong(monkeypatch, "tanh", lambda ctx, x, **_: ctx.bind(x.data) + (x.data.shape[0] == 4))

    def loop(x):
        return jax.lax.scan(lambda total, row: (total + jnp.tanh(x * row).sum(), None), 0.0, x)[0]

    error = fails(loop, ["n"], X[:, 0], sizes={"n": 2}, grad=False)
    assert f"{line_of(loop, 'tanh', '<lambda>')}: tanh: float32[n] -> float32[n]" in error.step


def test_a_wrong_derivative_is_named(monkeypatch):
    def logs(w, x):
        return jnp.sum(jnp.sqrt(x) * jnp.log(w * x))

    wrong(monkeypatch, "log", lambda ctx, x, **_: ctx.bind(x.data))  # right, but -inf in the padding has a slope
    error = fails(logs, [None, "n, _"], np.float32([1, 2]), np.abs(X))
    assert (error.where, error.row) == ("gradient by args[0]", None)
    assert error.step == f"{line_of(logs, 'jnp.log(')}: log: float32[n, 2] -> float32[n, 2]\n" + (
        "    gives nan or inf in the padding"
    )


def test_a_gradient_that_only_the_padding_breaks(monkeypatch):
    def fun(x):
        return jnp.exp(x).sum()

    wrong(monkeypatch, "exp", lambda ctx, x, **_: ctx.bind(jax.lax.stop_gradient(x.fill(-np.inf))))
    error = fails(fun, ["n"], X[:, 0])
    assert (error.where, error.row, error.position) == ("gradient by args[0]", {"n": 1}, (0,))


# --- masks written by hand ---------------------------------------------------------------------------------------


def real(x, n):
    return jnp.arange(x.shape[0]) < n


def test_hand_masked_functions_pass():
    def mean(args, sizes):
        (scale, x), n = args, sizes["n"]
        return scale * jnp.sum(jnp.where(real(x, n), x, 0)) / n

    mx.testing.check_padded(mean, [None, "n"], np.float32(2), X[:, 0], plain=lambda scale, x: scale * x.mean())

    def centered(args, sizes):  # a batch, with whatever it gives in the padding
        (x,), n = args, sizes["n"]
        keep = jnp.arange(x.shape[1]) < n[:, None]
        x = jnp.where(keep, x, 0)
        return x - x.sum(axis=1, keepdims=True) / n[:, None]

    plain = lambda x: x - x.mean()
    mx.testing.check_padded(centered, ["n"], X[:, 0], plain=plain, batched=True)
    mx.testing.check_padded(centered, ["n"], X[:, 0], out_shape="n", batched=True, grad=False)
    error = fails(centered, ["n"], X[:, 0], plain=lambda x: x - x.max(), batched=True, padded=True, sizes={"n": 3})
    assert (error.where, error.row, error.position) == ("output", {"n": 3}, (0,))
    assert "not what the plain function gives" in str(error)


def test_padding_that_leaks():
    def log_mean(args, sizes):  # selects afterwards: right, but its gradient is nan
        (x,), n = args, sizes["n"]
        return jnp.where(real(x, n), x * jnp.log(x), 0).sum() / n

    x = np.abs(X[:, 0])
    mx.testing.check_padded(log_mean, ["n"], x, grad=False)
    error = fails(log_mean, ["n"], x, padded=True)
    assert (error.where, error.row, error.position) == ("gradient by args[0]", {"n": 1}, (1,))
    assert "jnp.where(real, x, 0)" in str(error)


def test_out_of_range_integers():
    def codes(args, sizes):
        (i,), n = args, sizes["n"]
        return jnp.where(real(i, n), i, i % 1_000).max()

    mx.testing.check_padded(codes, ["n"], np.arange(1000, 1004), padding=["zero"])
    error = fails(codes, ["n"], np.arange(4), padded=True)
    assert "padded with" in str(error)


def test_rows_that_leak():
    def normalized(args, sizes):
        (x,), n = args, sizes["n"]
        x = jnp.where(jnp.arange(x.shape[1]) < n[:, None], x, 0)
        return x - x.mean(axis=0)

    error = fails(normalized, ["n"], X[:, 0], batched=True, grad=False, padded=True)
    assert "depends on the other rows" in str(error)


def test_the_amount_of_padding_that_leaks():
    def mean(args, sizes):
        (x,), n = args, sizes["n"]
        return jnp.where(real(x, n), x, 0).mean()

    error = fails(mean, ["n"], X[:, 0], grad=False, padded=True)
    assert error.row == {"n": 2}
    assert "how much of it there is" in str(error)


def test_arguments_that_do_not_fit():
    with pytest.raises(mx.SizeError, match="must be given for"):
        mx.testing.check(jnp.sum, ["n"], X[:, 0], sizes={"m": 2})
    with pytest.raises(mx.SizeError, match="out of range: the example has room for 0 to 4"):
        mx.testing.check(jnp.sum, ["n"], X[:, 0], sizes={"n": [1, 5]})
    with pytest.raises(mx.SizeError, match="keep the constraints"):
        mx.testing.check(jnp.sum, ["n"], X[:, 0], constraints="n >= 5")
    with pytest.raises(mx.SpecError, match="no ragged dimension"):
        mx.testing.check(jnp.sum, [None], X)
    with pytest.raises(mx.SpecError, match="padding"):
        mx.testing.check_padded(lambda args, sizes: args[0].sum(), ["n"], X[:, 0], padding=["Nan"])
    with pytest.raises(mx.SpecError, match="Return one result per row"):
        mx.testing.check_padded(lambda args, sizes: args[0].sum(), ["n"], X[:, 0], batched=True)
