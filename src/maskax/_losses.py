"""`value_and_grad`: the mean loss of rows and its gradient, both in one pass over the true sizes."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._axes import check_axes
from maskax._call import Call
from maskax._errors import SpecError, UnmaskableError
from maskax._operand import select, split
from maskax._plan import Plan, as_plan
from maskax._ragged import Ragged
from maskax._rows import Rows, can_skip

_PER = ("row", "token")


def value_and_grad(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    *,
    in_axes: Any = 0,
    per: str = "row",
    weights: Any = None,
    has_aux: bool = False,
    axis_name: Any = None,
    constraints: str | Sequence[str] = (),
    plan: Plan | str | None = "auto",
) -> Any:
    """The mean of a loss over the rows of a batch, and its gradient.

    What `jax.value_and_grad` of `mx.mean(mx.vmap(fun, in_axes)(*args), per=per, weights=weights).value` gives, for
    less: rows run in trips as a `Plan` says, forward and backward in the same trip. Nothing is kept between them but
    sums, so that memory does not grow with the number of rows. The gradient of all this is right too, of any order.

    Args:
        fun: the loss of one row, a number or (`per="token"`) an array of them, `(n,)` say. Left out,
            `value_and_grad` is a decorator.
        argnums: which arguments to differentiate by. The gradient by one that is mapped over has rows as well: it is
            a `Ragged` if the argument is one.
        in_axes: as for `vmap`; `None` for weights, which all rows share.
        per: what is averaged, as for `mean`: `"row"`, each row's own mean alike; `"token"`, each number alike.
        weights: numbers `(rows,)`: how much each row, or each number in it, counts. A row of weight 0, one that only
            fills up a batch, is not run: its gradient and its part in `aux` are 0.
        has_aux: whether `fun` gives a pair of the loss and more results, which come back as those of `vmap`.
        axis_name: average over this mapped or sharded axis too.
        constraints: as for `vmap`.
        plan: as for `vmap`.

    Returns:
        A function with `fun`'s arguments, batched, that returns `(value, gradient)`, or with `has_aux`
        `((value, aux), gradient)`. The mean of nothing is nan, its gradient 0.

    Raises:
        SpecError: an unknown `per`, a loss that is no real number or array, `weights` that do not have one entry per
            row, `argnums` that are out of range or of integers.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([2.0, 2.0, 5.0])])
        >>> def loss(w, x):  # x: (n,)
        ...     return (w * x.mean() - 1) ** 2
        >>> mx.value_and_grad(loss, in_axes=(None, 0))(jnp.float32(1), xs)
        (Array(2.5, dtype=float32), Array(8., dtype=float32))
    """
    if fun is None:
        options = {"per": per, "weights": weights, "has_aux": has_aux, "axis_name": axis_name, "plan": plan}
        return functools.partial(value_and_grad, argnums=argnums, in_axes=in_axes, constraints=constraints, **options)
    if per not in _PER:
        raise SpecError(f"per: one of {', '.join(map(repr, _PER))} is needed, not {per!r}.")
    check_axes(in_axes, "in_axes")
    chosen = as_plan(plan)
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)

    @functools.wraps(fun)
    def graded(*args: Any, **kwargs: Any) -> Any:
        call = Call(fun, in_axes, args, kwargs)
        wanted = _Wanted(call, argnums, args)
        with call.names.spelled():
            rows = call.rows(constraints, wanted.shared)
            loss = _loss_of(rows, has_aux)
            scale, count = _scales(rows, loss, per, weights, axis_name)
            planned = chosen if can_skip(call.data, {}) else None
            value, aux, by_shared, by_rows = _run(
                rows if weights is None else _counted(rows, scale), planned, wanted, scale
            )
            if weights is not None:
                aux = [select(jnp.expand_dims(scale != 0, range(1, x.ndim)), x, 0) for x in aux]
                by_shared, by_rows = jax.tree.map(lambda g: jnp.where(count != 0, g, 0), (by_shared, by_rows))
            if axis_name is not None:
                value, by_shared = jax.lax.psum((value, by_shared), axis_name)
            value = jnp.where(count != 0, value, jnp.nan)
            gradient = wanted.gradient(by_shared, by_rows)
            if not has_aux:
                return value, gradient
            of_aux = lambda aux, sizes: call.results(aux, rows.program.avals[1:], rows.frame, sizes)
            _, tree = jax.tree.flatten(jax.tree.unflatten(rows.program.tree, range(len(aux) + 1))[1])
            return (value, jax.tree.unflatten(tree, jax.vmap(of_aux)(aux, call.names.sizes))), gradient

    return graded


class _Wanted:
    """What to differentiate by.

    Attributes:
        shared: the places of arguments that all rows share.
        in_rows: the places in the rows' data of those that are mapped over.
    """

    def __init__(self, call: Call, argnums: int | Sequence[int], args: Sequence[Any]) -> None:
        self._call, self._single = call, isinstance(argnums, int)
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if wrong := [i for i in numbers if not -len(args) <= i < len(args)]:
            raise SpecError(f"argnums: there is no argument {wrong[0]}; fun was called with {len(args)}.")
        self._tree, _ = jax.tree.unflatten(call.tree, range(len(call.leaves)))
        self._numbers = [i % len(args) for i in numbers]
        places = jax.tree.leaves([self._tree[i] for i in self._numbers])
        for place in places:
            leaf = call.leaves[place]
            if isinstance(leaf, Ragged) and place not in call.mapped:
                raise SpecError(f"argnums: {call.where[place]} is handed over whole; a gradient is taken by its rows.")
            dtype = jnp.result_type(leaf.data if isinstance(leaf, Ragged) else leaf)
            if not jnp.issubdtype(dtype, jnp.floating):
                raise SpecError(f"argnums: {call.where[place]} is {dtype}; a gradient is taken by real numbers.")
            if place not in call.mapped:
                call.leaves[place] = jnp.asarray(leaf)
        self.shared = [place for place in places if place not in call.mapped]
        self.in_rows = [call.mapped.index(place) for place in places if place in call.mapped]

    def gradient(self, by_shared: Sequence[Any], by_rows: Sequence[Any]) -> Any:
        """The gradient, in the form of the arguments."""
        of_place = dict(zip(self.shared, by_shared))
        for i, x in zip(self.in_rows, by_rows):
            place = self._call.mapped[i]
            leaf = self._call.leaves[place]
            x = jnp.moveaxis(x, 0, self._call.axes[i])
            of_place[place] = Ragged(x, leaf.sizes, leaf.dims) if isinstance(leaf, Ragged) else x
        found = [jax.tree.map(of_place.__getitem__, self._tree[i]) for i in self._numbers]
        return found[0] if self._single else tuple(found)


def _loss_of(rows: Rows, has_aux: bool) -> Any:
    """The type of one row's loss."""
    tree, avals = rows.program.tree, rows.program.avals
    results = jax.tree.unflatten(tree, avals)
    if has_aux and not (isinstance(results, tuple) and len(results) == 2):
        raise SpecError("has_aux: fun must return a pair, the loss and more results.")
    loss: Any = results[0] if has_aux else results
    if loss is not avals[0] or not jnp.issubdtype(loss.dtype, jnp.floating):
        raise SpecError(f"fun must return one real number or array, the loss of a row, not {jax.tree.map(str, loss)}.")
    made = rows.program.scope.made
    if any(not made.keys().isdisjoint(_compat.variables(dim)) for aval in avals for dim in aval.shape):
        raise UnmaskableError(
            "value_and_grad: a result has a size in its shape that the program makes. Average over it in fun, or put "
            "it into an array of the padded size."
        )
    return loss


def _scales(rows: Rows, loss: Any, per: str, weights: Any, axis_name: Any) -> tuple[Any, Any]:
    """How much each number of each row counts in the mean; and how many count, or the sum of their weights."""
    total = rows.data[0].shape[0]
    numbers = math.prod([rows.frame.true(dim) for dim in loss.shape], start=jnp.ones(total, jnp.float32))
    weights = jnp.ones(total, jnp.float32) if weights is None else jnp.asarray(weights, jnp.float32)
    if weights.shape != (total,):
        raise SpecError(f"weights: one entry per row is needed, shape ({total},), not {weights.shape}.")
    weights = jnp.where(numbers > 0, weights, 0)
    counts = weights if per == "row" else weights * numbers
    count = counts.sum() if axis_name is None else jax.lax.psum(counts.sum(), axis_name)
    each = weights / jnp.maximum(numbers, 1) if per == "row" else weights
    return each / jnp.where(count != 0, count, 1), count


def _counted(rows: Rows, scale: Any) -> Rows:
    """Rows in which the shortest of those that count stands for each that does not: what that gives may be nan."""
    length = sum(rows.sizes, start=jnp.zeros(scale.shape, jnp.int32))
    shortest = jnp.argmin(jnp.where(scale != 0, length, jnp.iinfo(jnp.int32).max))
    return rows.take(jnp.where(scale != 0, jnp.arange(len(scale)), shortest))


def _run(rows: Rows, plan: Plan | None, wanted: _Wanted, scale: Any) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """The value, the results beside it, and the gradients."""
    loss, *aux = rows.program.avals
    wide = jnp.promote_types(loss.dtype, jnp.float32)

    def body(run: Any, data: Sequence[Any], shared: Sequence[Any], scales: Sequence[Any]) -> list[Any]:
        def total(shared: Sequence[Any], moving: Sequence[Any]) -> tuple[Any, list[Any]]:
            new = list(data)
            for i, x in zip(wanted.in_rows, moving):
                new[i] = x
            losses, *aux = run(new, shared)
            sums = losses.astype(wide).reshape(len(losses), -1).sum(axis=1)
            (scale,) = scales
            return (sums * scale.astype(wide)).sum(), aux

        moving = [data[i] for i in wanted.in_rows]
        (value, aux), (by_shared, by_rows) = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(shared, moving)
        return [value, *aux, *by_shared, *by_rows]

    dims = [a.dims for a in rows.program.arguments if a.is_array]
    sums = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in rows.shared]
    in_rows = [(dims[i], rows.data[i].dtype, rows.data[i].shape[1:]) for i in wanted.in_rows]
    gives = [jax.ShapeDtypeStruct((), wide), *((a.shape, a.dtype) for a in aux), *sums, *in_rows]
    value, *results = rows.map(plan, body, [scale], gives)
    aux, by_shared, by_rows = split(results, len(aux), len(aux) + len(sums))
    return value, aux, by_shared, by_rows
