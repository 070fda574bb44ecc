"""Decompositions whose derivatives divide by gaps: QR, eigenvalues and singular values.

Zeros or ones in the padding would repeat values, and derivatives divide by their differences: nan. Here padding has
values of its own, distinct and beyond all true ones, which are then sorted away.
"""

from typing import Any

import jax
import jax.numpy as jnp

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.linalg import beyond, bordered, cleaned, cleared
from maskax._shapes import Dim


def _outside(magnitudes: Any, count: int) -> Any:
    """`f32[..., m, n] -> f32[..., 1, count]`: distinct numbers, all at least twice as large as any eigenvalue."""
    largest = jnp.maximum(*[jnp.max(jnp.sum(magnitudes, axis), -1, initial=0) for axis in (-1, -2)])[..., None, None]
    scale = jax.lax.stop_gradient(jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1))
    return scale * (2 + jnp.arange(count, dtype=magnitudes.dtype) / (count + 1))


@rule("eigh", guarded=True)
def eigh(ctx: Context, x: Operand, *, lower: bool, **_: Any) -> Any:
    """`f32[n, n] -> f32[n, n], f32[n]`: the padding has the largest eigenvalues, so it comes last."""
    half = jnp.abs((jnp.tril if lower else jnp.triu)(cleared(x)))
    values = _outside(half + half.mT, half.shape[-1])
    return cleaned(ctx, ctx.bind(bordered(x, diagonal=values), sort_eigenvalues=True))


@rule("eig", guarded=True)
def eig(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[n, n] -> c64[n], c64[n, n]...`: in no order; the padding's are told by their size."""
    values = _outside(jnp.abs(cleared(x)), x.data.shape[-1])
    w, *vectors = ctx.bind(bordered(x, diagonal=values))
    order = jnp.argsort(jnp.abs(w) > 0.75 * values[..., 0, :1], stable=True)
    vectors = [jnp.take_along_axis(v, order[..., None, :], -1) for v in vectors]
    return cleaned(ctx, [jnp.take_along_axis(w, order, -1), *vectors])


def _framed(ctx: Context, x: Operand, data: Any, k: Dim, diagonal: Any) -> Any:
    """Upright matrices `data` with `diagonal` in the columns past `k`, where true columns have nothing.

    Square ones have room for it; else every column gets a row of its own below.
    """
    rows, columns = data.shape[-2:]
    apart = ctx.is_ragged(k) and x.shape[-1] != x.shape[-2]
    data = _resized(data, rows + columns, columns) if apart else data
    mask = beyond(x, k, data.shape[-2:], rows if apart else 0)
    return jnp.where(mask, jnp.asarray(diagonal, data.dtype), data)


def _resized(data: Any, rows: int, columns: int) -> Any:
    """The matrices cut, or extended by 0, to a shape."""
    data = data[..., :rows, :columns]
    missing = (rows - data.shape[-2], columns - data.shape[-1])
    return jnp.pad(data, [(0, 0)] * (data.ndim - 2) + [(0, amount) for amount in missing])


def _reduced_only(ctx: Context, x: Operand, full: bool, instead: str) -> None:
    m, n = x.shape[-2:]
    if full and m != n and ctx.is_ragged(m, n):
        text = ctx.sizes.scope.show((m, n))
        raise ctx.unmaskable(f"A matrix of shape {text} does not determine all columns of a full basis.", instead)


@rule("qr", guarded=True)
def qr(ctx: Context, x: Operand, *, pivoting: bool, full_matrices: bool, **_: Any) -> Any:
    """`f32[m, n] -> f32[m, k], f32[k, n]`: the first k columns give Q, and R is what Q makes of all columns."""
    _reduced_only(ctx, x, full_matrices, "Use mode='reduced'.")
    n, k = x.shape[-1], ctx.out_shapes[1][-2]
    if pivoting and ctx.is_ragged(n):
        raise ctx.unmaskable("Columns are chosen by their size, and padding has columns too.", "Use jnp.linalg.svd.")
    data = cleared(x)
    rows, width = data.shape[-2:]
    if k == n or not ctx.is_ragged(k, n):
        q, *rest = ctx.bind(_framed(ctx, x, data, k, 1))
        return cleaned(ctx, [q[..., :rows, :], *rest])
    columns = ctx.sizes.bound(k)
    leading = jnp.where(jnp.arange(columns) < ctx.true(k), data[..., :columns], 0)
    q, r = ctx.bind(_framed(ctx, x, leading, k, 1))
    q = q[..., :rows, :]
    others = jnp.matmul(q.mT.conj(), data, precision=jax.lax.Precision.HIGHEST)
    r = jnp.where(jnp.arange(width) < ctx.true(k), _resized(r, columns, width), others)
    return cleaned(ctx, [q, r])


@rule("svd", guarded=True)
def svd(ctx: Context, x: Operand, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, **_: Any) -> Any:
    """`f32[m, n] -> f32[k], f32[m, k], f32[k, n]`: the padding has the largest singular values, which are cut off.

    The matrix is stood upright first, so that those k are all that it has: others would be 0.
    """
    _reduced_only(ctx, x, full_matrices and compute_uv, "Use full_matrices=False.")
    if subset_by_index is not None and ctx.is_ragged(*x.shape[-2:]):
        raise ctx.unmaskable("A subset counts singular values of the padding too.", "Take all of them, then a part.")
    m, n = x.shape[-2:]
    k = ctx.out_shapes[0][-1]
    data = cleared(x)
    columns, side = ctx.sizes.bound(k), max(data.shape[-2:])
    lying = False if k == n else True if k == m else ctx.true(m) < ctx.true(n)

    def stood(data: Any, rows: int, columns: int, back: Any = None) -> Any:
        """The matrices (with `back`: those) where upright, their adjoints where lying."""
        straight, turned = data, (data if back is None else back).mT.conj()
        if isinstance(lying, bool):
            return turned if lying else straight
        return jnp.where(lying, _resized(turned, rows, columns), _resized(straight, rows, columns))

    upright = stood(data, side, columns)
    framed = _framed(ctx, x, upright, k, _outside(jnp.abs(upright), columns))
    s, *bases = ctx.bind(framed, full_matrices=False)
    shift = ctx.true(k) - columns if ctx.is_ragged(k) else 0
    s = jnp.roll(s, shift, -1)
    if not compute_uv:
        return cleaned(ctx, [s])
    u, vt = jnp.roll(bases[0][..., : upright.shape[-2], :], shift, -1), jnp.roll(bases[1], shift, -2)
    rows, width = data.shape[-2:]
    return cleaned(ctx, [s, stood(u, rows, columns, vt), stood(vt, columns, width, u)])
