"""A size that the data decides, as a dimension."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from maskax import _compat
from maskax._errors import SizeError, SpecError, UnmaskableError
from maskax._extent import is_symbolic
from maskax._mask import LogicalShape, mask
from maskax._ragged import Ragged
from maskax._scope import Scope


def dynamic_size(value: Any, max_size: Any) -> Any:
    """A size known at run time only, as a dimension: for shapes, slices, `arange` (to scan over), random draws.

    Inside a function that is masked by `mask` or `vmap` it is a dimension as any other: `x[:k]`, `jnp.zeros((k, 3))`,
    `2 * k`, `n - k`. One compilation serves all its values. Outside, of a value that is known, it is an int.

    Args:
        value: the size, an integer scalar.
        max_size: up to where it can get: an int or another dimension. Arrays are padded to that.

    Returns:
        The dimension.

    Raises:
        SizeError: the value is known, and is not between 0 and `max_size`. Under `jit` the size is `max_size` then; use
            `jax.experimental.checkify` to be told.
        SpecError: the value is no integer scalar.
        UnmaskableError: in a plain function under `jit`, where JAX knows no such dimensions.

    Example:
        >>> import jax, jax.numpy as jnp, maskax as mx
        >>> def mean_of_draws(key):
        ...     count, draws = jax.random.split(key)
        ...     k = mx.dynamic_size(jax.random.randint(count, (), 1, 100), 100)
        ...     return jax.random.normal(draws, (k,)).mean()
        >>> masked = jax.jit(mx.mask(mean_of_draws, [None], ""))
        >>> bool(jnp.allclose(masked([jax.random.key(0)], {}), mean_of_draws(jax.random.key(0)), atol=1e-5))
        True
    """
    if is_symbolic(value):
        return value
    dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
    if np.ndim(value) or not jnp.issubdtype(dtype, jnp.integer):
        raise SpecError(f"dynamic_size: value must be an integer scalar, not {dtype}{list(np.shape(value))}.")
    return size_of(value, max_size)


def size_of(value: Any, bound: Any) -> Any:
    """`dynamic_size` of what is an integer scalar."""
    if _compat.is_concrete(value) and not is_symbolic(bound):
        if not 0 <= int(value) <= bound:
            raise SizeError(f"A run-time size is {int(value)}, out of range: it runs from 0 to {bound}.")
        return int(value)
    scope = None if Scope.outside() else Scope.current()
    if scope is None:
        raise UnmaskableError(
            "A plain function under jax.jit has no run-time sizes.\n"
            "  Mask it: jax.jit(mx.mask(f, [None]))([x], {}), with a shape string where an argument is ragged itself."
        )
    dim = scope.make(bound)
    _size_p.bind(jnp.asarray(value, _compat.dimension_dtype()), dim=dim, bound=bound)
    return dim


class _MakesSize(_compat.Effect):
    """Keeps an equation whose result nobody uses: its size may stand in a shape."""


_MAKES_SIZE = _MakesSize()
_compat.allow_everywhere(_MakesSize)

_size_p = Primitive("dynamic_size")
_size_p.def_effectful_abstract_eval(
    lambda value, *, dim, bound: (ShapedArray((dim,), np.dtype("int32")), {_MAKES_SIZE})
)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Nothing is differentiated by a size."""
    out = _size_p.bind(*primals, **params)
    return out, ad.Zero(jax.typeof(out).to_tangent_aval())


def _batched(args: Any, dims: Any, **_: Any) -> Any:
    Scope.begin_again_if_masked()
    raise UnmaskableError(
        f"{_compat.source_line()}: jax.vmap in a masked function makes a size for every element, where one dimension "
        "has one size.\n  Use mx.vmap there: results come back as Ragged."
    )


ad.primitive_jvps[_size_p] = _jvp
batching.primitive_batchers[_size_p] = _batched


def anywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a function that makes sizes be called in a plain function under `jit`: results are one-row `Ragged`s."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if all(map(_compat.is_concrete, filter(_is_array, leaves))):
            with contextlib.nullcontext() if is_symbolic(*leaves) else jax.ensure_compile_time_eval():
                return function(*args, **kwargs)
        if not Scope.outside():
            return function(*args, **kwargs)
        traced = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

        def of_arrays(*arrays: Any) -> Any:
            new = list(leaves)
            for i, x in zip(traced, arrays):
                new[i] = x
            args, kwargs = jax.tree.unflatten(tree, new)
            return function(*args, **kwargs)

        results, shapes = mask(of_arrays, [None] * len(traced))([leaves[i] for i in traced], {})
        return jax.tree.map(_one_row, results, shapes)

    return called


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _one_row(array: Any, shape: LogicalShape) -> Any:
    sizes = iter(shape.sizes)
    names = [None if dim is not None else f"k{axis}" for axis, dim in enumerate(shape.dims)]
    if not any(names):
        return array
    return Ragged(array, {name: next(sizes) for name in names if name}, tuple(name or "_" for name in names))


def unpad(value: Any, shapes: Any = None) -> Any:
    """The true part of results, on the host.

    Args:
        value: one-row `Ragged`s, as a plain jitted function returns them from `compress` and its kin; batches, which
            become lists of rows (of lists, under several maps); arrays, which stay as they are. Or the results of a
            masked function, with their
        shapes: the second of what `mask` returns without `out_shape`.

    Returns:
        The same tree with arrays cut to their true shapes.

    Raises:
        SizeError: under `jit`, where sizes are not known.

    Example:
        >>> import jax, jax.numpy as jnp, maskax as mx
        >>> @jax.jit
        ... def positive(x):
        ...     return mx.compress(x > 0, x)
        >>> positive(jnp.array([1.0, -1.0, 3.0]))
        Ragged(f32[k0<=3], k0=2)
        >>> mx.unpad(positive(jnp.array([1.0, -1.0, 3.0])))
        Array([1., 3.], dtype=float32)
    """
    if shapes is not None:
        return jax.tree.map(_cut, value, shapes)
    is_ragged = lambda x: isinstance(x, Ragged)
    return jax.tree.map(_unpadded, value, is_leaf=is_ragged)


def _cut(array: Any, shape: LogicalShape) -> Any:
    if any(map(np.ndim, shape.sizes)):  # of a batch
        rows = zip(array, *shape.sizes, strict=True)
        return [_cut(row, dataclasses.replace(shape, sizes=sizes)) for row, *sizes in rows]
    if not all(map(_compat.is_concrete, shape.sizes)):
        raise SizeError("unpad: sizes are not known while tracing; cut results outside of the compiled function.")
    return array[tuple(slice(0, int(size)) for size in shape.shape)]


def _unpadded(value: Any) -> Any:
    if not isinstance(value, Ragged):
        return value
    if value.data.ndim - len(value.dims) > 1:
        return [_unpadded(jax.tree.map(lambda leaf, i=i: leaf[i], value)) for i in range(len(value.data))]
    return value.to_list() if value.data.ndim > len(value.dims) else value._unpadded()
