"""The rooms of the library: who may import whom, and how large a file may get."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "maskax"
FILES = sorted(SRC.rglob("*.py"))
ORDER = [
    *("_errors", "_compat", "_registry", "_bounds", "_scope", "_shapes", "_instead", "_wording", "_signs", "_watch"),
    *("_operand", "_loops", "_interpret", "_arguments", "_rules", "_mask", "_ragged", "_buckets", "_batches", "grain"),
    *("_averages", "_explain", "_plan", "_rows", "_axes", "_call", "_vmap", "_losses", "testing"),
]
ALONE = {
    "tree": {"_errors", "tree"},
    "optim": {"_errors", "tree", "optim"},
    "_extent": {"_errors", "_compat"},
    "fft": {"_extent"},
    "lax": {"_extent"},
    "nn": {"_extent"},
    "numpy": {"_errors", "_compat", "_extent", "fft", "numpy"},
    "random": {"_extent", "numpy"},
    "_dynamic": {"_compat", "_dynamic", "_errors", "_extent", "_mask", "_ragged", "_scope", "numpy"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_file(path):
    room = path.relative_to(SRC).with_suffix("").parts[0]
    modules = list(imports(path))
    assert room == "_compat" or not any(m.startswith("jax._src") for m in modules), "jax._src belongs into _compat"
    assert not any(m.startswith("__future__") for m in modules)
    assert len(path.read_text().splitlines()) <= 300
    used = {m.split(".")[1] for m in modules if m.startswith("maskax.")}
    if room in ALONE:
        assert used <= ALONE[room]
    elif room in ORDER:
        own = ORDER.index(room)
        assert all(name in ORDER and ORDER.index(name) <= own for name in used), f"{room} imports {sorted(used)}"
        assert room in ("_compat", "_rules", "_ragged", "_loops", "testing") or room not in used
