"""Primitives that JAX makes of others (`HiPrim`, since 0.11): `nonzero`, `ldexp`, `custom_root`, a user's own."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from maskax import _compat
from maskax._instead import instead_of
from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.derivatives import with_jvp

_ELEMENTWISE = {"Frexp": jnp.frexp, "Ldexp": jnp.ldexp}
"""What plays with the bits of each element alone, and is linear in spite of that: it is called as it is."""


@rule("call_hi_primitive")
def composed(ctx: Context, *operands: Operand, _prim: Any, **_: Any) -> Sequence[Any]:
    """It is what it consists of that is interpreted; its derivative is its own."""
    structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]

    def expanded(*flat: Any) -> list[Any]:
        return jax.tree.leaves(_prim.expand(*jax.tree.unflatten(_prim.in_tree, flat)))

    def derivative(tangents: Sequence[Any]) -> tuple[Any, Sequence[Any], list[Any], list[bool]]:
        return _derivative(_prim, structs, tangents)

    name = type(_prim).__name__
    if name in _ELEMENTWISE:
        arrays = ctx.broadcast([x.safe(0, ctx.out_shape) for x in operands])
        return jax.tree.leaves(_ELEMENTWISE[name](*arrays))
    try:
        program = jax.make_jaxpr(expanded)(*structs)
    except TypeError as error:
        if (advice := instead_of([*_compat.source_call(), name.lower()], chosen=False)) is None:
            raise
        raise ctx.unmaskable("JAX does not trace what it consists of at run-time sizes.", advice) from error
    if any(jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in ctx.eqn.outvars):
        return with_jvp(ctx, operands, program, derivative)
    return ctx.interpret(program, *[x.value for x in operands])


def _derivative(primitive: Any, structs: list[Any], tangents: Sequence[Any]) -> tuple[Any, Any, list[Any], list[bool]]:
    """The primitive's JVP as a program: `(jaxpr, consts, nonzero tangents, which output tangents are zero)`."""
    given = [not _compat.is_symbolic_zero(t) for t in tangents]
    nonzero = [t for t, g in zip(tangents, given) if g]
    zeros: list[bool] = []

    def jvp(primals: Sequence[Any], nonzero: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        rest = iter(nonzero)
        filled = [next(rest) if g else ad.Zero(jax.typeof(x).to_tangent_aval()) for g, x in zip(given, primals)]
        trees = [jax.tree.unflatten(primitive.in_tree, flat) for flat in (primals, filled)]
        out, slopes = primitive.jvp(*trees)
        slopes = jax.tree.leaves(slopes, is_leaf=lambda t: isinstance(t, ad.Zero))
        zeros[:] = [isinstance(t, ad.Zero) for t in slopes]
        return jax.tree.leaves(out), [t for t, zero in zip(slopes, zeros) if not zero]

    types = [jax.ShapeDtypeStruct(s.shape, t.dtype) for s, t in zip([s for s, g in zip(structs, given) if g], nonzero)]
    jaxpr, consts = _compat.open_jaxpr(jax.make_jaxpr(jvp)(structs, types))
    return jaxpr, consts, nonzero, zeros
