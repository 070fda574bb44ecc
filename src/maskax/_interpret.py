"""The engine: runs a program that was traced at symbolic sizes on padded arrays, one rule per primitive.

The environment holds padded arrays; the logical shapes are the avals of the program's equations, so nothing is carried
by hand. What is emitted is ordinary JAX code at static shapes: every transform composes with it.

Two things hold for every value in the environment. Its array has exactly the bound of its logical shape, and what lies
in its padding is finite and never depends on the padding of the caller's arrays.
"""

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._errors import MissingRuleError, UnmaskableError
from maskax._registry import GUARDED, RULES
from maskax._shapes import Dim, Sizes


class Padded(NamedTuple):
    """A padded array.

    Attributes:
        data: the array; its padding is finite.
        pad: what is known to lie in the padding of every axis, or `None`.
        raw: the array that `data` was filled from, if any. Filling again starts from it: XLA does not merge selects.
        dim: the dimension that a scalar is the run-time value of, if any.
        spread: the operand that `data` is a broadcast of, if any, and
        respread: that broadcast.
        pad_axes: the axes whose padding holds `pad`, where not all do.
        note: what a rule wants a later rule to know.
        reduced: whether a ragged axis was reduced on the way. Over no element that may give nan: a mean, for one.
    """

    data: Any
    pad: Any = None
    raw: Any = None
    dim: Any = None
    spread: "Operand | None" = None
    respread: Callable[[Any], Any] | None = None
    pad_axes: tuple[int, ...] | None = None
    note: Any = None
    reduced: bool = False


@dataclasses.dataclass(frozen=True)
class Operand:
    """One operand of one equation: a padded array seen at its logical shape."""

    value: Padded
    aval: Any
    sizes: Sizes

    @property
    def data(self) -> Any:
        """The padded array."""
        return self.value.data

    @property
    def pad(self) -> Any:
        """What is known to lie in the padding of every axis, or `None`."""
        return self.value.pad if self.value.pad_axes is None else None

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The logical shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ragged(self) -> tuple[int, ...]:
        """The axes that have padding."""
        return self.sizes.ragged_axes(self.shape)

    def keep(self, axes: Sequence[int] | None = None) -> Any:
        """Boolean mask, broadcastable to the array: true where real. `None` if no axis of `axes` has padding."""
        return self.sizes.keep(self.shape, axes)

    def fill(self, value: Any, axes: Sequence[int] | None = None) -> Any:
        """The array with `value` in the padding of `axes` (default: of every axis)."""
        axes = [axis for axis in self.ragged if axes is None or axis in axes]
        if known_equal(self.value.pad, value):
            done = self.ragged if self.value.pad_axes is None else self.value.pad_axes
            axes = [axis for axis in axes if axis not in done]
        if not axes:
            return self.data
        whole = len(axes) == len(self.ragged)
        source = self.value.raw if whole and self.value.raw is not None else self.data
        return select(self.keep(axes), source, value)

    def safe(self, value: Any, shape: Sequence[Dim] | None = None) -> Any:
        """The array with `value` wherever the result will not be used: in padding and on steps past a row's end.

        Copies that a broadcast made in the padding are true values elsewhere, and stay: what is filled is the operand
        of the broadcast, which is smaller. Only what was reduced over an axis with no true position is filled too.

        Args:
            value: harmless for the primitive.
            shape: the logical shape that the operand is about to be broadcast to, if not its own.
        """
        base = self.value.spread or self
        shape = self.shape if shape is None else shape
        masks = [base.keep(), self.sizes.alive]
        if self.value.reduced:
            masks += [self.sizes.true(dim) > 0 for dim in set(shape) - set(base.shape) if self.sizes.is_ragged(dim)]
        masks = [mask for mask in masks if mask is not None]
        if not masks or (len(masks) == 1 and base.ragged and known_equal(base.pad, value)):
            return self.data
        source = base.data if base.value.raw is None else base.value.raw
        filled = select(functools.reduce(operator.and_, masks), source, value)
        return self.value.respread(filled) if self.value.respread else filled


def known_equal(pad: Any, value: Any) -> bool:
    """Whether padding known to hold `pad` already holds `value`."""
    return pad is not None and np.ndim(value) == 0 and _compat.is_concrete(value) and bool(pad == value)


def select(mask: Any, data: Any, value: Any) -> Any:
    """`data` where `mask`, else the scalar `value`; for typed PRNG keys, the key whose data is all zeros."""
    if jnp.issubdtype(data.dtype, jax.dtypes.prng_key):
        fill = jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(data)), impl=jax.random.key_impl(data))
    else:
        fill = jnp.asarray(jax.lax.full_like(data, value, shape=()) if np.ndim(value) == 0 else value, data.dtype)
    return jax.lax.select_n(jnp.broadcast_to(mask, data.shape), jnp.broadcast_to(fill, data.shape), data)


@dataclasses.dataclass(frozen=True)
class Context:
    """One equation, as its rule sees it."""

    eqn: Any
    sizes: Sizes

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        """Logical shape of the (first) result."""
        return self.eqn.outvars[0].aval.shape

    @property
    def out_shapes(self) -> list[tuple[Dim, ...]]:
        """Logical shapes of all results."""
        return [var.aval.shape for var in self.eqn.outvars]

    @property
    def padded_out(self) -> tuple[Dim, ...]:
        """Padded shape of the (first) result, which the rule must deliver exactly."""
        return self.padded(self.out_shape)

    def padded(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The padded shape of a logical one."""
        return self.sizes.padded(shape)

    def true(self, dim: Dim) -> Any:
        """The run-time size of a dimension: an int, or an integer scalar of at least 0."""
        return self.sizes.true(dim)

    def is_ragged(self, *dims: Dim) -> bool:
        """Whether any of the dimensions is only known at run time."""
        return any(map(self.sizes.is_ragged, dims))

    def bind(self, *arrays: Any, **changes: Any) -> Any:
        """Applies this equation's primitive, with its own parameters but for the `changes`."""
        return _compat.bind(self.eqn, arrays, changes)

    def broadcast(self, operands: Sequence[Operand]) -> list[Any]:
        """The arrays at the padded shape of the result.

        At symbolic sizes JAX lets `f32[1, 1]` meet `f32[n, 3]`; at static ones shapes must agree. Scalars are operands
        of rank 0 where a primitive takes them.
        """
        shape = self.padded_out
        arrays = [x.data if isinstance(x, Operand) else x for x in operands]
        return [jnp.broadcast_to(a, shape) if jnp.ndim(a) and jnp.shape(a) != shape else a for a in arrays]

    def interpret(self, jaxpr: Any, *values: Any, sizes: Sizes | None = None) -> list[Padded]:
        """Runs a program found in this equation's parameters on padded values."""
        jaxpr, consts = _compat.open_jaxpr(jaxpr)
        return interpret(jaxpr, consts, values, sizes or self.sizes)

    def unmaskable(self, why: str, instead: str) -> UnmaskableError:
        """An error for a use of this primitive that has no masked form."""
        return UnmaskableError(f"{_headline(self.eqn, self.sizes)}\n  {why}\n  {instead}")


def interpret(jaxpr: Any, consts: Sequence[Any], values: Sequence[Any], sizes: Sizes) -> list[Padded]:
    """Evaluates `jaxpr` on padded values.

    Args:
        jaxpr: a program whose avals are logical shapes.
        consts: the arrays it closes over; nothing in them is ragged.
        values: a `Padded`, or an array of which nothing is known, per input.
        sizes: the dimension variables.

    Returns:
        One `Padded` per output.

    Raises:
        MissingRuleError: an equation has something ragged and its primitive no rule.
    """
    env: dict[Any, Padded] = {}

    def read(atom: Any) -> Padded:
        return Padded(atom.val, pad=_scalar(atom.val)) if _compat.is_literal(atom) else env[atom]

    def write(var: Any, value: Any) -> None:
        env[var] = value if isinstance(value, Padded) else Padded(value)

    inputs = [value if isinstance(value, Padded) else Padded(value, reduced=True) for value in values]  # may be reduced
    for var, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True):
        write(var, value)
    for eqn in jaxpr.eqns:
        operands = list(map(read, eqn.invars))
        reduced = any(x.reduced for x in operands) or _reduces(eqn, sizes)
        with _compat.blame(eqn), _nan_check(eqn, operands):
            for var, value in zip(eqn.outvars, _apply(eqn, operands, sizes), strict=True):
                write(var, value)
                env[var] = env[var]._replace(reduced=reduced or env[var].reduced)
    return list(map(read, jaxpr.outvars))


def _nan_check(eqn: Any, values: Sequence[Padded]) -> contextlib.AbstractContextManager:
    """Keeps `jax_debug_nans` still where an operand is nan already: `jnp.var` selects between its value and a nan."""

    def is_nan(x: Any) -> bool:
        inexact = jnp.issubdtype(jnp.result_type(x), jnp.inexact)
        return inexact and not isinstance(x, jax.core.Tracer) and bool(np.isnan(np.asarray(x)).any())

    checked = jax.config.jax_debug_nans and not _programs(eqn)
    return jax.debug_nans(False) if checked and any(is_nan(x.data) for x in values) else contextlib.nullcontext()


def _scalar(value: Any) -> Any:
    return value if np.ndim(value) == 0 else None


def _apply(eqn: Any, values: list[Padded], sizes: Sizes) -> Sequence[Any]:
    name = eqn.primitive.name
    guarded = sizes.alive is not None and name in GUARDED
    if name in RULES and (guarded or _programs(eqn) or _is_ragged(eqn, sizes)):
        pairs = zip(values, eqn.invars)
        operands = [Operand(_unless_empty(eqn, x, atom, sizes), atom.aval, sizes) for x, atom in pairs]
        out = RULES[name](Context(eqn, sizes), *operands, **eqn.params)
    elif _is_ragged(eqn, sizes):
        raise MissingRuleError(
            f"{_headline(eqn, sizes)}\n"
            f"  There is no masking rule for {name!r}.\n"
            "  Keep the ragged dimension out of this step, or write a rule for it: maskax.register_rule(primitive)."
        )
    else:
        out = _compat.bind(eqn, [value.data for value in values])
    return out if eqn.primitive.multiple_results else [out]


def _reduces(eqn: Any, sizes: Sizes) -> bool:
    """Whether a run-time size goes into an equation and is not in the shape of its results."""
    before, after = (
        {name for atom in atoms for dim in getattr(atom.aval, "shape", ()) for name in _compat.variables(dim)}
        for atoms in (eqn.invars, eqn.outvars)
    )
    return not sizes.limits.keys().isdisjoint(before - after) or eqn.primitive.name == "dim_as_value"


def _unless_empty(eqn: Any, value: Padded, atom: Any, sizes: Sizes) -> Padded:
    """The operand, or zeros where the result has no true element: nan times a cotangent of 0 is nan.

    Only what was reduced over a ragged axis can be nan there while everything that is ragged itself is finite.
    """
    if not value.reduced or len(eqn.outvars) != 1 or not jnp.issubdtype(atom.aval.dtype, jnp.inexact):
        return value
    dims = set(eqn.outvars[0].aval.shape) - set(atom.aval.shape)
    some = [sizes.true(dim) > 0 for dim in dims if sizes.is_ragged(dim)]
    if not some:
        return value
    data = select(functools.reduce(operator.and_, some), value.data, 0)
    return Padded(data, pad=value.pad if known_equal(value.pad, 0) else None, note=value.note, reduced=True)


def _is_ragged(eqn: Any, sizes: Sizes) -> bool:
    """Whether an equation, or a program inside it, meets a dimension that is only known at run time."""
    if any(sizes.ragged_axes(getattr(atom.aval, "shape", ())) for atom in [*eqn.invars, *eqn.outvars]):
        return True
    leaves = jax.tree.leaves(list(eqn.params.values()))
    if any(sizes.is_ragged(leaf) for leaf in leaves if jax.export.is_symbolic_dim(leaf)):
        return True
    return any(_is_ragged(inner, sizes) for program in _programs(eqn) for inner in program.eqns)


def _programs(eqn: Any) -> list[Any]:
    """The programs among an equation's parameters."""
    leaves = jax.tree.leaves(list(eqn.params.values()), is_leaf=_compat.is_jaxpr)
    return [_compat.open_jaxpr(leaf)[0] for leaf in leaves if _compat.is_jaxpr(leaf)]


def _headline(eqn: Any, sizes: Sizes) -> str:
    def text(atom: Any) -> str:
        dims = ", ".join(sizes.scope.show(dim) for dim in getattr(atom.aval, "shape", ()))
        return f"{jnp.dtype(atom.aval.dtype).name if not _is_key(atom.aval) else 'key'}[{dims}]"

    operands, results = (", ".join(map(text, atoms)) for atoms in (eqn.invars, eqn.outvars))
    return f"{_compat.source_line()}: {eqn.primitive.name}: {operands} -> {results}"


def _is_key(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jax.dtypes.extended)
