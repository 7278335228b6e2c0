"""The feed: a snapshot and then each change, to batch schedulers that follow the tables.

Subscribers with one requirement share its selection and the text of each change. What a
subscriber has not taken is bounded: while its snapshot is under way, by the rows that are still to
be sent; after that a single message that it does not take costs it its place, and it gets `lost`
and a new snapshot once it takes messages again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dynres.controller.condition import RequirementError
from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.controller.placement import Placement
from dynres.controller.selection import Selection
from dynres.controller.shared import Key
from dynres.controller.subscriber import News, Phase, Subscriber, Thing
from dynres.controller.telling import Telling
from dynres.controller.tracker import Delta, Tracker
from dynres.wire.codec import WireError
from dynres.wire.feed import (
    FEED_BEAT,
    FEED_SILENCE,
    LeaseTold,
    Subscribe,
    host_record,
    lease_record,
    read_request,
    record,
)

CHUNK: Final = 48 * 1024
"""Characters after which a message of a snapshot goes out."""
PORTION: Final = 256 * 1024
"""Characters of snapshots that one turn makes, so that agents are heard in between."""
RETRY: Final = 0.25
"""Seconds between two tries to tell a slow subscriber that it has lost changes."""
MOST: Final = 256
"""Subscribers at once."""

Leases = Callable[[], Mapping[str, LeaseTold]]
"""Every lease by its id."""


class Feed:
    """All subscribers of one controller; `send` gives a message to a peer, False: not taken."""

    def __init__(
        self,
        core: Core,
        send: Callable[[bytes, bytes], bool],
        *,
        epoch: int,
        wall: Callable[[], float],
        leases: Leases = dict,
    ) -> None:
        self._core = core
        self._send = send
        self._epoch = epoch
        self._wall = wall
        self._leases = leases
        self._placement = Placement(core)
        self._subscribers: dict[bytes, Subscriber] = {}
        self._selections: dict[str, Selection] = {}
        self._tracker: Tracker | None = None
        self._pools: dict[Key, str] = {}
        """What was told last of each instance."""

    @property
    def count(self) -> int:
        """How many follow."""
        return len(self._subscribers)

    # what comes in

    def receive(self, peer: bytes, body: bytes, now: float) -> None:
        """A message of a subscriber. Raises WireError for what is none."""
        try:
            request = read_request(body)
        except WireError as error:
            self._refuse(peer, "protocol", str(error))
            raise
        known = self._subscribers.get(peer)
        if isinstance(request, Subscribe):
            self._subscribe(peer, request.where, now)
        elif known is not None:
            known.heard = now
        else:
            self._refuse(peer, "unknown", "this connection follows nothing: send watch first")

    def _subscribe(self, peer: bytes, where: str, now: float) -> None:
        self._subscribers.pop(peer, None)
        if len(self._subscribers) >= MOST:
            self._refuse(peer, "busy", f"{MOST} others follow already")
            return
        if self._tracker is None:
            self._tracker = Tracker(self._core, now)
            self._pools.clear()
        elif self._tracker.current:
            # What is pending belongs to those who follow already.
            self._flush(self._tracker, now)
        subscriber = Subscriber(peer, where, self._epoch, now)
        if self._select(subscriber, self._tracker, now):
            self._subscribers[peer] = subscriber
        self._tidy()

    def _select(self, subscriber: Subscriber, tracker: Tracker, now: float) -> bool:
        """Begin a snapshot of what its requirement selects; False where that means nothing."""
        where = subscriber.where
        selection = self._selections.get(where)
        if selection is None:
            try:
                requirement = self._placement.requirement(where) if where else None
            except RequirementError as error:
                text = f"the requirement is refused: {error}"
                subscriber.send(self._send, [record("refused", "requirement", text)], now)
                return False
            selection = self._selections[where] = Selection(requirement, tracker, now)
        pools = [(i.resource, i.id) for i in self._core.distribution.pools()]
        subscriber.begin(selection.rows(), pools, self._leases())
        return True

    def _refuse(self, peer: bytes, code: str, text: str) -> None:
        Subscriber(peer, "", self._epoch, 0.0).send(self._send, [record("refused", code, text)], 0)

    def lease(self, lease: LeaseTold, now: float) -> None:
        """A lease was granted, has changed or (`ended`) is no more."""
        told = lease_record(lease)
        for subscriber in self._subscribers.values():
            if subscriber.phase is Phase.LIVE:
                subscriber.send(self._send, [told], now)
            elif subscriber.phase is Phase.SNAPSHOT:
                subscriber.again_lease(lease.lease, told if lease.ended else None)

    # what goes out

    def turn(self, now: float) -> bool:
        """Send what has changed and go on with snapshots; whether there is more to do at once."""
        for subscriber in list(self._subscribers.values()):
            if now - subscriber.heard > FEED_SILENCE:
                del self._subscribers[subscriber.peer]
        self._tidy()
        tracker = self._tracker
        if tracker is None:
            return False
        if not tracker.current:
            tracker = self._tracker = self._restart(tracker, now)
        self._flush(tracker, now)
        more = self._snapshots(tracker, now)
        for subscriber in self._subscribers.values():
            if subscriber.phase is Phase.BEHIND and now - subscriber.tried >= RETRY:
                text = "this subscriber was too slow; a new snapshot follows"
                if subscriber.send(self._send, [record("lost", text)], now):
                    self._select(subscriber, tracker, now)
                    more = True
            elif subscriber.phase is Phase.LIVE and now - subscriber.sent >= FEED_BEAT:
                subscriber.send(self._send, [record("beat")], now)
        return more

    def _tidy(self) -> None:
        """Keep nothing for those who have gone."""
        wanted = {subscriber.where for subscriber in self._subscribers.values()}
        for where in [known for known in self._selections if known not in wanted]:
            del self._selections[where]
        if not self._subscribers and self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def _restart(self, tracker: Tracker, now: float) -> Tracker:
        """The tables are new, after a reload: everybody gets a new snapshot."""
        tracker.close()
        tracker = Tracker(self._core, now)
        self._selections.clear()
        self._pools.clear()
        for subscriber in list(self._subscribers.values()):
            if not self._select(subscriber, tracker, now):
                del self._subscribers[subscriber.peer]
        return tracker

    def _flush(self, tracker: Tracker, now: float) -> None:
        delta = tracker.collect(now)
        if not (delta.rows or delta.forgotten or delta.pools):
            return
        telling = Telling(self._core, tracker, now)
        pools: dict[Key, str] = {}
        changed: list[Instance] = []
        for instance in delta.pools:
            key, told = (instance.resource, instance.id), telling.pool(instance)
            if self._pools.get(key) != told:
                self._pools[key] = pools[key] = told
                changed.append(instance)
        delta = delta._replace(pools=changed)
        for where, selection in self._selections.items():
            news = self._changes(selection, delta, telling, now)._replace(pools=pools)
            for subscriber in self._subscribers.values():
                if subscriber.where == where:
                    subscriber.change(self._send, news, now)

    @staticmethod
    def _changes(selection: Selection, delta: Delta, telling: Telling, now: float) -> News:
        """What has changed of the hosts of one selection."""
        gone = [
            host_record(host, "", closed=False, satisfies=False)
            for row, host in delta.forgotten
            if selection.forget(row)
        ]
        outcome = selection.update(delta, now)
        records = {row: [telling.gone(row)] for row in outcome.vanish}
        records |= {row: telling.whole(row) for row in outcome.appear}
        for row in outcome.stay:
            stands = [telling.host(row)] if row in delta.standing else []
            records[row] = stands + telling.cells(row, delta.cells.get(row, ()))
        return News(gone, records, {})

    def _snapshots(self, tracker: Tracker, now: float) -> bool:
        """Go on with the snapshots that are under way; whether any could go on at once."""
        waiting = [s for s in self._subscribers.values() if s.phase is Phase.SNAPSHOT]
        if not waiting:
            return False
        telling = Telling(self._core, tracker, now)
        more = [self._snapshot(subscriber, telling, now) for subscriber in waiting]
        return any(more)

    def _snapshot(self, subscriber: Subscriber, telling: Telling, now: float) -> bool:
        """A portion of a snapshot; whether its subscriber takes more at once."""
        selection = self._selections[subscriber.where]
        if subscriber.fresh:
            begin = [record("snapshot", f"{self._wall():.3f}"), *telling.resources()]
            if not subscriber.send(self._send, begin, now):
                return False
            subscriber.fresh = False
        made = 0
        while made < PORTION:
            chunk: list[str] = []
            size = 0
            while size < CHUNK and (thing := subscriber.next()) is not None:
                records = self._part(thing, selection, telling)
                size += sum(map(len, records))
                chunk += records
            if not subscriber.portion(self._send, chunk, now):
                return False
            if subscriber.phase is not Phase.SNAPSHOT:
                return False
            made += size
        return True

    def _part(self, thing: Thing, selection: Selection, telling: Telling) -> Iterable[str]:
        if isinstance(thing, int):
            if self._core.table.hosts[thing] is None:
                return ()
            return telling.whole(thing) if thing in selection else (telling.gone(thing),)
        if isinstance(thing, str):
            lease = self._leases().get(thing)
            return () if lease is None else (lease_record(lease),)
        found = (i for i in self._core.distribution.pools(thing[0]) if i.id == thing[1])
        records = [telling.pool(instance) for instance in found]
        for told in records:
            self._pools.setdefault(thing, told)
        return records
