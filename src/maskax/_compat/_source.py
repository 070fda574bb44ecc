"""Where in the user's source something happened, and what was called there."""

import contextlib
import linecache
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax._src import source_info_util

# Our own frames are not the user's: errors and profiles name the line in the masked function.
source_info_util.register_exclusion(os.path.dirname(os.path.dirname(__file__)))

_NUMPY = os.path.dirname(np.__file__)


def is_numpys(filename: str) -> bool:
    """Whether NumPy's source: what is asked there, its caller asks."""
    return filename.startswith(_NUMPY)


def is_users(filename: str) -> bool:
    """Whether a source file is neither JAX's, nor NumPy's, nor ours."""
    return source_info_util.is_user_filename(filename) and not is_numpys(filename)


def source_line() -> str:
    """The user's line that made the equation being interpreted (see `blame`): `model.py:41 (pool)`."""
    if (frame := source_info_util.user_frame(source_info_util.current().traceback)) is None:
        return "an unknown line"
    function = frame.function_name.rsplit(".", 1)[-1]
    return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.start_line} ({function})"


def user_line(error: BaseException) -> str:
    """The user's innermost line in an error's traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    places = [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno} ({f.name})" for f in frames]
    return places[-1] if places else "an unknown line"


def functions_called(error: BaseException) -> list[str]:
    """The functions between the user's innermost line in an error's traceback and where it was raised.

    JAX may have cut its own frames off the traceback: then the one that is called in the text of that line.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = max((i for i, f in enumerate(frames) if is_users(f.filename)), default=-1)
    inner = [frame.name for frame in frames[last + 1 :]]
    return inner or (_called_at(frames[last].filename, frames[last].lineno, frames[last].colno) if last >= 0 else [])


def source_call() -> list[str]:
    """The function that the user's line calls there where it made the equation being interpreted (see `blame`)."""
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    return [] if frame is None else _called_at(frame.file_name, frame.start_line, frame.start_column)


def _called_at(filename: str, line: int | None, column: int | None) -> list[str]:
    return re.findall(r"(\w+)\(", linecache.getline(filename, line or 0)[column or 0 :])[:1]


@contextlib.contextmanager
def blame(eqn: Any) -> Iterator[None]:
    """Operations emitted inside carry the name stack and source line of `eqn`, as under `jax.core.eval_jaxpr`.

    Equations inside a jitted function of JAX's own have no line of the user's; the line of its call is kept.
    """
    name_stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
    own = eqn.source_info.traceback
    known = own is not None and source_info_util.user_frame(own) is not None
    with source_info_util.user_context(own if known else source_info_util.current().traceback, name_stack=name_stack):
        yield
