"""Counting parameters, and the table that shows which are selected."""

import html
import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ._masks import Entry, PyTree, is_static, kind
from ._paths import named_leaves
from ._select import Where, select


def count(tree: PyTree, where: Where = True) -> int:
    """How many parameters, that is, elements of arrays, are selected.

    Args:
        tree: A tree of arrays (or of `jax.ShapeDtypeStruct`); leaves of other types count nothing.
        where: A mask, or anything else that `select` takes; by default all leaves.

    Returns:
        The number of selected elements. Traced entries of a mask cannot be counted.

    >>> count({"w": np.ones((2, 3)), "b": np.zeros(3)}, "w")
    6
    """
    mask = jax.tree.leaves(select(tree, where))
    return sum(_selected(leaf, entry) for leaf, entry in zip(jax.tree.leaves(tree), mask))


def _size(leaf: Any) -> int:
    if isinstance(leaf, int | float | complex):
        return 1
    return math.prod(leaf.shape) if hasattr(leaf, "shape") else 0


def _selected(leaf: Any, entry: Entry) -> int:
    if is_static(entry) or entry.ndim == 0:
        return _size(leaf) if entry else 0
    return int(np.broadcast_to(np.asarray(entry), leaf.shape).sum())


@dataclass(frozen=True)
class Row:
    """One leaf in the table of `explain`.

    Attributes:
        path: Where it is.
        kind: Its dtype and shape.
        size: How many parameters it holds.
        trained: How many of them are selected; None if that is only known when the program runs.
    """

    path: str
    kind: str
    size: int
    trained: int | None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The row as text."""
        return self.path, self.kind, f"{self.size:,}", self.verdict

    @property
    def verdict(self) -> str:
        """Selected or not, in a word."""
        if self.trained is None:
            return "changes"
        if 0 < self.trained < self.size:
            return f"{self.trained:,} of {self.size:,}"
        return "yes" if self.trained else "no"


HEAD = ("path", "shape", "parameters", "trained")


@dataclass(frozen=True)
class Explanation:
    """A table of leaves; prints as text, as a `rich` table, and as HTML in a notebook."""

    rows: list[Row]

    @property
    def total(self) -> int:
        """The number of parameters."""
        return sum(row.size for row in self.rows)

    @property
    def trained(self) -> int:
        """The number of those that are selected, as far as it is known before the program runs."""
        return sum(row.trained or 0 for row in self.rows)

    @property
    def footer(self) -> tuple[str, str, str, str]:
        """The last line of the table."""
        share = 100 * self.trained / self.total if self.total else 0
        return "total", "", f"{self.total:,}", f"{self.trained:,} ({share:.1f} %)"

    def __str__(self) -> str:
        lines = [HEAD, *(row.cells for row in self.rows), self.footer]
        widths = [max(len(line[column]) for line in lines) for column in range(4)]

        def text(line: tuple[str, ...]) -> str:
            path, shape, size, verdict = (cell.ljust(width) for cell, width in zip(line, widths))
            return f"{path}  {shape}  {size.strip().rjust(widths[2])}  {verdict}".rstrip()

        rule = "-" * (sum(widths) + 6)
        return "\n".join([text(HEAD), rule, *(text(row.cells) for row in self.rows), rule, text(self.footer)])

    __repr__ = __str__

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table(*HEAD, show_footer=True)
        for column, foot, side in zip(table.columns, self.footer, ("left", "left", "right", "left")):
            column.footer, column.justify = foot, side
        for row in self.rows:
            table.add_row(*row.cells, style=None if row.trained else "dim")
        return table

    def _repr_html_(self) -> str:
        def line(cells: tuple[str, ...], tag: str, style: str = "") -> str:
            return f"<tr{style}>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        grey = ' style="color: #888"'
        body = "".join(line(row.cells, "td", "" if row.trained else grey) for row in self.rows)
        return f"<table>{line(HEAD, 'th')}{body}{line(self.footer, 'th')}</table>"


def explain(tree: PyTree, where: Where) -> Explanation:
    """A table of a tree's leaves: path, shape, number of parameters, selected or not, and totals.

    Print it, hand it to `rich.print`, or let a notebook show it.

    Args:
        tree: Any pytree, usually parameters.
        where: A mask, or anything else that `select` takes.

    Returns:
        The table; its `rows`, `total` and `trained` can be read too.

    >>> explain({"w": np.ones((2, 3), "float32"), "b": np.zeros(3, "float32")}, "w")
    path   shape         parameters  trained
    -------------------------------------------
    b      float32[3]             3  no
    w      float32[2,3]           6  yes
    -------------------------------------------
    total                         9  6 (66.7 %)
    """
    mask = jax.tree.leaves(select(tree, where))
    return Explanation([_row(leaf.name, leaf.value, entry) for leaf, entry in zip(named_leaves(tree), mask)])


def _row(name: str, leaf: Any, entry: Entry) -> Row:
    try:
        trained = _selected(leaf, entry)
    except jax.errors.JAXTypeError:  # the entry is traced
        trained = None
    return Row(name, kind(leaf), _size(leaf), trained)
