"""The tests that `check` and `check_padded` put a function to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from maskax._arguments import broadcast_specs
from maskax._errors import CheckError, SpecError
from maskax._scope import Scope
from maskax.testing._rows import Rows, shape_of, slices
from maskax.testing._trial import Results, Shapes, Subject, Trial

Function = Callable[[list[Any]], Any]


def run_all(subject: Subject) -> None:
    """Runs all tests.

    Raises:
        CheckError: one fails.
    """
    rows, padding = subject.rows, subject.padding
    count = len(rows.table)
    arrays, sizes = rows.batch(padding[0])
    types = _types(subject, arrays, sizes)
    plain = [_plain(subject, subject.plain, row) for row in rows.table] if subject.plain else None
    shapes = [_true_shapes(subject, types, row, plain[i] if plain else None) for i, row in enumerate(rows.table)]
    weights = [np.stack(of_rows) for of_rows in zip(*[_weights(subject, types, of_row) for of_row in shapes])]

    @jax.jit
    def compiled(arrays: list[Any], sizes: Mapping[str, Any], weights: list[Any]) -> Results:
        return _results(subject, lambda values: subject.run(values, sizes), arrays, weights)

    trial = Trial(subject, compiled(arrays, sizes, weights), shapes)
    if plain:
        trial.is_plain(plain)
    for other in padding[1:]:
        trial.is_same(compiled(*rows.batch(other), weights), range(count), other)
    trial.gradients_end()
    for kept in [range(start, count, 2) for start in (0, 1) if count > 1]:
        others = [i for i in range(count) if i not in kept]
        trial.is_same(compiled(*rows.batch(padding[0], others), weights), kept, None)
    row, kind = rows.roomy, padding[min(1, len(padding) - 1)]
    arrays, sizes = rows.alone(row, kind)
    of_row = [w[None] for w in _weights(subject, _types(subject, arrays, sizes), shapes[row])]
    trial.is_near(compiled(arrays, sizes, of_row), row, f"alone, with less padding, {kind}")
    without_jit = Results(_named(subject.run(arrays, sizes)), {})
    trial.is_near(without_jit, row, f"alone, with less padding, {kind}, without jit")


def over_rows(function: Callable[[list[Any], Mapping[str, Any]], Any], rows: Rows) -> Any:
    """A function of one row as one of a batch."""
    return jax.vmap(function, ([None if a.spec is None else 0 for a in rows.arrays], 0))


def weighted(outputs: Any, weights: Sequence[Any]) -> Any:
    """A number to differentiate: the inexact results, times weights; where those are 0, anything may be."""
    total = jnp.zeros(())
    for out, weight in zip(jax.tree.leaves(outputs), weights):
        if jnp.issubdtype(out.dtype, jnp.inexact):
            total = total + jnp.sum(jnp.real(jnp.where(weight != 0, out * weight.astype(out.dtype), 0)))
    return total


def weights_of(shape: Sequence[int], true: Sequence[int]) -> np.ndarray:
    """A weight for each position, which depends on nothing else, and 0 past the true ones."""
    place = sum(
        (axis + 1) * np.arange(size).reshape(-1, *[1] * (len(shape) - axis - 1)) for axis, size in enumerate(shape)
    )
    weights = np.zeros(shape, np.float32)
    weights[slices(true)] = np.broadcast_to(0.75 + 0.5 * np.sin(1.7 * np.asarray(place)), shape)[slices(true)]
    return weights


def _results(subject: Subject, run: Function, arrays: list[Any], weights: Sequence[Any]) -> Results:
    leaves = subject.rows.arrays
    active = [i for i, a in enumerate(leaves) if subject.grad and jnp.issubdtype(a.value.dtype, jnp.inexact)]

    def of_active(floats: list[Any]) -> tuple[Any, Any]:
        values = list(arrays)
        for i, value in zip(active, floats):
            values[i] = value
        outputs = run(values)
        return weighted(outputs, weights), outputs

    floats = [arrays[i] for i in active]
    if not floats:
        return Results(_named(of_active(floats)[1]), {})
    gradients, outputs = jax.grad(of_active, has_aux=True)(floats)
    return Results(_named(outputs), {leaves[i].where: g for i, g in zip(active, gradients)})


def _plain(subject: Subject, run: Function, sizes: Mapping[str, int]) -> Results:
    arrays = subject.rows.cut(sizes)
    types = jax.tree.leaves(jax.eval_shape(run, arrays))
    return jax.jit(lambda arrays: _results(subject, run, arrays, [weights_of(t.shape, t.shape) for t in types]))(arrays)


def _named(outputs: Any) -> dict[str, Any]:
    return {f"output{keystr(path)}": leaf for path, leaf in tree_flatten_with_path(outputs)[0]}


def _types(subject: Subject, arrays: list[Any], sizes: Mapping[str, Any]) -> Any:
    """The types of the results of one row."""
    count = len(next(iter(sizes.values())))
    types = jax.eval_shape(lambda *inputs: subject.run(*inputs), arrays, sizes)
    for path, leaf in tree_flatten_with_path(types)[0]:
        if leaf.shape[:1] != (count,):
            raise SpecError(
                f"{subject.name}: output{keystr(path)} has the shape {leaf.shape}, with no axis of {count} rows."
                "\n  Return one result per row (a loss per row, say): in a sum, rows cannot be told apart."
            )
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), types)


def _true_shapes(subject: Subject, types: Any, sizes: Mapping[str, int], plain: Results | None) -> Shapes:
    """The true shapes of the results of a row, by name."""
    named = _named(types)
    if plain is not None and named.keys() != plain.outputs.keys():
        raise CheckError(
            f"{subject.name}: the results are {list(named)}, those of the plain function {list(plain.outputs)}."
            "\n  Return the same tree."
        )
    if subject.out_shape is None:
        return {name: leaf.shape for name, leaf in (plain.outputs if plain else named).items()}
    scope = Scope()
    specs = broadcast_specs(subject.out_shape, types, "out_shape", "the result")
    dims = {
        name: () if spec is None else scope.parse(spec, t.shape, name) for spec, (name, t) in zip(specs, named.items())
    }
    return {name: shape_of(dims[name], sizes) for name in named}


def _weights(subject: Subject, types: Any, shapes: Shapes) -> list[np.ndarray]:
    """What a row's results are summed with; past true shapes too, if masked: no cotangent must get through there."""
    named = _named(types).items()
    return [weights_of(t.shape, t.shape if subject.is_masked else shapes[name]) for name, t in named]
