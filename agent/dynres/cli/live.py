"""What stays and changes: a live table in a terminal, and lines where there is none."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from dynres.cli.canvas import Canvas
from dynres.cli.output import flush, printable, say, tell
from dynres.cli.pools import amount_text, bar, members_text
from dynres.cli.table import Cell, Row, Table, console, rich_table
from dynres.cli.words import NONE, STATE_STYLES, age_text, source_text, value_text
from dynres.wire.views import PoolsView, PoolView, ValuesView, ValueView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SETTLED = 5.0
"""Seconds from the start after which a value that is still not there is worth a line."""

_ROUTINE = re.compile(r"^(\S+ \S+ )?(DEBUG|INFO)\b")
"""A log line that needs nobody's attention."""

VALUE_COLUMNS = ("HOST", "RESOURCE", "VALUE", "UNIT", "STATE", "AGE", "SOURCE")
POOL_COLUMNS = ("POOL", "MEMBERS", "CAPACITY", "LEASED", "FREE", "USE", "UNIT", "STATE")


def value_row(host: str, resource: str, view: ValueView) -> Row:
    """The cells of one value; the state says why there is none."""
    style = STATE_STYLES[view.state]
    state = f"{view.state}: {view.reason}" if view.reason else view.state
    return (
        Cell(host),
        Cell(resource, "bold"),
        Cell(value_text(view.value), "bold"),
        Cell(view.unit or NONE),
        Cell(state, style),
        Cell(age_text(view.age)),
        Cell(source_text(view.source, host), "dim"),
    )


def pool_name(pool: PoolView) -> str:
    """Its resource, and which of several instances it is."""
    one = pool.resource == pool.instance
    return pool.resource if one else f"{pool.resource} {pool.instance}"


def pool_row(pool: PoolView) -> Row:
    """The cells of one pool."""
    return (
        Cell(pool_name(pool), "bold"),
        Cell(members_text(pool.members)),
        Cell(amount_text(pool.capacity)),
        Cell(amount_text(pool.leased)),
        Cell(amount_text(pool.free), "bold"),
        bar(pool),
        Cell(pool.unit or NONE),
        Cell(pool.state, STATE_STYLES[pool.state]),
    )


def values_table(view: ValuesView) -> Table:
    """The values, in the controller's order."""
    rows = [value_row(h, r, v) for h, host in view.hosts.items() for r, v in host.values.items()]
    return Table(VALUE_COLUMNS, rows, frozenset({"VALUE", "AGE"}))


def pools_table(view: PoolsView) -> Table:
    """The pools, in the order of the files."""
    right = frozenset({"CAPACITY", "LEASED", "FREE"})
    return Table(POOL_COLUMNS, [pool_row(pool) for pool in view.pools], right)


def screen(
    head: Sequence[str], values: Table, below: Table, rows: int, most_pools: int
) -> "RenderableType":
    """The whole live view with the first `rows` values and `most_pools` pools."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(line, overflow="fold") for line in (*head, "")]
    parts += first_rows(values, rows, "dynres values")
    if below.rows:
        parts += [Text(""), *first_rows(below, most_pools, "dynres pools")]
    return Group(*parts)


def first_rows(table: Table, rows: int, command: str) -> list["RenderableType"]:
    """A table with so many of its rows; how many there are more, and which command shows them."""
    from rich.text import Text

    parts: list[RenderableType] = [rich_table(table._replace(rows=table.rows[:rows]))]
    if len(table.rows) > rows:
        more = len(table.rows) - rows
        parts.append(Text(f"… and {more} more, which `{command}` shows", style="dim"))
    return parts


def note_lines(notes: Sequence[str]) -> list["RenderableType"]:
    """What is said below a live view, a line each."""
    from rich.text import Text

    said = (printable(note) for note in notes)
    lines = [Text(note, style="yellow", no_wrap=True, overflow="ellipsis") for note in said]
    return [Text(""), *lines] if lines else []


def fitting(
    terminal: "Console",
    head: Sequence[str],
    values: ValuesView,
    pools: PoolsView,
    notes: Sequence[str],
) -> "RenderableType":
    """The live view with as many values as the terminal has lines for, and at least one."""
    table, below = values_table(values), pools_table(pools)
    return fit(
        terminal,
        lambda first, second: screen(head, table, below, first, second),
        (len(table.rows), len(below.rows)),
        notes,
    )


def fit(
    terminal: "Console",
    draw: Callable[[int, int], "RenderableType"],
    most: tuple[int, int],
    notes: Sequence[str],
) -> "RenderableType":
    """What `draw` gives for as many rows as fit, the notes below it.

    `draw` gets how many rows of two kinds, `most` at most; the first kind gives way to the second
    down to one. Where even one of each is too much, the end is cut off, never the notes.
    """
    from rich.console import Group
    from rich.segment import Segment, Segments

    below = note_lines(notes)
    room = max(1, terminal.size.height - 1 - len(below))
    first, second = (min(count, room) for count in most)  # no row is less than a line
    while True:
        whole = draw(first, second)
        lines = terminal.render_lines(whole, pad=False)
        over = len(lines) - room
        if over <= 0:
            return Group(whole, *below)
        if first > 1:
            first = max(1, min(first - 1, first - over))
        elif second > 1:
            second = max(1, min(second - 1, second - over))
        else:
            kept = [segment for line in lines[:room] for segment in (*line, Segment.line())]
            return Group(Segments(kept), *below)


class Changes:
    """Lines for what is new: each value when it first appears and whenever it changes."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], object] = {}

    def lines(self, values: ValuesView, pools: PoolsView, *, settled: bool) -> Iterator[str]:
        """What has changed since the last call; before `settled` only what has a value."""
        for host, shown in values.hosts.items():
            for resource, view in shown.values.items():
                if settled or view.state == "fresh":
                    seen = (view.value, view.state, view.reason)
                    yield from self._new((host, resource), seen, value_line(host, resource, view))
        for pool in pools.pools:
            key = (pool.resource, f"pool {pool.instance}")
            held = (pool.capacity, pool.free, pool.leased, pool.state, pool.members)
            if settled or pool.members:
                yield from self._new(key, held, pool_line(pool))

    def _new(self, key: tuple[str, str], mark: object, line: str) -> Iterator[str]:
        if self._shown.get(key) != mark:
            self._shown[key] = mark
            yield printable(line)


def value_line(host: str, resource: str, view: ValueView) -> str:
    """`host resource = value unit (source, age)`, or the state and the reason in its place."""
    if view.state == "fresh":
        said = value_text(view.value) + (f" {view.unit}" if view.unit else "")
    else:
        said = f"{view.state}: {view.reason}" if view.reason else view.state
    age = f", {age_text(view.age)} old" if view.age is not None else ""
    return f"{host} {resource} = {said} ({source_text(view.source)}{age})"


def pool_line(pool: PoolView) -> str:
    """`pool RESOURCE INSTANCE: 98 of 100 unit free for MEMBERS (source)`."""
    unit = f" {pool.unit}" if pool.unit else ""
    amounts = f"{amount_text(pool.free)} of {amount_text(pool.capacity)}{unit} free"
    return f"pool {pool_name(pool)}: {amounts} for {members_text(pool.members)} ({pool.source})"


class Display(Protocol):
    """How a view that stays shows things."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, values: ValuesView, pools: PoolsView, since: float) -> None:
        """What the controller knows now, `since` seconds after the start."""

    def missing(self, text: str) -> None:
        """The controller does not answer; what was shown last is how it was then."""

    def log(self, name: str, text: str) -> None:
        """A line that a daemon has logged; may come from any thread."""

    def leave(self) -> object:
        """Give the terminal back, until there is something to show again."""


class Lines:
    """Without a terminal: a line for each thing that is new; what the daemons log on stderr."""

    def __init__(self, head: Sequence[str]) -> None:
        self._head = tuple(head)
        self._changes = Changes()
        self._missing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, values: ValuesView, pools: PoolsView, since: float) -> None:
        """Print what is new, and let the reader have it at once."""
        if self._missing:
            tell("dynres: the controller answers again")
        self._missing = False
        for line in self._head:
            say(line)
        self._head = ()
        for line in self._changes.lines(values, pools, settled=since >= SETTLED):
            say(line)
        flush()

    def missing(self, text: str) -> None:
        """Say it once."""
        if not self._missing:
            tell(f"dynres: {text}")
        self._missing = True

    def log(self, name: str, text: str) -> None:
        """Pass it on."""
        tell(f"{name}: {printable(text)}")

    def leave(self) -> object:
        """There is nothing to give back."""


class Screen:
    """In a terminal: a table that is drawn again and again, the last log lines below it."""

    def __init__(self, head: Sequence[str]) -> None:
        self._head = tuple(head)
        self._notes: deque[str] = deque(maxlen=2)
        self._canvas = Canvas(console())
        self._shown: tuple[ValuesView, PoolsView] | None = None
        self._missing: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._canvas.close(self._whole())

    def show(self, values: ValuesView, pools: PoolsView, since: float) -> None:
        """Draw everything."""
        self._shown, self._missing = (values, pools), None
        self._draw()

    def missing(self, text: str) -> None:
        """Say so below what was shown last, which is as old as that."""
        self._missing = text
        self._draw()

    def log(self, name: str, text: str) -> None:
        """Keep it for the next drawing; what goes as it should is what the table shows."""
        if not _ROUTINE.search(text):
            self._notes.append(f"{name}: {text}")

    def leave(self) -> object:
        """Give the terminal back; the next drawing takes it again."""
        return self._canvas.leave()

    def _draw(self) -> None:
        whole = self._whole()
        if whole is not None:
            self._canvas.draw(whole)

    def _whole(self) -> "RenderableType | None":
        if self._shown is None:
            return None
        notes = (*self._notes, *([] if self._missing is None else [self._missing]))
        return self.picture(self._canvas.terminal, *self._shown, notes)

    def picture(
        self, terminal: "Console", values: ValuesView, pools: PoolsView, notes: Sequence[str]
    ) -> "RenderableType":
        """What is drawn, as much of it as fits."""
        return fitting(terminal, self._head, values, pools, notes)
