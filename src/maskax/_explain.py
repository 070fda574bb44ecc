"""`explain`: a masked program step by step."""

import dataclasses
import functools
import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._arguments import match
from maskax._interpret import programs, types_of
from maskax._mask import Program, trace
from maskax._registry import RULES
from maskax._shapes import Sizes
from maskax._watch import Watch, watched

_REASONS = {
    "composed": "so that nothing but true values count",
    "contract": "which adds nothing to a product",
    "elementwise": "at which it is finite",
    "reduce": "its identity",
    "softmax": "which weighs nothing",
    "window": "which no window sees",
}
"""Why a rule fills padding, by its room."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a masked program.

    Attributes:
        depth: in how many loops, branches and calls it is.
        primitive: its name.
        line: the user's line: `model.py:41 (pool)`.
        result: the logical shapes of its results.
        padded: their padded shapes, where those differ.
        notes: what was filled with what, and what else is done about padding.
        share: how much of the results is true, where sizes are given.
    """

    depth: int
    primitive: str
    line: str
    result: str
    padded: str
    notes: tuple[str, ...]
    share: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The step as text."""
        share = "" if self.share is None else f"{self.share:.0%}"
        return "  " * self.depth + self.primitive, self.line, self.result, self.padded, share, "; ".join(self.notes)


_HEAD = ("step", "line", "result", "padded to", "true", "padding")


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a masked program does, as a table: print it, or leave it to a notebook or to `rich`.

    Attributes:
        steps: the steps in order; those inside of a loop follow it.
        flops: of the whole program at padded sizes, by XLA's cost analysis.
        true_flops: of the plain function at the sizes given; `None` without, or where it makes sizes itself.
    """

    steps: tuple[Step, ...]
    flops: float
    true_flops: float | None

    @property
    def summary(self) -> str:
        """What it costs, in a line."""
        if self.true_flops is None:
            return f"{len(self.steps)} steps, {self.flops:,.0f} FLOPs"
        share = 1 - self.true_flops / max(self.flops, 1)
        return f"{len(self.steps)} steps, {self.flops:,.0f} FLOPs, {max(share, 0):.0%} of them for padding and masks"

    @property
    def _columns(self) -> list[int]:
        """The columns that have something in them."""
        rows = [step.cells for step in self.steps]
        return [i for i in range(len(_HEAD)) if any(row[i] for row in rows)]

    def __str__(self) -> str:
        rows = [[row[i] for i in self._columns] for row in (_HEAD, *(step.cells for step in self.steps))]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, self.summary])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        row = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"
        cells = [[step.cells[i].replace("  ", "\u2003") for i in self._columns] for step in self.steps]
        head = row([_HEAD[i] for i in self._columns], "th")
        return f"<table>{head}{''.join(row(c, 'td') for c in cells)}</table><p>{html.escape(self.summary)}</p>"

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table(*[_HEAD[i] for i in self._columns], caption=self.summary)
        for step in self.steps:
            table.add_row(*[step.cells[i] for i in self._columns])
        return table


def explain(
    fun: Callable[..., Any], in_shapes: Any, *, constraints: str | Sequence[str] = ()
) -> Callable[..., Explanation]:
    """Shows what `mask` makes of a function: its steps, their shapes, what is filled where, and what padding costs.

    Args:
        fun: a function of one example, as for `mask`.
        in_shapes: the shapes of its arguments, as for `mask`.
        constraints: as for `mask`.

    Returns:
        `g(*args, sizes=None)`, of arguments at their padded shapes (or of `jax.ShapeDtypeStruct`s: nothing is run),
        that returns the `Explanation`. With `sizes`, `{"n": 3}`, it says how much of each step, and of all, is true.

    Raises:
        MaskaxError: `fun` cannot be masked, or the arguments do not fit.

    Example:
        >>> import jax, jax.numpy as jnp, maskax as mx
        >>> def energy(x):  # x: (n,)
        ...     return jnp.sum(jnp.log(x) * x)
        >>> explanation = mx.explain(energy, ["n"])(jnp.ones(8), sizes={"n": 2})
        >>> [step.primitive for step in explanation.steps]
        ['log', 'mul', 'reduce_sum']
        >>> explanation.steps[0].notes, explanation.steps[0].share
        (('1 along n, at which it is finite',), 0.25)
    """
    constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)

    @functools.wraps(fun)
    def explained(*args: Any, sizes: Mapping[str, int] | None = None) -> Explanation:
        arguments, tree = match(args, in_shapes)
        program = trace(fun, arguments, tree, constraints)
        arrays = [jax.ShapeDtypeStruct(a.value.shape, a.value.dtype) for a in arguments if a.is_array]
        scope = program.scope
        limits = program.limits([x.shape for x in arrays])
        names = dict.fromkeys(scope.name(name) for name in limits)
        recorder = _Recorder(None if sizes is None else {scope.local(n): int(size) for n, size in sizes.items()})

        def run(arrays: Sequence[Any], sizes: Mapping[str, Any]) -> Any:
            return program.run(arrays, program.consts, sizes).outputs

        some = {name: jax.ShapeDtypeStruct((), jnp.int32) for name in names}
        with watched(recorder):
            jax.eval_shape(run, arrays, some)
        true = None
        if sizes is not None and not scope.made:
            true = _flops(lambda arrays: fun(*_filled(arguments, tree, arrays)), _cut(program, arrays, sizes))
        return Explanation(tuple(recorder.steps), _flops(run, arrays, some), true)

    return explained


class _Recorder(Watch):
    """Makes a `Step` of every equation; inner ones come after the one that they are in."""

    def __init__(self, sizes: Mapping[str, int] | None) -> None:
        self.steps: list[Any] = []
        self._sizes = sizes
        self._open: list[tuple[int, list[str], str]] = []
        self._places: dict[tuple[int, int], int] = {}

    def begin(self, eqn: Any, operands: list[Any], sizes: Sizes) -> list[Any]:
        """Keeps its place."""
        name = eqn.primitive.name
        rule = getattr(RULES.get(name), "func", RULES.get(name))
        room = getattr(rule, "__module__", "").rsplit(".", 1)[-1]
        # The body of a loop may be looked at more than once, to learn its types first.
        key = (self._open[-1][0] if self._open else -1, id(eqn))
        place = self._places.setdefault(key, len(self.steps))
        if place == len(self.steps):
            self.steps.append(None)
        self._open.append((place, [], _REASONS.get(room, "")))
        return operands

    def fill(self, operand: Any, value: Any, axes: Sequence[int] | None) -> None:
        """Of an operand of the step that began last."""
        if not self._open:
            return  # of the results, at the end
        _, notes, reason = self._open[-1]
        along = operand.ragged if axes is None else axes
        dims = ", ".join(operand.sizes.scope.show(operand.shape[axis]) for axis in along)
        text = f"{_number(value)} along {dims}" + (f", {reason}" if reason else "")
        if dims and text not in notes:
            notes.append(text)

    def note(self, text: str) -> None:
        """What the rule says itself."""
        self._open[-1][1].append(text)

    def end(self, eqn: Any, results: list[Any], sizes: Sizes) -> None:
        """All is known of it."""
        place, notes, _ = self._open.pop()
        logical = types_of(eqn.outvars, sizes)
        ragged = any(sizes.ragged_axes(getattr(var.aval, "shape", ())) for var in eqn.outvars)
        shapes = [jnp.shape(value.data) for value in results]
        share = None
        if self._sizes is not None and ragged and self._sizes.keys() >= sizes.limits.keys():
            true = sum(math.prod(_at(var.aval.shape, self._sizes)) for var in eqn.outvars)
            share = true / max(sum(map(math.prod, shapes)), 1)
        self.steps[place] = Step(
            depth=len(self._open),
            primitive=f"{eqn.primitive.name}: {eqn.params['name']}" if _is_call(eqn) else eqn.primitive.name,
            line=_compat.source_line(),
            result=logical,
            padded=", ".join(str(list(shape)) for shape in shapes) if ragged else "",
            notes=tuple(notes),
            share=share,
        )


def _is_call(eqn: Any) -> bool:
    return bool(programs(eqn)) and isinstance(eqn.params.get("name"), str)


def _number(value: Any) -> str:
    if not _compat.is_concrete(value):
        return "a value of the program"
    array = np.asarray(value)
    return f"{array[()]}" if array.ndim == 0 else "values of the program"


def _filled(arguments: Sequence[Any], tree: Any, arrays: Sequence[Any]) -> Any:
    given = iter(arrays)
    return jax.tree.unflatten(tree, [next(given) if a.is_array else a.value for a in arguments])


def _cut(program: Program, arrays: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The types of arrays without padding."""
    local = {program.scope.local(name): size for name, size in sizes.items()}
    dims = [a.dims for a in program.arguments if a.is_array]
    return [jax.ShapeDtypeStruct(_at(d, local), x.dtype) for d, x in zip(dims, arrays)]


def _at(shape: Sequence[Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A logical shape at known sizes."""
    return tuple(max(_compat.evaluate_dim(dim, sizes.__getitem__, max, min), 0) for dim in shape)


def _flops(function: Callable[..., Any], *types: Any) -> float:
    cost = jax.jit(function).lower(*types).cost_analysis()
    return float((cost or {}).get("flops", 0.0))
