"""The table of masking rules."""

import functools
from collections.abc import Callable
from typing import Any

RULES: dict[str, Callable[..., Any]] = {}
"""Masking rule per primitive name. Names are what JAX prints in a jaxpr; they change less than where objects live."""

GUARDED: set[str] = set()
"""Primitives whose rule is also asked where nothing is ragged but the step is past a row's end (`Sizes.alive`)."""


def rule(*primitives: str, guarded: bool = False, **options: Any) -> Callable[[Callable], Callable]:
    """Registers the decorated function as the masking rule of some primitives.

    A rule is called as `rule(ctx, *operands, **params, **options)` and returns the padded result: an array, or a
    `Padded` when it knows what lies in the padding; a sequence of these for a primitive of several results.
    """

    def register(function: Callable) -> Callable:
        GUARDED.update(primitives if guarded else ())
        for name in primitives:
            RULES[name] = functools.partial(function, **options) if options else function
        return function

    return register


def register_rule(primitive: Any, function: Callable | None = None) -> Any:
    """Registers a masking rule for a primitive of your own, or replaces one of ours.

    Args:
        primitive: the primitive, or its name as it stands in a jaxpr.
        function: `rule(ctx, *operands, **params)`, which returns the padded result (a sequence of them for a primitive
            of several results). Left out, `register_rule` is a decorator. An `Operand` has `.data` (the padded array),
            `.shape` (its logical shape) and `.fill(value, axes)`; `ctx.bind(*arrays, **changes)` applies the primitive.

    Returns:
        The function, or a decorator that returns it.

    Example:
        >>> import maskax as mx
        >>> @mx.register_rule("my_sum_of_squares")
        ... def my_sum_of_squares(ctx, x, *, axes, **_):
        ...     return ctx.bind(x.fill(0, axes))
        >>> mx.rules()["my_sum_of_squares"].__name__
        'my_sum_of_squares'
    """
    if function is None:
        return lambda f: register_rule(primitive, f)
    RULES[getattr(primitive, "name", primitive)] = function
    return function


def rules() -> dict[str, Callable[..., Any]]:
    """All masking rules by the name of their primitive.

    Example:
        >>> import maskax as mx
        >>> "dot_general" in mx.rules()
        True
    """
    return dict(RULES)
