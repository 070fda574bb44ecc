"""Linear algebra: a matrix of run-time size is a block of a padded one, chosen so that the answer is a block too.

The rest of the diagonal is 1 where a matrix is inverted, 0 where a zero column is skipped anyway. JAX differentiates
through what is emitted, so the derivatives are those of the primitive at the padded size, whose blocks do not mix.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand, select
from maskax._registry import rule
from maskax._shapes import Dim


def cleared(x: Operand) -> Any:
    """The array with 0 in its padding and on steps past a row's end, copies that a broadcast made there included."""
    data = x.fill(0)
    return data if x.sizes.alive is None else select(x.sizes.alive, data, 0)


def extent(x: Operand, dim: Dim) -> Any:
    """The true size of `dim`, to compare with positions in the matrices `(..., m, n)` that `x` is a stack of.

    It is 0 where the whole matrix is padding: in ragged leading axes and on steps past a row's end.
    """
    count = x.sizes.true(dim)
    for mask in (x.keep(range(len(x.shape) - 2)), x.sizes.alive):
        count = count if mask is None else jnp.where(mask, count, 0)
    return count


def beyond(x: Operand, dim: Dim, shape: Sequence[int], offset: int = 0) -> Any:
    """Boolean mask of the diagonal entries `(offset + j, j)` past the true size of `dim`, in matrices of `shape`."""
    row, column = (jax.lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    return (row == column + offset) & (column >= extent(x, dim))


def bordered(x: Operand, dim: Dim | None = None, diagonal: Any = 1) -> Any:
    """The matrices with 0 in their padding, but for the diagonal, which is `diagonal` past the true size of `dim`."""
    data = cleared(x)
    mask = beyond(x, x.shape[-1] if dim is None else dim, data.shape[-2:])
    return jnp.where(mask, jnp.asarray(diagonal, x.dtype), data)


def cleaned(ctx: Context, out: Sequence[Any]) -> list[Any]:
    """All results with 0 in their padding."""
    return [ctx.clean(array, i) for i, array in enumerate(out)]


@rule("cholesky", guarded=True)
def cholesky(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[n, n] -> f32[n, n]`: the factor of `[[x, 0], [0, 1]]`."""
    return ctx.clean(ctx.bind(bordered(x)))


@rule("symmetric_product")
def symmetric_product(ctx: Context, x: Operand, c: Operand, **_: Any) -> Any:
    """`f32[m, n], f32[m, m] -> f32[m, m]`: a contraction over n."""
    return ctx.bind(x.fill(0), c.data)


@rule("triangular_solve", guarded=True)
def triangular_solve(ctx: Context, a: Operand, b: Operand, **_: Any) -> Any:
    """`f32[n, n], f32[n, m] -> f32[n, m]`: solves with `[[a, 0], [0, 1]]`."""
    return ctx.clean(ctx.bind(bordered(a), cleared(b)))


@rule("tridiagonal_solve", guarded=True)
def tridiagonal_solve(ctx: Context, low: Operand, diagonal: Operand, high: Operand, b: Operand, **_: Any) -> Any:
    """`3 x f32[n], f32[n, m] -> f32[n, m]`: the last true row does not see the first one of the padding."""
    last = ctx.true(high.shape[-1]) - 1
    above = jnp.where(jnp.arange(high.data.shape[-1]) < last, cleared(high), 0)
    middle = diagonal.fill(1) if ctx.sizes.alive is None else select(ctx.sizes.alive, diagonal.fill(1), 1)
    return ctx.clean(ctx.bind(cleared(low), middle, above, cleared(b)))


@rule("lu", guarded=True)
def lu(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[m, n] -> f32[m, n], i32[k], i32[m]`: rows of the identity are no pivots of true columns.

    Where the padding has columns that true rows would have to fill, no choice of them keeps the pivots: refused.
    """
    m, n = x.shape[-2:]
    k = ctx.out_shapes[1][-1]
    if k != m and (k != n or ctx.is_ragged(n)):
        show = ctx.sizes.scope.show
        raise ctx.unmaskable(
            f"The matrix may have more rows than columns ({show(m)!r} by {show(n)!r}), and its columns are ragged.",
            "Factor a square or wide one (constraints may say that it is), or use jnp.linalg.qr.",
        )
    return cleaned(ctx, ctx.bind(bordered(x, k)))


def is_det(eqn: Any) -> bool:
    """Whether a `custom_jvp_call` is that of `jnp.linalg.det`."""
    function = _compat.open_jaxpr(eqn.params["call_jaxpr"])[0].debug_info.func_src_info
    return function.startswith("_det ") and "linalg.py" in function


def det(ctx: Context, x: Operand) -> Any:
    """`f32[n, n] -> f32[]`, in place of JAX's own derivative, which is another program at size 1.

    That of `[[1, 0], [0, x]]`: it is exact for singular matrices where the last pivot is the one that is 0.
    """
    spare = x.data.shape[-1] - ctx.true(x.shape[-1])
    return jnp.linalg.det(jnp.roll(bordered(x), (spare, spare), (-2, -1)))


@rule("lu_pivots_to_permutation")
def lu_pivots_to_permutation(ctx: Context, pivots: Operand, *, permutation_size: Dim) -> Any:
    """`i32[k] -> i32[n]`: in the padding every row is swapped with itself."""
    here = jax.lax.broadcasted_iota(pivots.dtype, pivots.data.shape, pivots.data.ndim - 1)
    keep = pivots.keep()
    swaps = pivots.data if keep is None else jnp.where(keep, pivots.data, here)
    return ctx.bind(swaps, permutation_size=ctx.sizes.bound(permutation_size))


@rule("geqrf", "hessenberg", guarded=True)
def reflectors(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[m, n] -> f32[m, n], f32[k]`: a column that is 0 already needs no reflection."""
    return cleaned(ctx, ctx.bind(cleared(x)))


@rule("tridiagonal", guarded=True)
def tridiagonal(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[n, n] -> f32[n, n], f32[n], f32[n - 1], f32[n - 1]`: like `hessenberg`."""
    return cleaned(ctx, ctx.bind(cleared(x)))


@rule("householder_product", "ormqr", guarded=True)
def householder_product(ctx: Context, *operands: Operand, **_: Any) -> Any:
    """`f32[m, n], f32[k] -> f32[m, n]`: a reflection with a factor of 0 is none."""
    return ctx.clean(ctx.bind(*map(cleared, operands)))


@rule("schur", guarded=True)
def schur(ctx: Context, x: Operand, *, sort_eig_vals: bool, **_: Any) -> Any:
    """`f32[n, n] -> f32[n, n], f32[n, n]`: a block that is diagonal already stays where it is."""
    if sort_eig_vals:
        raise ctx.unmaskable("Sorted, the values of the padding would come among the true ones.", "Do not sort.")
    return cleaned(ctx, ctx.bind(bordered(x)))
