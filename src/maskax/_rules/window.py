"""Convolutions and window reductions over ragged axes.

Padding amounts of SAME and strided windows depend on n. The operand is therefore laid out, per row, in a buffer in
which every window starts at `stride * position`, and the windows are VALID there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from maskax import _compat
from maskax._interpret import Context
from maskax._operand import Operand
from maskax._registry import rule
from maskax._rules.reduce import highest, lowest
from maskax._rules.shape import place
from maskax._shapes import Dim


def _buffer(
    ctx: Context,
    x: Operand,
    data: Any,
    axis: int,
    out: Dim,
    *,
    low: Dim,
    stride: int,
    window: int,
    interior: int,
    value: Any,
) -> Any:
    """`data` along `axis` so that result `i` of bound(out) sees the elements from `stride * i` on."""
    length = _compat.max_dim((ctx.sizes.bound(out) - 1) * stride + window, 0)
    return place(ctx, data, axis, low, interior, length, value)


@rule("conv_general_dilated")
def conv_general_dilated(
    ctx: Context,
    lhs: Operand,
    rhs: Operand,
    *,
    dimension_numbers: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Any:
    """`f32[1, n, c], f32[k, c, d] -> f32[1, n/s, d]`: ragged in space, batch or features."""
    spec = dimension_numbers
    grouped = [lhs.shape[spec.lhs_spec[1]], *[rhs.shape[a] for a in spec.rhs_spec[:2]]]
    grouped += [lhs.shape[spec.lhs_spec[0]]] if batch_group_count > 1 else []
    if (feature_group_count > 1 or batch_group_count > 1) and ctx.is_ragged(*grouped):
        raise ctx.unmaskable(
            "A grouped convolution is ragged in its batch or features: groups would end elsewhere in every row.",
            "Split the groups by hand, or keep those axes static.",
        )
    image, kernel = lhs.fill(0, lhs.ragged), rhs.fill(0, rhs.ragged)
    new_padding, dilation = list(padding), list(lhs_dilation)
    for i, (a, k, o) in enumerate(zip(spec.lhs_spec[2:], spec.rhs_spec[2:], spec.out_spec[2:])):
        out, taps = ctx.out_shape[o], rhs.shape[k]
        if ctx.is_ragged(lhs.shape[a], taps, out, *padding[i]):
            window = _extent(ctx.sizes.bound(taps), rhs_dilation[i])
            image = _buffer(
                ctx,
                lhs,
                image,
                a,
                out,
                low=padding[i][0],
                stride=window_strides[i],
                window=window,
                interior=dilation[i] - 1,
                value=0,
            )
            new_padding[i], dilation[i] = (0, 0), 1
    return ctx.bind(image, kernel, padding=tuple(new_padding), lhs_dilation=tuple(dilation))


def _extent(size: Any, dilation: int) -> Any:
    """Elements that a dilated window spans."""
    return (size - 1) * dilation + 1


@rule("reduce_window_sum", identity=lambda dtype: 0)
@rule("reduce_window_max", identity=lowest)
@rule("reduce_window_min", identity=highest)
def reduce_window(ctx: Context, x: Operand, *, identity: Callable, **params: Any) -> Any:
    """`f32[n] -> f32[n/s]`: padding of either kind is the identity, which is not left where there is no true window."""
    out = _windows(ctx, [x], [identity(x.dtype)], params)
    return ctx.clean(out) if identity(x.dtype) != 0 else out


@rule("reduce_window")
def generic_reduce_window(ctx: Context, *operands: Operand, **params: Any) -> Any:
    """`lax.reduce_window` with any function; XLA pads with the initial value, and so do we."""
    arrays, inits = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    out = _windows(ctx, arrays, [init.data for init in inits], params, *[init.data for init in inits])
    return [ctx.clean(o, i) for i, o in enumerate(out)]


@rule("select_and_gather_add")
def select_and_gather_add(ctx: Context, tangents: Operand, x: Operand, *, select_prim: Any, **params: Any) -> Any:
    """The tangent of a max or min window: the padding is never selected."""
    identity = lowest if select_prim.name == "ge" else highest
    return _windows(ctx, [tangents, x], [0, identity(x.dtype)], params)


def _windows(ctx: Context, arrays: Sequence[Operand], fills: Sequence[Any], params: Any, *inits: Any) -> Any:
    x = arrays[0]
    data = [a.fill(value) for a, value in zip(arrays, fills)]
    padding, dilation, window = (list(params[k]) for k in ("padding", "base_dilation", "window_dimensions"))
    for axis, (dim, out) in enumerate(zip(x.shape, ctx.out_shape)):
        if not ctx.is_ragged(dim, out, window[axis], *padding[axis]):
            continue
        if ctx.is_ragged(window[axis]) and out != 1:
            raise ctx.unmaskable(
                f"The window has the run-time width {ctx.sizes.scope.show(window[axis])!r} and more than one position.",
                "Use a static window, or one that covers the whole axis.",
            )
        window[axis] = ctx.sizes.bound(window[axis])
        layout = {
            "low": padding[axis][0],
            "stride": params["window_strides"][axis],
            "interior": dilation[axis] - 1,
            "window": _extent(window[axis], params["window_dilation"][axis]),
        }
        data = [_buffer(ctx, x, d, axis, out, value=v, **layout) for d, v in zip(data, fills)]
        padding[axis], dilation[axis] = (0, 0), 1
    return ctx.bind(
        *data, *inits, padding=tuple(padding), base_dilation=tuple(dilation), window_dimensions=tuple(window)
    )


@rule("select_and_scatter_add")
def select_and_scatter_add(
    ctx: Context,
    source: Operand,
    x: Operand,
    *,
    select_prim: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
) -> Any:
    """The gradient of a max or min window: scatter in the buffer of windows, then undo its layout."""
    identity = (lowest if select_prim.name == "ge" else highest)(x.dtype)

    def layout(data: Any, value: Any) -> Any:
        for axis, dim in enumerate(x.shape):
            if ctx.is_ragged(dim, source.shape[axis], *padding[axis]):
                data = _buffer(
                    ctx,
                    x,
                    data,
                    axis,
                    source.shape[axis],
                    low=padding[axis][0],
                    interior=0,
                    value=value,
                    stride=window_strides[axis],
                    window=window_dimensions[axis],
                )
                new_padding[axis] = (0, 0)
        return data

    new_padding = list(padding)
    buffer = layout(x.fill(identity), identity)
    scattered = ctx.bind(source.fill(0), buffer, padding=tuple(new_padding))
    undo = jax.linear_transpose(lambda data: layout(data, 0), jax.ShapeDtypeStruct(x.data.shape, x.dtype))
    return undo(scattered)[0]
