"""Primitives that treat each element alone: padding in, padding out.

Those with a pole, a branch point or an early overflow get a harmless operand wherever the result will not be used.
Selecting afterwards would be right forward and nan backward (0 times an infinite slope), first of all in the gradient
of weights; see https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where.
"""

from typing import Any

import jax.numpy as jnp

from maskax._interpret import Context
from maskax._operand import Operand, Padded, is_wild, known_equal
from maskax._registry import rule
from maskax._rules import softmax

_PLAIN = """
    abs add add_any and asinh atan atanpi bessel_i0e bessel_i1e ceil clamp clz complex conj copy cos cospi eq eq_to
    erf erfc floor fma fmuladd ge gt imag is_finite le le_to logistic lt lt_to min mul mulhi ne neg nextafter not
    one_minus_square or polynomial population_count real reduce_precision round shift_left shift_right_arithmetic
    shift_right_logical sign sin sinpi square tanh xor random_clone random_fold_in random_seed
""".split()  # noqa: SIM905  (a list of one name a line would hide the rules)

_KEEPS_PAD = ["copy", "name", "reduce_precision"]

_UNDERFLOW = -1e4  # exp gives exactly 0 here in every floating dtype, with a finite operand and a derivative of 0

_SAFE: dict[str, tuple[Any, ...]] = {
    "acos": (0,),
    "acosh": (2,),
    "acospi": (0,),
    "asin": (0,),
    "asinpi": (0,),
    "atan2": (None, 1),
    "atan2pi": (None, 1),
    "atanh": (0,),
    "cbrt": (1,),
    "cosh": (0,),
    "digamma": (1,),
    "erf_inv": (0,),
    "exp2m1": (0,),
    "expm1": (0,),
    "igamma": (1, 1),
    "igamma_grad_a": (1, 1),
    "igammac": (1, 1),
    "lgamma": (1,),
    "log": (1,),
    "log1p": (0,),
    "log2": (1,),
    "log2p1": (0,),
    "polygamma": (1, 1),
    "pow": (1, None),
    "random_gamma_grad": (1, 1),
    "regularized_incomplete_beta": (1, 1, 0.5),
    "rem": (None, 1),
    "rsqrt": (1,),
    "sinh": (0,),
    "sqrt": (1,),
    "tan": (0,),
    "tanpi": (0,),
    "zeta": (2, 1),
}
"""Per operand the value that it gets where the result will not be used; `None` leaves it alone."""


@rule(*_PLAIN)
def elementwise(ctx: Context, *operands: Operand, **_: Any) -> Any:
    """`f32[n], f32[n] -> f32[n]`: nothing to do; finite padding gives finite padding."""
    out = ctx.bind(*ctx.broadcast(operands))
    return Padded(out, pad=operands[0].pad) if ctx.eqn.primitive.name in _KEEPS_PAD else ctx.tame(out, *operands)


@rule("select_n", guarded=True)
def select_n(ctx: Context, which: Operand, *cases: Operand) -> Any:
    """`bool[n], f32[n], f32[n] -> f32[n]`."""
    out = ctx.bind(*ctx.broadcast([which, *cases]))
    if not which.ragged and ctx.sizes.alive is None:
        return out  # a scalar chooses the same in the padding as elsewhere, unless it is a dead step's
    # What a reduction made nan may be chosen in the padding alone.
    reduced = jnp.issubdtype(out.dtype, jnp.inexact) and any(x.value.reduced for x in cases)
    return ctx.clean(out) if reduced else ctx.tame(out, *cases)


@rule(*_SAFE, guarded=True)
def singular(ctx: Context, *operands: Operand, **_: Any) -> Any:
    """`log: f32[n] -> f32[n]`: the operand is 1 in the padding, so that value and slope are finite there."""
    values = _SAFE[ctx.eqn.primitive.name]
    arrays = [x.data if v is None else x.safe(v, ctx.out_shape) for x, v in zip(operands, values)]
    return ctx.tame(ctx.bind(*ctx.broadcast(arrays)), *(x for x, v in zip(operands, values) if v is None))


@rule("div", guarded=True)
def div(ctx: Context, x: Operand, y: Operand, **_: Any) -> Padded:
    """`f32[n], f32[n] -> f32[n]`: 1 in the padding of the denominator, so that 0 stays 0."""
    below = softmax.denominator(y, ctx.out_shape)
    out = ctx.bind(*ctx.broadcast([x.data, y.safe(1, ctx.out_shape) if below is None else below]))
    # Only where the denominator cannot be 0 is 0 over it 0.
    filled = below is not None or (y.ragged and y.value.spread is None) or (y.shape == () and y.pad not in (None, 0))
    if is_wild(x.value.pad):
        return ctx.clean(out)
    zero = bool(x.ragged and filled) and known_equal(x.value.pad, 0)
    return Padded(out, pad=0 if zero else None, pad_axes=x.value.pad_axes if zero else None)


@rule("exp", "exp2", guarded=True)
def exponential(ctx: Context, x: Operand, **_: Any) -> Padded:
    """`exp: f32[n] -> f32[n]`: the padding underflows to exactly 0, which a following sum need not fill again."""
    if (known := softmax.exponential(ctx, x)) is not None and ctx.eqn.primitive.name == "exp":
        return known
    if jnp.iscomplexobj(x.data):
        return Padded(ctx.bind(x.safe(0)))
    # What a broadcast copied into the padding is not filled there.
    return Padded(ctx.bind(x.safe(_UNDERFLOW)), pad=0 if x.ragged and x.value.spread is None else None)


@rule("integer_pow", guarded=True)
def integer_pow(ctx: Context, x: Operand, *, y: int, **_: Any) -> Any:
    """`f32[n] -> f32[n]`: a pole only for a negative exponent; 1 also keeps high powers from overflowing."""
    roomy = not jnp.issubdtype(x.dtype, jnp.floating) or float(jnp.finfo(x.dtype).max) > 1e30
    return ctx.tame(ctx.bind(x.data), x) if 0 <= y <= (3 if roomy else 2) else ctx.bind(x.safe(1))


@rule("convert_element_type")
def convert_element_type(ctx: Context, x: Operand, *, new_dtype: Any, **_: Any) -> Padded:
    """`f32[n] -> i32[n]`: known padding stays known; a run-time size keeps its dimension."""
    whole = jnp.issubdtype(new_dtype, jnp.integer)
    pad = x.value.pad
    if not any(known_equal(pad, v) for v in (0, 1)):  # other values may change
        pad = pad if is_wild(pad) and jnp.issubdtype(new_dtype, jnp.inexact) else None
    return Padded(ctx.bind(x.data), pad=pad, pad_axes=x.value.pad_axes, dim=x.value.dim if whole else None)


@rule("bitcast_convert_type")
def bitcast_convert_type(ctx: Context, x: Operand, **_: Any) -> Any:
    """`f32[n] -> i32[n]`; all bits zero is 0 in every dtype, where others could be nan."""
    return ctx.bind(x.fill(0)) if not jnp.issubdtype(x.dtype, jnp.unsignedinteger) else ctx.bind(x.safe(0))


@rule("random_wrap", "random_unwrap")
def key_data(ctx: Context, x: Operand, **_: Any) -> Any:
    """`key[n] -> u32[n, 2]` and back: the trailing axis is static."""
    return ctx.bind(x.data)


@rule("name", "device_put", "optimization_barrier", "size_check")
@rule("sharding_constraint", "reshard", "relayout", "pvary", "layout_constraint", "shard_alike", "stage")
@rule("dce_sink", "inspect_sharding", "xla_metadata_value")
def unchanged(ctx: Context, *operands: Operand, **_: Any) -> Any:
    """Results are the operands: what is known of their padding stays known."""
    out = ctx.bind(*[x.data for x in operands])
    many = ctx.eqn.primitive.multiple_results
    results = [Padded(o, pad=x.pad, dim=x.value.dim) for o, x in zip(out if many else [out], operands)]
    return results if many else results[0]
