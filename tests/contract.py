"""The contract of maskax as one test: whatever a `Case` computes, masked equals plain.

The oracle is always the plain function on arrays cut to their true size. Nothing here looks at maskax's inside.
"""

import contextlib
import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import maskax as mx

PADDED = {"n": 5, "m": 4, "k": 3}
"""Padded size of each dimension variable."""

_TOLERANCE = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "float32": 2e-5,
    "complex64": 2e-5,
    "bfloat16": 3e-2,
    "float16": 4e-3,
}


@dataclasses.dataclass(frozen=True)
class Arg:
    """One operand of a case.

    Attributes:
        spec: its shape string.
        low, high: the range of its values.
        dtype: its dtype; `None` for the dtype that the case is run at.
        values: makes the array from its padded shape instead (for indices, keys, triangular matrices).
        differentiable: whether gradients are taken with respect to it.
    """

    spec: str
    low: float = -2.0
    high: float = 2.0
    dtype: str | None = None
    values: Callable[[np.random.Generator, tuple[int, ...]], Any] | None = None
    differentiable: bool = True


@dataclasses.dataclass(frozen=True)
class Case:
    """One use of one primitive (or of a few).

    Attributes:
        name: unique.
        fun: the function of one example.
        args: its operands; a string is short for `Arg(spec)`.
        dtypes: the dtypes to run at.
        zero: what must come out at size 0: `"plain"`, as the plain function on an empty array; `"defined"`, likewise
            where that gives a finite number, at any size where it raises no error; a value that fills every result; or
            `None`, where only finiteness of the gradients is asked.
        grad: whether derivatives are compared (only inexact results and operands take part).
        exact: whether values must agree to the bit.
        tolerance: times the tolerance of the dtype.
        constraints: as for `mask`.
        least: the smallest size to try.
        forward: whether forward mode is compared too (a `custom_vjp` has none).
    """

    name: str
    fun: Callable[..., Any]
    args: Sequence[Arg | str]
    dtypes: Sequence[str] = ("float32",)
    zero: Any = "plain"
    grad: bool = True
    exact: bool = False
    tolerance: float = 1.0
    constraints: Sequence[str] = ()
    least: int = 0
    forward: bool = True

    @property
    def operands(self) -> list[Arg]:
        return [Arg(a) if isinstance(a, str) else a for a in self.args]

    @property
    def names(self) -> list[str]:
        return [n for n in PADDED if any(n in a.spec for a in self.operands)]


def evaluate(spec: str, sizes: Mapping[str, int], static: Sequence[int] | None = None) -> tuple[int, ...]:
    """The shape that a shape string gives at some sizes (`_` only where `static` says what it is)."""
    text = spec.strip().strip("()")
    return tuple(int(_evaluate(part, sizes)) for part in text.split(",") if part.strip()) if text else ()


def _evaluate(expression: str, sizes: Mapping[str, int]) -> Any:
    return eval(expression, dict(sizes, floordiv=lambda a, b: a // b, mod=lambda a, b: a % b, max=max, min=min))


def make(case: Case, dtype: str) -> list[Any]:
    """Padded operands with good values everywhere."""
    rng = np.random.default_rng(zlib.crc32(f"{case.name}/{dtype}".encode()))
    return [_make(arg, arg.dtype or dtype, evaluate(arg.spec, PADDED), rng) for arg in case.operands]


def _make(arg: Arg, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if arg.values is not None:
        return jnp.asarray(arg.values(rng, shape))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        low = max(arg.low, 0) if jnp.issubdtype(dtype, jnp.unsignedinteger) else arg.low
        return rng.integers(int(low), int(arg.high) + 1, shape).astype(dtype)
    data = rng.uniform(arg.low, arg.high, shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        data = data + 1j * rng.uniform(arg.low, arg.high, shape)
    return np.asarray(data, jnp.dtype(dtype))


def poison(array: Any, spec: str, sizes: Mapping[str, int], kind: str) -> Any:
    """`array` with something bad wherever it lies outside the true shape.

    In NumPy where that is possible, as the other preparations: JAX would compile something per shape.
    """
    keep = np.ones(array.shape, bool)
    for axis, size in enumerate(evaluate(spec, sizes)):
        keep &= (np.arange(array.shape[axis]) < size).reshape([-1 if a == axis else 1 for a in range(array.ndim)])
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jnp.where(jnp.asarray(keep), array, jax.random.split(jax.random.key(99), array.shape))
    if array.dtype == bool:
        bad = ~np.zeros(array.shape, bool) if kind != "zero" else np.zeros(array.shape, bool)
    elif jnp.issubdtype(array.dtype, jnp.integer):
        info = jnp.iinfo(array.dtype)
        bad = np.full(array.shape, {"zero": 0, "nan": info.min, "inf": info.max, "garbage": info.max // 3}[kind])
    else:
        huge = float(jnp.finfo(array.dtype).max) / 3
        bad = np.full(array.shape, {"zero": 0.0, "nan": np.nan, "inf": np.inf, "garbage": -huge}[kind])
    return np.where(keep, array, bad.astype(array.dtype))


def cut(array: Any, shape: Sequence[int]) -> Any:
    """The true part."""
    return array[tuple(slice(0, max(int(size), 0)) for size in shape)]


def size_table(case: Case) -> list[dict[str, int]]:
    """Sizes least, 1, middle and full of each variable, combined; those that the constraints allow."""
    choices = [
        sorted({case.least, max(1, case.least), PADDED[n] - 2, PADDED[n]} - set(range(case.least))) for n in case.names
    ]
    combined = list(zip(*[c[i:] + c[:i] for i, c in enumerate(choices)]))
    if len(choices) > 1:
        combined = [tuple(c[0] for c in choices), tuple(c[-1] for c in choices), *combined]
    table = [dict(zip(case.names, c)) for c in combined]
    return [sizes for sizes in table if all(_evaluate(constraint, sizes) for constraint in case.constraints)]


def _wide(x: Any) -> Any:
    """NumPy does not take two bfloat16 nan for equal."""
    return x.astype(np.float32) if x.dtype == jnp.bfloat16 else x


def _data(x: Any) -> Any:
    """The numbers that a typed key is made of."""
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _loss(outputs: Any, cotangents: Any) -> Any:
    """A real number in which every inexact result has its own weight."""
    total = jnp.zeros((), jnp.float32)
    for out, ct in zip(jax.tree.leaves(outputs), cotangents):
        if _is_float(out):
            total = total + jnp.sum(jnp.real(out * ct.astype(out.dtype))).astype(jnp.real(ct).dtype)
    return total


def _cotangents(outputs: Sequence[Any]) -> list[Any]:
    rng = np.random.default_rng(7)
    wide = jnp.float64 if jax.config.jax_enable_x64 else jnp.float32
    return [np.asarray(rng.uniform(0.5, 1.5, out.shape), wide) for out in outputs]


def check(case: Case, dtype: str, table: Sequence[Mapping[str, int]] | None = None, eager: bool = True) -> None:
    """Holds `case` to the contract at one dtype, at the sizes of `table`."""
    with precision(dtype):
        _check(case, dtype, table or size_table(case), eager)


def precision(dtype: str) -> contextlib.AbstractContextManager:
    """Allows 64-bit types where `dtype` is one."""
    return jax.enable_x64(True) if dtype in ("float64", "complex128", "int64") else contextlib.nullcontext()


def _check(case: Case, dtype: str, table: Sequence[Mapping[str, int]], eager: bool) -> None:
    if dtype != case.dtypes[0]:  # rules are the same code in both modes, whatever the dtype
        case = dataclasses.replace(case, forward=False)
    operands, args = case.operands, make(case, dtype)
    specs = [a.spec for a in operands]
    active = (
        [i for i, (a, x) in enumerate(zip(operands, args)) if a.differentiable and _is_float(x)] if case.grad else []
    )
    masked = mx.mask(case.fun, specs, constraints=case.constraints)
    sample = jax.eval_shape(lambda a: masked(a, {n: jnp.int32(1) for n in case.names})[0], args)
    cts = _cotangents(jax.tree.leaves(sample))
    differentiable = bool(active) and any(map(_is_float, jax.tree.leaves(sample)))

    def masked_all(args: Any, sizes: Any) -> Any:
        inner = mx.mask(_weighted(case.fun, active), [None, *specs], constraints=case.constraints)

        def function(*values: Any) -> Any:
            outputs, shapes = inner(values, sizes)
            return outputs, jax.tree.leaves(shapes, is_leaf=lambda s: isinstance(s, mx.LogicalShape))

        return _everything(case, function, args, active if differentiable else [], cts)

    sizes_batch = {n: jnp.asarray([sizes[n] for sizes in table], jnp.int32) for n in case.names}
    compiled = jax.jit(jax.vmap(masked_all, axis_size=len(table)))

    def results_with(kind: str) -> Any:
        batch = [_stack([poison(x, spec, sizes, kind) for sizes in table]) for x, spec in zip(args, specs)]
        return jax.tree.map(np.asarray, compiled(batch, sizes_batch))

    results = results_with("zero")
    for kind in ("nan", "inf", "garbage"):  # a batch of its own: kernels differ in bits from row to row
        for leaf, other in zip(jax.tree.leaves(results), jax.tree.leaves(results_with(kind)), strict=True):
            for sizes, a, b in zip(table, _wide(leaf), _wide(other)):
                np.testing.assert_array_equal(a, b, f"{case.name} [{dtype}] at {sizes}: {kind} in the padding shows")
    rows = [jax.tree.map(lambda x, i=i: x[i], results) for i in range(len(table))]
    wanted = _wanted(case, args, table, cts, rows, active if differentiable else [])
    for sizes, row, want in zip(table, rows, wanted):
        context = f"{case.name} [{dtype}] at {sizes}"
        _compare(case, dtype, context, args, sizes, row, active if differentiable else [], want)
    if eager:
        _check_known(case, dtype, masked, args, specs, table, rows)


def _stack(arrays: Sequence[Any]) -> Any:
    return (np if isinstance(arrays[0], np.ndarray) else jnp).stack(arrays)


def weights_of(rows: tuple[int, ...] = ()) -> tuple[Any, Any, Any]:
    """Scale, shift and gain: weights that change nothing, and have derivatives."""
    return jnp.ones(rows, jnp.float32), jnp.zeros(rows, jnp.float32), jnp.ones(rows, jnp.float32)


def _weighted(function: Callable[..., Any], active: Sequence[int]) -> Callable[..., Any]:
    """Poles in the padding would show in the gradients by scale and shift, which enter before everything else.

    So would what is infinite in the padding of results in that by the gain, which multiplies them.
    """

    def with_weights(weights: Any, *args: Any) -> Any:
        scale, shift, gain = weights
        new = [x * scale.astype(x.dtype) + shift.astype(x.dtype) if i in active else x for i, x in enumerate(args)]
        return jax.tree.map(lambda y: y * gain.astype(y.dtype) if active and _is_float(y) else y, function(*new))

    return with_weights


def _everything(
    case: Case,
    function: Callable[..., Any],
    args: Sequence[Any],
    active: Sequence[int],
    cts: Sequence[Any],
    rows: tuple[int, ...] = (),
) -> tuple[Any, Any, Any, Any]:
    """Results of `function`, their shapes, the gradient by weights and inputs, and a derivative in forward mode.

    All in one program, so that it is compiled once. With `rows` in front, weights are each row's own.
    """

    def of_active(weights: Any, floats: Sequence[Any]) -> tuple[Any, Any]:
        new = list(args)
        for i, x in zip(active, floats):
            new[i] = x
        return function(weights, *new)

    def loss(weights: Any, floats: Sequence[Any]) -> Any:
        outputs, shapes = of_active(weights, floats)
        return _loss(outputs, cts), (outputs, shapes)

    weights, floats = weights_of(rows), [args[i] for i in active]
    gradient = tangent = None
    if active:
        gradient, (outputs, shapes) = jax.grad(loss, argnums=(0, 1), has_aux=True)(weights, floats)
        if case.forward:
            tangents = jax.tree.map(lambda x: jnp.full(x.shape, 0.5, x.dtype), (weights, floats))
            floating = lambda *values: [o for o in jax.tree.leaves(of_active(*values)[0]) if _is_float(o)]
            tangent = jax.jvp(floating, (weights, floats), tangents)[1]
    else:
        outputs, shapes = of_active(weights, floats)
    return [_data(o) for o in jax.tree.leaves(outputs)], [s.shape for s in shapes], gradient, tangent


def _wanted(
    case: Case,
    args: Sequence[Any],
    table: Sequence[Mapping[str, int]],
    cts: Sequence[Any],
    rows: Sequence[Any],
    active: Sequence[int],
) -> list[Any]:
    """What the plain function gives at each size, all compiled as one program; `None` where nothing is asked of it."""

    def plain(shapes: Sequence[Any], args: Sequence[Any]) -> Any:
        def function(*values: Any) -> Any:
            outputs = _weighted(case.fun, active)(*values)
            return outputs, [mx.LogicalShape(o.shape, (), o.dtype) for o in jax.tree.leaves(outputs)]

        return _everything(case, function, args, active, [cut(ct, s) for ct, s in zip(cts, shapes)])

    programs, cuts = [], []
    for sizes, (_, shapes, *_) in zip(table, rows):
        empty = any(size == 0 for size in sizes.values())
        cuts.append([cut(x, evaluate(a.spec, sizes)) for a, x in zip(case.operands, args)])
        asked = not empty or case.zero in ("plain", "defined")
        program = functools.partial(plain, shapes) if asked else None
        if empty and case.zero == "defined":
            try:
                jax.eval_shape(program, cuts[-1])
            except (TypeError, ValueError, IndexError, ZeroDivisionError):  # as for the largest of no numbers
                program = None
        programs.append(program)
    return jax.jit(lambda cuts: [None if f is None else f(x) for f, x in zip(programs, cuts)])(cuts)


def _compare(case, dtype, context, args, sizes, row, active, wanted) -> None:
    outputs, shapes, grads, tangents = row
    empty = any(size == 0 for size in sizes.values())
    for out, shape in zip(outputs, shapes):
        pad = np.ones(out.shape, bool)
        pad[tuple(slice(0, int(s)) for s in shape)] = False
        assert not np.any(out[pad]), f"{context}: padding of a result is not 0"
    if grads is not None:
        for i, g in zip(active, grads[1]):
            keep = np.asarray(poison(np.zeros(g.shape), case.operands[i].spec, sizes, "inf")) == 0
            assert not np.any(g[~keep]), f"{context}: gradient in the padding of operand {i} is not 0"
    if empty and case.zero not in ("plain", "defined"):
        if case.zero is not None:
            for out, shape in zip(outputs, shapes):
                np.testing.assert_array_equal(
                    cut(out, shape), np.broadcast_to(case.zero, [int(s) for s in shape]), context
                )
        if grads is not None:
            finite = jax.tree.leaves((grads[0][:2], grads[1]))  # that by the gain is the result, of nothing perhaps nan
            assert all(np.all(np.isfinite(g)) for g in finite), f"{context}: gradient is not finite"
        return
    if wanted is None:
        return
    if empty and case.zero == "defined":
        if [tuple(map(int, shape)) for shape in shapes] != [tuple(map(int, shape)) for shape in wanted[1]]:
            return  # x[:1] has one element by its type
        wanted = jax.tree.map(_where_finite, wanted, (outputs, shapes, grads, tangents))
    expected, want_shapes, want_grads, want_tangents = wanted
    for out, want, shape, want_shape in zip(outputs, expected, shapes, want_shapes, strict=True):
        got_shape = tuple(max(int(s), 0) for s in shape)
        assert got_shape == tuple(map(int, want_shape)), f"{context}: shape {got_shape}, plain {want_shape}"
        assert out.dtype == want.dtype, f"{context}: dtype {out.dtype}, plain {want.dtype}"
        _close(cut(out, shape), want, dtype, case, context)
    if grads is not None:
        _close_tree(grads[0], want_grads[0], dtype, case, f"{context}: gradient by weights")
        true = [cut(g, w.shape) for g, w in zip(grads[1], want_grads[1])]
        _close_tree(true, want_grads[1], dtype, case, f"{context}: gradient by inputs")
    if tangents is not None:
        true = [cut(t, w.shape) for t, w in zip(tangents, want_tangents)]
        if empty:  # JAX's own rules divide by the number of maxima, 0 here: where plain gives nan, any will do
            want_tangents = [np.where(np.isnan(w), t, w) for t, w in zip(true, want_tangents)]
        _close_tree(true, want_tangents, dtype, case, f"{context}: jvp")


def _where_finite(want: Any, got: Any) -> Any:
    """`want`, and what there is where it is no number."""
    want, got = np.asarray(want), np.asarray(got)
    got = cut(got, want.shape) if got.ndim else got
    return np.where(np.isfinite(want), want, got) if got.shape == want.shape else want


def _check_known(case, dtype, masked, args, specs, table, rows) -> None:
    """At a size that is known while tracing, with nan in the padding; every fourth case without `jit`.

    Other kernels run there: bits may differ.
    """
    case = dataclasses.replace(case, exact=False)
    sizes = table[-2 if len(table) > 1 else -1]
    bad = [poison(x, spec, sizes, "nan") for x, spec in zip(args, specs)]
    eager = zlib.crc32(case.name.encode()) % 4 == 0  # JAX compiles every operation by itself then
    function = lambda bad: masked(bad, sizes)[0]
    got = (function if eager else jax.jit(function))(bad)
    for a, b in zip(jax.tree.leaves(got), rows[list(table).index(sizes)][0]):
        _close(_data(a), b, dtype, case, f"{case.name} [{dtype}] at the known {sizes}")


def _close(got: Any, want: Any, dtype: str, case: Case, context: str) -> None:
    if case.exact or not jnp.issubdtype(want.dtype, jnp.inexact):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want), err_msg=context)
        return
    tolerance = case.tolerance * max(_TOLERANCE[jnp.dtype(want.dtype).name], _TOLERANCE.get(dtype, 0))
    got, want = (np.asarray(x, np.complex128 if jnp.iscomplexobj(x) else np.float64) for x in (got, want))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=context)


def _close_tree(got: Any, want: Any, dtype: str, case: Case, context: str) -> None:
    case = dataclasses.replace(case, exact=False)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        _close(a, b, dtype, case, context)
