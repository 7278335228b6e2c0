"""`--watch`: a view that stays and changes; lines for what is new where there is no terminal."""

import math
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from dynres.cli.canvas import CALLS, rest
from dynres.cli.live import Display, Lines, Screen, first_rows, fit
from dynres.cli.live import pools_table as few_columns
from dynres.cli.pools import holder_rows, pools_table
from dynres.cli.table import fits, on_terminal
from dynres.cli.words import age_text
from dynres.wire.views import PoolsView, ValuesView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PAUSE: Final = 1.0
"""Seconds between two looks."""
PATIENCE: Final = 10.0
"""Seconds for the answer to one look, after the first."""
_BY_SIGNAL: Final = 128

Look = Callable[[float | None], tuple[ValuesView, PoolsView]]
"""Asks the controller, with a timeout in seconds (None: the usual one)."""


def watch_values(look: Look) -> NoReturn:
    """Values, and the pools with bars below them, until somebody ends it."""
    _follow(Screen(()) if on_terminal() else Lines(()), look, settled=0.0)


def watch_pools(look: Callable[[float | None], PoolsView]) -> NoReturn:
    """Pools with their bars, holders where they were asked for, until somebody ends it."""
    nothing = ValuesView(at="", hosts={})
    display = PoolsScreen(()) if on_terminal() else Lines(())
    _follow(display, lambda timeout: (nothing, look(timeout)), settled=math.inf)


def _follow(display: Display, look: Look, *, settled: float) -> NoReturn:
    """Show what the controller knows for ever; `settled` is for how long that is known already."""
    from dynres.client import UnreachableError

    signal.pthread_sigmask(signal.SIG_BLOCK, CALLS)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    views, began = look(None), time.monotonic()
    answered = began
    with display:
        display.show(*views, settled)
        while True:
            rest(PAUSE, frozenset(), display.leave)
            try:
                views = look(PATIENCE)
            except UnreachableError:
                silent = age_text(time.monotonic() - answered)
                display.missing(f"the controller does not answer: this is {silent} old")
                continue
            answered = time.monotonic()
            display.show(*views, settled + answered - began)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End as the signal would, with the terminal given back."""
    raise SystemExit(_BY_SIGNAL + number)


class PoolsScreen(Screen):
    """Pools in a terminal, and who holds of them."""

    def picture(
        self, terminal: "Console", values: ValuesView, pools: PoolsView, notes: Sequence[str]
    ) -> "RenderableType":
        """See Screen."""
        return fit(
            terminal,
            lambda held, rows: pools_screen(pools, terminal.width, rows=rows, holders=held),
            (len(holder_rows(pools).rows), len(pools.pools)),
            notes,
        )


def pools_screen(
    view: PoolsView,
    width: int,
    *,
    rows: int | None = None,
    holders: int | None = None,
) -> "RenderableType":
    """The pools, with the columns that matter most where not all fit; then who holds of them.

    `rows` and `holders` are the most of each; None: all.
    """
    from rich.console import Group
    from rich.text import Text

    whole = pools_table(view)
    table = whole if fits(whole, width) else few_columns(view)
    most = len(table.rows) if rows is None else rows
    parts: list[RenderableType] = first_rows(table, most, "dynres pools")
    held = holder_rows(view)
    if held.rows:
        most = len(held.rows) if holders is None else holders
        parts += [Text(""), *first_rows(held, most, "dynres pools --holders")]
    return Group(*parts)
