"""`--watch`: a view that stays and changes; lines for what is new where there is no terminal."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from dynres.cli.live import Changes, Display, Lines, Screen
from dynres.cli.live import pools_table as few_columns
from dynres.cli.output import flush, say, writing
from dynres.cli.pools import holder_rows, pools_table
from dynres.cli.table import console, on_terminal, rich_table, width_in
from dynres.wire.views import PoolsView, ValuesView

if TYPE_CHECKING:
    from rich.console import RenderableType

PAUSE: Final = 1.0
"""Seconds between two looks."""


def watch_values(look: Callable[[], tuple[ValuesView, PoolsView]]) -> None:
    """Values, and the pools with bars below them, until somebody ends it."""
    display: Display = Screen(()) if on_terminal() else Lines(())
    began = time.monotonic()
    with display:
        for _ in _ticks():
            values, pools = look()
            display.show(values, pools, time.monotonic() - began)


def watch_pools(look: Callable[[], PoolsView]) -> None:
    """Pools with their bars, holders where they were asked for, until somebody ends it."""
    if not on_terminal():
        changes = Changes()
        nothing = ValuesView(at="", hosts={})
        for _ in _ticks():
            for line in changes.lines(nothing, look(), settled=True):
                say(line)
            flush()
        return
    from rich.live import Live

    terminal = console()
    with Live(console=terminal, auto_refresh=False) as live:
        for _ in _ticks():
            shown = pools_screen(look(), terminal.width)
            with writing():
                live.update(shown, refresh=True)


def pools_screen(view: PoolsView, width: int) -> "RenderableType":
    """The pools, with the columns that matter most where not all fit; then who holds of them."""
    from rich.console import Group
    from rich.text import Text

    whole = pools_table(view)
    table = whole if width_in(whole, width) <= width else few_columns(view)
    parts: list[RenderableType] = [rich_table(table)]
    holders = holder_rows(view)
    if holders.rows:
        parts += [Text(""), rich_table(holders)]
    return Group(*parts)


def _ticks() -> Iterator[None]:
    while True:
        yield
        time.sleep(PAUSE)
