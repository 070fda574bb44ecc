"""A call of a function of one row with batches: what is mapped over, and how the function is traced."""

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
from maskax._axes import axes_of, check_rows
from maskax._errors import MaskaxError, SizeError, UnmaskableError
from maskax._mask import Program, trace
from maskax._ragged import Ragged, is_batch
from maskax._ragged._dims import STATIC, evaluate, linear, shorter, substitute, variables
from maskax._rows import Rows
from maskax._shapes import Sizes


class Call:
    """The arguments of a function that is mapped over rows.

    Attributes:
        leaves: all arguments, flat; batches are leaves.
        tree: their tree, `(args, kwargs)`.
        where: their paths.
        mapped: the places in `leaves` of what is mapped over.
        axes: along which axis, for each of those.
        data: those, as arrays.
        batches: which of them are `Ragged`, by place.
    """

    def __init__(self, fun: Callable[..., Any], in_axes: Any, args: Any, kwargs: Any) -> None:
        self._fun = fun
        paths, self.tree = tree_flatten_with_path((args, kwargs), is_leaf=is_batch)
        self.leaves = [leaf for _, leaf in paths]
        self.where = [("kwargs" if path[0].idx else "args") + keystr(path[1:]) for path, _ in paths]
        axes = {i: axis for i, axis in enumerate(axes_of(in_axes, args, kwargs, self.tree)) if axis is not None}
        self.mapped, self.axes = list(axes), list(axes.values())
        self.batches = {i: self.leaves[i] for i in axes if is_batch(self.leaves[i])}
        self.data = [self.batches[i].data if i in self.batches else self.leaves[i] for i in axes]

    @functools.cached_property
    def names(self) -> "Names":
        """The dimensions of the batches; that all have equally many rows is checked first."""
        check_rows(self.leaves, dict(zip(self.mapped, self.axes)), self.where)
        return Names([(self.where[i], batch) for i, batch in self.batches.items()])

    def program(self, row: Sequence[Any], constraints: Sequence[str], shared: Sequence[int] = ()) -> Program:
        """The function, traced for one row: arrays or their types; `shared` are places of arguments behind those."""
        places = [*self.mapped, *shared]

        def of_row(*values: Any) -> Any:
            new = list(self.leaves)
            for i, value in zip(places, values):
                new[i] = value
            args, kwargs = jax.tree.unflatten(self.tree, new)
            return self._fun(*args, **kwargs)

        specs = {i: self.names.spec(batch) for i, batch in self.batches.items()}
        types = [*row, *(self.leaves[i] for i in shared)]
        arguments = [Argument(self.where[i], specs.get(i), x) for i, x in zip(places, types)]
        of_places = jax.tree.structure(tuple(places))
        return trace(of_row, arguments, of_places, list(map(self.names.constraint, constraints)))

    def rows(self, constraints: Sequence[str], shared: Sequence[int] = ()) -> Rows:
        """The rows, to be run by a plan."""
        data = [jnp.moveaxis(jnp.asarray(x), axis, 0) for x, axis in zip(self.data, self.axes)]
        types = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in data]
        program = self.program(types, constraints, shared)
        return Rows(program, self.names.variables, data, [self.leaves[i] for i in shared])

    def results(self, outputs: Any, avals: Sequence[Any], run_time: Sizes, sizes: Mapping[str, Any]) -> list[Any]:
        """One row's results, as `Ragged` where their shape depends on a size."""
        return [self.names.result(x, aval.shape, run_time, sizes) for x, aval in zip(outputs, avals)]


class Names:
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
            alone = all(uses[n] == 1 for n in names)
            if list(names) != [dim] and ((alone and shorter(dim)) or not bounded.issuperset(names)):
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
        made = run_time.values
        return Ragged(array, {n: sizes[n] if n in sizes else made[n] for n in names}, dims) if names else array

    def _text(self, dim: Any, shape: Sequence[Any], run_time: Sizes) -> str:
        """A dimension of a result in the names of the batches."""
        scope = run_time.scope
        own = {alias: dim for dim, alias in self._alias.items()}
        expressions = {scope.local(name): own.get(name, name) for name in self.variables}
        expressions |= {name: name for name in scope.made}
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
