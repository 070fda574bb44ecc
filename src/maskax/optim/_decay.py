"""One name for the weight-decay mask of every optimiser."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..tree import MaskError, PyTree
from ..tree._masks import is_static, spread
from ..tree._paths import named_leaves
from ._choice import choose

if TYPE_CHECKING:
    import optax


def decay_only(
    factory: Callable[..., "optax.GradientTransformation"],
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    mask_fn: Callable[[PyTree], PyTree] | None = None,
    mask_value: PyTree | None = None,
    where: Any = None,
) -> Callable[..., "optax.GradientTransformation"]:
    """Bind the weight-decay mask of an optimiser: only the selected leaves decay; all are trained.

    optax calls this mask `mask` in some optimisers and `weight_decay_mask` in others, mistakes callable trees
    for functions in some, and under `optax.inject_hyperparams` takes a mask function for a schedule. Bound
    here, the mask is right in all of them: `optax.inject_hyperparams(decay_only(optax.adamw,
    where=ndim(min=2)))(learning_rate=1e-3)`.

    Args:
        factory: A function that makes the optimiser: `optax.adamw`, `optax.lion`, `optax.contrib.muon`, ...
        mask: True for the leaves that decay; this and the others as in `masked`.
        mask_fn: A function that makes the mask.
        mask_value: The mask.
        where: A description for `maskax.tree.select`.

    Returns:
        The factory without its mask argument.

    Raises:
        MaskError: If the factory has no such argument, or as `masked`. Entries must be plain booleans here.

    >>> import optax, jax.numpy as jnp
    >>> from maskax.tree import ndim
    >>> params = {"b": jnp.ones(1), "w": jnp.ones((1, 1))}
    >>> optimizer = decay_only(optax.adamw, where=ndim(min=2))(0.1, weight_decay=0.5)
    >>> zeros = {"b": jnp.zeros(1), "w": jnp.zeros((1, 1))}
    >>> updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    >>> updates["b"], updates["w"]
    (Array([-0.], dtype=float32), Array([[-0.05]], dtype=float32))
    """
    choice = choose(mask, mask_fn, mask_value, where)
    signature = inspect.signature(factory)
    name = next((name for name in ("mask", "weight_decay_mask") if name in signature.parameters), None)
    if name is None:
        called = getattr(factory, "__name__", repr(factory))
        raise MaskError(
            f"{called} has no weight-decay mask. Use masked(optax.add_decayed_weights(...), ...) in a chain."
        )

    def make(tree: PyTree) -> PyTree:
        if isinstance(tree, jax.Array | np.ndarray | int) and np.ndim(tree) == 0:
            raise MaskError(
                "The mask function was called with a step count, as a schedule. "
                "Put inject_hyperparams outside: optax.inject_hyperparams(mx.optim.decay_only(factory, ...))."
            )
        full = spread(choice.make(tree), tree)
        for leaf, entry in zip(named_leaves(tree), jax.tree.leaves(full)):
            if not is_static(entry):
                raise MaskError(f"The mask at {leaf.name!r} is an array; a weight-decay mask needs True or False.")
        return full

    @functools.wraps(factory)
    def bound(*args: Any, **kwargs: Any) -> "optax.GradientTransformation":
        return factory(*args, **kwargs, **{name: make})

    others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
    # Parameters after the mask could no longer be given by position without meaning another one.
    after = list(signature.parameters)[list(signature.parameters).index(name) :]
    shown = [p.replace(kind=p.KEYWORD_ONLY) if p.name in after else p for p in others]
    setattr(bound, "__signature__", signature.replace(parameters=shown))  # noqa: B010 (pyright knows no such attribute)
    return bound
