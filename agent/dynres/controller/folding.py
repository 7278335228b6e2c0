"""Adds changes up, so that many of them become few rows of the tables."""

from collections.abc import Sequence

from dynres.controller.changes import (
    AnyChange,
    Closed,
    CloseHost,
    End,
    Grant,
    OpenHost,
    Override,
    SetOverride,
    UnsetOverride,
    Update,
)
from dynres.controller.lease import Lease


class Fold:
    """What the changes since row `folded` of the journal, up to row `seq`, add up to."""

    def __init__(self, folded: int) -> None:
        self.folded = folded
        self.seq = folded
        self.size = 0
        """Changes since the last fold, or since it was put off."""
        self.leases: dict[str, Lease | None] = {}
        """New leases; None: one that has ended."""
        self.updates: dict[str, list[Update]] = {}
        """Of leases that are in the table."""
        self.overrides: dict[str, Override | None] = {}
        self.closed: dict[str, Closed | None] = {}

    def add(self, seq: int, changes: Sequence[AnyChange]) -> None:
        """Row `seq` holds these changes."""
        self.seq = seq
        self.size += len(changes)
        for change in changes:
            if isinstance(change, Grant):
                for lease in change.leases:
                    self.leases[lease.id] = lease
            elif isinstance(change, End):
                self._end(change.lease)
            elif isinstance(change, Update):
                self._update(change)
            elif isinstance(change, SetOverride):
                self.overrides[change.key] = change.override
            elif isinstance(change, UnsetOverride):
                self.overrides[change.key] = None
            elif isinstance(change, CloseHost):
                self.closed[change.host] = change.closed
            elif isinstance(change, OpenHost):
                self.closed[change.host] = None

    def _end(self, lease: str) -> None:
        self.updates.pop(lease, None)
        if self.leases.pop(lease, None) is None:
            self.leases[lease] = None  # it is in the table

    def _update(self, change: Update) -> None:
        known = self.leases.get(change.lease)
        if known is not None:
            self.leases[change.lease] = change.of(known)
        elif change.lease not in self.leases:
            self.updates.setdefault(change.lease, []).append(change)

    def put_off(self) -> None:
        """It could not be written: try again after as many changes as before."""
        self.size = 0
