"""Functions with derivatives of their own: both the function and its derivative are interpreted.

Inlining them would change derivatives (relu'(0) is 0, not 1/2); binding them as they stand cannot lower, since their
programs are written at symbolic sizes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from maskax import _compat
from maskax._interpret import Context, interpret
from maskax._operand import Operand, Padded, select
from maskax._registry import rule
from maskax._rules import linalg
from maskax._rules.control import arrays, spread


@rule("custom_jvp_call")
def custom_jvp_call(
    ctx: Context, *operands: Operand, call_jaxpr: Any, num_consts: int, symbolic_zeros: bool, **_: Any
) -> list[Any]:
    """`jax.custom_jvp`: keeps the user's rule, `symbolic_zeros` included."""
    if linalg.is_det(ctx.eqn) and ctx.is_ragged(*operands[0].shape):
        return [linalg.det(ctx, *operands)]
    derivative = functools.partial(_compat.custom_jvp_rule, ctx.eqn.params)
    return with_jvp(ctx, operands, call_jaxpr, derivative, num_consts, symbolic_zeros)


def with_jvp(
    ctx: Context,
    operands: Sequence[Operand],
    program: Any,
    derivative: Callable[[Sequence[Any]], Any],
    num_consts: int = 0,
    symbolic_zeros: bool = True,
) -> list[Any]:
    """The results of `program`, whose JVP is what `derivative` makes of tangents: see `_compat.custom_jvp_rule`."""
    size_values, restore = spread(ctx.sizes)
    skip = len(size_values)

    @jax.custom_jvp
    def function(*flat: Any) -> list[Any]:
        return arrays(ctx.interpret(program, *ctx.inputs(flat[skip:]), sizes=restore(flat[:skip])))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        start = skip + num_consts
        jaxpr, consts, nonzero, zeros = derivative(tangents[start:])
        out = arrays(interpret(jaxpr, consts, [*ctx.inputs(primals[start:]), *nonzero], restore(primals[:skip])))
        out, rest = out[: len(zeros)], iter(out[len(zeros) :])
        slopes = [_compat.symbolic_zero_like(o) if zero else next(rest) for o, zero in zip(out, zeros)]
        return out, [t if zero else _compat.varying_alike([o, t])[1] for o, t, zero in zip(out, slopes, zeros)]

    function.defjvp(jvp, symbolic_zeros=symbolic_zeros)
    return function(*size_values, *[x.data for x in operands])


@rule("custom_vjp_call")
def custom_vjp_call(
    ctx: Context, *operands: Operand, call_jaxpr: Any, num_consts: int, symbolic_zeros: bool, **_: Any
) -> list[Any]:
    """`jax.custom_vjp`: keeps the user's forward and backward rule."""
    size_values, restore = spread(ctx.sizes)
    skip = len(size_values)
    start = skip + num_consts
    logical = [x.aval for x in operands]

    @jax.custom_vjp
    def function(*flat: Any) -> list[Any]:
        return arrays(ctx.interpret(call_jaxpr, *ctx.inputs(flat[skip:]), sizes=restore(flat[:skip])))

    def forward(*args: Any) -> tuple[list[Any], Any]:
        perturbed = [x.perturbed if symbolic_zeros else True for x in args]
        flat = [x.value if symbolic_zeros else x for x in args]
        jaxpr, consts = _compat.custom_vjp_forward(ctx.eqn.params, perturbed[start:])
        results = interpret(jaxpr, consts, ctx.inputs(flat[start:]), restore(flat[:skip]))
        n_out, copies = _compat.custom_vjp_residuals(ctx.eqn.params)
        n_kept = len(results) - n_out
        avals = [var.aval for var in jaxpr.outvars]
        fresh = iter(zip(results[:n_kept], avals))
        residuals = [next(fresh) if c is None else (Padded(flat[skip + c]), logical[c]) for c in copies]
        seen.update(
            residuals=[aval for _, aval in residuals],
            dims=[_dimension(value, aval) for value, aval in residuals],
            outputs=avals[n_kept:],
        )
        return arrays(results[n_kept:]), (flat[:skip], arrays([value for value, _ in residuals]))

    seen: dict[str, Any] = {}

    def backward(kept: Any, cotangents: list[Any]) -> tuple[Any, ...]:
        size_values, residuals = kept
        sizes = restore(size_values)
        avals = [aval.to_ct_aval() for aval in seen["outputs"]]
        given = [not _compat.is_symbolic_zero(ct) for ct in cotangents]
        returned: list[bool] = []

        def user_rule(residuals: list[Any], nonzero: list[Any]) -> list[Any]:
            rest = iter(nonzero)
            cts = [next(rest) if g else _compat.symbolic_zero(aval) for g, aval in zip(given, avals)]
            # Where the forward rule kept a size, `x.shape` say, the backward one may want it in a shape.
            kept = [value if dim is None else dim for value, dim in zip(residuals, seen["dims"])]
            out = _compat.custom_vjp_backward(ctx.eqn.params)(*kept, *cts)
            returned[:] = [ct is not None for ct in out]
            return [ct for ct in out if ct is not None]

        types = [*map(_struct, seen["residuals"])], [_struct(a) for g, a in zip(given, avals) if g]
        jaxpr, consts = _compat.open_jaxpr(jax.make_jaxpr(user_rule)(*types))
        nonzero = [ct for g, ct in zip(given, cotangents) if g]
        out = interpret(jaxpr, consts, [*residuals, *nonzero], sizes)
        # 0 in the padding and on dead steps, whatever the user's rule gives there: what follows may well be a sum.
        filled = [Operand(value, var.aval, sizes).fill(0) for value, var in zip(out, jaxpr.outvars)]
        cts = iter(filled if sizes.alive is None else [select(sizes.alive, ct, 0) for ct in filled])
        return (*[None] * start, *[next(cts) if r else None for r in returned])

    function.defvjp(forward, backward, symbolic_zeros=symbolic_zeros)
    return function(*size_values, *[x.data for x in operands])


def _dimension(value: Padded, aval: Any) -> Any:
    """The dimension, or the int written in the program, that a residual is; `None` for any other."""
    if value.dim is not None or value.pad is None or aval.shape or not jnp.issubdtype(aval.dtype, jnp.integer):
        return value.dim
    return int(value.pad)


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
