"""Gradients of selected leaves only."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..tree import PyTree, both, combine, partition, select
from ..tree._masks import is_parameter, is_static


def value_and_grad(
    loss: Callable[..., Any], where: Any = True, *, argnums: int = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, PyTree]]:
    """`jax.value_and_grad` for the selected leaves; the others cost no backward pass, nor memory for one.

    The gradient has the structure of the argument, so that it fits its optimiser: exactly 0 for leaves that
    are not selected. Leaves that cannot be differentiated (integers, keys, functions) have None, as in
    Equinox.

    Args:
        loss: A function that returns a scalar (with `has_aux`, a scalar and anything else).
        where: What `maskax.tree.select` takes, True for the leaves to differentiate; by default all.
        argnums: Which argument holds the parameters.
        has_aux: As in `jax.value_and_grad`.

    Returns:
        A function that returns the value of `loss` and the gradient.

    Raises:
        MaskError: When that function is called, if `where` does not fit the argument.
        TypeError: When it is called without that argument by position.

    >>> def loss(params):
    ...     return params["head"] * params["backbone"] ** 2
    >>> value, gradient = value_and_grad(loss, "head")({"backbone": jnp.array(3.0), "head": jnp.array(2.0)})
    >>> float(value), float(gradient["backbone"]), float(gradient["head"])
    (18.0, 0.0, 9.0)
    """

    @functools.wraps(loss)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, PyTree]:
        if not -len(args) <= argnums < len(args):
            raise TypeError(f"Argument {argnums} holds the parameters and must be given by position; got {len(args)}.")
        index = argnums % len(args)
        params = args[index]
        smooth = jax.tree.map(is_parameter, params)
        mask = both(select(params, where), smooth)
        selected, rest = partition(params, jax.tree.map(lambda entry: entry is not False, mask))

        def inner(selected: PyTree) -> Any:
            return loss(*args[:index], combine(selected, rest), *args[index + 1 :], **kwargs)

        value, gradient = jax.value_and_grad(inner, has_aux=has_aux)(selected)
        zeros = jax.tree.map(jnp.zeros_like, partition(rest, jax.tree.map(is_parameter, rest))[0])
        return value, jax.tree.map(_quiet, mask, combine(gradient, zeros))

    return wrapped


def grad(loss: Callable[..., Any], where: Any = True, *, argnums: int = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`jax.grad` for the selected leaves; the others cost no backward pass, nor memory for one.

    Args:
        loss: As in `value_and_grad`.
        where: What `maskax.tree.select` takes, True for the leaves to differentiate; by default all.
        argnums: Which argument holds the parameters.
        has_aux: As in `jax.grad`.

    Returns:
        A function that returns the gradient (with `has_aux`, the gradient and the rest of what `loss`
        returns).

    Raises:
        MaskError: When that function is called, if `where` does not fit the argument.
        TypeError: When it is called without that argument by position.

    >>> params = {"a": jnp.array(2.0), "b": jnp.array(3.0)}
    >>> gradient = grad(lambda params: params["a"] * params["b"], "a")(params)
    >>> float(gradient["a"]), float(gradient["b"])
    (3.0, 0.0)
    """

    @functools.wraps(loss)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradient = value_and_grad(loss, where, argnums=argnums, has_aux=has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def _quiet(entry: Any, gradient: Any) -> Any:
    if gradient is None or is_static(entry):
        return gradient
    return jnp.where(entry, gradient, jnp.zeros_like(gradient))
