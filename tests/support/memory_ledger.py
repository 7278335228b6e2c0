"""A ledger that forgets with its process, behind the same methods: for tests of the pure core."""

import time
from collections.abc import Callable, Sequence

from dynres.controller.changes import AnyChange, LedgerState
from dynres.controller.history import HistoryAsk, HistoryEntry, entries
from dynres.controller.ledger_base import Done, LedgerError


class MemoryStore:
    """What outlives a ledger that is closed."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, list[AnyChange]]] = []
        self.epoch = 0


class MemoryLedger:
    """Commits at once, or fails while `fault` is set."""

    def __init__(self, store: MemoryStore, wall: Callable[[], float] = time.time) -> None:
        self._store = store
        self._wall = wall
        store.epoch += 1
        self.epoch = store.epoch
        self.fault: LedgerError | None = None

    def load(self) -> LedgerState:
        state = LedgerState()
        for at, changes in self._store.rows:
            for change in changes:
                state.apply(change, at)
        return state

    def submit(self, changes: Sequence[AnyChange], done: Done) -> None:
        if self.fault is None and changes:
            self._store.rows.append((self._wall(), list(changes)))
        done(self.fault if changes else None)

    def history(self, ask: HistoryAsk) -> list[HistoryEntry]:
        rows = self._store.rows
        return [e for at, changes in rows for e in entries(at, changes, ask)][-ask.limit :]

    def close(self) -> None:
        pass
