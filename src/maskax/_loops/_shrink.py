"""A scan over rows of unequal length that runs ever fewer of them.

Rows are ordered by length, longest first. A chain of while loops runs over ever shorter static prefixes of the batch:
as soon as all rows past a prefix are at their ends, the next loop goes on without them.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir

from maskax import _compat
from maskax._loops._types import type_like
from maskax._operand import zeros

Step = Callable[[Any, list[Any], list[Any], list[Any]], tuple[list[Any], list[Any], list[Any]]]
"""`(alive, consts, carry, x) -> (carry, y, sums)`, of a few rows; `alive` says which of them have such a step.

Where a row is not alive, its carry passes through, and nothing is added to the sums.
"""


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a scan takes and gives.

    Attributes:
        consts: whether each constant is in rows; else it is shared by all.
        carry: the number of carries.
        xs: per input whether it is kept by step, rows in order of length, `(steps, rows, ...)`. Only the history of the
            carries is; else it is `(rows, steps, ...)`.
        ys: per output its type per row and step, and the same.
        sums: types of what is summed over rows and steps.
        steps: the padded number of steps.
        reverse: whether it runs from the last step to the first.
        prefixes: how many prefixes of the batch there are.
        ordered: whether rows come in order of length, longest first.
    """

    consts: tuple[bool, ...]
    carry: int
    xs: tuple[bool, ...]
    ys: tuple[tuple[jax.ShapeDtypeStruct, bool], ...]
    sums: tuple[jax.ShapeDtypeStruct, ...]
    steps: int
    reverse: bool
    prefixes: int
    ordered: bool = False

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Constants, carries, inputs."""
        a, b = len(self.consts), len(self.consts) + self.carry
        return list(values[:a]), list(values[a:b]), list(values[b:])

    def y_shape(self, i: int, rows: int) -> tuple[int, ...]:
        """The shape of an output."""
        y, by_step = self.ys[i]
        return (self.steps, rows, *y.shape) if by_step else (rows, self.steps, *y.shape)


def shrinking_scan(step: Step, layout: Layout, lengths: Any, values: Sequence[Any], **known: Any) -> list[Any]:
    """Runs `step` for as many steps as each row has.

    Args:
        step: what to run.
        layout: what it takes and gives.
        lengths: `(rows,)`, the number of steps of each row.
        values: constants, carries `(rows, ...)`, inputs.
        known: what only derivatives say: `linear`, the positions in `values` that all results are linear in; and what
            only a program says that was not differentiated: `per_row`, which makes a step for other constants in rows.

    Returns:
        Carries, outputs, sums.
    """
    values = _compat.varying_alike([lengths, *values])
    known = {"linear": (), "per_row": None} | known
    return shrink_p.bind(*values, step=step, layout=layout, **known)


shrink_p = Primitive("shrinking_scan")
shrink_p.multiple_results = True


def run(lengths: Any, *values: Any, step: Step, layout: Layout, shrinking: bool = True, **_: Any) -> list[Any]:
    """The scan as loops; where not `shrinking`, as a `lax.scan` of all rows, which JAX can differentiate."""
    rows = lengths.shape[0]
    order = None if layout.ordered else jnp.argsort(-lengths, stable=True)
    arranged = lambda x: x if order is None else x[order]
    consts, carry, xs = layout.split(values)
    consts = [arranged(c) if in_rows else c for c, in_rows in zip(consts, layout.consts)]
    lengths, carry = arranged(lengths), list(map(arranged, carry))
    # By step, once: a step's part of `(rows, steps, ...)` lies scattered, and costs as much as an LSTM's step.
    xs = [x if by_step else jnp.moveaxis(arranged(x), 1, 0) for x, by_step in zip(xs, layout.xs)]
    ys = [zeros(jax.ShapeDtypeStruct((layout.steps, rows, *y.shape), y.dtype)) for y, _ in layout.ys]
    sums = [jnp.zeros(s.shape, _wide(s.dtype)) for s in layout.sums]
    fresh = _compat.varying_alike([*ys, *sums, lengths, *values])
    ys, sums = list(fresh[: len(ys)]), list(fresh[len(ys) : len(ys) + len(sums)])

    def at(i: Any, size: int, carry: list[Any], sums: list[Any]) -> Any:
        """Step `i` of the first `size` rows."""
        x = [x[i, :size] for x in xs]
        held = [c[:size] if in_rows else c for c, in_rows in zip(consts, layout.consts)]
        carry, y, more = step(i < lengths[:size], held, carry, x)
        return carry, y, [a + b.astype(a.dtype) for a, b in zip(sums, more)]

    def every_row(state: Any, i: Any) -> Any:
        carry, y, sums = at(i, rows, *state)
        return (carry, sums), y

    if shrinking:
        # Each by the same factor shorter: most batches have few long rows, and those run longest.
        sizes = sorted({math.ceil(rows * 0.5 ** (i / 2)) for i in range(layout.prefixes)}, reverse=True)
        ends = [*[lengths[size] for size in sizes[1:]], lengths[0]]  # the longest row that the next leaves out
        chain = list(zip(sizes, [jnp.zeros_like(lengths[0]), *ends[:-1]], ends))
        for size, start, end in reversed(chain) if layout.reverse else chain:
            carry, ys, sums = _steps(at, size, start, end, layout.reverse, carry, ys, sums)
    else:
        (carry, sums), ys = jax.lax.scan(every_row, (carry, sums), jnp.arange(layout.steps), reverse=layout.reverse)

    back = None if order is None else jnp.argsort(order)
    carry = carry if back is None else [c[back] for c in carry]
    in_place = lambda y: jnp.moveaxis(y if back is None else y[:, back], 0, 1)
    ys = [y if by_step else in_place(y) for y, (_, by_step) in zip(ys, layout.ys)]
    return [*carry, *ys, *[s.astype(t.dtype) for s, t in zip(sums, layout.sums)]]


def _steps(at: Any, size: int, start: Any, end: Any, reverse: bool, carry: Any, ys: Any, sums: Any) -> Any:
    """Steps `start..end` of the first `size` rows, as a while loop."""

    def one(state: Any) -> Any:
        count, carry, ys, sums = state
        i = end - 1 - count if reverse else start + count
        carry, y, sums = at(i, size, carry, sums)
        ys = [jax.lax.dynamic_update_slice(all_, y[None], (i, *[0] * y.ndim)) for all_, y in zip(ys, y)]
        return count + 1, carry, ys, sums

    state = (jnp.zeros_like(start), [c[:size] for c in carry], ys, sums)
    _, part, ys, sums = jax.lax.while_loop(lambda state: state[0] < end - start, one, state)
    return [jnp.concatenate([new, old[size:]]) for new, old in zip(part, carry)], ys, sums


def _wide(dtype: Any) -> Any:
    """Sums over many steps: half precision is summed up in single."""
    return jnp.float32 if jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32 else dtype


@shrink_p.def_abstract_eval
def _(lengths: Any, *values: Any, layout: Layout, **_: Any) -> list[Any]:
    carry = layout.split(values)[1]
    shapes = [(c.shape, c.dtype) for c in carry]
    shapes += [(layout.y_shape(i, lengths.shape[0]), y.dtype) for i, (y, _) in enumerate(layout.ys)]
    shapes += [(s.shape, s.dtype) for s in layout.sums]
    return [type_like(lengths, *shape) for shape in shapes]


@shrink_p.def_impl
def _(*values: Any, **params: Any) -> Any:
    return jax.jit(lambda *values: run(*values, **params))(*values)


mlir.register_lowering(shrink_p, mlir.lower_fun(run, multiple_results=True))
