"""How a caller says which leaves: a mask, a function that makes one, or a description of leaves."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..tree import MaskError, PyTree, select
from ..tree._masks import check_boolean, is_entry
from ..tree._select import NDim


class Choice(NamedTuple):
    """A way to get the mask for a tree.

    Attributes:
        make: Returns the mask for a tree of parameters or updates.
        fixed: Whether it is the same whatever the tree.
    """

    make: Callable[[PyTree], PyTree]
    fixed: bool


def choose(mask: Any, mask_fn: Any, mask_value: Any, where: Any) -> Choice:
    """The one of the four ways that was used.

    Raises:
        MaskError: If none or more than one was, or if it is not what its name says.
    """
    only_one(mask=mask, mask_fn=mask_fn, mask_value=mask_value, where=where)
    if mask is not None:
        return _choose_positional(mask)
    if mask_fn is not None:
        return Choice(check_function(mask_fn, "mask_fn"), fixed=False)
    if where is not None:
        return Choice(lambda tree: select(tree, where), fixed=False)
    check_boolean(mask_value)
    return Choice(lambda tree: mask_value, fixed=True)


def only_one(**given: Any) -> None:
    """Raise unless exactly one of the arguments is given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(names) or "none"
        raise MaskError(f"Give exactly one of {', '.join(given)}; got {got}.")


def check_function(function: Any, name: str) -> Callable[[PyTree], PyTree]:
    """Raise unless `function` can be called."""
    if not callable(function):
        raise MaskError(
            f"{name} must be a function of the parameters, not {function!r}. If it was one: "
            f"optax.inject_hyperparams calls functions as schedules; list {name!r} in its static_args."
        )
    return function


def _choose_positional(mask: Any) -> Choice:
    if isinstance(mask, str | re.Pattern | NDim | type):
        raise MaskError(f"{mask!r} is not a mask but a way to choose leaves: write where={mask!r}.")
    if is_entry(mask) and getattr(mask, "ndim", 0) == 0:
        raise unclear(
            "mask",
            mask,
            "one boolean for the whole tree, which is also what is left of a mask function when "
            "optax.inject_hyperparams has called it as a schedule",
        )
    if is_function(mask, "mask", is_entry):
        return Choice(check_function(mask, "mask"), fixed=False)
    check_boolean(mask)
    return Choice(lambda tree: mask, fixed=True)


def is_function(tree: Any, name: str, belongs: Callable[[Any], bool]) -> bool:
    """Whether something is a function that makes a tree, rather than a tree that happens to be callable.

    Args:
        tree: The tree or function.
        name: The argument's name, for the error; `<name>_fn` and `<name>_value` are the ways to be explicit.
        belongs: Whether a leaf is one that such a tree has.

    Raises:
        MaskError: If it could be either.
    """
    if not callable(tree):
        return False
    leaves = jax.tree.leaves(tree)
    known = [belongs(leaf) for leaf in leaves]
    partial = isinstance(tree, jax.tree_util.Partial)
    if not leaves:
        if partial:
            return True
        raise unclear(name, tree, "callable, and a pytree without leaves")
    if not any(known):
        return True
    if partial:
        raise unclear(name, tree, f"a function whose bound arguments look like a {name}")
    if not all(known):
        raise unclear(name, tree, f"callable, and a pytree in which only some leaves are those of a {name}")
    return False


def unclear(name: str, tree: Any, why: str) -> MaskError:
    """The error for an argument that could be a tree as well as a function."""
    return MaskError(
        f"Is {name} the {name} itself, or a function that makes it? It is a {type(tree).__name__}: {why}. "
        f"Write {name}_value=... if it is the {name}, {name}_fn=... if it is to be called with parameters."
    )
