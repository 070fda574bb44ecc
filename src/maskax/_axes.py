"""Which axis of which argument and result is mapped over, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from maskax._arguments import broadcast_prefix
from maskax._errors import SizeError, SpecError
from maskax._ragged import is_batch
from maskax._ragged._checks import check_parts


def _is_axis(axis: Any) -> bool:
    return axis is None or (isinstance(axis, int) and not isinstance(axis, bool))


def check_axes(axes: Any, name: str) -> None:
    """That a tree of axes holds axes."""
    for axis in jax.tree.leaves(axes, is_leaf=_is_axis):
        if not _is_axis(axis):
            raise SpecError(f"{name}: an axis is an integer, or None for what is not mapped, not {axis!r}.")


def axes_of(in_axes: Any, args: Any, kwargs: Any, tree: Any) -> list[int | None]:
    """The axis of each leaf of `tree`, the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    opaque = jax.tree.unflatten(tree, range(tree.num_leaves))
    try:
        return broadcast_prefix((in_axes, 0), opaque, _is_axis)
    except (ValueError, TypeError, KeyError):
        raise SpecError(
            f"in_axes does not have the structure of the arguments.\n  in_axes: {in_axes!r}\n  args: {opaque[0]!r}\n"
            "  Give one axis (or None) per argument, or per part of one."
        ) from None


def check_rows(leaves: Sequence[Any], axes: Mapping[int, int], where: Sequence[str]) -> None:
    """That what is mapped over has rows along its axis, equally many."""
    seen: dict[int, str] = {}
    for i, axis in axes.items():
        leaf, name = leaves[i], where[i]
        if is_batch(leaf):
            check_parts(leaf, f"{name}: ")
            if axis != 0:
                raise SpecError(
                    f"in_axes: {name} is Ragged, with its rows in front: its axis is 0 or None, not {axis}."
                )
            if leaf.data.ndim == len(leaf.dims):
                raise SpecError(f"{name}, {leaf!r}, is one row, not a batch of rows: give it None in in_axes.")
        shape = np.shape(leaf.data if is_batch(leaf) else leaf)
        if not -len(shape) <= axis < len(shape):
            what = f"has the shape {shape}" if hasattr(leaf, "shape") else f"is {leaf!r}"
            raise SpecError(f"in_axes: {name} {what}, with no axis {axis}: hand it over whole, with None in in_axes.")
        seen.setdefault(shape[axis], name)
    if len(seen) > 1:
        (a, first), (b, second), *_ = seen.items()
        raise SizeError(
            f"{first} has {a} rows, but {second} has {b}: all that is mapped over must have equally many. Hand over "
            "whole what is not mapped, with None in in_axes."
        )


def check_out_axes(out_axes: Any, results: Any) -> None:
    """That the axes of results, one row's here, fit them."""
    if isinstance(out_axes, int) and out_axes == 0:
        return
    leaves, tree = jax.tree.flatten(results, is_leaf=is_batch)
    opaque = jax.tree.unflatten(tree, range(len(leaves)))
    try:
        axes = broadcast_prefix(out_axes, opaque, _is_axis)
    except (ValueError, TypeError, KeyError):
        raise SpecError(
            f"out_axes does not have the structure of the results.\n  out_axes: {out_axes!r}\n  results: {opaque!r}\n"
            "  Give one axis per result, or one for a whole part of them."
        ) from None
    for axis, leaf in zip(axes, leaves):
        if is_batch(leaf) and axis != 0:
            raise SpecError(f"out_axes: a result is Ragged, with its rows in front: its axis is 0, not {axis}.")
        rank = np.ndim(leaf.data if is_batch(leaf) else leaf)
        if axis is not None and not -rank - 1 <= axis <= rank:
            raise SpecError(f"out_axes: a result has {rank} axes, to which rows add one: from 0 to {rank}, not {axis}.")
