"""What JAX tells of its compilations.

`jax.monitoring` publishes that something was compiled, but only the log says for which arguments and why. Should a
version of JAX word its log in another way, compilations are still counted, without types and reasons.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import jax

from maskax import _compat

_LOWERED = logging.getLogger(_compat.LOWERING_LOG), "Compiling %s with global shapes and types"
_EXPLAINED = logging.getLogger(_compat.TRACING_LOG), "TRACING CACHE MISS"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_UNEXPLAINED = "JAX says nothing (an operation outside of jit; other shardings, devices or settings)"


@contextlib.contextmanager
def compilations(found: Callable[[str, tuple[str, ...], str], None]) -> Iterator[None]:
    """While active, calls `found(function's name, types of its arguments, reason)` for everything that is compiled."""
    types: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, str] = {}
    (lowered, compiling), (explained, miss) = _LOWERED, _EXPLAINED
    level, shown = lowered.getEffectiveLevel(), jax.config.jax_explain_cache_misses

    def on_lowered(record: logging.LogRecord) -> bool:
        if str(record.msg).startswith(compiling) and isinstance(record.args, tuple):
            name, avals = cast(Any, record.args[:2])
            types[name] = tuple(aval.str_short(short_dtypes=True) for aval in avals)
        return record.levelno >= level

    def on_explained(record: logging.LogRecord) -> bool:
        if not (text := record.getMessage()).startswith(miss):
            return True
        if function := re.search(r"^ +(?:for )?(.+?) (?:id=\d+ )?defined at ", text, re.MULTILINE):
            reasons[function[1]] = _reason(text)
        return shown

    def on_compiled(event: str, duration_secs: float, **details: Any) -> None:
        if event == _COMPILED:
            fun_name = details.get("fun_name", "")
            name = re.sub(r"^\w+\((.*)\)$", r"\1", fun_name)  # "jit(step)"
            found(name, types.pop(fun_name, ()), reasons.pop(name, _UNEXPLAINED))

    own = lowered.level
    # Filters see records and keep to themselves what was not to be logged: in front, so that blocks nest.
    lowered.filters.insert(0, on_lowered)
    explained.filters.insert(0, on_explained)
    lowered.setLevel(logging.DEBUG)
    jax.monitoring.register_event_duration_secs_listener(on_compiled)
    try:
        with jax.explain_cache_misses(True):
            yield
    finally:
        jax.monitoring.unregister_event_duration_listener(on_compiled)
        lowered.setLevel(own)
        explained.removeFilter(on_explained)
        lowered.removeFilter(on_lowered)


def _reason(text: str) -> str:
    """JAX's explanation without what the report says already: where the function is, and links."""
    skipped = ("for ", "all previously seen")
    lines = [line.strip() for line in text.splitlines()[1:]]
    said = " ".join(line for line in lines if not line.startswith(skipped) and " defined at " not in line)
    said = re.sub(r"https?://\S+|\(\{\}\)", "", said)  # links, and shardings over nothing
    return re.sub(r"(?<!:) \* ", "; ", said).replace(": * ", ": ").strip(" :")
