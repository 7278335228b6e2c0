"""Tables: rows of cells, in colour on a terminal and as aligned plain text elsewhere."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dynres.cli.output import is_terminal, printable, say, writing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


WHOLE: Final = 12
"""A column that is no wider than this is not folded, however narrow the terminal is."""
GAP: Final = 2
"""Blanks between two columns."""


class Cell(NamedTuple):
    """What stands in a column; `style` is how a terminal shows it."""

    text: str
    style: str = ""


Row = tuple[Cell, ...]


class Table(NamedTuple):
    """A view: one fixed set of columns, and its rows."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    right: frozenset[str] = frozenset()
    """Columns aligned to the right."""


def plain_lines(table: Table) -> Iterable[str]:
    """The table as text: two blanks between columns, nothing cut off, no blanks at line ends."""
    lines = [table.columns, *(tuple(printable(c.text) for c in row) for row in table.rows)]
    widths = _widths(table)
    right = [name in table.right for name in table.columns]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in cells).rstrip()


def _widths(table: Table) -> list[int]:
    """How wide each column is with nothing folded."""
    lines = [table.columns, *(tuple(printable(c.text) for c in row) for row in table.rows)]
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def width_in(table: Table, terminal: int) -> int:
    """How wide to print it on a terminal of that width.

    Where not even its long columns folded make it fit, folding more would tear words and headings
    apart: then it is printed as wide as it is, and the terminal itself wraps its lines.
    """
    gaps = GAP * (len(table.columns) - 1)
    widths = _widths(table)
    least = sum(min(width, WHOLE) for width in widths) + gaps
    return terminal if least <= terminal else sum(widths) + gaps


def rich_table(table: Table) -> "RichTable":
    """The table for a terminal; long text is folded, never cut off."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold dim")
    for name, width in zip(table.columns, _widths(table), strict=True):
        justify: Literal["left", "right"] = "right" if name in table.right else "left"
        shown.add_column(name, justify=justify, overflow="fold", no_wrap=width <= WHOLE)
    for row in table.rows:
        shown.add_row(*(Text(printable(cell.text), style=cell.style) for cell in row))
    return shown


def on_terminal() -> bool:
    """Whether stdout is a terminal that can do more than print lines."""
    return is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") != "dumb"


def console() -> "Console":
    """The terminal; it honours NO_COLOR itself."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def show(table: Table) -> None:
    """Print the table on stdout, in the form that suits who reads it."""
    if on_terminal():
        terminal = console()
        terminal.width = width_in(table, terminal.width)
        with writing():
            terminal.print(rich_table(table))
        return
    for line in plain_lines(table):
        say(line)
