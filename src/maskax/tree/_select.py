"""Choosing leaves: by path, type, dtype, number of dimensions, predicate or tree."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._masks import MaskError, PyTree, is_entry, is_none, kind, spread
from ._paths import Leaf, glob, hollow_paths, listed, named_leaves, near_misses, split

Where = Any
"""What `select` takes: see there."""


def select(tree: PyTree, where: Where) -> PyTree:
    """The mask that is True for the leaves of a tree which `where` describes.

    Args:
        tree: Any pytree: dicts, modules, nnx states, haiku parameters, dataclasses, NamedTuples. `None` in it
            is no leaf.
        where: One of

            - a path glob: `"encoder/**/bias"`. It starts at the root; `*` and `?` stay within one segment,
              `**` stands for any number of them. A pattern that names a node selects all that is under it, as
              in `.gitignore`.
            - a regular expression, `re.compile("bias$")`, searched in the path;
            - a predicate, `lambda path, leaf: leaf.ndim > 1`, where `path` is a string as above;
            - a type: leaves of it, and leaves inside nodes of it (`eqx.nn.LayerNorm`, `nnx.Param`);
            - a dtype or a kind of dtype: `jnp.bfloat16`, `jnp.floating`;
            - `ndim(min=2)` and its like;
            - a mask, that is, a tree of booleans, or one boolean for all;
            - a list of these: leaves that at least one of them describes.

    Returns:
        A tree of booleans with the structure of `tree`, True for the selected leaves.

    Raises:
        MaskError: If a pattern or a type matches nothing (the message lists near misses), or a mask does not
            fit.

    >>> params = {"dense": {"bias": jnp.zeros(3), "kernel": jnp.ones((2, 3))}, "scale": jnp.ones(3)}
    >>> select(params, "**/kernel")
    {'dense': {'bias': False, 'kernel': True}, 'scale': False}
    >>> select(params, [re.compile("bias$"), "scale"])
    {'dense': {'bias': True, 'kernel': False}, 'scale': True}
    """
    if _is_list(where):
        masks = [jax.tree.leaves(select(tree, one)) for one in where]
        found = [_any(column) for column in zip(*masks)] if masks else [False] * len(jax.tree.leaves(tree))
    elif isinstance(where, str):
        found = _by_pattern(tree, where)
    elif isinstance(where, re.Pattern):
        found = _by_regex(tree, where)
    elif isinstance(where, NDim):
        found = where.find(tree)
    elif _is_dtype(where):
        found = [_has_dtype(leaf, where) for leaf in jax.tree.leaves(tree)]
    elif isinstance(where, type):
        found = _by_type(tree, where)
    elif callable(where) and not is_mask(where):
        found = _by_predicate(tree, where)
    else:
        return spread(where, tree)
    return jax.tree.unflatten(jax.tree.structure(tree), found)


def is_mask(tree: PyTree) -> bool:
    """Whether something is a tree of booleans: at least one leaf, and every leaf boolean.

    >>> is_mask({"w": True, "b": False}), is_mask({"w": "False"}), is_mask(len)
    (True, False, False)
    """
    leaves = jax.tree.leaves(tree)
    return bool(leaves) and all(map(is_entry, leaves))


def _is_list(where: Where) -> bool:
    # [True, False] is a mask for a list of two; ["**/bias", mask] is a list of two ways to choose.
    return isinstance(where, list) and not is_mask(where)


def _any(column: tuple[Any, ...]) -> Any:
    if any(entry is True for entry in column):
        return True
    arrays = [entry for entry in column if entry is not False]
    return False if not arrays else jnp.any(jnp.stack(jnp.broadcast_arrays(*arrays)), axis=0)


def _by_pattern(tree: PyTree, pattern: str) -> list[bool]:
    leaves, segments = named_leaves(tree), split(pattern)
    found = [glob(leaf.keys, segments) for leaf in leaves]
    # What an outer mask has taken out counts as a match: the pattern is right, though nothing is left of it
    # here.
    if leaves and not any(found) and not any(glob(path, segments) for path in hollow_paths(tree)):
        names = [leaf.name for leaf in leaves]
        raise MaskError(f"The pattern {pattern!r} matches no path of the tree. {near_misses(pattern, names)}")
    return found


def _by_regex(tree: PyTree, pattern: re.Pattern[str]) -> list[bool]:
    leaves = named_leaves(tree)
    found = [pattern.search(leaf.name) is not None for leaf in leaves]
    hollow = any(pattern.search("/".join(path)) for path in hollow_paths(tree)) if not any(found) else True
    if leaves and not any(found) and not hollow:
        names = listed([leaf.name for leaf in leaves])
        raise MaskError(f"The expression {pattern.pattern!r} is found in no path of the tree. The paths are {names}.")
    return found


def _by_type(tree: PyTree, cls: type) -> list[bool]:
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, cls))
    hits = [isinstance(node, cls) for node in nodes]
    if jax.tree.leaves(tree) and not any(hits):
        types = sorted({type(leaf).__name__ for leaf in jax.tree.leaves(tree)})
        raise MaskError(
            f"No leaf of the tree is a {cls.__name__} or lies inside one. The leaves are {', '.join(types)}. "
            "A tree of parameters alone does not know the modules that they came from: select those by path."
        )
    return [hit for node, hit in zip(nodes, hits) for _ in jax.tree.leaves(node)]


def _is_dtype(where: Where) -> bool:
    if isinstance(where, np.dtype) or isinstance(getattr(where, "dtype", None), np.dtype):
        return not isinstance(where, jax.Array | np.ndarray | np.generic)
    return isinstance(where, type) and issubclass(where, np.generic)


def _has_dtype(leaf: Any, dtype: Any) -> bool:
    found = getattr(leaf, "dtype", None)
    if found is None and isinstance(leaf, bool | int | float | complex):
        found = jnp.result_type(leaf)
    return found is not None and bool(jnp.issubdtype(found, dtype))


def _by_predicate(tree: PyTree, predicate: Callable[[str, Any], Any]) -> list[Any]:
    try:
        inspect.signature(predicate).bind("path", "leaf")
    except TypeError as error:
        raise MaskError(
            "A predicate takes two arguments, the path (a string) and the leaf. "
            "A function of the whole tree is for mask_fn= in mx.optim; here, call it: select(tree, fn(tree))."
        ) from error
    except ValueError:  # no signature to be had, as for some built-in functions
        pass
    return [_answer(predicate(leaf.name, leaf.value), leaf) for leaf in named_leaves(tree)]


def _answer(answer: Any, leaf: Leaf) -> Any:
    if not is_entry(answer):
        raise MaskError(f"The predicate gave {answer!r} ({kind(answer)}) for {leaf.name!r}, not a boolean.")
    return bool(answer) if isinstance(answer, np.bool_) else answer


@dataclass(frozen=True)
class NDim:
    """A condition on the number of dimensions; made by `ndim`."""

    min: int
    max: float
    stacked: Where

    def find(self, tree: PyTree) -> list[bool]:
        """Which leaves of a tree meet it."""
        layers = spread(False if self.stacked is None else select(tree, self.stacked), tree)
        return [self._meets(leaf, deep) for leaf, deep in zip(jax.tree.leaves(tree), jax.tree.leaves(layers))]

    def _meets(self, leaf: Any, stacked: bool) -> bool:
        scalar = isinstance(leaf, bool | int | float | complex)
        dims = 0 if scalar else getattr(leaf, "ndim", None)
        return dims is not None and self.min <= dims - bool(stacked) <= self.max


def ndim(exactly: int | None = None, *, min: int = 0, max: int | None = None, stacked: Where = None) -> NDim:
    """A condition for `select`: leaves with so many dimensions.

    Args:
        exactly: The number of dimensions; or give `min`, `max` or both.
        min: The least number.
        max: The greatest number; None for no limit.
        stacked: What `select` takes: leaves whose first axis only stacks layers (as `nn.scan` and a `vmap` of
            initialisers make them). That axis is not counted, so that the stacked scales of norms are
            one-dimensional.

    Returns:
        The condition.

    >>> params = {"blocks": {"scale": jnp.ones((6, 3)), "w": jnp.ones((6, 3, 3))}, "w": jnp.ones((3, 2))}
    >>> select(params, ndim(min=2, stacked="blocks"))
    {'blocks': {'scale': False, 'w': True}, 'w': True}
    """
    if exactly is not None:
        return NDim(exactly, exactly, stacked)
    return NDim(min, float("inf") if max is None else max, stacked)


def partition(tree: PyTree, where: Where) -> tuple[PyTree, PyTree]:
    """Split a tree in two: the selected leaves and the rest, each with None where the other has a leaf.

    Args:
        tree: Any pytree.
        where: A mask, or anything else that `select` takes.

    Returns:
        The selected leaves and the others. `combine` puts them together again.

    Raises:
        MaskError: If an entry of the mask is an array: a leaf goes to one side or the other as a whole.

    >>> partition({"w": 1.0, "b": 0.0}, "w")
    ({'b': None, 'w': 1.0}, {'b': 0.0, 'w': None})
    """
    leaves, structure = jax.tree.flatten(tree)
    mask = jax.tree.leaves(select(tree, where))
    for leaf, entry in zip(named_leaves(tree), mask):
        if not isinstance(entry, bool):
            raise MaskError(f"The mask at {leaf.name!r} is an array ({kind(entry)}); partition needs True or False.")
    selected = structure.unflatten([leaf if entry else None for leaf, entry in zip(leaves, mask)])
    return selected, structure.unflatten([None if entry else leaf for leaf, entry in zip(leaves, mask)])


def combine(*trees: PyTree) -> PyTree:
    """Put the parts of a tree together: at each place the first that is not None.

    >>> combine({"w": 1.0, "b": None}, {"w": None, "b": 0.0})
    {'b': 0.0, 'w': 1.0}
    """

    def first(*leaves: Any) -> Any:
        return next((leaf for leaf in leaves if leaf is not None), None)

    return jax.tree.map(first, *trees, is_leaf=is_none)
