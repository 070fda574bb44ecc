"""`mask` and `shapecheck`: from a function of one example to one of padded arrays and true sizes."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import keystr, tree_flatten_with_path

import maskax._rules  # noqa: F401  (registers the rules)
from maskax import _compat
from maskax._arguments import Argument, broadcast_specs, check_constraints, check_results, check_sizes, match
from maskax._errors import ShapeError, SpecError
from maskax._interpret import interpret
from maskax._operand import Operand, Padded
from maskax._scope import BeginAgain, Scope
from maskax._shapes import Shrink, Sizes, solve_limits
from maskax._wording import reworded


@functools.partial(jax.tree_util.register_dataclass, data_fields=["sizes"], meta_fields=["dims", "dtype"])
@dataclasses.dataclass(frozen=True)
class LogicalShape:
    """The true shape of one output, as a pytree: a jitted or vmapped function may return it.

    Attributes:
        dims: per dimension an int, or `None` where it depends on a size.
        sizes: the dimensions that do, as integer arrays.
        dtype: the dtype of the output.
    """

    dims: tuple[int | None, ...]
    sizes: tuple[Any, ...]
    dtype: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        """The true shape: ints, and integer arrays where it depends on a size."""
        sizes = iter(self.sizes)
        return tuple(next(sizes) if dim is None else dim for dim in self.dims)


def mask(
    fun: Callable[..., Any],
    in_shapes: Any,
    out_shape: Any = None,
    *,
    constraints: str | Sequence[str] = (),
    fill: Any = 0,
) -> Callable[[Sequence[Any], Mapping[str, Any]], Any]:
    """Turns a function of one example into the same function of padded arrays and true sizes.

    The result cut to its true shape is what `fun` gives on the arguments cut to theirs: values, gradients and random
    draws. What lies in the padding never matters, nan and inf included. Sizes run from 0 to the padded size, all of
    them served by one compilation. Batch with `jax.vmap`, over arrays and sizes.

    Args:
        fun: a function of arrays (any pytrees) with no mask, length or batch axis in it.
        in_shapes: the shape of every argument, as a sequence like `fun`'s arguments or any prefix of that tree. A shape
            is a string: `"n"`, `"(n, _)"`, `"2*n + 1, m"`, `""` for a scalar; `_` is a dimension that is not ragged,
            `...` all that remain. `None` stands for arguments in which nothing is ragged.
        out_shape: the shapes of the results, likewise. They are checked while tracing.
        constraints: what JAX may assume while it traces `fun`, such as `"n >= 2"` or `"mod(n, 4) == 0"`. Sizes that
            break one are an error; under `jit`, where their values are not known, only with `checkify`.
        fill: what to put in the padding of the results.

    Returns:
        `g(args, sizes)`, where `args` is a sequence of `fun`'s arguments, padded, and `sizes` gives an integer scalar
        per name. It returns `fun`'s results, padded; without `out_shape` the pair of results and their `LogicalShape`s.

    Raises:
        SpecError: a shape string cannot be read or does not fit its array.
        ShapeError: a result has another logical shape than `out_shape` says.
        SizeError: a size is missing, unknown, not an integer scalar, or out of range.
        MissingRuleError: a primitive in `fun` has no masking rule.
        UnmaskableError: `fun` decides something by a size that is only known at run time.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import maskax as mx
        >>> def center(x):  # x: (n,)
        ...     return x - x.mean()
        >>> rows = jnp.array([[1.0, 3.0, jnp.nan], [1.0, 2.0, 6.0]])
        >>> jax.vmap(mx.mask(center, ["n"], "n"))([rows], {"n": jnp.array([2, 3])})
        Array([[-1.,  1.,  0.],
               [-2., -1.,  3.]], dtype=float32)
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)

    @functools.wraps(fun)
    def masked(args: Sequence[Any], sizes: Mapping[str, Any]) -> Any:
        arguments, tree = match(args, in_shapes)
        out = run(fun, arguments, tree, sizes, out_shape=out_shape, constraints=constraints, fill=fill)
        if out_shape is not None:
            return out.outputs
        return out.outputs, jax.tree.unflatten(out.tree, [_logical_shape(aval, out.sizes) for aval in out.avals])

    return masked


class Outcome(NamedTuple):
    """What a masked function gave.

    Attributes:
        outputs: the padded results.
        avals: their abstract values, flat: their logical shapes as dimensions.
        tree: their tree.
        sizes: what the dimension variables are.
    """

    outputs: Any
    avals: Sequence[Any]
    tree: Any
    sizes: Sizes


@dataclasses.dataclass(frozen=True)
class Program:
    """A function traced at symbolic sizes, to be run at any padded sizes.

    Attributes:
        jaxpr: the program; its avals are logical shapes.
        consts: the arrays it closes over, weights of an enclosing derivative among them.
        tree: the tree of its results.
        scope: where its dimension names live.
        arguments: what it takes, with their logical shapes.
        constraints: what was assumed of the sizes.
    """

    jaxpr: Any
    consts: Sequence[Any]
    tree: Any
    scope: Scope
    arguments: Sequence[Argument]
    constraints: Sequence[str]

    @property
    def avals(self) -> list[Any]:
        """The abstract values of the results: their logical shapes as dimensions."""
        return [var.aval for var in self.jaxpr.outvars]

    def limits(self, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The largest value of each dimension variable, for arrays of these padded shapes."""
        arrays = [a for a in self.arguments if a.is_array]
        return solve_limits([(a.where, a.dims, shape) for a, shape in zip(arrays, shapes)], self.scope)

    def run(
        self,
        values: Sequence[Any],
        consts: Sequence[Any],
        sizes: Mapping[str, Any],
        fill: Any = 0,
        shrink: Shrink | None = None,
    ) -> Outcome:
        """The results on padded arrays, one per argument that is an array; for `shrink` see `Sizes`."""
        padded = iter(values)
        arguments = [dataclasses.replace(a, value=next(padded)) if a.is_array else a for a in self.arguments]
        limits = self.limits([value.shape for value in values])
        true = check_sizes(sizes, limits, self.scope, arguments)
        for name, bound in self.scope.made.items():
            limits[name] = Sizes(limits, {}, self.scope).bound(bound)
        frame = Sizes(limits, true, self.scope, shrink=shrink)
        check_constraints(self.constraints, frame)
        with self.scope.entered():
            out = interpret(self.jaxpr, consts, [a.clean(frame) for a in arguments if a.is_array], frame)
            results = [_finish(value, aval, frame, fill) for value, aval in zip(out, self.avals)]
        return Outcome(jax.tree.unflatten(self.tree, results), self.avals, self.tree, frame)


def trace(fun: Callable[..., Any], arguments: Sequence[Argument], tree: Any, constraints: Sequence[str]) -> Program:
    """Traces `fun`, whose arguments are the leaves of `tree`."""
    scope = Scope()
    scope.constrain(constraints)
    for argument in arguments:
        argument.parse(scope)
    limits = solve_limits([(a.where, a.dims, a.value.shape) for a in arguments if a.is_array], scope)
    # What JAX knows of a size's range decides comparisons such as that with the length of a table of positions.
    # Never below 2: a dimension that can only be 1 would broadcast.
    _compat.add_constraints(scope.symbolic, [f"{n} <= {_compat.max_dim(limits[n], 2)}" for n in limits])
    return Program(*_trace(fun, arguments, tree, scope), scope, arguments, constraints)


def run(
    fun: Callable[..., Any],
    arguments: Sequence[Argument],
    tree: Any,
    sizes: Mapping[str, Any],
    *,
    out_shape: Any = None,
    constraints: Sequence[str] = (),
    fill: Any = 0,
) -> Outcome:
    """Traces `fun` and runs it on the arguments."""
    program = trace(fun, arguments, tree, constraints)
    if out_shape is not None:
        _check_out_shape(out_shape, program.avals, program.tree, program.scope)
    return program.run([a.value for a in arguments if a.is_array], program.consts, sizes, fill)


def shapecheck(in_shapes: Any, out_shape: Any, fun: Callable[..., Any] | None = None) -> Any:
    """Checks a function's logical shapes where it is defined, without running it.

    Args:
        in_shapes: a shape string per array argument, as in `mask`; arrays are taken as float32, and `_` as any size.
        out_shape: the shapes that the results must have.
        fun: the function; left out, `shapecheck` is a decorator.

    Returns:
        The function itself, or a decorator that returns it.

    Raises:
        SpecError: a shape string cannot be read.
        ShapeError: a result has another shape.

    Example:
        >>> import maskax as mx
        >>> @mx.shapecheck(["(m, n)", "n"], "m")
        ... def matvec(a, x):
        ...     return a @ x
    """
    if fun is None:
        return functools.partial(shapecheck, in_shapes, out_shape)
    paths, tree = tree_flatten_with_path(tuple(in_shapes), is_leaf=lambda spec: spec is None)
    fresh = itertools.count()
    scope = Scope()
    arguments = []
    for path, spec in paths:
        if not isinstance(spec, str):
            raise SpecError(f"in_shapes{keystr(path)} must be a shape string such as 'n, 3', not {spec!r}.")
        named = re.sub(r"(?<!\w)_(?!\w)", lambda _: f"any{next(fresh)}", spec)
        dims = scope.parse(named, None, f"in_shapes{keystr(path)}")
        arguments.append(Argument(f"in_shapes{keystr(path)}", spec, jax.ShapeDtypeStruct(dims, jnp.float32), dims))
    program, _, out_tree = _trace(fun, arguments, tree, scope)
    _check_out_shape(out_shape, [var.aval for var in program.outvars], out_tree, scope)
    return fun


def _trace(fun: Callable[..., Any], arguments: Sequence[Argument], tree: Any, scope: Scope) -> tuple[Any, Any, Any]:
    """`fun` as a program at symbolic sizes: `(jaxpr, consts, tree of its results)`."""

    def plain(*arrays: Any) -> Any:
        traced = iter(arrays)
        results = fun(*jax.tree.unflatten(tree, [next(traced) if a.is_array else a.value for a in arguments]))
        check_results(results)
        return results

    structs = [a.struct for a in arguments if a.is_array]
    with reworded(scope):
        try:
            with scope.tracing():
                jaxpr, out = jax.make_jaxpr(plain, return_shape=True)(*structs)
        except BeginAgain:
            with scope.tracing():
                jaxpr, out = jax.make_jaxpr(plain, return_shape=True)(*structs)
    return *_compat.open_jaxpr(jaxpr), jax.tree.structure(out)


def _check_out_shape(out_shape: Any, avals: Sequence[Any], out_tree: Any, scope: Scope) -> None:
    tree = jax.tree.unflatten(out_tree, range(len(avals)))
    if isinstance(out_shape, list) and isinstance(tree, tuple):
        out_shape = tuple(out_shape)
    try:
        specs = broadcast_specs(out_shape, tree, "out_shape", "the result")
    except SpecError as error:
        raise ShapeError(str(error)) from None
    for (path, _), spec, aval in zip(tree_flatten_with_path(tree)[0], specs, avals):
        ragged = tuple(not isinstance(dim, int) for dim in aval.shape)
        if spec is None and not any(ragged):
            continue
        where = f"out_shape{keystr(path)}"
        like = tuple(0 if r else dim for r, dim in zip(ragged, aval.shape))
        wrong = ShapeError(
            f"{where}: the result has the logical shape {scope.show(aval.shape)}, but the declared one is {spec!r}."
        )
        try:
            declared = scope.parse(spec, like, where, ShapeError) if spec else ()
        except ShapeError as error:
            raise wrong from error
        if declared != aval.shape:
            raise wrong


def _finish(value: Padded, aval: Any, sizes: Sizes, fill: Any) -> Any:
    # Knowledge of single axes leaves out rows of true nan; for what leaves here, padding is `fill` without exception.
    known = value if value.pad_axes is None else Padded(value.data)
    return jnp.asarray(Operand(known, aval, sizes).fill(fill))


def _logical_shape(aval: Any, sizes: Sizes) -> LogicalShape:
    ragged = [sizes.is_ragged(dim) for dim in aval.shape]
    dims = tuple(None if r else dim for r, dim in zip(ragged, aval.shape))
    return LogicalShape(dims, tuple(sizes.true(dim) for r, dim in zip(ragged, aval.shape) if r), aval.dtype)
