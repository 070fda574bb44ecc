"""What a mask is, how it is laid over a tree, and the algebra of masks."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import MaskaxError
from ._paths import Leaf, Path, hollow_paths, listed, named_leaves

PyTree = Any
Entry = Any
"""One leaf of a mask: a bool, or a boolean array."""
Structure = Any
"""A `jax.tree_util.PyTreeDef`."""
Check = Callable[[Entry, PyTree, Callable[[], str]], Entry]


class MaskError(MaskaxError, ValueError):
    """A mask, a pattern or a set of labels does not fit the tree it is for."""


def is_entry(leaf: Any) -> bool:
    """Whether a leaf may stand in a mask: a bool, or an array of booleans (a traced one too)."""
    return isinstance(leaf, bool | np.bool_) or (isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype == np.bool_)


def is_static(entry: Entry) -> bool:
    """Whether an entry is known for good: a plain bool. A `jax.Array` may change from step to step."""
    return isinstance(entry, bool)


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf can be trained: an array or number, floating-point or complex."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return isinstance(leaf, float | complex)
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def negate(entry: Entry) -> Entry:
    """Not, of one entry."""
    return not entry if is_static(entry) else ~entry


def is_none(node: Any) -> bool:
    """Whether a node is `None`."""
    return node is None


def fit(mask: PyTree, tree: PyTree, check: Check | None = None) -> tuple[list[Entry], Structure]:
    """Lay a mask over a tree.

    A mask with the tree's structure, or a prefix of it, keeps its own structure. Any other is matched by
    path, so that a dict fits a FrozenDict, an nnx State or a module with the same names.

    Args:
        mask: A tree of entries.
        tree: The tree it is for.
        check: Called with each entry, the part of the tree under it and a function that gives its path;
            returns the entry to use, or raises. The default checks for booleans of the right shape.

    Returns:
        The entries, and their structure: a prefix of that of `tree`.

    Raises:
        MaskError: If a leaf has no entry, an entry has no place, or `check` raises it.
    """
    entries, structure, parts, names = _lay(mask, tree)
    check = check or _check_entry
    checked = [check(entry, part, lambda i=i: names()[i].name) for i, (entry, part) in enumerate(zip(entries, parts))]
    return checked, structure


def _lay(mask: PyTree, tree: PyTree) -> tuple[list[Entry], Structure, list[PyTree], Callable[[], list[Leaf]]]:
    # `None` is tried as what it is for JAX, a node without leaves, which the tree has there too; then as an
    # entry for something that is there but is no parameter, such as a module's activation function.
    for is_leaf in (None, is_none):
        entries, structure = jax.tree.flatten(mask, is_leaf=is_leaf)
        try:
            parts = structure.flatten_up_to(tree)
        except (TypeError, ValueError):
            continue
        return entries, structure, parts, lambda is_leaf=is_leaf: named_leaves(mask, is_leaf)
    leaves, structure = jax.tree.flatten(tree)
    return _by_path(mask, tree), structure, leaves, lambda: named_leaves(tree)


def _by_path(mask: PyTree, tree: PyTree) -> list[Entry]:
    """The entry for each leaf of a tree: the one at its path, or at the nearest node above it."""
    entries = {leaf.path: leaf.value for leaf in named_leaves(mask, is_leaf=is_none)}
    leaves = named_leaves(tree)
    places = [next((path for path in _upwards(leaf.path) if path in entries), None) for leaf in leaves]
    # An entry for a place where the tree has no leaf is in order; one for a place that the tree lacks is not.
    hollow = set(hollow_paths(tree))
    known = {*places, *hollow, *(above for path in hollow for above in _upwards(path))}
    strays = [
        path
        for path, entry in entries.items()
        if entry is not None and path not in known and not any(above in hollow for above in _upwards(path))
    ]
    if strays or None in places:
        raise MaskError(_misfit([leaf for leaf, place in zip(leaves, places) if place is None], strays, leaves))
    return [entries[place] for place in places if place is not None]


def _upwards(path: Path) -> list[Path]:
    return [path[:length] for length in range(len(path), -1, -1)]


def _misfit(bare: list[Leaf], strays: list[Path], leaves: list[Leaf], limit: int = 5) -> str:
    lines = [
        f"{leaf.name!r} ({kind(leaf.value)}) has no entry in the mask, nor has a node above it" for leaf in bare[:limit]
    ]
    for path in strays[:limit]:
        beside = [leaf.name for leaf in leaves if leaf.path[: len(path) - 1] == path[:-1]]
        lines.append(f"{'/'.join(path)!r} is in the mask but not in the tree, which has {listed(beside)} there")
    more = max(len(bare) - limit, 0) + max(len(strays) - limit, 0)
    shown = "\n  ".join(lines + [f"and {more} more"] * (more > 0))
    return (
        f"The mask does not fit the tree:\n  {shown}\n"
        "Give True or False for each leaf, or for a node above it. mx.tree.select builds such a mask."
    )


def _check_entry(entry: Entry, part: PyTree, name: Callable[[], str]) -> Entry:
    entry = _boolean(entry, part, name)
    if is_static(entry) or entry.ndim == 0:
        return entry
    for leaf in jax.tree.leaves(part):
        shape = getattr(leaf, "shape", ())
        if len(shape) != entry.ndim or any(m not in (1, n) for m, n in zip(entry.shape, shape)):
            raise MaskError(
                f"The mask at {name()!r} has shape {list(entry.shape)}, the leaf there is {kind(leaf)}. "
                "A boolean array needs as many dimensions as its leaf, each of the leaf's size or 1."
            )
    return entry


def _boolean(entry: Entry, part: PyTree, name: Callable[[], str]) -> Entry:
    if isinstance(entry, bool):
        return entry
    if entry is None:
        if any(map(is_parameter, jax.tree.leaves(part))):
            raise MaskError(
                f"The mask at {name()!r} is None, which says that there is no parameter, but the tree has one. "
                "Write False to leave it out."
            )
        return False
    if not is_entry(entry):
        raise MaskError(_not_boolean(name(), entry))
    return bool(entry) if isinstance(entry, np.bool_ | np.ndarray) and entry.ndim == 0 else entry


def _not_boolean(name: str, entry: Any) -> str:
    return f"The mask at {name!r} is {entry!r} ({type(entry).__name__}), not a boolean. Write True or False."


def check_boolean(mask: PyTree) -> None:
    """Raise, with the path, for the first leaf of a mask that is not boolean."""
    for leaf in jax.tree.leaves(mask):
        if not is_entry(leaf):
            bad = next(named for named in named_leaves(mask) if named.value is leaf)
            raise MaskError(_not_boolean(bad.name, leaf))


def kind(leaf: Any) -> str:
    """A leaf in a few characters: `float32[3,2]` for arrays, the type's name for anything else."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
    return type(leaf).__name__


def spread(mask: PyTree, tree: PyTree, check: Check | None = None) -> PyTree:
    """A mask with exactly the structure of `tree`: an entry for each leaf."""
    entries, structure = fit(mask, tree, check)
    parts = structure.flatten_up_to(tree)
    each = [entry for entry, part in zip(entries, parts) for _ in jax.tree.leaves(part)]
    return jax.tree.unflatten(jax.tree.structure(tree), each)


def validate(mask: PyTree, tree: PyTree) -> PyTree:
    """Check that a mask fits a tree, and return it spelled out: one entry for each leaf.

    A mask is a tree of booleans, True for the leaves that are kept (trained, transformed). It has the
    structure of `tree` or of a prefix of it: one entry may stand for a whole subtree. Containers need not be
    of the same type, only the names must agree. An entry is `True` or `False`, a scalar boolean `jax.Array`
    (it may change while a compiled step runs), or a boolean array that says it for each element of one leaf.

    `None` means that there is no parameter: in a tree, and in a mask for a place where the tree has none
    (None, or something that is not a floating-point array or number, such as a function). Anywhere else in a
    mask it is an error.

    Args:
        mask: The mask.
        tree: The tree that it is for, usually parameters.

    Returns:
        The mask with the structure of `tree`.

    Raises:
        MaskError: If a leaf has no entry, an entry has no place, or an entry is not boolean or has the wrong
            shape. The message names the path.

    >>> validate({"encoder": False, "head": True}, {"encoder": {"w": 1.0, "b": 0.0}, "head": {"w": 2.0}})
    {'encoder': {'b': False, 'w': False}, 'head': {'w': True}}
    """
    return spread(mask, tree)


def _columns(masks: Sequence[PyTree]) -> tuple[list[list[Entry]], Structure]:
    """The masks entry by entry, all laid over the finest of them."""
    plain = [_plain(mask) for mask in masks]
    finest = max(plain, key=lambda mask: len(jax.tree.leaves(mask)))
    return [jax.tree.leaves(spread(mask, finest, _boolean)) for mask in plain], jax.tree.structure(finest)


def _plain(mask: PyTree) -> PyTree:
    """A mask, checked, with plain bools where it can have them."""
    entries, structure = fit(mask, mask, _boolean)
    return structure.unflatten(entries)


def _and(one: Entry, other: Entry) -> Entry:
    if is_static(one):
        return other if one else False
    if is_static(other):
        return one if other else False
    return jnp.logical_and(one, other)


def invert(mask: PyTree) -> PyTree:
    """The mask that keeps what this one does not.

    >>> invert({"w": True, "b": False})
    {'b': True, 'w': False}
    """
    return jax.tree.map(negate, _plain(mask))


def both(*masks: PyTree) -> PyTree:
    """The mask that keeps what every one of these keeps.

    >>> both({"w": True, "b": True}, {"w": True, "b": False})
    {'b': False, 'w': True}
    """
    columns, structure = _columns(masks)
    merged = columns[0]
    for column in columns[1:]:
        merged = [_and(one, other) for one, other in zip(merged, column)]
    return structure.unflatten(merged)


def either(*masks: PyTree) -> PyTree:
    """The mask that keeps what at least one of these keeps.

    >>> either({"w": True, "b": False}, {"w": False, "b": False})
    {'b': False, 'w': True}
    """
    return invert(both(*(invert(mask) for mask in masks)))


def minus(mask: PyTree, other: PyTree) -> PyTree:
    """The mask that keeps what `mask` keeps and `other` does not.

    >>> minus({"w": True, "b": True}, {"w": False, "b": True})
    {'b': False, 'w': True}
    """
    return both(mask, invert(other))
