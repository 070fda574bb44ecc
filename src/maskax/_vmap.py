"""`vmap`: `jax.vmap` that also maps over `Ragged` batches."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from maskax._axes import check_axes, check_out_axes
from maskax._call import Call
from maskax._mask import Program
from maskax._plan import Plan, as_plan
from maskax._rows import can_skip
from maskax._scope import BeginAgain, Scope
from maskax._shapes import Sizes


def vmap(
    fun: Callable[..., Any] | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    constraints: str | Sequence[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Maps a function of one example over a batch, `Ragged` batches included.

    All that `jax.vmap` does, with its arguments. Where a `Ragged` is mapped over, `fun` sees one row: an array of its
    true shape. Results whose shape depends on a size come back as `Ragged`, their sizes computed from the program
    (`n - 1`, `2*n`); all others as arrays.

    Dimensions of one name must agree row by row in all arguments. Give them different names (`mx.ragged(rows,
    dims=("m",))`, `xs.rename(n="m")`) where they are independent.

    Args:
        fun: a function of one example; left out, `vmap` is a decorator. No mask, length or batch axis is in it.
        in_axes: as for `jax.vmap`. A `Ragged` has its rows in front: 0, or `None` to hand it over whole.
        out_axes: as for `jax.vmap`; 0 for `Ragged` results.
        axis_name: a name for the axis of rows, for collectives.
        axis_size: the number of rows, where no argument tells.
        spmd_axis_name: as for `jax.vmap`.
        constraints: what JAX may assume of the sizes while it traces `fun`, such as `"n >= 2"`, see `mask`.
        plan: how to skip padding inside the program, see `Plan`; `"auto"` for one with all defaults.

    Returns:
        The function over batches.

    Raises:
        SpecError: an axis of a `Ragged` that is not 0 or `None`, or a tree of axes that does not fit.
        SizeError: rows of one name whose sizes differ.
        MissingRuleError: a primitive in `fun` has no masking rule.
        UnmaskableError: `fun` decides something by a size that is only known at run time.

    Example:
        >>> import jax.numpy as jnp, maskax as mx
        >>> xs = mx.ragged([jnp.array([1.0, 3.0]), jnp.array([1.0, 2.0, 6.0])])
        >>> ys = mx.vmap(lambda x: x - x.mean())(xs)
        >>> ys.to_list()
        [Array([-1.,  1.], dtype=float32), Array([-2., -1.,  3.], dtype=float32)]
        >>> mx.vmap(lambda x: x[1:] - x[:-1])(xs)
        Ragged(f32[2, n - 1<=2], n=[2, 3])
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    check_axes(in_axes, "in_axes")
    check_axes(out_axes, "out_axes")
    options = {"axis_name": axis_name, "axis_size": axis_size, "spmd_axis_name": spmd_axis_name}
    if fun is None:
        return functools.partial(
            vmap, in_axes=in_axes, out_axes=out_axes, constraints=constraints, plan=plan, **options
        )

    chosen = as_plan(plan)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        call = Call(fun, in_axes, args, kwargs)
        if not call.batches:
            with contextlib.suppress(BeginAgain), Scope.begun_again_for_sizes():
                return jax.vmap(fun, in_axes, out_axes, **options)(*args, **kwargs)

        def row(data: Sequence[Any], variables: Mapping[str, Any], sizes: Mapping[str, Any]) -> Any:
            traced = call.program(data, constraints)
            arrays = [x for x, a in zip(data, traced.arguments) if a.is_array]
            out = traced.run(arrays, traced.consts, variables)
            return finished(traced, jax.tree.leaves(out.outputs), out.sizes, sizes)

        def finished(program: Program, outputs: Sequence[Any], run_time: Sizes, sizes: Mapping[str, Any]) -> Any:
            results = jax.tree.unflatten(program.tree, call.results(outputs, program.avals, run_time, sizes))
            check_out_axes(out_axes, results)
            return results

        with call.names.spelled():
            if chosen is not None and can_skip(call.data, options):
                rows = call.rows(constraints)
                if not rows.program.scope.made:  # of sizes that the program makes, results say themselves what they are
                    of_outputs = lambda outputs, sizes: finished(rows.program, outputs, rows.frame, sizes)
                    return jax.vmap(of_outputs, 0, out_axes)(rows.run(chosen), call.names.sizes)
            return jax.vmap(row, (call.axes, 0, 0), out_axes, **options)(
                call.data, call.names.variables, call.names.sizes
            )

    return mapped
