"""Where two arrays differ first, and how to say so."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_TOLERANCE = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "bfloat16": 3e-2,
    "float16": 4e-3,
    "float32": 2e-5,
    "complex64": 2e-5,
}
"""Of a few hundred sums; relative to the largest value of the array or to its own, whichever is larger."""


class Difference(NamedTuple):
    """The first element in which two arrays differ, and how many do."""

    position: tuple[int, ...]
    got: Any
    want: Any
    wrong: int
    size: int

    def text(self, got: str, want: str) -> str:
        """`at [0, 2]: 1.5 padded, 2 plain; 3 of 8 elements differ`."""
        place = f"at {list(self.position)}: " if self.position else ""
        share = f"; {self.wrong} of {self.size} elements differ" if self.size > 1 else ""
        return f"{place}{_number(self.got)} {got}, {_number(self.want)} {want}{share}"


class Tolerance(NamedTuple):
    """How far values may be apart; `None` for what suits the dtype."""

    rtol: float | None = None
    atol: float | None = None

    def difference(self, got: Any, want: Any) -> Difference | None:
        """The first element of `got` that is not near that of `want`."""
        got, want = numbers(got), numbers(want)
        if want.size == 0:
            return None
        default = _TOLERANCE.get(want.dtype.name, 0.0)
        got, want = widened(got), widened(want)
        finite = np.abs(want[np.isfinite(want)])
        rtol = default if self.rtol is None else self.rtol
        atol = default * max(1.0, float(finite.max(initial=0))) if self.atol is None else self.atol
        return first(~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True), got, want)


def difference(got: Any, want: Any) -> Difference | None:
    """The first element that is not the same to the bit (any nan for any other)."""
    got, want = widened(numbers(got)), widened(numbers(want))
    return first((got != want) & ~((got != got) & (want != want)), got, want)


def first(wrong: Any, got: Any, want: Any) -> Difference | None:
    """The first element that is `wrong`."""
    positions = np.argwhere(wrong)
    if not len(positions):
        return None
    position = tuple(map(int, positions[0]))
    return Difference(position, got[position], np.broadcast_to(want, got.shape)[position], len(positions), got.size)


def numbers(array: Any) -> np.ndarray:
    """As a NumPy array; typed keys as the numbers that they are made of."""
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array)


def widened(array: np.ndarray) -> np.ndarray:
    """In a dtype of NumPy's own that holds every value exactly."""
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(np.complex128)
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)
