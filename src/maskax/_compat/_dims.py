"""Dimensions that may be symbolic: JAX's expressions of sizes."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import core
from jax._src.export import shape_poly


def max_dim(*dims: Any) -> Any:
    """Maximum of dimensions that may be symbolic; an int where the comparison can be decided."""
    return functools.reduce(core.max_dim, dims)


def min_dim(*dims: Any) -> Any:
    """Minimum of dimensions that may be symbolic."""
    return functools.reduce(core.min_dim, dims)


def variables(dim: Any) -> frozenset[str]:
    """Names of the dimension variables in `dim`; empty for an int."""
    return frozenset(dim._get_vars()) if jax.export.is_symbolic_dim(dim) else frozenset()


def evaluate_dim(dim: Any, env: Callable[[str], Any], maximum: Callable, minimum: Callable) -> Any:
    """Evaluates a dimension expression with `+ * // %`, `maximum` and `minimum` of whatever `env` returns.

    One walk serves ints, NumPy grids, intervals and traced scalars. (JAX's own evaluator only knows the last.)
    """
    if not jax.export.is_symbolic_dim(dim):
        return dim

    def operand(d: Any) -> Any:
        return evaluate_dim(d, env, maximum, minimum)

    def factor(f: Any) -> Any:
        if f.var is not None:
            return env(f.var)
        a, b = map(operand, f.operands)
        match f.operation:
            case shape_poly._DimFactor.FLOORDIV:
                return a // b
            case shape_poly._DimFactor.MOD:
                return a % b
            case shape_poly._DimFactor.MAX:
                return maximum(a, b)
            case shape_poly._DimFactor.MIN:
                return minimum(a, b)
        raise NotImplementedError(f"dimension operation {f.operation!r}")

    def term(t: Any, coefficient: int) -> Any:
        powers = [factor(f) for f, exponent in t._factors for _ in range(exponent)]
        return functools.reduce(operator.mul, powers if powers and coefficient == 1 else [*powers, coefficient])

    return functools.reduce(operator.add, [term(t, coefficient) for t, coefficient in dim._sorted_terms])


def linear_parts(dim: Any) -> tuple[str, int, Any] | None:
    """`(name, a, b)` if `dim` is `a * name + b` with one variable and ints `a`, `b`; else `None`."""
    names = variables(dim)
    if len(names) != 1:
        return None
    (name,) = names
    a, b = 0, 0
    for term, coefficient in dim._sorted_terms:
        match term._factors:
            case [] | ():
                b = coefficient
            case [(f, 1)] if f.var is not None:
                a = coefficient
            case _:
                return None
    return name, a, b


def add_constraints(scope: jax.export.SymbolicScope, constraints: Sequence[str]) -> None:
    """Adds constraints to a scope in use: nested masks share their caller's scope, since scopes never mix."""
    for constraint in constraints:
        scope._parse_and_process_explicit_constraint(constraint)
    scope._bounds_cache.clear()
    scope._decision_initial_state = None
