"""Host callbacks: the user's Python function is given arrays cut to their true size.

A step past a row's end does not happen: it calls nothing.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax._errors import ShapeError
from maskax._interpret import Context
from maskax._operand import Operand, Padded
from maskax._registry import rule
from maskax._shapes import Dim

Template = tuple[int, ...]
"""A shape, in which `-1 - i` stands for the i-th size. Plain numbers: equal callbacks are compiled once."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """`callback`, as a function of `(alive, *sizes, *padded arrays)` on the host.

    Attributes:
        callback: the function of flat arrays cut to size; it returns flat results, or nothing.
        operands: the shape of each array.
        results: the shape of each result,
        padded: its padded shape, and
        dtypes: its dtype.
        n_sizes: how many sizes there are.
    """

    callback: Callable[..., Any]
    operands: tuple[Template, ...]
    results: tuple[Template, ...]
    padded: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    n_sizes: int

    def __call__(self, *flat: Any) -> tuple[np.ndarray, ...]:
        on_host = [np.asarray(x) for x in flat]
        scalars, arrays = on_host[: 1 + self.n_sizes], on_host[1 + self.n_sizes :]
        # Under the vmap methods that make one call of a batch, everything has leading axes, of size 1 if need be.
        leads = [x.shape for x in scalars]
        leads += [x.shape[: x.ndim - len(shape)] for x, shape in zip(arrays, self.operands)]
        batch = np.broadcast_shapes(*leads)
        out = tuple(np.zeros(batch + shape, dtype) for shape, dtype in zip(self.padded, self.dtypes))
        for where in _alike(scalars, batch) if 0 not in batch else ():
            alive, *sizes = (int(_part(x, where, x.ndim).flat[0]) for x in scalars)
            if not alive:
                continue
            true = [_true(shape, sizes) for shape in self.operands]
            values = [_part(x, where, x.ndim - len(shape))[_corner(shape)] for x, shape in zip(arrays, true)]
            new = self.callback(*map(jnp.asarray, values))
            for whole, value, shape in zip(out, new, self.results, strict=True):
                place = _part(whole, where, len(batch))[_corner(_true(shape, sizes))]
                if np.shape(value) != place.shape:
                    raise ShapeError(
                        f"A callback returned an array of shape {np.shape(value)}, but it is declared as "
                        f"{place.shape}. Return what `result_shape_dtypes` says, at the true size."
                    )
                place[...] = value
        return out


def _alike(scalars: Sequence[np.ndarray], batch: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """The parts of the batch to call for: all of it where no size differs, else each row by itself."""
    if all((x == x.flat[:1]).all() for x in scalars):
        yield (slice(None),) * len(batch)
    else:
        for index in np.ndindex(batch):
            yield tuple(slice(i, i + 1) for i in index)


def _part(x: np.ndarray, where: Sequence[slice], lead: int) -> np.ndarray:
    """The rows `where` of `x`, which has `lead` leading axes; an axis of size 1 is every row's."""
    index = [slice(None) if size == 1 else s for size, s in zip(x.shape[:lead], where[len(where) - lead :])]
    return x[(*index, ...)]  # a view, even of a scalar


def _true(shape: Template, sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sizes[-1 - dim] if dim < 0 else dim for dim in shape)


def _corner(shape: Sequence[int]) -> tuple[Any, ...]:
    return (..., *[slice(0, size) for size in shape])


def _cut(ctx: Context, callback: Callable[..., Any], operands: Sequence[Operand]) -> tuple[Cut, list[Any]]:
    """The callback for the host, and its arguments."""
    shapes = [x.shape for x in operands]
    ragged: dict[Dim, Any] = {}
    for shape in [*shapes, *ctx.out_shapes]:
        for axis in ctx.sizes.ragged_axes(shape):
            ragged.setdefault(shape[axis], -1 - len(ragged))
    templates = lambda shapes: tuple(tuple(ragged.get(dim, dim) for dim in shape) for shape in shapes)
    padded = tuple(map(ctx.padded, ctx.out_shapes))
    dtypes = tuple(var.aval.dtype for var in ctx.eqn.outvars)
    alive = True if ctx.sizes.alive is None else ctx.sizes.alive
    scalars = [jnp.asarray(x) for x in (alive, *map(ctx.true, ragged))]
    cut = Cut(callback, templates(shapes), templates(ctx.out_shapes), padded, dtypes, len(ragged))
    return cut, [*scalars, *[x.data for x in operands]]


@rule("pure_callback", "io_callback", guarded=True)
def callback_with_results(ctx: Context, *operands: Operand, callback: Any, result_avals: Any, **_: Any) -> Any:
    """`f32[n] -> f32[n]`: the results are padded with 0 on the host."""
    cut, flat = _cut(ctx, callback, operands)
    avals = tuple(aval.update(shape=shape) for aval, shape in zip(result_avals, cut.padded))
    out = ctx.bind(*flat, callback=cut, result_avals=avals)
    return [Padded(x, pad=0) if ctx.is_ragged(*shape) else x for x, shape in zip(out, ctx.out_shapes)]


@rule("debug_callback", guarded=True)
def debug_callback(ctx: Context, *operands: Operand, callback: Any, **_: Any) -> Any:
    """`f32[n] -> nothing`: `jax.debug.callback`."""
    cut, flat = _cut(ctx, callback, operands)
    return ctx.bind(*flat, callback=cut)


@rule("debug_print", guarded=True)
def debug_print(ctx: Context, *operands: Operand, ordered: bool, partitioned: bool, **params: Any) -> Any:
    """`f32[n] -> nothing`: `jax.debug.print`, which formats on the host what is cut there."""
    show = functools.partial(ctx.eqn.primitive.impl, ordered=ordered, partitioned=partitioned, **params)
    cut, flat = _cut(ctx, show, operands)

    def on_host(*flat: Any) -> None:
        cut(*flat)

    jax.debug.callback(on_host, *flat, ordered=ordered, partitioned=partitioned)
    return []
