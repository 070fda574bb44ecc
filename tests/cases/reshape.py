"""Cases for reshapes: true elements keep their order, exactly."""

import functools

import jax.numpy as jnp
from contract import Case

Exact = functools.partial(Case, exact=True)


def to(*shape):
    """A reshape to a shape given as an expression per dimension, over the operand's own dimensions."""
    return lambda x: x.reshape([s(*x.shape) if callable(s) else s for s in shape])


def there_and_back(x):
    return x.ravel().reshape(x.shape) * 2


CASES = [
    Exact(
        "merge static trailing axes",
        lambda x: [to(-1)(x), to(lambda a, b, c: a, 6)(x), to(lambda a, b, c: 2 * a, 3)(x), x[..., None]],
        ["n, 2, 3"],
        ("float32", "float64", "int32", "bool"),
    ),
    Exact("split a multiple", lambda x: [to(-1, 2)(x), to(2, -1)(x), to(-1, 1, 2)(x)], ["2*n"]),
    Exact("merge two ragged axes", lambda x: [x.ravel(), to(-1, 1)(x), x.T.ravel()], ["n, m"], ("float32", "bool")),
    Exact("exchange axes without moving", to(lambda a, b: b, lambda a, b: a), ["n, m"]),
    Exact("merge a static leading axis", lambda x: [x.ravel(), to(1, -1)(x), to(lambda a, b: 2 * b)(x)], ["2, n"]),
    Exact(
        "columns and rows", lambda x: [x[:, None].reshape(1, -1), x[None].reshape(-1, 1), x.reshape(1, -1, 1)], ["n"]
    ),
    Exact(
        "merge two of three", lambda x: [to(lambda a, b, c: a, -1)(x), to(-1, 3)(x), x.ravel()], ["n, m, 3"], zero=None
    ),
    Exact(
        "merge around a static axis",
        lambda x: [to(-1, lambda a, b, c: c)(x), to(2, -1)(x.transpose(1, 0, 2))],
        ["n, 2, m"],
        zero=None,
    ),
    Exact("ravel and back", there_and_back, ["n, m"], ("float32", "complex64")),
    Exact("ravel and back, three axes", there_and_back, ["n, 2, m"]),
    Exact("split a product", lambda x, y: x.ravel().reshape(y.shape[0], -1, 3), ["n, 3*m", "n"], zero=None),
    Exact(
        "pairs of an even axis",
        lambda x: [x.reshape(x.shape[0] // 2, 2), x.reshape(2, x.shape[0] // 2)],
        ["m"],
        constraints=["mod(m, 2) == 0"],
    ),
    Exact(
        "heads",
        lambda x: jnp.swapaxes(jnp.swapaxes(to(lambda n, d: n, 2, 3)(x), 0, 1), 0, 1).reshape(x.shape),
        ["n, 6"],
    ),
    Exact(
        "patches",
        lambda x: to(lambda a, b, c: a, 2, 2, 3)(x).swapaxes(1, 2).reshape(x.shape[0], -1),
        ["n, 4, 3"],
        zero=None,
    ),
    Exact(
        "axes of size one", lambda x: [to(1, -1, 1, 2)(x), to(lambda a, _: a, 1, 2, 1)(x), to(-1)(x[:, None])], ["n, 2"]
    ),
    Exact("zero-size axes", lambda x: [to(lambda n, _: n, 0, 3)(x[:, :0]), to(0, lambda n, _: n)(x[:0])], ["n, 2"]),
    Exact("one more", lambda x: [to(-1, 3)(x), x.reshape(-1)[1:]], ["n + 1, 3"]),
    Exact("order F", lambda x: [x.reshape(-1, order="F"), x.ravel("F")], ["n, m"]),
    Exact(
        "einops-like", lambda x: to(lambda a, b, c, d: a * c, -1)(x.transpose(0, 2, 1, 3)), ["n, m, 2, k"], zero=None
    ),
]
