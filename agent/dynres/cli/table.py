"""Tables: rows of cells, in colour on a terminal and as aligned plain text elsewhere."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dynres.cli.output import is_terminal, printable, say, writing
from dynres.cli.words import NONE

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


LONGEST: Final = 32
"""A word that is no longer than this is not torn apart, however narrow the terminal is."""
SHORTEST: Final = 12
"""A column is folded to no less than this."""
GAP: Final = 2
"""Blanks between two columns."""
INDENT: Final = 4
"""Blanks before what stands below its row."""


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


def _least(table: Table) -> list[int]:
    """How narrow each column may be: its text is folded between words."""
    least: list[int] = []
    for number, (name, width) in enumerate(zip(table.columns, _widths(table), strict=True)):
        texts = (name, *(printable(row[number].text) for row in table.rows))
        word = max(len(word) for text in texts for word in (text.split() or [""]))
        least.append(min(width, max(SHORTEST, min(word, LONGEST))))
    return least


def fits(table: Table, width: int) -> bool:
    """Whether all columns have room side by side, folded where that is possible."""
    return sum(_least(table)) + GAP * (len(table.columns) - 1) <= width


class Laid:
    """A table for a terminal of any width: nothing is cut off, no word and no number torn apart.

    Long text is folded where that makes all columns fit. Where not, a row has as many columns as
    fit, and the others below it, each with its name.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[RenderableType]":
        if fits(self._table, options.max_width):
            yield _side_by_side(self._table, options.max_width)
        else:
            yield from _below(self._table, options.max_width)


def _side_by_side(table: Table, width: int) -> "RenderableType":
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold dim")
    for name, room in zip(table.columns, _allot(table, width), strict=True):
        justify: Literal["left", "right"] = "right" if name in table.right else "left"
        shown.add_column(name, justify=justify, overflow="fold", width=room)
    for row in table.rows:
        shown.add_row(*(Text(printable(cell.text), style=cell.style) for cell in row))
    return shown


def _allot(table: Table, width: int) -> list[int]:
    """How wide each column is: what is left over goes to those that would be folded."""
    widths, given = _widths(table), _least(table)
    left = width - sum(given) - GAP * (len(given) - 1)
    wanting = sorted(range(len(given)), key=lambda number: widths[number] - given[number])
    for done, number in enumerate(wanting):
        more = min(widths[number] - given[number], left // (len(wanting) - done))
        given[number] += more
        left -= more
    return given


def _below(table: Table, width: int) -> "Iterator[RenderableType]":
    from rich.text import Text

    widths = _widths(table)
    kept = 1
    while sum(widths[: kept + 1]) + GAP * kept <= width and kept + 1 < len(widths):
        kept += 1
    right = [name in table.right for name in table.columns[:kept]]

    def line(cells: Row) -> Text:
        text = Text(overflow="fold")
        for cell, room, to_right in zip(cells, widths, right, strict=False):
            said = printable(cell.text)
            text.append(said.rjust(room) if to_right else said.ljust(room), style=cell.style)
            text.append(" " * GAP)
        text.rstrip()
        return text

    yield line(tuple(Cell(name, "bold dim") for name in table.columns[:kept]))
    for row in table.rows:
        yield line(row[:kept])
        yield from _named(zip(table.columns[kept:], row[kept:], strict=True), width)


def _named(cells: "Iterable[tuple[str, Cell]]", width: int) -> "Iterator[RenderableType]":
    """Columns by name, as many a line as fit; those with nothing in them are left out."""
    from rich.text import Text

    line = Text()
    for name, cell in cells:
        if cell.text == NONE:
            continue
        item = Text.assemble((f"{name} ", "dim"), Text(printable(cell.text), style=cell.style))
        if line and len(line) + GAP + len(item) > width:
            yield line
            line = Text()
        line = Text.assemble(line, " " * (GAP if line else INDENT), item, overflow="fold")
    if line:
        yield line


def rich_table(table: Table) -> "RenderableType":
    """The table for a terminal."""
    return Laid(table)


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
        with writing():
            console().print(rich_table(table))
        return
    for line in plain_lines(table):
        say(line)
