"""The recipes of "Which parameters train" run as one program, and what they print is what the page shows."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "which-parameters-train.md"


def test_recipes(capsys):
    text = PAGE.read_text()
    names = {}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        # Blank lines in front keep the line numbers of a traceback those of the page.
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    shown = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)
