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
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from maskax import _compat, _signs
from maskax._errors import MissingRuleError, UnmaskableError
from maskax._operand import Operand, Padded, is_wild, known_equal, select
from maskax._registry import GUARDED, RULES
from maskax._shapes import Dim, Sizes
from maskax._watch import watch


@dataclasses.dataclass(frozen=True)
class Context:
    """One equation, as its rule sees it; `reduced` says it of every operand, see `Padded`."""

    eqn: Any
    sizes: Sizes
    reduced: Sequence[bool] = ()

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

    @property
    def meets_ragged(self) -> bool:
        """Whether anything in this equation, or in a program inside it, is ragged."""
        return _is_ragged(self.eqn, self.sizes)

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

    def tame(self, out: Any, *operands: Operand) -> Any:
        """The result of these operands with finite padding.

        A nan or inf that the program writes down (`jnp.where(keep, x, -jnp.inf)`) may be chosen in the padding alone.
        """
        wild = jnp.issubdtype(out.dtype, jnp.inexact) and any(is_wild(x.value.pad) for x in operands)
        return self.clean(out) if wild else out

    def clean(self, out: Any, result: int = 0) -> Padded:
        """A result with 0 in its padding, for rules that leave copies of true elements there: one may be nan or inf."""
        x = Operand(Padded(out), self.eqn.outvars[result].aval, self.sizes)
        return Padded(x.safe(0), pad=0 if x.ragged else None, raw=out)

    def inputs(self, values: Sequence[Any]) -> list[Padded]:
        """Arrays that stand for the last operands of this equation, as inputs of a program inside it.

        Weights must be known not to be reduced: guarded as what may be, they would get a copy per row of a batch.
        """
        flags = self.reduced[len(self.reduced) - len(values) :]
        return [Padded(value, reduced=flag) for value, flag in zip(values, flags, strict=True)]

    def interpret(self, jaxpr: Any, *values: Any, sizes: Sizes | None = None, inline: bool = False) -> list[Padded]:
        """Runs a program found in this equation's parameters on padded values; `inline`: as a part of this one."""
        jaxpr, consts = _compat.open_jaxpr(jaxpr)
        return interpret(jaxpr, consts, values, self.sizes if inline else (sizes or self.sizes).inside())

    def unmaskable(self, why: str, instead: str) -> UnmaskableError:
        """An error for a use of this primitive that has no masked form."""
        return UnmaskableError(f"{headline(self.eqn, self.sizes)}\n  {why}\n  {instead}")


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
        return _constant(atom.val) if _compat.is_literal(atom) else env[atom]

    def write(var: Any, value: Any) -> None:
        env[var] = value if isinstance(value, Padded) else Padded(value)

    inputs = [value if isinstance(value, Padded) else Padded(value, reduced=True) for value in values]  # may be reduced
    for var, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True):
        write(var, value)
    onlooker = watch()
    for eqn in jaxpr.eqns:
        operands = list(map(read, eqn.invars))
        reduced = any(x.reduced for x in operands) or _reduces(eqn, sizes)
        with _compat.blame(eqn), _nan_check(eqn, operands):
            operands = onlooker.begin(eqn, operands, sizes)
            for var, value in zip(eqn.outvars, _apply(eqn, operands, sizes), strict=True):
                write(var, value)
                known = env[var]
                sign = max(known.sign, _signs.of_result(eqn, [x.sign for x in operands]))
                env[var] = known._replace(reduced=reduced or known.reduced, sign=sign)
            onlooker.end(eqn, [env[var] for var in eqn.outvars], sizes)
    return list(map(read, jaxpr.outvars))


def _nan_check(eqn: Any, values: Sequence[Padded]) -> contextlib.AbstractContextManager:
    """Keeps `jax_debug_nans` still where an operand is nan already: `jnp.var` selects between its value and a nan."""

    def is_nan(x: Any) -> bool:
        inexact = jnp.issubdtype(jnp.result_type(x), jnp.inexact)
        return inexact and not isinstance(x, Tracer) and bool(np.isnan(np.asarray(x)).any())

    checked = jax.debug_nans.value and not programs(eqn)
    return jax.debug_nans(False) if checked and any(is_nan(x.data) for x in values) else contextlib.nullcontext()


def _constant(value: Any) -> Padded:
    return Padded(value, pad=value if np.ndim(value) == 0 else None, sign=_signs.of_constant(value))


def _apply(eqn: Any, values: list[Padded], sizes: Sizes) -> Sequence[Any]:
    name = eqn.primitive.name
    guarded = sizes.alive is not None and name in GUARDED
    if name in RULES and (guarded or programs(eqn) or _is_ragged(eqn, sizes)):
        pairs = zip(values, eqn.invars)
        operands = [Operand(_unless_empty(eqn, x, atom, sizes), atom.aval, sizes) for x, atom in pairs]
        out = RULES[name](Context(eqn, sizes, [x.reduced for x in values]), *operands, **eqn.params)
    elif _is_ragged(eqn, sizes):
        raise MissingRuleError(
            f"{headline(eqn, sizes)}\n"
            f"  There is no masking rule for {name!r}.\n"
            "  Keep the ragged dimension out of this step, or write a rule for it: maskax.register_rule(primitive)."
        )
    elif _is_constant(eqn, values):
        with jax.ensure_compile_time_eval():
            out = _compat.bind(eqn, [value.pad for value in values])
        out = _constant(np.asarray(out)[()])
    elif _is_index(eqn, values):
        with jax.ensure_compile_time_eval():
            out = _compat.bind(eqn, [value.data for value in values])
    else:
        out = _compat.bind(eqn, [value.data for value in values])
    return out if eqn.primitive.multiple_results else [out]


def _is_constant(eqn: Any, values: Sequence[Padded]) -> bool:
    """Whether an equation computes a scalar from numbers that the program writes down."""
    scalars = all(getattr(atom.aval, "shape", None) == () for atom in [*eqn.invars, *eqn.outvars])
    numbers = scalars and values and all(value.pad is not None for value in values)
    return bool(numbers) and not eqn.primitive.multiple_results and isinstance(eqn.outvars[0].aval.dtype, np.dtype)


def _is_index(eqn: Any, values: Sequence[Padded]) -> bool:
    """Whether an equation computes where a slice starts from numbers that the program writes down."""
    if eqn.primitive.name not in ("broadcast_in_dim", "concatenate", "stack"):
        return False
    aval = eqn.outvars[0].aval
    few = (
        aval.ndim == 1 and isinstance(aval.shape[0], int) and aval.size <= 8 and jnp.issubdtype(aval.dtype, jnp.integer)
    )
    return few and all(_compat.is_concrete(value.data) for value in values)


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
    return any(_is_ragged(inner, sizes) for program in programs(eqn) for inner in program.eqns)


def programs(eqn: Any) -> list[Any]:
    """The programs among an equation's parameters."""
    leaves = jax.tree.leaves(list(eqn.params.values()), is_leaf=_compat.is_jaxpr)
    return [_compat.open_jaxpr(leaf)[0] for leaf in leaves if _compat.is_jaxpr(leaf)]


def headline(eqn: Any, sizes: Sizes) -> str:
    """The equation as a user can place it: `model.py:41 (pool): reduce_sum: float32[n, 3] -> float32[3]`."""
    operands, results = (types_of(atoms, sizes) for atoms in (eqn.invars, eqn.outvars))
    return f"{_compat.source_line()}: {eqn.primitive.name}: {operands} -> {results}"


def types_of(atoms: Sequence[Any], sizes: Sizes) -> str:
    """Operands or results of an equation: `float32[n, 3], int32[]`."""

    def text(atom: Any) -> str:
        dims = ", ".join(sizes.scope.show(dim) for dim in getattr(atom.aval, "shape", ()))
        return f"{jnp.dtype(atom.aval.dtype).name if not _is_key(atom.aval) else 'key'}[{dims}]"

    return ", ".join(map(text, atoms))


def _is_key(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jax.dtypes.extended)
