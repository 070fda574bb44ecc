"""Rows to test with: one example cut to several sizes, padded with all that padding may hold."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._arguments import Argument, check_constraints, match
from maskax._errors import SizeError, SpecError
from maskax._scope import Scope, names_in
from maskax._shapes import Dim, Sizes, solve_limits

PADDING = ("zero", "nan", "inf", "garbage")
"""What is put into padding. Integers take their least and greatest values instead of nan and inf: out of range."""

_MOST_ROWS = 256


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of one example.

    Attributes:
        arguments: the leaves of the example, full of true values.
        tree: the tree that they came from.
        limits: the largest size of each dimension variable.
        table: the sizes of each row.
    """

    arguments: Sequence[Argument]
    tree: Any
    limits: Mapping[str, int]
    table: Sequence[Mapping[str, int]]

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes of all rows, as arrays of shape `(rows,)`."""
        return {name: np.asarray([row[name] for row in self.table], np.int32) for name in self.limits}

    @property
    def arrays(self) -> list[Argument]:
        """The leaves that are arrays."""
        return [a for a in self.arguments if a.is_array]

    def restore(self, values: Sequence[Any]) -> Any:
        """The arguments, from one value per array."""
        rest = iter(values)
        return jax.tree.unflatten(self.tree, [next(rest) if a.is_array else a.value for a in self.arguments])

    def cut(self, sizes: Mapping[str, int]) -> list[Any]:
        """The arrays of one row without padding."""
        return [a.value[slices(shape_of(a.dims, sizes))] for a in self.arrays]

    def batch(self, padding: str, others: Sequence[int] = ()) -> tuple[list[Any], dict[str, Any]]:
        """The arrays of all rows, padded as the example is, and their sizes.

        Args:
            padding: what lies in it, see `PADDING`.
            others: the rows that other rows take the place of: of another size, with their elements moved around.
        """
        count = len(self.table)
        table = [self.table[(i + 1) % count] if i in others else self.table[i] for i in range(count)]

        def row(a: Argument, i: int) -> Any:
            value = a.value
            for axis in _ragged(a.dims) if i in others else ():
                value = _like(value).roll(value, 1, axis)
            return poisoned(value, shape_of(a.dims, table[i]), padding)

        arrays = [
            a.value if a.spec is None else _like(a.value).stack([row(a, i) for i in range(len(table))])
            for a in self.arrays
        ]
        return arrays, dataclasses.replace(self, table=table).sizes

    @property
    def roomy(self) -> int:
        """The largest row that can do with less padding than it has in the batch."""

        def room(row: Mapping[str, int]) -> tuple[bool, int]:
            return all(size + 1 < self.limits[name] for name, size in row.items()), sum(row.values())

        return max(range(len(self.table)), key=lambda i: room(self.table[i]))

    def alone(self, index: int, padding: str) -> tuple[list[Any], dict[str, Any]]:
        """The arrays of a batch of one row, with one position of padding."""
        sizes = self.table[index]
        near = {name: min(size + 1, self.limits[name]) for name, size in sizes.items()}
        arrays = []
        for a in self.arrays:
            smaller = a.value[slices(shape_of(a.dims, near))]
            arrays.append(a.value if a.spec is None else poisoned(smaller, shape_of(a.dims, sizes), padding)[None])
        return arrays, {name: np.asarray([size], np.int32) for name, size in sizes.items()}


def rows_of(
    args: Sequence[Any], in_shapes: Any, sizes: Mapping[str, int | Sequence[int]] | None, constraints: Sequence[str]
) -> Rows:
    """The rows that `check` looks at."""
    arguments, tree = match(args, in_shapes)
    scope = Scope()
    scope.constrain(constraints)
    for argument in arguments:
        argument.parse(scope)
        if argument.spec is not None and not _is_key(argument.value):
            argument.value = np.asarray(argument.value)  # cut and padded without a compilation per shape
    limits = solve_limits([(a.where, a.dims, a.value.shape) for a in arguments if a.is_array], scope)
    if not limits:
        raise SpecError(
            f"in_shapes: {in_shapes!r} has no ragged dimension, so there is nothing to check. Name one: 'n'."
        )
    # A name that a constraint replaced by others ("n == m") is still one that sizes are asked for.
    (*names,) = dict.fromkeys(name for a in arguments for name in names_in(a.spec or ""))
    dims = {name: scope.parse(name, None, f"sizes[{name!r}]") for name in names}
    most = {name: shape_of(dims[name], limits)[0] for name in names}
    if sizes is None:
        found = [{name: shape_of(dims[name], row)[0] for name in names} for row in _allowed(limits, scope, constraints)]
        table = [found[i] for i in sorted({0, (len(found) - 1) // 2, len(found) - 1})] if found else []
    else:
        table = _given(sizes, most)
    if not table:
        raise SizeError(
            f"sizes: none were found that keep the constraints {constraints!r}. Give some: sizes=dict(n=[4])."
        )
    return Rows(arguments, tree, most, table)


def _given(sizes: Mapping[str, int | Sequence[int]], limits: Mapping[str, int]) -> list[dict[str, int]]:
    if missing := sorted(limits.keys() ^ sizes.keys()):
        raise SizeError(f"sizes: must be given for {sorted(limits)}, not for {sorted(sizes)}: see {missing[0]!r}.")
    columns = np.broadcast_arrays(*[np.atleast_1d(np.asarray(sizes[name])) for name in limits])
    table = [dict(zip(limits, map(int, row))) for row in zip(*columns)]
    for name, limit in limits.items():
        if wrong := [row[name] for row in table if not 0 <= row[name] <= limit]:
            raise SizeError(f"sizes[{name!r}] has {wrong[0]}, out of range: the example has room for 0 to {limit}.")
    return table


def _allowed(limits: Mapping[str, int], scope: Scope, constraints: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes from 1 up that keep the constraints, in order; some of them, where there are many."""
    most = max(2, int(_MOST_ROWS ** (1 / len(limits))))
    choices = [range(limit, 0, -max(1, limit // most))[::-1] for limit in limits.values()]
    for combination in itertools.product(*choices):
        sizes = dict(zip(limits, combination))
        try:
            check_constraints(constraints, Sizes(limits, sizes, scope))
        except SizeError:
            continue
        yield sizes


def shape_of(dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The true shape at some sizes."""
    return tuple(max(_compat.evaluate_dim(dim, sizes.__getitem__, max, min), 0) for dim in dims)


def poisoned(array: Any, true: Sequence[int], padding: str) -> Any:
    """The array with something else outside of its true shape."""
    keep = np.zeros(array.shape, bool)
    keep[slices(true)] = True
    if _is_key(array):
        return jnp.where(keep, array, jax.random.split(jax.random.key(0, impl=jax.random.key_impl(array)), array.shape))
    if array.dtype == bool:
        bad = padding != "zero"
    elif jnp.issubdtype(array.dtype, jnp.integer):
        info = jnp.iinfo(array.dtype)
        bad = {"zero": 0, "nan": info.min, "inf": info.max, "garbage": info.max // 3}[padding]
    else:
        huge = float(jnp.finfo(array.dtype).max) / 3
        bad = {"zero": 0.0, "nan": np.nan, "inf": np.inf, "garbage": -huge}[padding]
    return np.where(keep, array, np.asarray(bad).astype(array.dtype))


def slices(shape: Sequence[int]) -> tuple[slice, ...]:
    """What cuts an array to a shape."""
    return tuple(slice(0, size) for size in shape)


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _like(array: Any) -> Any:
    """The module whose functions an array is for."""
    return np if isinstance(array, np.ndarray) else jnp


def _ragged(dims: Sequence[Dim]) -> list[int]:
    return [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
