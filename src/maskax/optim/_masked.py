"""Transformations that touch some leaves only: `masked`, `train_only`, `freeze`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..tree import MaskError, PyTree
from ..tree._masks import Entry, Structure, fit, is_static, negate, spread
from ._choice import Choice, choose
from ._extra import check_transformation, load_optax

if TYPE_CHECKING:
    import optax


def masked(
    inner: "optax.GradientTransformation",
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    mask_fn: Callable[[PyTree], PyTree] | None = None,
    mask_value: PyTree | None = None,
    where: Any = None,
    mask_compatible_extra_args: bool = False,
) -> "optax.GradientTransformationExtraArgs":
    """Transform the selected leaves; the others PASS THROUGH, so their raw gradients are what comes out.

    To leave parameters as they are, use `train_only` or `freeze`. A drop-in for `optax.masked`: the same
    state types, so `optax.tree_map_params`, `tree_get`, checkpoints and nesting work as they do there.

    Exactly one of `mask`, `mask_fn`, `mask_value` and `where` is given. True means transformed. Entries of a
    mask may be scalar boolean `jax.Array`s, which may change from step to step under `jit`: the state of such
    a leaf is always there, and stands still while the entry is False. They may also be boolean arrays that
    fit their leaf (rows of an embedding, pruned weights): unselected elements reach `inner` as gradients of
    0, and their state does not change. `None` means no parameter, in the parameters and in a mask.

    Args:
        inner: The transformation.
        mask: A mask, or a function of the parameters that makes one. A tree of booleans is the mask, callable
            or not; any other callable is a function. What could be both is an error.
        mask_fn: A function that makes the mask, whatever else it is. It gets the parameters, or the updates
            where `update` is called without parameters.
        mask_value: The mask, whatever else it is.
        where: A description for `maskax.tree.select`: a path glob, a type, a predicate, `ndim(min=2)`, a list
            of these.
        mask_compatible_extra_args: Whether extra arguments with the structure of the updates are masked too.

    Returns:
        The transformation. Its state is an `optax.MaskedState`.

    Raises:
        MaskError: Here, if the mask is missing, doubly given, unclear or not boolean; in `init` and `update`,
            if it does not fit the tree. The message names the leaf.

    >>> import optax
    >>> params = {"w": jnp.array([1.0, 2.0]), "b": jnp.array([3.0])}
    >>> decay = masked(optax.add_decayed_weights(0.1), where="w")
    >>> updates, _ = decay.update({"w": jnp.zeros(2), "b": jnp.zeros(1)}, decay.init(params), params)
    >>> updates["w"], updates["b"]
    (Array([0.1, 0.2], dtype=float32), Array([0.], dtype=float32))
    """
    choice = choose(mask, mask_fn, mask_value, where)
    return _wrap("masked", inner, choice, lambda leaf: leaf, mask_compatible_extra_args=mask_compatible_extra_args)


def train_only(
    inner: "optax.GradientTransformation",
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    mask_fn: Callable[[PyTree], PyTree] | None = None,
    mask_value: PyTree | None = None,
    where: Any = None,
) -> "optax.GradientTransformationExtraArgs":
    """Train the selected leaves; the others stay exactly as they are.

    The updates of the others are exactly 0: no weight decay, no state, and their gradients (nan included)
    never reach `inner`, so that clipping by the global norm inside it does not see them. Put the whole chain
    inside: `train_only(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)), where="head")`.

    Args:
        inner: The optimiser.
        mask: True for the leaves to train; this and the others as in `masked`.
        mask_fn: A function that makes the mask.
        mask_value: The mask.
        where: A description for `maskax.tree.select`.

    Returns:
        The transformation. Its state is an `optax.MaskedState`.

    Raises:
        MaskError: As `masked`.

    >>> import optax
    >>> params = {"backbone": jnp.array([1.0]), "head": jnp.array([1.0])}
    >>> optimizer = train_only(optax.adamw(0.1, weight_decay=0.5), where="head")
    >>> grads = {"backbone": jnp.array([jnp.nan]), "head": jnp.array([1.0])}
    >>> updates, _ = optimizer.update(grads, optimizer.init(params), params)
    >>> updates["backbone"], updates["head"]
    (Array([0.], dtype=float32), Array([-0.15], dtype=float32))
    """
    return _wrap("train_only", inner, choose(mask, mask_fn, mask_value, where), _zero)


def freeze(
    inner: "optax.GradientTransformation",
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    mask_fn: Callable[[PyTree], PyTree] | None = None,
    mask_value: PyTree | None = None,
    where: Any = None,
) -> "optax.GradientTransformationExtraArgs":
    """Train everything but the selected leaves, which stay exactly as they are.

    The complement of `train_only`, with the same promises. True means frozen here, as in `optax.freeze`;
    unlike that, it wraps the optimiser, since freezing before or after one leaves weight decay or norms to
    leak.

    Args:
        inner: The optimiser.
        mask: True for the leaves to freeze; this and the others as in `masked`.
        mask_fn: A function that makes the mask.
        mask_value: The mask.
        where: A description for `maskax.tree.select`.

    Returns:
        The transformation. Its state is an `optax.MaskedState`.

    Raises:
        MaskError: As `masked`.

    >>> import optax
    >>> params = {"backbone": jnp.array([1.0]), "head": jnp.array([1.0])}
    >>> optimizer = freeze(optax.sgd(0.1), where="backbone")
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> updates["backbone"], updates["head"]
    (Array([0.], dtype=float32), Array([-0.1], dtype=float32))
    """
    check_transformation(inner, "freeze")
    return _wrap("freeze", inner, choose(mask, mask_fn, mask_value, where), _zero, inverted=True)


def _zero(leaf: Any) -> Any:
    # The gradient of an integer has JAX's dtype float0, which only NumPy can hold.
    return np.zeros_like(leaf) if getattr(leaf, "dtype", None) == jax.dtypes.float0 else jnp.zeros_like(leaf)


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


def _wrap(
    name: str,
    inner: "optax.GradientTransformation",
    choice: Choice,
    rest: Callable[[Any], Any],
    *,
    inverted: bool = False,
    mask_compatible_extra_args: bool = False,
) -> "optax.GradientTransformationExtraArgs":
    optax = load_optax()
    check_transformation(inner, name)
    wrapped = optax.with_extra_args_support(inner)

    def lay(mask: PyTree, tree: PyTree) -> Layout:
        entries, structure = fit(mask, tree)
        return Layout([negate(entry) for entry in entries] if inverted else entries, structure)

    def beside(mask: PyTree, params: PyTree) -> Layout:
        try:
            return lay(mask, params)
        except MaskError as error:
            error.add_note(_OTHER_PARAMS)
            raise

    def init(params: PyTree) -> Any:
        # Without leaves there is nothing to mask. `optax.tree_map_params` passes such a tree to learn the
        # state's layout.
        if jax.tree.leaves(params):
            params = lay(choice.make(params), params).keep(params)
        return optax.MaskedState(inner_state=wrapped.init(params))

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra: Any) -> tuple[PyTree, Any]:
        if not jax.tree.leaves(updates):
            updates, inner_state = wrapped.update(updates, state.inner_state, params, **extra)
            return updates, optax.MaskedState(inner_state=inner_state)
        same = jax.tree.structure(params) == jax.tree.structure(updates)
        mask = choice.make(params if same else updates)
        layout = lay(mask, updates)
        if layout.changes and not choice.fixed and not same:
            raise MaskError(
                "The mask is made from the values of the parameters, and update() got no parameters "
                "(or a tree of another structure): call update(grads, state, params)."
            )
        if mask_compatible_extra_args:
            extra = layout.keep_alike(extra, updates)
        kept = None if params is None else (layout if same else beside(mask, params)).keep(params)
        heard = layout.keep(updates, quiet=True)
        new, inner_state = _update(wrapped, layout, heard, state.inner_state, kept, extra)
        return layout.merge(new, updates, rest), optax.MaskedState(inner_state=inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def _update(
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


_OTHER_PARAMS = (
    "update() got parameters of another structure than the gradients. maskax.optim.grad gives gradients that fit: "
    "0 for what is not selected, None only for what is no parameter."
)
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
