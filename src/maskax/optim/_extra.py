"""The one place where optax is imported: when a function is used, not before."""

from types import ModuleType
from typing import Any

from .._errors import MaskaxError
from ..tree import MaskError


class MissingOptaxError(MaskaxError, ImportError):
    """optax is not installed."""


def load_optax() -> ModuleType:
    """The optax module, or an error that says how to get it."""
    try:
        import optax
    except ImportError as error:
        raise MissingOptaxError("This function of maskax.optim needs optax: pip install 'maskax[optax]'") from error
    return optax


def check_transformation(inner: Any, caller: str) -> None:
    """Raise unless `inner` is an optax transformation."""
    if not (hasattr(inner, "init") and hasattr(inner, "update")):
        raise MaskError(
            f"{caller} wraps an optax transformation, and was given a {type(inner).__name__}. "
            f"Write {caller}(optax.adam(1e-3), ...)."
        )
