"""Transformations that touch some leaves only: `masked`, `train_only`, `freeze`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..tree import MaskError, PyTree
from ..tree._masks import fit, negate
from ._choice import Choice, choose
from ._extra import check_transformation, load_optax
from ._layout import Layout, update_selected

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
        new, inner_state = update_selected(wrapped, layout, heard, state.inner_state, kept, extra)
        return layout.merge(new, updates, rest), optax.MaskedState(inner_state=inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


_OTHER_PARAMS = (
    "update() got parameters of another structure than the gradients. maskax.optim.grad gives gradients that fit: "
    "0 for what is not selected, None only for what is no parameter."
)
