"""Where things are in a pytree: paths as people write them, and the glob patterns that match them."""

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import jax
from jax.tree_util import GetAttrKey, keystr, tree_flatten_with_path

Path = tuple[str, ...]


class Leaf(NamedTuple):
    """One leaf of a tree and where it is.

    Attributes:
        path: The keys from the root, as strings, without the box that a Flax variable puts around its array.
        keys: The same with the box, for patterns that name it.
        value: The leaf.
    """

    path: Path
    keys: Path
    value: Any

    @property
    def name(self) -> str:
        """The path as one string, `"encoder/layers/0/bias"`."""
        return "/".join(self.path)


def named_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Leaf]:
    """The leaves of a tree in JAX's order, each with its path."""
    flat, _ = tree_flatten_with_path(tree, is_leaf=is_leaf)
    siblings = Counter(path[:-1] for path, _ in flat)
    named = []
    for path, value in flat:
        keys = tuple(keystr((key,), simple=True) for key in path)
        # nnx variables and linen's partitioned parameters are nodes with the array as their only child,
        # `.value`.
        boxed = bool(path) and path[-1] == GetAttrKey("value") and siblings[path[:-1]] == 1
        named.append(Leaf(keys[:-1] if boxed else keys, keys, value))
    return named


def hollow_paths(tree: Any) -> list[Path]:
    """Paths of the nodes without leaves: `None`, empty containers, what an outer mask has taken out."""
    return [leaf.path for leaf in named_leaves(tree, is_leaf=_is_hollow) if _is_hollow(leaf.value)]


def _is_hollow(node: Any) -> bool:
    return not jax.tree.leaves(node)


def split(pattern: str) -> Path:
    """A glob pattern or a name cut into its segments."""
    return tuple(part for part in pattern.split("/") if part)


def glob(path: Path, pattern: Path) -> bool:
    """Whether a pattern names this path, or a node above it (a pattern selects whole subtrees)."""
    # A key may hold slashes of its own, as haiku's module names do.
    return _glob(split("/".join(path)), pattern)


def _glob(path: Path, pattern: Path) -> bool:
    if not pattern:
        return True
    head, rest = pattern[0], pattern[1:]
    if head == "**":
        return any(_glob(path[start:], rest) for start in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], head) and _glob(path[1:], rest)


def near_misses(pattern: str, names: Sequence[str]) -> str:
    """What the writer of a pattern that matches nothing may have meant, as the end of a message."""
    anywhere = ("**", *split(pattern))
    hits = [name for name in names if glob((name,), anywhere)]
    if hits:
        return f"Patterns start at the root: {'/'.join(anywhere)!r} matches {listed(hits)}."
    close = get_close_matches(pattern, names, n=5, cutoff=0.5)
    return f"Near it: {listed(close)}." if close else f"The paths are {listed(names)}."


def listed(names: Sequence[Any], limit: int = 5) -> str:
    """Up to `limit` names, quoted, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
