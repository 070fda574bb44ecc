"""Shape strings, and where their names live while a function is traced."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
from jax import export

from maskax import _compat
from maskax._bounds import Dim
from maskax._errors import MaskaxError, SpecError, UnmaskableError

_NAME = r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z]\w*"


def names_in(text: str) -> list[str]:
    """The dimension names in a shape string or constraint, each once."""
    return list(dict.fromkeys(re.findall(_NAME, text)))


def entries(text: str) -> list[str]:
    """The entries of a shape string: `"(floordiv(n, 2), _)"` has two."""
    text = text.strip()
    depth = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    if text.startswith("(") and depth[-1] == 0 and all(depth[:-1]):
        return entries(text[1:-1])
    cuts = [i for i, c in enumerate(text) if c == "," and not depth[i]]
    return [text[a + 1 : b].strip() for a, b in zip([-1, *cuts], [*cuts, len(text)])]


_cached_apart, _numbers = jax.make_user_context(None), itertools.count()


class BeginAgain(BaseException):
    """A trace is to begin again, with caches of its own."""


class Scope:
    """Where dimension names live while one function is traced.

    JAX never lets dimensions of two scopes meet, so a masked function that is traced inside another one's trace shares
    the outer scope and gets fresh names (`n` becomes `n__1`) there.
    """

    _current: ContextVar["Scope | None"] = ContextVar("maskax_scope", default=None)
    _masks_if_needed: ContextVar[bool] = ContextVar("maskax_masks_if_needed", default=False)
    _sizes_are_made = False

    def __init__(self) -> None:
        outer = Scope._current.get()
        self.symbolic = outer.symbolic if outer else _compat.SizeScope()
        self.depth: list[int] = outer.depth if outer else [0]
        self._suffix = f"__{self.depth[0]}" if outer else ""
        self.depth[0] += 1
        self.names: list[str] = []
        self.made: dict[str, Dim] = {}
        self._once: list[Any] = []
        self._outer = outer
        self._caches: contextlib.ExitStack | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While active, masked functions that are called join this scope."""
        token = Scope._current.set(self)
        try:
            yield
        finally:
            Scope._current.reset(token)

    @classmethod
    def current(cls) -> "Scope | None":
        """The scope of the masked function that is being traced or run, if any."""
        return cls._current.get()

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """While active, the function is traced: sizes can be made."""
        with self.entered(), contextlib.ExitStack() as self._caches:
            if Scope._sizes_are_made:
                self._caches.enter_context(_cached_apart(next(_numbers)))
            token = Scope._masks_if_needed.set(False)
            try:
                yield
            finally:
                self._caches = None
                Scope._masks_if_needed.reset(token)

    def make(self, bound: Dim) -> Dim:
        """A fresh dimension, `k1`, of a size known at run time only, up to `bound`.

        JAX caches what it traces of inner functions: one that makes a size must be traced anew in every masked
        function, and at every call there, or two different sizes would have one name. So what is traced while sizes are
        made has caches of its own; a trace that has not is begun again.
        """
        if self._caches is None:
            raise UnmaskableError(
                "A run-time size is made where JAX traces a derivative of the user's, after the program itself.\n"
                "  Make it in the function, and hand what was chosen to the one with the custom derivative."
            )
        if not Scope._sizes_are_made:
            Scope._sizes_are_made = True
            raise BeginAgain
        self._caches.enter_context(_cached_apart(next(_numbers)))
        taken, scope = set(), self
        while scope is not None:
            taken |= {*scope.names, *scope.made}
            scope = scope._outer
        name = next(name for i in itertools.count(1) if (name := f"k{i}") not in taken)
        (dim,) = export.symbolic_shape(name, scope=self.symbolic)
        # Never below 2: a dimension that can only be 1 would broadcast.
        _compat.add_constraints(self.symbolic, [f"{name} <= {max(bound, 2) if isinstance(bound, int) else bound}"])
        self.made[name] = bound
        return dim

    def once(self, of: Any, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, the same wherever it is made of the very object `of` in one trace."""
        trace = _compat.trace_state()
        for known, *keys, made in self._once:
            if known is of and keys == [trace, key]:
                return made
        self._once.append((of, trace, key, make()))
        return self._once[-1][-1]

    @classmethod
    @contextmanager
    def begun_again_for_sizes(cls) -> Iterator[None]:
        """While active, a plain function that makes sizes raises `BeginAgain`: its caller masks it then."""
        token = cls._masks_if_needed.set(True)
        try:
            yield
        finally:
            cls._masks_if_needed.reset(token)

    @classmethod
    def outside(cls) -> bool:
        """Whether no function is being masked. From here on all know that sizes are made.

        Raises:
            BeginAgain: the caller of the plain function would mask it.
        """
        if cls.current() is not None:
            return False
        cls._sizes_are_made = True
        cls.begin_again_if_masked()
        return True

    @classmethod
    def begin_again_if_masked(cls) -> None:
        """Raises `BeginAgain` where the caller of the function would mask it."""
        if cls._masks_if_needed.get():
            raise BeginAgain

    def local(self, text: str) -> str:
        """`text` with this scope's own spelling of each name."""
        return re.sub(_NAME, rf"\g<0>{self._suffix}", text) if self._suffix else text

    def name(self, variable: str) -> str:
        """The user's spelling of a variable."""
        return variable.removesuffix(self._suffix)

    def show(self, shape: Any) -> str:
        """A shape or dimension as the user would write it."""
        text = shape if isinstance(shape, str) else _shape_text(shape) if isinstance(shape, tuple) else str(shape)
        return text.replace(self._suffix, "") if self._suffix else text

    def parse(
        self, spec: str, shape: Sequence[Dim] | None, where: str, error: type[MaskaxError] = SpecError
    ) -> tuple[Dim, ...]:
        """The dimensions that `spec` gives to an array of padded shape `shape` (`None`: of any shape)."""
        text = ", ".join(entries(spec))
        try:
            like = None if shape is None else tuple(shape)
            dims = export.symbolic_shape(self.local(text), scope=self.symbolic, like=like) if text else []
        except (ValueError, IndexError) as problem:  # an IndexError where there are more entries than dimensions
            fit = "cannot be read" if shape is None else f"does not fit an array of shape {_shape_text(shape)}"
            raise error(
                f"{where}: the shape string {spec!r} {fit}.\n"
                f"  {_first_line(problem) if isinstance(problem, ValueError) else 'It has more entries.'}\n"
                "  Write one entry per dimension: a name ('n'), an expression ('n + 1', '2*n'), a number, or '_' for a "
                "dimension that is not ragged; '...' for all that remain."
            ) from None
        self.names += [name for name in names_in(text) if name not in self.names]
        if shape is not None and len(dims) != len(shape):
            raise error(
                f"{where}: the shape string {spec!r} has {len(dims)} dimension(s), but the array has {len(shape)}: its "
                f"shape is {_shape_text(shape)}. Write '_' for a dimension that is not ragged."
            )
        return tuple(dims)

    def constrain(self, constraints: Sequence[str]) -> None:
        """Tells JAX what may be assumed while tracing, such as `'n >= 2'`."""
        for constraint in constraints:
            try:
                _compat.add_constraints(self.symbolic, [self.local(constraint)])
            except (ValueError, NotImplementedError) as error:
                raise SpecError(
                    f"constraints: {constraint!r} is not one JAX understands: {_first_line(error)}\n"
                    "  Write 'a >= b', 'a <= b' or 'a == b', for instance 'n >= 2' or 'mod(n, 4) == 0'."
                ) from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _shape_text(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
