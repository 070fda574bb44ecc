"""What JAX says when a function does not trace at run-time sizes, in words that help the one who wrote the function."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from maskax import _compat
from maskax._errors import MaskaxError, UnmaskableError
from maskax._instead import instead_of
from maskax._scope import Scope, names_in

_AS_INT = (
    "A run-time size cannot be an int while tracing. Use it in shapes as it is (x.shape[0], not len(x)), or as a\n"
    "  value: jnp.asarray(n). To loop over it: jax.lax.fori_loop, or jax.lax.scan over the array, or over\n"
    "  jnp.arange(n) where only the length counts."
)
_AS_INDEX = "To index by a size, make it a value: x[jnp.asarray(n // 2)]. Slices take it as it is: x[: n // 2]."
_AS_VALUE = "jax.numpy computes with sizes, as values: jnp.sqrt(n), jnp.asarray(n) ** 0.5, jnp.array(x.shape)."
_AS_ONE = (
    "Sizes that the data decides are different sizes, but for those of the same array of booleans.\n"
    "  Take positions once: i = maskax.flatnonzero(keep), then x[i] and y[i]."
)
_AS_CHOICE = (
    "If it differs from row to row, use jnp.where or jax.lax.cond on the size as a value: jnp.asarray(n);\n"
    "  for the greater of two sizes, jnp.maximum(n, 1)."
)
_BOOLEAN = (
    "how many elements a boolean index takes depends on the data.\n"
    "  Use maskax.at(x)[keep], or maskax.compress(keep, x): as many results as the data say; to set, jnp.where."
)
_OVER_ROWS = (
    "Say shard_map(..., check_vma=False), or return what each row adds (mx.vmap without axis_name), sum it over the\n"
    "  rows, and over devices with jax.lax.psum: mx.mean(..., axis_name='devices') and mx.moments do so."
)
_ABOUT_SIZES = (
    "_DimExpr|integers?, got '|a vmap inside shard_map|shape polymorphism|dim_as_value|process_primitive|"
    "'list' and 'DynamicJaxprTracer'|Symbolic dimension|<class 'numpy.ndarray'>"
)
"""Words in JAX's errors that only sizes bring about, whatever their names."""
_HINTS = {
    r"is in a set": _AS_CHOICE,
    r"loop of ufunc|non-integer powers|<class 'numpy.ndarray'>": _AS_VALUE,
    r"_DimExpr|integers?, got '|process_primitive|'list' and": _AS_INT,
    r"a vmap inside shard_map": _OVER_ROWS,
    r"valid indices. Got": _AS_INDEX,
    r"divide evenly|equal division": "Write the dimension as a multiple in in_shapes: '2*k' instead of 'n'.",
    r"shapes?\b|sizes|same|dimensions": (
        "Dimensions of different names are different sizes. Where they are always equal, use one name in in_shapes,\n"
        "  or say so: mask(..., constraints=('n == m',))."
    ),
}
"""Per pattern in JAX's text about a run-time size: what to write instead."""


@contextmanager
def reworded(scope: Scope) -> Iterator[None]:
    """Turns what JAX raises about run-time sizes into `UnmaskableError`; all else passes as it is."""
    try:
        yield
    except MaskaxError:
        raise
    except _compat.InconclusiveDimension as error:
        raise _inconclusive(error, scope) from None
    except jax.errors.NonConcreteBooleanIndexError as error:
        raise UnmaskableError(f"{_compat.user_line(error)}: {_BOOLEAN}") from error
    except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError) as error:
        text = scope.show(str(error).split("\n---", 1)[0].strip())
        chosen = isinstance(error, jax.errors.JAXTypeError)  # of an array's values
        about_sizes = _is_about_sizes(text, scope)
        hint = instead_of(_compat.functions_called(error), chosen) if chosen or about_sizes else None
        if about_sizes and not chosen:
            hint = hint or (_AS_ONE if scope.made.keys() & names_in(text) else _hint(text))
        if hint is None:
            raise
        raise UnmaskableError(f"{_compat.user_line(error)}: {text}\n  {hint}") from error


def _is_about_sizes(text: str, scope: Scope) -> bool:
    name = "|".join(map(re.escape, [*scope.names, *scope.made])) or "(?!)"
    shape, size = rf"[(\[][^()\[\]]*\b(?:{name})\b[^()\[\]]*[)\]]", rf"size:? (?:{name})\b"
    index = rf"valid indices. Got .*\b(?:{name})\b"
    return bool(re.search(f"{_ABOUT_SIZES}|{shape}|{size}|{index}", text))


def _hint(text: str) -> str | None:
    """What to do instead, of run-time sizes that the text is about."""
    return next((hint for pattern, hint in _HINTS.items() if re.search(pattern, text)), None)


def _inconclusive(error: Exception, scope: Scope) -> UnmaskableError:
    text = scope.show(str(error).split("\n", 1)[0])
    line, there = _compat.user_line(error), instead_of(_compat.functions_called(error), chosen=False)
    if found := re.search(r"comparison '(.+)' (>=|<=|>|<|==|!=) '(.+)'", text):
        left, relation, right = found.groups()
        lines = [
            f"{line}: whether {left} {relation} {right} depends on a run-time size, but the program must be the same "
            "for all sizes."
        ]
        if scope.made.keys().isdisjoint(names_in(f"{left} {right}")):
            holds, fails = (f"constraints=({c!r},)" for c in _constraints(left, relation, right))
            lines.append(
                f"If it holds for all sizes, say so: mask(..., {holds}); if it never does: mask(..., {fails})."
            )
        return UnmaskableError("\n  ".join([*lines, there or _AS_CHOICE]))
    return UnmaskableError(f"{line}: {text}\n  {there or _hint(text) or _AS_INT}")


def _constraints(left: str, relation: str, right: str) -> tuple[str, str]:
    """The constraints under which a comparison holds, and under which it does not."""

    def shifted(side: str, by: int) -> str:
        return str(int(side) + by) if re.fullmatch(r"-?\d+", side) else f"{side} {'+' if by > 0 else '-'} 1"

    at_least, at_most = f"{left} >= {right}", f"{left} <= {right}"
    more, less = f"{left} >= {shifted(right, 1)}", f"{left} <= {shifted(right, -1)}"
    equal = f"{left} == {right}"
    return {
        ">=": (at_least, less),
        ">": (more, at_most),
        "<=": (at_most, more),
        "<": (less, at_least),
        "==": (equal, more),
        "!=": (more, equal),
    }[relation]
