"""Writes `docs/coverage.md`, what becomes of every primitive and public function: `python tests/covered.py`."""

from pathlib import Path

from functions import CHOSEN, FAMILIES, UNTRACEABLE, function_of, written
from primitives import ABSENT, TRANSPARENT

import maskax as mx
from maskax._instead import instead_of
from maskax._rules.refuse import REFUSED

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"

_HEAD = """# What is masked

Written by `python tests/covered.py`; a test fails when it is out of date, and when JAX gains a primitive that is not
in it.

Every primitive that `jax.numpy`, `jax.scipy`, `jax.lax`, `jax.nn`, `jax.random`, `jax.image` and `jax.ops` can reach,
in any JAX from 0.10 to 0.12, is masked by a rule, refused with a reason, or in need of neither. Rules are in
`src/maskax/_rules`, in the file that is named. Functions that JAX itself does not trace at run-time sizes have drop-ins
in `maskax.numpy`, `.lax`, `.fft`, `.random` and `.nn`.
"""
_FUNCTIONS = """
# What is masked, by JAX's names

Public functions as `tests/test_functions.py` calls them on ragged operands, each by its own name: values, and
gradients where it has them, are those of the call on the true part, whatever is in the padding.
"""
_REFUSALS = """
JAX does not trace these where a size is known only at run time, or where the data decide a size of the result. The
error says what to write instead.
"""


def page() -> str:
    """The page, in Markdown."""
    rooms: dict[str, list[str]] = {}
    for name, rule in sorted(mx.rules().items()):
        module = getattr(rule, "func", rule).__module__
        if module.startswith("maskax._rules.") and name not in REFUSED:
            rooms.setdefault(module.rsplit(".", 1)[-1], []).append(name)
    refusals: dict[tuple[str, str], list[str]] = {}
    for name, reason in sorted(REFUSED.items()):
        refusals.setdefault(reason, []).append(name)
    quoted = lambda names: ", ".join(f"`{name}`" for name in names)
    parts = [_HEAD, f"## Masked: {sum(map(len, rooms.values()))}\n", "| rules in | primitives |\n|---|---|"]
    parts += [f"| `{room}.py` | {quoted(names)} |" for room, names in sorted(rooms.items())]
    parts += [f"\n## Refused: {len(REFUSED)}\n", "| why | instead | primitives |\n|---|---|---|"]
    parts += [f"| {why} | {instead} | {quoted(names)} |" for (why, instead), names in sorted(refusals.items())]
    parts += [f"\n## In need of no rule: {len(TRANSPARENT)}\n", "| primitive | why |\n|---|---|"]
    parts += [f"| `{name}` | {why} |" for name, why in sorted(TRANSPARENT.items())]
    parts += [f"\n## In no program of a user: {len(ABSENT)}\n", "| primitive | why |\n|---|---|"]
    parts += [f"| `{name}` | {why} |" for name, why in sorted(ABSENT.items())]
    calls = {family.name: written(family.calls) for family in FAMILIES}
    names = {name for lines in calls.values() for name in map(function_of, lines)}
    parts += [_FUNCTIONS, f"## Masked: {len(names)}\n", "| kind | functions |\n|---|---|"]
    parts += [f"| {kind} | {quoted(sorted(set(map(function_of, lines))))} |" for kind, lines in calls.items()]
    refused = {call: chosen for chosen, text in ((False, UNTRACEABLE), (True, CHOSEN)) for call in written(text)}
    parts += [f"\n## Refused: {len(refused)}\n{_REFUSALS}", "| call | instead |\n|---|---|"]
    parts += [f"| `{call}` | {_advice(call, chosen)} |" for call, chosen in refused.items()]
    return "\n".join(parts) + "\n"


def _advice(call: str, chosen: bool) -> str | None:
    return instead_of([function_of(call).rsplit(".", 1)[-1]], chosen)


if __name__ == "__main__":
    PAGE.write_text(page())
