"""One follower of the feed: how far it is, and what it has still to get."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from dynres.controller.shared import Key
from dynres.wire.feed import Header, message

Send = Callable[[bytes, bytes], bool]
Thing = int | Key | str
"""A row, an instance or the id of a lease."""


class News(NamedTuple):
    """Records of what has changed: of forgotten hosts, by row, and by instance."""

    gone: list[str]
    rows: dict[int, list[str]]
    pools: dict[Key, str]


class Phase(Enum):
    """Where a subscriber stands."""

    SNAPSHOT = "snapshot"
    LIVE = "live"
    BEHIND = "behind"


class Subscriber:
    """A peer, its requirement, and its place in the feed."""

    def __init__(self, peer: bytes, where: str, epoch: int, now: float) -> None:
        self.peer = peer
        self.where = where
        self.heard = now
        self.sent = now
        self.tried = now
        self.phase = Phase.SNAPSHOT
        self.fresh = True
        """Whether its snapshot has not begun yet."""
        self._epoch = epoch
        self._seq = 0
        self._todo: dict[Thing, None] = {}
        self._unsent: list[str] = []

    def begin(self, rows: Iterable[int], pools: Iterable[Key], leases: Iterable[str]) -> None:
        """A new snapshot of these things."""
        self.phase, self.fresh = Phase.SNAPSHOT, True
        self._todo = dict.fromkeys([*rows, *pools, *leases])
        self._unsent = []

    def next(self) -> Thing | None:
        """The next thing of the snapshot; None at its end, or while records wait to be sent."""
        if not self._todo or self._unsent:
            return None
        thing = next(iter(self._todo))
        del self._todo[thing]
        return thing

    def portion(self, send: Send, records: Sequence[str], now: float) -> bool:
        """Send a part of the snapshot; what is not taken is kept and goes first the next time."""
        self._unsent += records
        ends = not self._todo
        if not self.send(send, [*self._unsent, *["complete"] * ends], now, keep=True):
            return False
        self._unsent = []
        if ends:
            self.phase = Phase.LIVE
        return True

    def change(self, send: Send, news: News, now: float) -> None:
        """What has changed: sent now, or put to what its snapshot has still to tell."""
        if self.phase is Phase.SNAPSHOT:
            # A thing that waits already is told as it will be then; one that was told, again.
            self._todo.update(dict.fromkeys([*news.rows, *news.pools]))
            self._unsent += news.gone
        elif self.phase is Phase.LIVE and any(news):
            rows = (line for told in news.rows.values() for line in told)
            self.send(send, [*news.gone, *rows, *news.pools.values()], now)

    def again_lease(self, lease: str, ended: str | None) -> None:
        """A lease has changed while the snapshot is under way; `ended`: the record that says so."""
        if ended is None:
            self._todo[lease] = None
        else:
            self._unsent.append(ended)

    def send(self, send: Send, records: Iterable[str], now: float, *, keep: bool = False) -> bool:
        """Send a message; one that is not taken leaves the subscriber behind, unless it is kept."""
        body = message(Header(self._epoch, self._seq + 1), records)
        self.tried = now
        if send(self.peer, body):
            self._seq += 1
            self.sent = now
            return True
        if not keep and self.phase is Phase.LIVE:
            self.phase = Phase.BEHIND
            self._todo = {}
        return False
