"""What a masked function is called with: arrays matched with shape strings, and sizes checked."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from maskax import _compat
from maskax._errors import SizeError, SpecError
from maskax._operand import Padded, select
from maskax._scope import Scope, names_in
from maskax._shapes import Dim, Sizes


@dataclasses.dataclass
class Argument:
    """One leaf of the arguments.

    Attributes:
        where: its path, for errors: `args[0]['query']`.
        spec: its shape string; `None` if nothing in it is ragged.
        value: the array, or any object that is handed through untouched.
        dims: its logical shape.
    """

    where: str
    spec: str | None
    value: Any
    dims: tuple[Dim, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether it is traced; other leaves (functions, strings) are constants of the program."""
        return hasattr(self.value, "shape") and hasattr(self.value, "dtype")

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """What to trace with."""
        weak = getattr(self.value, "weak_type", False)
        return jax.ShapeDtypeStruct(self.dims, self.value.dtype, weak_type=weak)

    def parse(self, scope: Scope) -> None:
        """Reads the shape string."""
        if not self.is_array:
            if self.spec is not None:
                raise SpecError(f"{self.where} has the shape string {self.spec!r} but is not an array: {self.value!r}.")
        elif self.spec is None:
            self.dims = self.value.shape
        else:
            self.dims = scope.parse(self.spec, self.value.shape, self.where)

    def clean(self, sizes: Sizes) -> Padded:
        """The array at its padded shape with 0 in the padding, whatever was there."""
        data = self.value
        for axis, dim in enumerate(self.dims):
            if sizes.is_ragged(dim) and data.shape[axis] != sizes.bound(dim):
                data = jax.lax.slice_in_dim(data, 0, sizes.bound(dim), axis=axis)
        keep = sizes.keep(self.dims)
        return Padded(data) if keep is None else Padded(select(keep, data, 0), pad=0, raw=data)


def match(args: Any, in_shapes: Any) -> tuple[list[Argument], Any]:
    """Pairs every leaf of `args` with its shape string; also returns the tree that the leaves came from."""
    if not isinstance(args, Sequence) or isinstance(args, str):
        raise SpecError(
            f"args: the arguments must be a list or tuple, not a value of type {type(args).__name__}: "
            "masked([x], dict(n=3))."
        )
    args = tuple(args)
    paths, tree = tree_flatten_with_path(args)
    specs = broadcast_specs(in_shapes, args, "in_shapes", "args")
    arguments = []
    for (path, value), spec in zip(paths, specs):
        if isinstance(value, bool | int | float | complex | np.generic | np.ndarray | list):
            value = jnp.asarray(value)
        arguments.append(Argument(f"args{keystr(path)}", spec, value))
    return arguments, tree


def broadcast_specs(specs: Any, tree: Any, name: str, against: str) -> list[str | None]:
    """One shape string, or `None`, per leaf of `tree`, of which `specs` is a prefix."""
    is_spec = lambda s: s is None or isinstance(s, str)
    if isinstance(specs, list) and isinstance(tree, tuple):
        specs = tuple(specs)
    for path, spec in tree_flatten_with_path(specs, is_leaf=is_spec)[0]:
        if not is_spec(spec):
            raise SpecError(f"{name}{keystr(path)} must be a shape string such as 'n, _' or None, not {spec!r}.")
    try:
        return broadcast_prefix(specs, tree, is_spec)
    except (ValueError, TypeError, KeyError):
        shown = jax.tree.map(lambda _: "*", tree)
        raise SpecError(
            f"{name} does not have the structure of {against}.\n  {name}: {specs!r}\n  {against}: {shown!r}\n"
            f"  Give one shape string per array, or one string or None for a whole part of {against}."
        ) from None


def broadcast_prefix(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool]) -> list[Any]:
    """The leaf of `prefix` that stands for each leaf of `tree`. By number: a leaf of None would count as a subtree."""
    flat, structure = jax.tree.flatten(prefix, is_leaf=is_leaf)
    numbers = jax.tree.broadcast(jax.tree.unflatten(structure, range(len(flat))), tree)
    return [flat[number] for number in jax.tree.leaves(numbers)]


def check_results(results: Any) -> None:
    """That a function gave arrays, or what JAX makes arrays of."""
    for path, leaf in tree_flatten_with_path(results)[0]:
        number = isinstance(leaf, bool | int | float | complex) or jax.export.is_symbolic_dim(leaf)
        if not number and not hasattr(leaf, "dtype") and not hasattr(leaf, "__jax_array__"):
            raise SpecError(
                f"The result{keystr(path)} is {leaf!r}, no array: return arrays and trees of them, and keep all else "
                "outside of the function."
            )


def check_sizes(
    sizes: Mapping[str, Any], limits: Mapping[str, Dim], scope: Scope, arguments: Sequence[Argument]
) -> dict[str, Any]:
    """The true size of each variable, an integer scalar within 0..limit.

    Raises:
        SizeError: a size is missing, unknown, not an integer scalar, or (where its value is known) out of range.
    """
    origin: dict[str, Argument] = {}
    for argument in arguments:
        for name in names_in(argument.spec or ""):
            origin.setdefault(name, argument)
    if missing := sorted(origin.keys() - sizes.keys()):
        argument = origin[missing[0]]
        raise SizeError(
            f"sizes: no size is given for {missing[0]!r}, which {argument.where} has in {argument.spec!r}. "
            f"Given: {_listed(sizes)}."
        )
    if unknown := sorted(sizes.keys() - origin.keys()):
        raise SizeError(
            f"sizes: there is no dimension {unknown[0]!r} in in_shapes; its dimensions are {_listed(origin)}."
        )
    values = {}
    for name, argument in origin.items():
        value, variable = sizes[name], scope.local(name)
        limit = limits.get(variable)  # None where an equality constraint replaced it by others
        dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
        if np.ndim(value) != 0 or not jnp.issubdtype(dtype, np.integer):
            raise SizeError(
                f"sizes[{name!r}] must be an integer scalar, not {dtype}{list(np.shape(value))}. "
                "For a batch, map over arrays and sizes: jax.vmap(masked)([xs], dict(n=lengths))."
            )

        def explain(value: Any, row: str, name: str = name, argument: Argument = argument, limit: Dim = limit) -> str:
            return (
                f"sizes[{name!r}]{row} is {value}, out of range: {argument.where} with the shape {argument.spec!r} is "
                f"padded to {_text(argument.value.shape)}, so {name!r} runs from 0 to {limit}."
            )

        values[variable] = within(value, 0, limit, explain)
    return values


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"


def _text(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def check_constraints(constraints: Sequence[str], sizes: Sizes) -> None:
    """Checks that the sizes of this call keep the constraints that the program was traced under.

    Raises:
        SizeError: one does not hold.
    """
    for constraint in constraints:
        if unknown := [name for name in names_in(constraint) if sizes.scope.local(name) not in sizes.values]:
            raise SpecError(
                f"constraints: {constraint!r} is about {unknown[0]!r}, which is no dimension in in_shapes; its "
                f"dimensions are {_listed(map(sizes.scope.name, sizes.values))}."
            )
        of_name = lambda name: sizes.values[sizes.scope.local(name)]
        gap, low, high = _gap(constraint, of_name, jnp.maximum, jnp.minimum)

        def explain(value: Any, row: str, constraint: str = constraint) -> str:
            return f"sizes: the constraint {constraint!r} does not hold{f' in row {row}' if row else ''}."

        within(gap, low, high, explain)


def holds(constraint: str, sizes: Mapping[str, int]) -> bool:
    """Whether known sizes keep a constraint."""
    gap, low, high = _gap(constraint, sizes.__getitem__, max, min)
    return (low is None or gap >= low) and (high is None or gap <= high)


def _gap(constraint: str, of_name: Callable[[str], Any], maximum: Any, minimum: Any) -> tuple[Any, Dim, Dim]:
    """The left side of a constraint less the right one, and between what it must be."""
    left, relation, right = re.split("(>=|<=|==)", constraint)
    # In a scope of its own: in the one that is traced in, a constrained expression is replaced by what it equals.
    dims = [jax.export.symbolic_shape(side)[0] for side in (left, right)]
    a, b = (_compat.evaluate_dim(dim, of_name, maximum, minimum) for dim in dims)
    return a - b, *{">=": (0, None), "<=": (None, 0), "==": (0, 0)}[relation]


def within(value: Any, low: Dim | None, high: Dim | None, explain: Callable[[Any, str], str]) -> Any:
    """`value`, of any integer dtype, within `low..high` and in the dtype of dimensions.

    Concrete values are checked at once, also inside an eager `vmap`. Traced ones are clamped, and checked where the
    caller uses checkify.
    """

    def outside(v: Any) -> Any:
        below = False if low is None else v < low
        return below if high is None else below | (v > high)

    def is_known(v: Any) -> bool:
        return _compat.is_concrete(v) and not any(d is not None and jax.export.is_symbolic_dim(d) for d in (low, high))

    def checked(v: Any) -> Any:
        if not is_known(v):
            return watched(v)
        rows = np.argwhere(outside(np.asarray(v).astype(object)))
        if len(rows):
            row = "".join(f"[{i}]" for i in rows[0])
            raise SizeError(explain(np.asarray(v)[tuple(rows[0])], row))
        return v

    # The batching rule sees the sizes of all rows, and they are concrete there when the vmap is not under a jit.
    watched = jax.custom_batching.custom_vmap(lambda v: v)
    watched.def_vmap(lambda _, batched, v: (checked(v), batched[0]))

    value = checked(value)
    dtype = _compat.dimension_dtype()
    if not is_known(value):
        value = jnp.asarray(value)
        narrow = jnp.iinfo(value.dtype).bits < 64
        wide = value.astype(dtype) if narrow and value.dtype != jnp.uint32 else value
        value = jnp.clip(_compat.size_check(wide, low, high, explain("{size}", "")), low, high)
    return jnp.asarray(value, dtype)
