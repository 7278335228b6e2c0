"""A feed without sockets: subscribers that take what they are given, or nothing."""

from collections.abc import Mapping

from handmade import Bench

from dynres.controller.feed import Feed
from dynres.wire.feed import LeaseTold, beat_text, subscribe_text
from dynres.wire.lines import (
    AnyLine,
    FeedHost,
    FeedRefusedError,
    FeedValue,
    Host,
    Lines,
    Lost,
    Pool,
    Snapshot,
    ValueChange,
)


class Follower:
    """One subscriber, and what it knows by what it was told."""

    def __init__(self, peer: bytes, where: str) -> None:
        self.peer = peer
        self.where = where
        self.slow = False
        """Takes nothing now."""
        self.messages: list[bytes] = []
        self.lines: list[AnyLine] = []
        self.hosts: dict[str, FeedHost] = {}
        self.pools: dict[tuple[str, str], Pool] = {}
        self.refused: str | None = None
        self._reader = Lines()

    def take(self, body: bytes) -> bool:
        """A message, as the socket would give it."""
        if self.slow:
            return False
        self.messages.append(body)
        try:
            lines = self._reader.take(body)
        except FeedRefusedError as error:
            self.refused = error.message
            return True
        assert not self._reader.broken
        for line in lines:
            self._apply(line)
        self.lines += lines
        return True

    def _apply(self, line: AnyLine) -> None:
        match line:
            case Snapshot():
                self.hosts = dict(line.hosts)
                self.pools = {(pool.resource, pool.instance): pool for pool in line.pools}
            case Host(state=state, satisfies=satisfies):
                if not satisfies or state is None:
                    del self.hosts[line.host]
                else:
                    known = self.hosts.get(line.host)
                    values = known.values if known else {}
                    self.hosts[line.host] = FeedHost(state, line.closed, line.pools, values)
            case ValueChange():
                shown = FeedValue(line.value, line.state, line.reason)
                self.hosts[line.host].values[line.resource] = shown
            case Pool():
                self.pools[line.resource, line.instance] = line
            case _:
                pass

    def new(self) -> list[AnyLine]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines

    @property
    def lost(self) -> int:
        """How often changes were lost, in the lines that are there."""
        return sum(isinstance(line, Lost) for line in self.lines)


class Followed:
    """A bench whose tables are followed."""

    def __init__(self, bench: Bench, leases: Mapping[str, LeaseTold] | None = None) -> None:
        self.bench = bench
        self.followers: dict[bytes, Follower] = {}
        self.leases: dict[str, LeaseTold] = dict(leases or {})
        self.feed = Feed(
            bench.core, self._send, epoch=7, wall=lambda: 1e9, leases=lambda: self.leases
        )

    def _send(self, peer: bytes, body: bytes) -> bool:
        return self.followers[peer].take(body)

    def follow(self, where: str = "", peer: bytes | None = None) -> Follower:
        """A new subscriber; its snapshot comes with the next turn."""
        name = peer or b"p%d" % len(self.followers)
        follower = self.followers[name] = Follower(name, where)
        self.feed.receive(name, subscribe_text(where), self.bench.now)
        return follower

    def turn(self) -> None:
        """Let the feed say all that it has to say now."""
        while self.feed.turn(self.bench.now):
            pass

    def beat(self) -> None:
        """All subscribers are still there."""
        for peer in self.followers:
            self.feed.receive(peer, beat_text(), self.bench.now)
