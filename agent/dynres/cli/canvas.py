"""Draws one picture over the other in a terminal's second screen, and gives the first one back.

Nothing that was on the terminal before is lost, no resize leaves half a picture behind, and
whatever ends or stops the process leaves a terminal that can be used.
"""

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dynres.cli.output import writing

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

CALLS: Final = frozenset({signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT})
"""What a terminal says to whoever draws on it; to be blocked, and taken by `rest`."""


class Canvas:
    """The second screen of a terminal, entered with the first picture."""

    def __init__(self, terminal: "Console") -> None:
        self.terminal = terminal
        self._live: Live | None = None

    def draw(self, picture: "RenderableType") -> None:
        """Show it in place of the last one."""
        with writing():
            if self._live is None:
                from rich.live import Live

                self._live = Live(
                    console=self.terminal,
                    screen=True,
                    auto_refresh=False,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._live.start()
            self._live.update(picture, refresh=True)

    def leave(self) -> bool:
        """Give the terminal back as it was; whether anything had been drawn."""
        live, self._live = self._live, None
        if live is not None:
            with writing():
                live.stop()
        return live is not None

    def close(self, picture: "RenderableType | None") -> None:
        """Leave, and let the last picture stand where the command was given."""
        if self.leave() and picture is not None:
            with writing():
                self.terminal.print(picture)


def rest(seconds: float, others: frozenset[signal.Signals], leave: Callable[[], object]) -> int:
    """Wait until the time is over, the terminal is another or one of `others` came (its number).

    Where the terminal stops us (Ctrl-Z), it is left first. All these signals must be blocked.
    """
    got = signal.sigtimedwait(CALLS | others, seconds)
    if got is None:
        return 0
    if got.si_signo == signal.SIGTSTP:
        leave()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(os.getpid(), signal.SIGTSTP)  # as it was meant; it goes on here
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    return got.si_signo if got.si_signo in others else 0
