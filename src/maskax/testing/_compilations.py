"""`count_compilations`: what JAX compiles, for which shapes, and why again."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator

from maskax.testing import _log


@dataclasses.dataclass(frozen=True)
class Compilation:
    """One program that was compiled.

    Attributes:
        name: of the function.
        shapes: of its arguments, as `"f32[8,3]"`; those that it does not use are missing.
        reason: why what was compiled before did not do, in JAX's words.
    """

    name: str
    shapes: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.shapes)}): {self.reason}"


@dataclasses.dataclass(repr=False)
class Compilations:
    """The compilations so far; prints as a report.

    Attributes:
        all: each of them, in order.
    """

    all: list[Compilation] = dataclasses.field(default_factory=list)

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self.all)

    def __repr__(self) -> str:
        times = Counter(compilation.name for compilation in self.all)
        lines = [f"{self.count} compilation{'' if self.count == 1 else 's'}"]
        for name, n in times.most_common():
            lines.append(f"  {name}, {n} time{'' if n == 1 else 's'}")
            lines += [f"    ({', '.join(c.shapes)}): {c.reason}" for c in self.all if c.name == name]
        return "\n".join(lines)


@contextlib.contextmanager
def count_compilations(name: str | None = None) -> Iterator[Compilations]:
    """Counts what is compiled inside a `with` block, and says why.

    Operations outside of `jit` are small programs too, compiled once per shape, unless `name` leaves them out.

    Args:
        name: counts only functions of this name (`f.__name__`).

    Returns:
        The compilations so far: their `.count`, `.all` of them, and a report when it is printed.

    Example:
        >>> import jax, numpy as np, maskax as mx
        >>> step = jax.jit(lambda x: 2 * x)
        >>> with mx.testing.count_compilations() as compilations:
        ...     for n in (3, 4, 3):
        ...         y = step(np.zeros(n, np.float32))
        >>> compilations.count
        2
        >>> compilations
        2 compilations
          <lambda>, 2 times
            (f32[3]): never seen function
            (f32[4]): different input types: at x, now f32[4] and before f32[3]
    """
    found = Compilations()

    def add(function: str, shapes: tuple[str, ...], reason: str) -> None:
        if name in (None, function):
            found.all.append(Compilation(function, shapes, reason))

    with _log.compilations(add):
        yield found
