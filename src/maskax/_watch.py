"""Looking on while a program is interpreted: how `explain` and `testing.check` learn of its steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Watch:
    """Is told of every step. This one, which is there by default, does not listen."""

    def begin(self, eqn: Any, operands: list[Any], sizes: Any) -> list[Any]:
        """A step begins; returns its operands (`Padded`s), changed or not."""
        return operands

    def fill(self, operand: Any, value: Any, axes: Sequence[int] | None) -> None:
        """The padding of `axes` of an operand of the step is filled; `None`: all that the result does not depend on."""

    def note(self, text: str) -> None:
        """What a rule has to say of how it does the step."""

    def end(self, eqn: Any, results: list[Any], sizes: Any) -> None:
        """The step ends; those of programs inside it came between."""


_NOBODY = Watch()
_current: ContextVar[Watch] = ContextVar("maskax_watch", default=_NOBODY)


def watch() -> Watch:
    """Who is looking on."""
    return _current.get()


@contextmanager
def watched(by: Watch) -> Iterator[None]:
    """While active, `by` is told of what is interpreted."""
    token = _current.set(by)
    try:
        yield
    finally:
        _current.reset(token)
