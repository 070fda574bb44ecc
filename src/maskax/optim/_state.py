"""Working on the state of an optimiser whose mask leaves some of it out."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..tree import MaskError, PyTree
from ..tree._masks import kind
from ..tree._paths import listed, named_leaves
from ._extra import load_optax

if TYPE_CHECKING:
    import optax


def tree_map_params(
    optimizer: "optax.GradientTransformation",
    function: Callable[..., Any],
    state: PyTree,
    /,
    *rest: PyTree,
    transform_non_params: Callable[[Any], Any] | None = None,
) -> PyTree:
    """`optax.tree_map_params` that skips the leaves which a mask left without state.

    Args:
        optimizer: The optimiser that made the state.
        function: Called with each leaf of the state that belongs to a parameter, and the leaves of `rest`
            there.
        state: The state.
        *rest: Trees with the structure of the parameters, masked leaves included.
        transform_non_params: Called with the other leaves of the state; by default they stay.

    Returns:
        The new state.

    >>> import optax, jax.numpy as jnp
    >>> from maskax.optim import train_only
    >>> params = {"body": jnp.ones(2), "head": jnp.ones(3)}
    >>> optimizer = train_only(optax.sgd(0.1, momentum=0.9), where="head")
    >>> state = tree_map_params(optimizer, lambda trace, p: trace + p, optimizer.init(params), params)
    >>> state.inner_state[0].trace["head"]
    Array([1., 1., 1.], dtype=float32)
    """
    optax = load_optax()

    def is_hole(node: Any) -> bool:
        return isinstance(node, optax.MaskedNode)

    def skip(leaf: Any, *others: Any) -> Any:
        return leaf if is_hole(leaf) else function(leaf, *others)

    return optax.tree_map_params(
        optimizer, skip, state, *rest, transform_non_params=transform_non_params, is_leaf=is_hole
    )


def reset_group(optimizer: "optax.GradientTransformation", state: PyTree, params: PyTree, label: Hashable) -> PyTree:
    """Start the state of one group of a `partition` afresh; all other state stays.

    Args:
        optimizer: The optimiser that made the state: a `partition`, or something around it.
        state: The state.
        params: The parameters.
        label: The label of the group.

    Returns:
        The new state.

    Raises:
        MaskError: If no partition in the state has that label.

    >>> import optax, jax.numpy as jnp
    >>> from maskax.optim import partition
    >>> params = {"body": jnp.ones(1), "head": jnp.ones(1)}
    >>> optimizer = partition({"a": optax.adam(1.0), "b": optax.adam(1.0)}, {"body": "a", "head": "b"})
    >>> _, state = optimizer.update(params, optimizer.init(params))
    >>> state = reset_group(optimizer, state, params, "b")
    >>> [int(state.inner_states[label].inner_state[0].count) for label in "ab"]
    [1, 0]
    """
    optax = load_optax()
    seen: list[Hashable] = []

    def is_partition(node: Any) -> bool:
        return isinstance(node, optax.PartitionState)

    def reset(old: Any, new: Any) -> Any:
        if not is_partition(old):
            return old
        seen.extend(old.inner_states)
        if label not in old.inner_states:
            return old
        return optax.PartitionState({**old.inner_states, label: new.inner_states[label]})

    renewed = jax.tree.map(reset, state, optimizer.init(params), is_leaf=is_partition)
    if label not in seen:
        raise MaskError(f"No partition in the state has the label {label!r}; the labels are {listed(seen)}.")
    return renewed


def carry_over(saved: PyTree, fresh: PyTree) -> PyTree:
    """Take a state over to an optimiser that trains other leaves: saved where it exists, fresh elsewhere.

    For a run that unfreezes what an earlier one froze, or the reverse. Whether either state was made by
    `masked`, `train_only` or `freeze`, or by the bare optimiser, makes no difference.

    Args:
        saved: The state of the earlier run.
        fresh: The state that the new optimiser's `init` returns.

    Returns:
        A state with the structure of `fresh`.

    Raises:
        MaskError: If nothing in `fresh` is in `saved`, or a leaf has another shape there.

    >>> import optax, jax.numpy as jnp
    >>> from maskax.optim import train_only
    >>> params = {"body": jnp.ones(1), "head": jnp.ones(1)}
    >>> before, after = train_only(optax.adam(1.0), where="head"), optax.adam(1.0)
    >>> _, state = before.update(params, before.init(params))
    >>> state = carry_over(state, after.init(params))
    >>> int(state[0].count), state[0].mu["head"], state[0].mu["body"]
    (1, Array([0.1], dtype=float32), Array([0.], dtype=float32))
    """
    known = {leaf.keys: leaf.value for leaf in named_leaves(_unwrapped(saved))}
    places = named_leaves(_unwrapped(fresh))
    if places and not any(leaf.keys in known for leaf in places):
        raise MaskError("Nothing of the saved state fits the new one: are both states of the same optimiser?")
    for leaf in places:
        if leaf.keys in known and np.shape(known[leaf.keys]) != np.shape(leaf.value):
            raise MaskError(
                f"The state at {leaf.name!r} was saved as {kind(known[leaf.keys])}, the new one is {kind(leaf.value)}."
            )
    return jax.tree.unflatten(jax.tree.structure(fresh), [known.get(leaf.keys, leaf.value) for leaf in places])


def _unwrapped(state: PyTree) -> PyTree:
    """A state without the wrappers that masks put around it; the leaves and their order are the same."""
    optax = load_optax()

    def is_wrapper(node: Any) -> bool:
        return isinstance(node, optax.MaskedState)

    return jax.tree.map(
        lambda node: _unwrapped(node.inner_state) if is_wrapper(node) else node, state, is_leaf=is_wrapper
    )
