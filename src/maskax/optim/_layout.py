"""A mask laid over updates, parameters and states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..tree import PyTree
from ..tree._masks import Entry, Structure, is_static, spread
from ._extra import load_optax


@dataclass(frozen=True)
class Layout:
    """A mask laid over a tree: the entries, and their structure, which is the tree's or a prefix of it."""

    entries: list[Entry]
    structure: Structure

    @property
    def changes(self) -> bool:
        """Whether an entry is an array, so that a leaf keeps its state though it may be unselected."""
        return not all(map(is_static, self.entries))

    def keep(self, tree: PyTree, quiet: bool = False) -> PyTree:
        """The tree with optax's empty node for unselected parts.

        With `quiet`, what an array leaves unselected is 0.
        """
        hole = load_optax().MaskedNode()
        parts = self.structure.flatten_up_to(tree)
        return self.structure.unflatten(
            [
                (part if entry else hole) if is_static(entry) else _mute(entry, part) if quiet else part
                for entry, part in zip(self.entries, parts)
            ]
        )

    def keep_alike(self, extra: dict[str, Any], updates: PyTree) -> dict[str, Any]:
        """Extra arguments, those with the structure of the updates masked as the updates are."""
        structure = jax.tree.structure(updates)
        alike = {key for key, value in extra.items() if jax.tree.structure(value) == structure}
        return {key: self.keep(value) if key in alike else value for key, value in extra.items()}

    def merge(self, new: PyTree, old: PyTree, rest: Callable[[Any], Any]) -> PyTree:
        """New leaves where selected, `rest` of the old ones elsewhere."""

        def part(entry: Entry, new: PyTree, old: PyTree) -> PyTree:
            if is_static(entry):
                return new if entry else jax.tree.map(rest, old)
            return jax.tree.map(lambda n, o: jnp.where(entry, n, rest(o)), new, old)

        pairs = zip(self.entries, self.structure.flatten_up_to(new), self.structure.flatten_up_to(old))
        return self.structure.unflatten([part(*pair) for pair in pairs])


def _mute(entry: Entry, part: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.where(entry, leaf, jnp.zeros_like(leaf)), part)


def update_selected(
    inner: Any, layout: Layout, updates: PyTree, state: PyTree, params: PyTree, extra: dict[str, Any]
) -> tuple[PyTree, PyTree]:
    """One update of the inner transformation; the state of what an array leaves unselected stays as it is."""
    if not layout.changes:
        return inner.update(updates, state, params, **extra)
    try:
        new, new_state = inner.update(updates, state, params, **extra)
        entries = zip(layout.entries, layout.structure.flatten_up_to(updates))
        leafwise = [jax.tree.map(lambda _, entry=entry: entry, part) for entry, part in entries]
        belongs = _state_mask(inner, state, layout.structure.unflatten(leafwise))
        return new, jax.tree.map(_hold, belongs, new_state, state)
    except (TypeError, ValueError) as error:
        error.add_note(_STATIC_STATE)
        raise


_STATIC_STATE = (
    "The mask has entries that are JAX arrays. If the state was made with plain False in their place, it "
    "lacks the state of those leaves: call init with a mask of arrays too, jnp.array(False) instead of False."
)


def _state_mask(inner: Any, state: PyTree, mask: PyTree) -> PyTree:
    """For each leaf of a state, the entry of the parameter that it belongs to; True if it belongs to none."""

    def whole(subtree: PyTree, mask: PyTree) -> PyTree:
        return spread(mask, subtree, lambda entry, part, name: entry)

    return load_optax().tree_map_params(
        inner, whole, state, mask, transform_non_params=lambda _: True, is_leaf=lambda _: True
    )


def _hold(entry: Entry, new: Any, old: Any) -> Any:
    if is_static(entry):
        return new
    shape = np.shape(new)
    fits = len(shape) == entry.ndim and all(m in (1, n) for m, n in zip(entry.shape, shape))
    # A state that is not element by element (a factored moment) goes on while any element of its parameter
    # does.
    return jnp.where(entry if fits else jnp.any(entry), new, old)
