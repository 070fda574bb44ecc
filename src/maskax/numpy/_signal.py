"""Sums of products of two signals, one shifted along the other."""

from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._extent import has_symbolic, inexact, is_symbolic


def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> jax.Array:
    """`jax.numpy.convolve`, of signals of run-time size too.

    Args:
        a: `(n,)`.
        v: `(m,)`.
        mode: `"full"`, `"same"` or `"valid"`.
        precision: of the products, as for JAX.
        preferred_element_type: of the sums, as for JAX.

    Returns:
        The convolution: `(n + m - 1,)`, `(max(n, m),)` or `(max(n, m) - min(n, m) + 1,)`.

    Raises:
        ValueError: a signal is not one-dimensional, or `mode` is another.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def smooth(x):  # x: (n,)
        ...     return mx.numpy.convolve(x, jnp.ones(3), mode="same")
        >>> masked = mx.mask(smooth, ["n"], "n", constraints=("n >= 3",))
        >>> print(masked([jnp.array([1.0, 2.0, 3.0, 4.0, 9.0])], {"n": 4}))
        [3. 6. 9. 7. 0.]
    """
    if not has_symbolic(a, v):
        return jnp.convolve(a, v, mode, precision=precision, preferred_element_type=preferred_element_type)
    _check("convolve", a, v, mode)
    full = _full(a, v, precision, preferred_element_type)
    return _part(full, mode, a.shape[0], v.shape[0], odd=False)


def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> jax.Array:
    """`jax.numpy.correlate`, of signals of run-time size too.

    Args:
        a: `(n,)`.
        v: `(m,)`; its complex conjugate is taken.
        mode: `"full"`, `"same"` or `"valid"`.
        precision: of the products, as for JAX.
        preferred_element_type: of the sums, as for JAX.

    Returns:
        The correlation: `(n + m - 1,)`, `(max(n, m),)` or `(max(n, m) - min(n, m) + 1,)`.

    Raises:
        ValueError: a signal is not one-dimensional, or `mode` is another.

    Example:
        >>> import jax.numpy as jnp
        >>> import maskax as mx
        >>> def rises(x):  # x: (n,)
        ...     return mx.numpy.correlate(x, jnp.array([-1.0, 1.0]))
        >>> masked = mx.mask(rises, ["n"], "n - 1", constraints=("n >= 2",))
        >>> print(masked([jnp.array([1.0, 2.0, 4.0, 9.0])], {"n": 3}))
        [1. 2. 0.]
    """
    if not has_symbolic(a, v):
        return jnp.correlate(a, v, mode, precision=precision, preferred_element_type=preferred_element_type)
    _check("correlate", a, v, mode)
    full = _full(a, jnp.flip(jnp.conj(v)), precision, preferred_element_type)
    return _part(full, mode, a.shape[0], v.shape[0], odd=True)


def _check(name: str, a: Any, v: Any, mode: str) -> None:
    if jnp.ndim(a) != 1 or jnp.ndim(v) != 1:
        raise ValueError(
            f"{name}: the signals must be 1-dimensional, but have shapes {jnp.shape(a)} and {jnp.shape(v)}."
        )
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be 'full', 'same' or 'valid', not {mode!r}.")


def _full(a: Any, v: Any, precision: Any, preferred_element_type: Any) -> jax.Array:
    dtype = inexact(a, v) if preferred_element_type is None else jnp.result_type(a, v)
    a, v = jnp.asarray(a, dtype), jnp.asarray(v, dtype)
    if is_symbolic(v.shape[0]) and not is_symbolic(a.shape[0]):
        a, v = v, a  # the static one slides
    border = v.shape[0] - 1
    padded = jax.lax.pad(a, jnp.zeros((), dtype), [(border, border, 0)])
    result = jax.lax.conv_general_dilated(
        padded[None, None], jnp.flip(v)[None, None], (1,), "VALID", None, None, None, 1, 1, precision,
        preferred_element_type,
    )  # fmt: skip
    return result[0, 0]


def _part(full: Any, mode: str, n: Any, m: Any, odd: bool) -> jax.Array:
    """The middle of a full convolution; for `odd`, the longer signal slides where `a` is the shorter one."""
    if mode == "full":
        return full
    longer, shorter = _compat.max_dim(n, m), _compat.min_dim(n, m)
    size = longer if mode == "same" else longer - shorter + 1
    overlap, swapped = jnp.asarray(shorter), jnp.asarray(n) < jnp.asarray(m)
    start = overlap - 1 if mode == "valid" else (overlap - jnp.where(swapped & odd, 0, 1)) // 2
    return jnp.take(full, start + jnp.arange(size), mode="clip")
