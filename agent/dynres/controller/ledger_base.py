"""What a ledger does, whichever engine stands behind it, and how it can fail."""

from collections.abc import Callable, Sequence
from typing import Protocol

from dynres.controller.changes import AnyChange, LedgerState
from dynres.controller.history import HistoryAsk, HistoryEntry


class LedgerError(Exception):
    """The ledger cannot do what it was asked to; the text says what to do about it."""


class LedgerHeldError(LedgerError):
    """Another controller is active on it."""


class LedgerNewerError(LedgerError):
    """It was written by a newer version."""


class LedgerDamagedError(LedgerError):
    """It holds what no ledger holds."""


class LedgerUnwritableError(LedgerError):
    """Nothing can be written now: disk full, read-only, an error of the disk. Try again later."""


class LedgerFencedError(LedgerError):
    """Another controller has taken over: this one must stop."""


Done = Callable[[LedgerError | None], None]
"""Told once whether the changes are durable (None), or that nothing of them is (an error)."""


class Ledger(Protocol):
    """Keeps changes in order, durably.

    One controller is active on a ledger. Opening it takes an exclusive lock for life and a new
    epoch, which each write checks.
    """

    @property
    def epoch(self) -> int:
        """Larger than that of every controller that was active before."""
        ...

    @property
    def threads(self) -> tuple[int, ...]:
        """Native ids of the threads that it has work done by, once it is loaded."""
        ...

    def load(self) -> LedgerState:
        """All that was kept; once, before the first `submit`. Raises LedgerError."""
        ...

    def submit(self, changes: Sequence[AnyChange], done: Done) -> None:
        """Make `changes` durable, all or none of them, after all that was submitted before.

        Returns at once; `done` is called later, also for no changes at all. What waits together
        shares one commit. After an error the next one may succeed.
        """
        ...

    def history(self, ask: HistoryAsk) -> list[HistoryEntry]:
        """What has happened, oldest first. Blocks; may be called in any thread. LedgerError."""
        ...

    def close(self) -> None:
        """Finish what was submitted, and let another controller have it."""
        ...
