"""`check` and `check_padded`: is it the same function, whatever the padding and the rest of the batch are?"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from maskax._errors import SpecError
from maskax._mask import mask, trace
from maskax.testing._compare import Tolerance
from maskax.testing._rows import PADDING, poisoned, rows_of, shape_of
from maskax.testing._run import over_rows, run_all, weighted, weights_of
from maskax.testing._steps import first_wrong_derivative, first_wrong_value
from maskax.testing._trial import Subject


def check(
    fun: Callable[..., Any],
    in_shapes: Any,
    *args: Any,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    constraints: str | Sequence[str] = (),
    grad: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Checks that `fun`, masked, is the same function: the one that it is on every row cut to its true size.

    The example is cut to several sizes. The rows are run in one batch with zeros, nan, inf and garbage (for integers:
    values out of range) in their padding, with other rows beside them, alone with less padding, with and without `jit`;
    results must not change by a bit where nothing but padding and other rows do. Gradients by all inexact arguments are
    held to the same. What is closed over cannot be seen: hand weights over as arguments, with the shape `None`.

    Args:
        fun: a function of one example, as for `mask`.
        in_shapes: the shapes of its arguments, as for `mask`.
        *args: one example, at its full size: true values wherever a row may have some.
        sizes: the size or sizes to try per dimension, `{"n": [1, 4], "m": [2, 3]}`. By default the least of at least 1,
            a middle one and the full one. At 0, results must be what `fun` gives on empty arrays.
        constraints: as for `mask`.
        grad: whether gradients are compared; `fun` must have a reverse mode.
        rtol: how far values may be from those of `fun`, relative to them; by default what suits the dtype.
        atol: the same, absolute; by default relative to the largest value of the array.

    Raises:
        CheckError: something differs. It says which result or gradient, in which row, at which position, and which step
            of the program (primitive and source line) differs first.
        MaskaxError: `fun` cannot be masked, or the arguments do not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import maskax as mx
        >>> def attend(w, x):  # x: (n, 2)
        ...     return jax.nn.softmax(x @ w @ x.T) @ x
        >>> x = jnp.arange(8.0).reshape(4, 2) / 8
        >>> mx.testing.check(attend, [None, "n, _"], jnp.eye(2), x)
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    rows = rows_of(args, in_shapes, sizes, constraints)
    masked = mask(fun, in_shapes, constraints=constraints)
    tolerance = Tolerance(rtol, atol)

    def step(row: int, padding: str, of_gradient: bool) -> str | None:
        true = rows.table[row]
        copies = [dataclasses.replace(a) for a in rows.arguments]
        program = trace(fun, copies, rows.tree, constraints)
        padded = [
            a.value if a.spec is None else poisoned(a.value, shape_of(a.dims, true), padding) for a in rows.arrays
        ]
        inputs = program, padded, rows.cut(true), true, tolerance
        found = first_wrong_value(*inputs)
        return first_wrong_derivative(*inputs, _loss) if found is None and of_gradient else found

    run_all(
        Subject(
            name=_name(fun),
            rows=rows,
            run=over_rows(lambda values, sizes: masked(rows.restore(values), sizes)[0], rows),
            plain=lambda values: fun(*rows.restore(values)),
            grad=grad,
            tolerance=tolerance,
            step=step,
        )
    )


def check_padded(
    fun: Callable[[Sequence[Any], Mapping[str, Any]], Any],
    in_shapes: Any,
    *args: Any,
    out_shape: Any = None,
    plain: Callable[..., Any] | None = None,
    batched: bool = False,
    padding: Sequence[str] = PADDING,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    constraints: str | Sequence[str] = (),
    grad: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Puts a function of padded arrays and sizes, masked by hand say, to the tests of `check`.

    Its results and gradients must not depend on what lies in the padding, on how much padding there is or on the other
    rows; with `plain`, they must be those of the plain function.

    Args:
        fun: `fun(args, sizes)`, called as what `mask` returns is: with the padded arguments of one row and an integer
            scalar per dimension name.
        in_shapes: the true shapes of the arguments of one row, as for `mask`; `None` for weights.
        *args: one example, at its full size.
        out_shape: the true shapes of the results of one row, likewise: past them anything goes. Left out, they are
            those of `plain`; without that the whole result counts.
        plain: the function of one example that `fun` should be, called `plain(*args)`.
        batched: whether `fun` takes a batch: arrays (but for those of the shape `None`) with an axis of rows in front,
            integer arrays of sizes, and results with an axis of rows in front.
        padding: what to try in the padding, of `"zero"`, `"nan"`, `"inf"` and `"garbage"`.
        sizes: as for `check`.
        constraints: what sizes to try by default.
        grad: whether gradients are compared.
        rtol: as for `check`.
        atol: as for `check`.

    Raises:
        CheckError: something differs.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def mean(args, sizes):
        ...     (x,), n = args, sizes["n"]
        ...     return jnp.sum(jnp.where(jnp.arange(x.shape[0]) < n, x, 0)) / n
        >>> mx.testing.check_padded(mean, ["n"], jnp.arange(4.0), plain=jnp.mean)
        >>> def careless(args, sizes):
        ...     (x,), n = args, sizes["n"]
        ...     return jnp.sum(x) / n
        >>> mx.testing.check_padded(careless, ["n"], jnp.ones(4), padding=["zero", "nan"])
        Traceback (most recent call last):
        maskax._errors.CheckError: careless: output is wrong at {'n': 1}: nan padded with nan, 1 padded with zero
          It depends on what lies in the padding.
          Select what is real before anything else uses the array: jnp.where(real, x, 0). 0 * nan is nan, and so are
          gradients of what is selected afterwards.
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    if unknown := [kind for kind in padding if kind not in PADDING] or not padding:
        raise SpecError(f"padding: must be some of {PADDING}, not {padding!r} ({unknown}).")
    rows = rows_of(args, in_shapes, sizes, constraints)
    of_row = lambda values, sizes: fun(rows.restore(values), sizes)
    run_all(
        Subject(
            name=_name(fun),
            rows=rows,
            run=of_row if batched else over_rows(of_row, rows),
            plain=None if plain is None else lambda values: plain(*rows.restore(values)),
            grad=grad,
            tolerance=Tolerance(rtol, atol),
            out_shape=out_shape,
            padding=tuple(padding),
        )
    )


def _name(fun: Any) -> str:
    return getattr(fun, "__name__", repr(fun))


def _loss(outputs: Any) -> Any:
    return weighted(outputs, [weights_of(out.shape, out.shape) for out in jax.tree.leaves(outputs)])
