"""`vmap`: `jax.vmap` that also maps over `Ragged` batches."""

import collections
import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from maskax import _compat
from maskax._arguments import Argument, within
from maskax._axes import axes_of, check_axes, check_out_axes, check_rows
from maskax._errors import MaskaxError, SizeError, UnmaskableError
from maskax._mask import Program, trace
from maskax._plan import Plan, as_plan, can_skip, run_planned
from maskax._ragged import Ragged, is_batch
from maskax._ragged._dims import STATIC, evaluate, linear, substitute, variables
from maskax._shapes import Sizes


def vmap(
    fun: Callable[..., Any] | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    constraints: str | Sequence[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Maps a function of one example over a batch, `Ragged` batches included.

    All that `jax.vmap` does, with its arguments. Where a `Ragged` is mapped over, `fun` sees one row: an array of its
    true shape. Results whose shape depends on a size come back as `Ragged`, their sizes computed from the program
    (`n - 1`, `2*n`); all others as arrays.

    Dimensions of one name must agree row by row in all arguments. Give them different names (`mx.ragged(rows,
    dims=("m",))`, `xs.rename(n="m")`) where they are independent.

    Args:
        fun: a function of one example; left out, `vmap` is a decorator. No mask, length or batch axis is in it.
        in_axes: as for `jax.vmap`. A `Ragged` has its rows in front: 0, or `None` to hand it over whole.
        out_axes: as for `jax.vmap`; 0 for `Ragged` results.
        axis_name: a name for the axis of rows, for collectives.
        axis_size: the number of rows, where no argument tells.
        spmd_axis_name: as for `jax.vmap`.
        constraints: what JAX may assume of the sizes while it traces `fun`, such as `"n >= 2"`, see `mask`.
        plan: how to skip padding inside the program, see `Plan`; `"auto"` for one with all defaults.

    Returns:
        The function over batches.

    Raises:
        SpecError: an axis of a `Ragged` that is not 0 or `None`, or a tree of axes that does not fit.
        SizeError: rows of one name whose sizes differ.
        MissingRuleError: a primitive in `fun` has no masking rule.
        UnmaskableError: `fun` decides something by a size that is only known at run time.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([1.0, 2.0, 6.0])])
        >>> ys = mx.vmap(lambda x: x - x.mean())(xs)
        >>> ys.to_list()
        [Array([-1.,  1.], dtype=float32), Array([-2., -1.,  3.], dtype=float32)]
        >>> mx.vmap(lambda x: x[1:] - x[:-1])(xs)
        Ragged(f32[2, n - 1<=2], n=[2, 3])
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    check_axes(in_axes, "in_axes")
    check_axes(out_axes, "out_axes")
    options = {"axis_name": axis_name, "axis_size": axis_size, "spmd_axis_name": spmd_axis_name}
    if fun is None:
        return functools.partial(
            vmap, in_axes=in_axes, out_axes=out_axes, constraints=constraints, plan=plan, **options
        )

    chosen = as_plan(plan)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        paths, tree = tree_flatten_with_path((args, kwargs), is_leaf=is_batch)
        leaves = [leaf for _, leaf in paths]
        where = [("kwargs" if path[0].idx else "args") + keystr(path[1:]) for path, _ in paths]
        axes = {i: axis for i, axis in enumerate(axes_of(in_axes, args, kwargs, tree)) if axis is not None}
        batches = {i: leaves[i] for i in axes if is_batch(leaves[i])}
        if not batches:
            return jax.vmap(fun, in_axes, out_axes, **options)(*args, **kwargs)
        check_rows(leaves, axes, where)
        names = _Names([(where[i], batch) for i, batch in batches.items()])

        data = {i: batches[i].data if i in batches else leaves[i] for i in axes}

        def of_row(*values: Any) -> Any:
            new = list(leaves)
            for i, value in zip(axes, values):
                new[i] = value
            args, kwargs = jax.tree.unflatten(tree, new)
            return fun(*args, **kwargs)

        def program(rows: Sequence[Any]) -> Program:
            specs = {i: names.spec(batch) for i, batch in batches.items()}
            arguments = [Argument(where[i], specs.get(i), x) for i, x in zip(axes, rows)]
            return trace(of_row, arguments, jax.tree.structure(tuple(axes)), list(map(names.constraint, constraints)))

        def finished(program: Program, outputs: Sequence[Any], run_time: Sizes, sizes: Mapping[str, Any]) -> Any:
            flat = [names.result(x, aval.shape, run_time, sizes) for x, aval in zip(outputs, program.avals)]
            results = jax.tree.unflatten(program.tree, flat)
            check_out_axes(out_axes, results)
            return results

        def row(data: Sequence[Any], variables: Mapping[str, Any], sizes: Mapping[str, Any]) -> Any:
            traced = program(data)
            arrays = [x for x, a in zip(data, traced.arguments) if a.is_array]
            out = traced.run(arrays, traced.consts, variables)
            return finished(traced, jax.tree.leaves(out.outputs), out.sizes, sizes)

        with names.spelled():
            if chosen is not None and can_skip(data.values(), options):
                rows = [jnp.moveaxis(jnp.asarray(x), axes[i], 0) for i, x in data.items()]
                traced = program([jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in rows])
                outputs, run_time = run_planned(traced, chosen, rows, names.variables)
                of_outputs = lambda outputs, sizes: finished(traced, outputs, run_time, sizes)
                return jax.vmap(of_outputs, 0, out_axes)(outputs, names.sizes)
            return jax.vmap(row, (list(axes.values()), 0, 0), out_axes, **options)(
                list(data.values()), names.variables, names.sizes
            )

    return mapped


class _Names:
    """The dimension variables of one call.

    Attributes:
        sizes: the size of every name in the batches, `(rows,)`.
        variables: the same for what `fun` is traced with. A dimension such as `n - 1` whose names stand nowhere else is
            one variable there: JAX knows more of it (at least 1), and nothing else need say how large `n` can get.
    """

    def __init__(self, batches: Sequence[tuple[str, Ragged]]) -> None:
        self.sizes = _agreed(batches)
        dims = dict.fromkeys(dim for _, batch in batches for dim in batch.dims if dim != STATIC)
        uses = collections.Counter(name for dim in dims for name in variables([dim]))
        bounded = {name for dim in dims for name in variables([dim]) if linear(dim)}
        self._alias: dict[str, str] = {}
        for dim in dims:
            names = variables([dim])
            if list(names) != [dim] and (all(uses[n] == 1 for n in names) or not bounded.issuperset(names)):
                self._alias[dim] = self._fresh(dim)
        direct = variables([dim for dim in dims if dim not in self._alias])
        self.variables = {name: self.sizes[name] for name in direct}
        self.variables |= {alias: evaluate(dim, self.sizes) for dim, alias in self._alias.items()}

    def _fresh(self, dim: str) -> str:
        alias = re.sub(r"\W+", "_", dim).strip("_")
        while alias in self.sizes or alias in self._alias.values() or not alias[0].isalpha():
            alias = f"d_{alias}"
        return alias

    def constraint(self, text: str) -> str:
        """A constraint of the user's about the variables."""
        sides = re.split(r"\s*(>=|<=|==)\s*", text)
        return " ".join(self._alias.get(side.strip(), side) for side in sides)

    @contextlib.contextmanager
    def spelled(self) -> Iterator[None]:
        """Errors speak of dimensions as the user wrote them, not of variables that stand for them."""
        try:
            yield
        except MaskaxError as error:
            text = str(error).replace("mask(..., ", "mx.vmap(..., ")
            for dim, alias in self._alias.items():
                text = re.sub(rf"\b{alias}\b", dim, text)
            error.args = (text,)
            raise

    def spec(self, batch: Ragged) -> str:
        """The shape string of a row."""
        return ", ".join(self._alias.get(dim, dim) for dim in batch.dims)

    def result(self, array: Any, shape: Sequence[Any], run_time: Sizes, sizes: Mapping[str, Any]) -> Any:
        """One result: a `Ragged` if its shape depends on a size."""
        dims = tuple(self._text(dim, shape, run_time) if run_time.is_ragged(dim) else STATIC for dim in shape)
        names = variables(dims)
        return Ragged(array, {name: sizes[name] for name in names}, dims) if names else array

    def _text(self, dim: Any, shape: Sequence[Any], run_time: Sizes) -> str:
        """A dimension of a result in the names of the batches."""
        scope = run_time.scope
        own = {alias: dim for dim, alias in self._alias.items()}
        expressions = {scope.local(name): own.get(name, name) for name in self.variables}
        if unknown := sorted(_compat.variables(dim) - expressions.keys()):
            raise UnmaskableError(
                f"A result has the shape {scope.show(tuple(shape))}, in which {unknown[0]!r} is a size of an enclosing "
                "map: rows of rows have no such shape. Return them before they are merged."
            )
        return substitute(dim, expressions)


def _agreed(batches: Sequence[tuple[str, Ragged]]) -> dict[str, Any]:
    """The sizes of each name, checked to be equal wherever the name stands."""
    sizes: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for where, batch in batches:
        for name, size in batch.sizes.items():
            known = sizes.setdefault(name, size)
            first = origin.setdefault(name, where)
            if known is size:
                continue

            def explain(value: Any, row: str, name: str = name, first: str = first, where: str = where) -> str:
                return (
                    f"sizes{row} of {name!r} differ by {value} between {first} and {where}. {_APART.format(name=name)}"
                )

            if _compat.is_concrete(known) and _compat.is_concrete(size):
                if len(rows := np.flatnonzero(np.asarray(known) != np.asarray(size))):
                    i = rows[0]
                    raise SizeError(
                        f"Row {i} has {known[i]} as its {name!r} in {first}, but {size[i]} in {where}. "
                        f"{_APART.format(name=name)}"
                    )
            else:
                sizes[name] = known + within(size - known, 0, 0, explain)
    return sizes


_APART = (
    "Sizes of one name must agree row by row; where they are independent, give them names: mx.ragged(rows, "
    'dims=("m",)), or xs.rename({name}="m").'
)
