"""Which step of a program goes wrong: it is run with padding and without, and compared step by step.

The same traced program runs both times, so its steps correspond. Loops and branches run in Python meanwhile: every
step has a value that can be looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from maskax import _compat
from maskax._interpret import headline
from maskax._mask import Program
from maskax._operand import Padded
from maskax._shapes import Sizes
from maskax._watch import Watch, watched
from maskax.testing._compare import Tolerance, numbers, widened
from maskax.testing._rows import slices


class Step(NamedTuple):
    """One step: what it is, what it gave cut to true shapes, and whether all else that it gave is finite."""

    text: str
    results: list[np.ndarray]
    quiet: bool


class Recorder(Watch):
    """Keeps what every step gave, steps past a row's end left out."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def end(self, eqn: Any, results: list[Any], sizes: Sizes) -> None:
        """Innermost steps end first."""
        known = all(_compat.is_concrete(value.data) for value in results)
        if known and (sizes.alive is None or (_compat.is_concrete(sizes.alive) and bool(sizes.alive))):
            arrays = [widened(numbers(x.data)) for x in results]
            cut = [array[_true(var.aval, sizes)] for array, var in zip(arrays, eqn.outvars)]
            quiet = all(np.isfinite(a).all() or not np.isfinite(b).all() for a, b in zip(arrays, cut))
            self.steps.append(Step(headline(eqn, sizes), cut, quiet))


def first_wrong_value(
    program: Program, padded: Sequence[Any], cut: Sequence[Any], sizes: Mapping[str, int], tolerance: Tolerance
) -> str | None:
    """The first step that gives something else on padded arrays than on the same arrays cut to their true size.

    If there is none, the first that gives nan or inf in the padding: multiplied with a cotangent of 0 that is nan.
    """

    def steps(values: Sequence[Any]) -> list[Step]:
        recorder = Recorder()
        with watched(recorder), jax.disable_jit():
            program.run(values, program.consts, sizes)
        return recorder.steps

    of_padded = steps(padded)
    for got, want in zip(of_padded, steps(cut)):
        if got.text != want.text:
            return None  # they no longer correspond
        for a, b in zip(got.results, want.results):
            if a.shape != b.shape:
                return f"{got.text}\n    shape {a.shape} padded, {b.shape} without padding"
            if found := tolerance.difference(a, b):
                return f"{got.text}\n    {found.text('padded', 'without padding')}"
    loud = (step.text for step in of_padded if not step.quiet)
    return next((f"{text}\n    gives nan or inf in the padding" for text in loud), None)


_CALLS = {"jit", "pjit", "closed_call", "core_call", "composite", "custom_vmap_call"}


class Probe(Watch):
    """Adds zeros to the operands of every step: derivatives by those zeros are the cotangents that arrive there.

    Steps of loops and of functions with derivatives of their own are left alone: what they are in is one step.
    """

    def __init__(self, zeros: Sequence[Any] | None = None) -> None:
        self.zeros, self.found, self.inside = zeros, [], []

    def begin(self, eqn: Any, operands: list[Any], sizes: Sizes) -> list[Any]:
        """Operands with zeros added."""
        apart = all(name in _CALLS for name in [*self.inside, eqn.primitive.name][:-1])
        self.inside.append(eqn.primitive.name)
        if not apart or eqn.primitive.name in _CALLS:
            return operands
        return [self._probed(eqn, x, atom, sizes) for x, atom in zip(operands, eqn.invars)]

    def end(self, eqn: Any, results: list[Any], sizes: Sizes) -> None:
        """Back to the program around."""
        self.inside.pop()

    def _probed(self, eqn: Any, x: Padded, atom: Any, sizes: Sizes) -> Padded:
        if _compat.is_literal(atom) or not jnp.issubdtype(atom.aval.dtype, jnp.inexact):
            return x
        zero = jnp.zeros_like(x.data) if self.zeros is None else self.zeros[len(self.found)]
        self.found.append((headline(eqn, sizes), _true(atom.aval, sizes), zero))
        return x._replace(data=x.data + zero, raw=None if x.raw is None else x.raw + zero)


def first_wrong_derivative(
    program: Program,
    padded: Sequence[Any],
    cut: Sequence[Any],
    sizes: Mapping[str, int],
    tolerance: Tolerance,
    loss: Callable[[Any], Any],
) -> str | None:
    """The last step, first in reverse mode, that passes something else back; nan and inf in padding count too."""

    def cotangents(values: Sequence[Any]) -> list[tuple[str, Any, Any]]:
        def of_zeros(zeros: Sequence[Any] | None) -> tuple[Any, list[tuple[str, Any, Any]]]:
            probe = Probe(zeros)
            with watched(probe):
                out = program.run(values, program.consts, sizes)
            return loss(out.outputs), probe.found

        found = of_zeros(None)[1]
        gradient = jax.grad(lambda zeros: of_zeros(zeros)[0])([zero for _, _, zero in found])
        return [(text, true, np.asarray(g)) for (text, true, _), g in zip(found, gradient)]

    for (text, true, got), (_, _, want) in reversed(list(zip(cotangents(padded), cotangents(cut)))):
        if found := tolerance.difference(got[true], want[true]):
            return f"{text}\n    passes back {found.text('padded', 'without padding')}"
        if not np.all(np.isfinite(got)) and np.all(np.isfinite(want)):
            return f"{text}\n    passes nan or inf back into the padding"
    return None


def _true(aval: Any, sizes: Sizes) -> tuple[slice, ...]:
    return slices([int(sizes.true(dim)) for dim in getattr(aval, "shape", ())])
