"""A function on trial: what it gave is compared, and the first difference becomes an error."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maskax._errors import CheckError
from maskax.testing._compare import Difference, Tolerance, difference, first, numbers
from maskax.testing._rows import PADDING, Rows, shape_of, slices

Shapes = Mapping[str, tuple[int, ...]]

_SELECT_FIRST = (
    "Select what is real before anything else uses the array: jnp.where(real, x, 0). 0 * nan is nan, and so are\n"
    "  gradients of what is selected afterwards."
)


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is tested.

    Attributes:
        name: what to call it.
        rows: what to test it with.
        run: the function of a batch, `(arrays, sizes) -> results`; everything but weights has an axis of rows in front.
        plain: the function of one row without padding that it should be, of the arrays.
        grad: whether gradients are compared.
        tolerance: how far from `plain` values may be.
        step: `(row, padding, of a gradient) -> ` the first step that goes wrong; `None` where there is no program.
        out_shape: the true shapes of the results of one row, if they are not those of `plain`.
        padding: what to try.
    """

    name: str
    rows: Rows
    run: Callable[[list[Any], Mapping[str, Any]], Any]
    plain: Callable[[list[Any]], Any] | None
    grad: bool
    tolerance: Tolerance
    step: Callable[[int, str, bool], str | None] | None = None
    out_shape: Any = None
    padding: tuple[str, ...] = PADDING

    @property
    def is_masked(self) -> bool:
        """Whether `mask` made it: then there are steps to look at, and 0 in the padding of results."""
        return self.step is not None


class Results(NamedTuple):
    """Results, and gradients by arguments."""

    outputs: dict[str, Any]
    gradients: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a function gave, and what the true part of that is.

    Attributes:
        subject: the function.
        base: what it gave for all rows, with the first kind of padding.
        shapes: per row the true shapes of the results.
    """

    subject: Subject
    base: Results
    shapes: Sequence[Shapes]

    def is_plain(self, plain: Sequence[Results]) -> None:
        """True parts are what the plain function gives; gradients are, and 0 in the padding."""
        near, rows = self.subject.tolerance.difference, self.subject.rows
        words = "masked", "plain"
        for i, want in enumerate(plain):
            for name, value in want.outputs.items():
                true = self.base.outputs[name][i][slices(value.shape)]
                if true.shape != value.shape:
                    self._fail(name, i, f"the shape is {true.shape} cut to that of the plain one, {value.shape}", "")
                self._compare(name, i, near(true, value), words, _NOT_PLAIN)
                if self.subject.is_masked:
                    self._nothing_past(name, i, self.base.outputs[name][i], value.shape)
        for a in rows.arrays:
            got = self.base.gradients.get(a.where)
            if got is None:
                continue
            if a.spec is None:
                total = sum(want.gradients[a.where] for want in plain)
                self._compare(_gradient(a.where), None, near(got, total), words, _NOT_PLAIN)
                continue
            for i, (want, sizes) in enumerate(zip(plain, rows.table)):
                true = shape_of(a.dims, sizes)
                found = near(got[i][slices(true)], want.gradients[a.where])
                self._compare(_gradient(a.where), i, found, words, _NOT_PLAIN)

    def gradients_end(self) -> None:
        """Gradients are 0 in the padding of the arguments."""
        for a in self.subject.rows.arrays:
            if a.spec is not None and a.where in self.base.gradients:
                for i, sizes in enumerate(self.subject.rows.table):
                    self._nothing_past(_gradient(a.where), i, self.base.gradients[a.where][i], shape_of(a.dims, sizes))

    def is_same(self, other: Results, kept: Sequence[int], padding: str | None) -> None:
        """Other padding, or (`None`) other rows beside those that are kept, change nothing, not by a bit."""
        first_padding = self.subject.padding[0]
        words = (f"padded with {padding}", f"padded with {first_padding}") if padding else ("now", "before")
        why = f"It depends on what lies in the padding.\n  {self._advice}" if padding else _ON_OTHERS
        for name, got in other.outputs.items():
            for i in kept:
                true = slices(self.shapes[i][name])
                found = difference(got[i][true], self.base.outputs[name][i][true])
                self._compare(name, i, found, words, why, padding)
        for a in self.subject.rows.arrays:
            if a.where not in other.gradients:
                continue
            got, base = other.gradients[a.where], self.base.gradients[a.where]
            if a.spec is not None:
                for i in kept:
                    self._compare(_gradient(a.where), i, difference(got[i], base[i]), words, why, padding)
            elif padding:
                self._compare(_gradient(a.where), None, difference(got, base), words, why, padding)

    def is_near(self, other: Results, row: int, circumstance: str) -> None:
        """A batch of this row only gives what the row gives among others; other kernels run, so bits may differ."""
        near, words = self.subject.tolerance.difference, (circumstance, "in the batch")
        for name, got in other.outputs.items():
            true = slices(self.shapes[row][name])
            found = near(got[0][true], self.base.outputs[name][row][true])
            self._compare(name, row, found, words, _ON_LAYOUT)
        for a in self.subject.rows.arrays:
            if a.where in other.gradients and a.spec is not None:
                true = slices(shape_of(a.dims, self.subject.rows.table[row]))
                found = near(other.gradients[a.where][0][true], self.base.gradients[a.where][row][true])
                self._compare(_gradient(a.where), row, found, words, _ON_LAYOUT)

    @property
    def _advice(self) -> str:
        return _FIX_RULE if self.subject.is_masked else _SELECT_FIRST

    def _nothing_past(self, name: str, row: int, array: Any, true: Sequence[int]) -> None:
        rest = np.array(numbers(array))
        rest[slices(true)] = 0
        found = first(rest != 0, rest, np.zeros((), rest.dtype))
        self._compare(name, row, found, ("in the padding", "expected there"), self._advice)

    def _compare(
        self,
        name: str,
        row: int | None,
        found: Difference | None,
        words: tuple[str, str],
        why: str,
        padding: str | None = None,
    ) -> None:
        if found is not None:
            self._fail(name, row, found.text(*words), why, found.position, padding or self.subject.padding[0])

    def _fail(
        self, name: str, row: int | None, what: str, why: str, position: tuple[int, ...] = (), padding: str = "zero"
    ) -> None:
        sizes = None if row is None else dict(self.subject.rows.table[row])
        step = self._step(row, padding, name.startswith("gradient"))
        place = f"at {sizes}" if sizes is not None else "as a sum over rows"
        lines = [f"{self.subject.name}: {name} is wrong {place}: {what}", *([f"  {why}"] if why else [])]
        if self.subject.is_masked:
            lines.append(f"  The first step that differs is {step}" if step else "  No single step differs by itself.")
        raise CheckError("\n".join(lines), name, sizes, position, step)

    def _step(self, row: int | None, padding: str, of_gradient: bool) -> str | None:
        if self.subject.step is None:
            return None
        rows = range(len(self.subject.rows.table)) if row is None else [row]
        steps = (self.subject.step(i, padding, of_gradient) for i in rows)
        return next((step for step in steps if step), None)


_NOT_PLAIN = "It is not what the plain function gives on the row cut to its true size."
_ON_OTHERS = "It depends on the other rows of the batch. Let no reduction, sort or loop mix rows."
_ON_LAYOUT = "It depends on the padding, on how much of it there is, on the number of rows or on jit."
_FIX_RULE = "A masking rule is at fault: correct it (maskax.register_rule) or report it."


def _gradient(where: str) -> str:
    return f"gradient by {where}"
