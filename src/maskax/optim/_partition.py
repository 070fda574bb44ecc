"""A transformation for each group of leaves."""

from collections.abc import Callable, Hashable, Mapping
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import jax

from ..tree import MaskError, PyTree, select
from ..tree._masks import Structure, fit, is_static
from ..tree._paths import listed, named_leaves
from ._choice import check_function, is_function, only_one
from ._extra import check_transformation, load_optax
from ._layout import Layout

if TYPE_CHECKING:
    import optax


def partition(
    transforms: Mapping[Hashable, "optax.GradientTransformation"],
    labels: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    labels_fn: Callable[[PyTree], PyTree] | None = None,
    labels_value: PyTree | None = None,
    where: Mapping[Hashable, Any] | None = None,
    mask_compatible_extra_args: bool = False,
) -> "optax.GradientTransformationExtraArgs":
    """Give each group of leaves its own transformation; every leaf is in exactly one group.

    A drop-in for `optax.partition`, with the same state. Exactly one of `labels`, `labels_fn`, `labels_value`
    and `where` is given. A group that is not trained has `optax.set_to_zero()`.

    Args:
        transforms: A transformation for each label.
        labels: A tree of labels with the structure of the parameters or a prefix of it, or a function of the
            parameters that makes one. A tree whose leaves are labels is the tree, callable or not; any other
            callable is a function.
        labels_fn: A function that makes the labels, whatever else it is.
        labels_value: The labels, whatever else they are.
        where: For each label what `maskax.tree.select` takes, or `...` for the leaves that no other label
            has.
        mask_compatible_extra_args: Whether extra arguments with the structure of the updates are masked too.

    Returns:
        The transformation. Its state is an `optax.PartitionState`.

    Raises:
        MaskError: Here, if the labels are missing, doubly given, unclear or unknown; in `init` and `update`,
            if a leaf has no label or more than one. The message lists the leaves.

    >>> import optax
    >>> import jax.numpy as jnp
    >>> params = {"body": jnp.ones(1), "head": jnp.ones(1)}
    >>> transforms = {"slow": optax.sgd(0.1), "fast": optax.sgd(1.0)}
    >>> optimizer = partition(transforms, where={"fast": "head", "slow": ...})
    >>> updates, _ = optimizer.update(params, optimizer.init(params))
    >>> updates["body"], updates["head"]
    (Array([-0.1], dtype=float32), Array([-1.], dtype=float32))
    """
    optax = load_optax()
    for transform in transforms.values():
        check_transformation(transform, "partition")
    wrapped = {label: optax.with_extra_args_support(transform) for label, transform in transforms.items()}
    make = _labeller(transforms, labels, labels_fn, labels_value, where)

    def lay(tree: PyTree) -> tuple[list[Hashable], Structure]:
        return _fit_labels(make(tree), tree, transforms)

    def group(label: Hashable, found: list[Hashable], structure: Structure) -> Layout:
        return Layout([one == label for one in found], structure)

    def init(params: PyTree) -> Any:
        # Without leaves there is nothing to label; `optax.tree_map_params` passes such a tree.
        laid = lay(params) if jax.tree.leaves(params) else None
        states = {}
        for label, transform in wrapped.items():
            kept = group(label, *laid).keep(params) if laid else params
            states[label] = optax.MaskedState(inner_state=transform.init(kept))
        return optax.PartitionState(states)

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra: Any) -> tuple[PyTree, Any]:
        found, structure = lay(updates)
        same = params is None or jax.tree.structure(params) == jax.tree.structure(updates)
        beside = (found, structure) if same else lay(params)
        # What has no label is no parameter, and stays.
        parts, states = structure.flatten_up_to(updates), {}
        for label, transform in wrapped.items():
            layout = group(label, found, structure)
            kept = None if params is None else group(label, *beside).keep(params)
            arguments = layout.keep_alike(extra, updates) if mask_compatible_extra_args else extra
            inner_state = state.inner_states[label].inner_state
            new, inner_state = transform.update(layout.keep(updates), inner_state, kept, **arguments)
            states[label] = optax.MaskedState(inner_state=inner_state)
            pairs = zip(found, structure.flatten_up_to(new), parts)
            parts = [mine if owner == label else part for owner, mine, part in pairs]
        return structure.unflatten(parts), optax.PartitionState(states)

    return optax.GradientTransformationExtraArgs(init, update)


def _labeller(
    transforms: Mapping[Hashable, Any], labels: Any, labels_fn: Any, labels_value: Any, where: Any
) -> Callable[[PyTree], PyTree]:
    only_one(labels=labels, labels_fn=labels_fn, labels_value=labels_value, where=where)
    if where is not None:
        if set(where) != set(transforms):
            raise MaskError(
                f"where has the labels {listed(list(where))}, transforms has {listed(list(transforms))}: "
                "each needs the other."
            )
        return lambda tree: _labels_where(tree, where)
    if labels_fn is not None:
        return check_function(labels_fn, "labels_fn")
    if labels is not None and is_function(labels, "labels", lambda leaf: _is_label(leaf, transforms)):
        return labels
    tree = labels_value if labels is None else labels
    for leaf in named_leaves(tree):
        if not _is_label(leaf.value, transforms):
            raise MaskError(_unknown(leaf.value, leaf.name, transforms))
    return lambda _: tree


def _is_label(leaf: Any, transforms: Mapping[Hashable, Any]) -> bool:
    return isinstance(leaf, Hashable) and leaf in transforms


def _unknown(label: Any, name: str, transforms: Mapping[Hashable, Any]) -> str:
    return f"The label at {name!r} is {label!r}; the transforms have the labels {listed(list(transforms))}."


def _fit_labels(labels: PyTree, tree: PyTree, transforms: Mapping[Hashable, Any]) -> tuple[list[Hashable], Structure]:
    def check(label: Any, part: PyTree, name: Callable[[], str]) -> Any:
        if _is_label(label, transforms) or (label is None and not jax.tree.leaves(part)):
            return label
        raise MaskError(_unknown(label, name(), transforms))

    return fit(labels, tree, check)


def _labels_where(tree: PyTree, where: Mapping[Hashable, Any]) -> PyTree:
    """The tree of labels that these descriptions give, each leaf having exactly one."""
    leaves = named_leaves(tree)
    owners: list[list[Hashable]] = [[] for _ in leaves]
    for label, described in where.items():
        if not isinstance(described, EllipsisType):
            entries = jax.tree.leaves(select(tree, described))
            for leaf, owned, entry in zip(leaves, owners, entries):
                if not is_static(entry):
                    raise MaskError(f"The group {label!r} has an array for {leaf.name!r}; a leaf has one label.")
                owned += [label] if entry else []
    rest = [label for label, described in where.items() if isinstance(described, EllipsisType)]
    if len(rest) > 1:
        raise MaskError(f"Only one label can have the rest (...); {listed(rest)} have it.")
    several = [f"{leaf.name} ({', '.join(map(str, owned))})" for leaf, owned in zip(leaves, owners) if len(owned) > 1]
    if several:
        raise MaskError(f"Leaves with more than one label: {listed(several, 10)}. Groups must not overlap.")
    missed = [leaf.name for leaf, owned in zip(leaves, owners) if not owned]
    if missed and not rest:
        raise MaskError(f"Leaves without a label: {listed(missed, 10)}. Give one label `...` for the rest.")
    return jax.tree.unflatten(jax.tree.structure(tree), [(owned or rest)[0] for owned in owners])
