"""What to write in the place of a function of JAX that does not trace at a run-time size."""

from collections.abc import Sequence

_SAME = "Use maskax.{}: the same function, at run-time sizes too."
_CHOSEN = "Use maskax.{}: the same function, with as many results as the data say."
_DROP_INS = {
    "numpy": (
        "array_split bartlett blackman convolve correlate digitize geomspace hamming hanning histogram "
        "histogram_bin_edges interp kaiser linspace logspace pad searchsorted"
    ),
    "lax": "associative_scan",
    "random": "choice permutation",
    "fft": "fftfreq rfftfreq",
}
"""Functions that maskax has, by module."""
_DYNAMIC = """
    argwhere bincount compress delete extract flatnonzero intersect1d nonzero repeat setdiff1d trim_zeros union1d unique
    where
"""
"""Functions that maskax has, whose results have a size that the data decide."""
_WRITE = {
    "choose": "Use jnp.select, or jax.lax.select_n.",
    "conv_general_dilated_local": "The kernel has a row for every position: give its last dimension the array's name.",
    "convolve2d": "Use jax.lax.conv_general_dilated; or say which is larger, as above.",
    "correlate2d": "Use jax.lax.conv_general_dilated; or say which is larger, as above.",
    "corrcoef": "Write it out: c = x - x.mean(1, keepdims=True), and s = c @ c.T, over the root of its diagonal.",
    "cov": "Write it out: c = x - x.mean(1, keepdims=True), then c @ c.T / (x.shape[1] - 1).",
    "dct": "Multiply by 2 * jnp.cos(jnp.pi / (2 * n) * (2 * i[:, None] + 1) * i), where i = jnp.arange(n).",
    "detrend": "Use type='constant', or subtract the line that jnp.linalg.lstsq fits.",
    "diag_indices": "Use (i, i), where i = jnp.arange(n).",
    "diag_indices_from": "Use (i, i), where i = jnp.arange(n).",
    "diagflat": "Use jnp.diag(x.ravel()).",
    "fftconvolve": "Use maskax.numpy.convolve.",
    "fill_diagonal": "Use jnp.where(jnp.eye(n, dtype=bool), value, x).",
    "hadamard": "Take a corner of a larger one: jax.scipy.linalg.hadamard(64)[:n, :n].",
    "idct": "Multiply by the inverse of the matrix of the dct.",
    "indices": "Use jnp.meshgrid(jnp.arange(n), jnp.arange(m), indexing='ij').",
    "istft": "Transform frames of a static length by jnp.fft.irfft.",
    "mask_indices": "Use maskax.nonzero of the mask.",
    "matrix_rank": "Say rtol=..., for instance x.shape[0] times jnp.finfo(x.dtype).eps.",
    "mode": "Use maskax.run_lengths(jnp.sort(x)), and the longest run.",
    "place": "Use jnp.where.",
    "poly": "Multiply the factors in a jax.lax.fori_loop, at a static degree.",
    "polyder": "Use p[:-1] * jnp.arange(n - 1, 0, -1).",
    "polydiv": "Divide in a jax.lax.scan over the coefficients.",
    "polyfit": "Use jnp.linalg.lstsq(jnp.vander(x, degree + 1), y)[0].",
    "polyint": "Use jnp.append(p / jnp.arange(n, 0, -1), 0.0).",
    "polymul": "Use maskax.numpy.convolve.",
    "polyval": "Use p @ x ** jnp.arange(n - 1, -1, -1).",
    "put": "Use x.at[i].set(values).",
    "put_along_axis": "Use x.at[jnp.arange(n)[:, None], i].set(values).",
    "ravel_multi_index": "Use arithmetic: i * n + j.",
    "resize": "Use jnp.tile, and a slice of it.",
    "segment_sum": "Say num_segments=....",
    "setxor1d": "Use maskax.setdiff1d both ways.",
    "split": "Use maskax.numpy.array_split; or name the axis as a multiple in in_shapes: '2*k' instead of 'n'.",
    "stft": "Transform frames of a static length by jnp.fft.rfft.",
    "unstack": "The number of arrays must be known: loop with jax.lax.scan over the array, or use jax.vmap.",
    "vander": "Use x[:, None] ** jnp.arange(n - 1, -1, -1).",
    "welch": "Transform frames of a static length by jnp.fft.rfft.",
}
_WRITE |= dict.fromkeys(["csd"], _WRITE["welch"])
_WRITE |= {f"unique_{part}": _CHOSEN.format("unique") for part in ["all", "counts", "inverse", "values"]}
_WRITE |= {f"segment_{name}": _WRITE["segment_sum"] for name in ["max", "min", "prod"]}


def instead_of(called: Sequence[str], chosen: bool) -> str | None:
    """Advice for the first of the functions in the order that they were called for which there is any.

    Args:
        called: names of JAX's functions.
        chosen: whether what failed is a size that the values of an array decide.
    """
    for name in called:
        if chosen and name in _DYNAMIC.split():
            return _CHOSEN.format(name)
        for module, names in _DROP_INS.items():
            if name in names.split():
                return _SAME.format(f"{module}.{name}")
        if name in _WRITE:
            return _WRITE[name]
    return None
