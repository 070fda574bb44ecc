"""Random draws: what the unpadded call would draw, whichever axis is ragged.

The default generator counts elements by their linear index in the logical shape, so bits are drawn flat and then
reshaped by the same rule as any array: https://docs.jax.dev/en/latest/jep/263-prng.html.
"""

from collections.abc import Sequence
from typing import Any

import jax

from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.reshape import reshape, size
from maskax._shapes import Dim


def _must_count(ctx: Context, keys: Operand) -> None:
    """Refuses generators that do not draw each element by its linear index alone."""
    impl = str(jax.random.key_impl(keys.data))
    if "threefry2x32" not in impl or not jax.threefry_partitionable.value:
        raise ctx.unmaskable(
            f"Draws of the generator {impl} change when an array is padded, so they cannot equal the unpadded ones.",
            "Use the default generator: jax.random.key(seed), with jax_threefry_partitionable left on.",
        )


def _flat_draw(ctx: Context, keys: Operand, shape: Sequence[Dim]) -> Any:
    if not ctx.is_ragged(*shape):
        return ctx.bind(keys.data)
    _must_count(ctx, keys)
    flat = (*keys.shape, size(shape))
    drawn = ctx.bind(keys.data, shape=(ctx.sizes.bound(size(shape)),))
    # As many streams of bits as are asked for, since JAX 0.12.1; before that, one array.
    return jax.tree.map(lambda x: reshape(x, flat, (*keys.shape, *shape), ctx.sizes)[0], drawn)


@rule("random_bits")
def random_bits(ctx: Context, keys: Operand, *, shape: Sequence[Dim], **_: Any) -> Any:
    """`key[] -> u32[n, m]`."""
    return _flat_draw(ctx, keys, shape)


@rule("random_split")
def random_split(ctx: Context, keys: Operand, *, shape: Sequence[Dim], **_: Any) -> Any:
    """`key[] -> key[n]`."""
    return _flat_draw(ctx, keys, shape)


@rule("threefry2x32")
def threefry2x32(ctx: Context, *operands: Operand) -> Any:
    """`u32[], u32[], u32[n], u32[n] -> u32[n], u32[n]`: each counter alone."""
    return ctx.bind(*ctx.broadcast(operands))


@rule("random_gamma", "random_poisson", guarded=True)
def draw_by_parameter(ctx: Context, keys: Operand, parameter: Operand, **_: Any) -> Any:
    """`key[], f32[n, m] -> f32[n, m]`: how often an element is drawn anew changes no other element."""
    batch = keys.shape
    inner = parameter.shape[len(batch) :]
    if ctx.is_ragged(*inner):
        _must_count(ctx, keys)
    flat = (*batch, size(inner))
    data, _moved = reshape(parameter.safe(1), parameter.shape, flat, ctx.sizes)
    return reshape(ctx.bind(keys.data, data), flat, parameter.shape, ctx.sizes)[0]
