"""The lines of `dynres watch`: a snapshot, then what changes, made of the feed's messages."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

import msgspec

from dynres.value import Order, Value, ValueType
from dynres.wire.codec import WireError
from dynres.wire.feed import FeedState, Header, read_feed_value, read_message, read_pools
from dynres.wire.views import HostState


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all lines. `seq` counts the lines of one watch without a gap, from 1; another
    `epoch` means that another controller, or one that was started again, goes on.
    """

    epoch: int
    seq: int


class FeedResource(msgspec.Struct, frozen=True):
    """A resource, and its index until the next snapshot."""

    index: int
    name: str
    type: ValueType
    order: Order
    unit: str | None


class FeedValue(msgspec.Struct, frozen=True):
    """What a host has of a resource; `value` is None in every state but fresh."""

    value: Value | None
    state: FeedState
    reason: str | None


class FeedHost(msgspec.Struct):
    """A host in a snapshot; `pools`: shared resource -> the instance that it draws on."""

    state: HostState
    closed: bool
    pools: dict[str, str]
    values: dict[str, FeedValue]


class Host(Line, frozen=True, kw_only=True, tag="host"):
    """A host is new or has another state; `satisfies` false: it is no longer of this watch."""

    host: str
    state: HostState | None
    closed: bool
    satisfies: bool
    pools: dict[str, str]
    """Shared resource -> the instance that the host draws on."""


class ValueChange(Line, frozen=True, kw_only=True, tag="value"):
    """A host's own value; for a leasable resource, what is free there."""

    host: str
    resource: str
    index: int
    value: Value | None
    state: FeedState
    reason: str | None
    unit: str | None


class Pool(Line, frozen=True, kw_only=True, tag="pool"):
    """A shared instance: `value` is what each member has (of a leasable one, what is free)."""

    resource: str
    index: int
    instance: str
    value: Value | None
    state: FeedState
    reason: str | None
    unit: str | None
    capacity: Decimal | None
    leased: Decimal | None
    reserve: Decimal | None
    free: Decimal | None
    overcommitted: bool


class LeaseChange(Line, frozen=True, kw_only=True, tag="lease"):
    """A lease was granted or changed; `ended`: why it is no more, or None."""

    lease: str
    owner: str
    job: str
    resource: str
    instance: str
    amount: Decimal
    host: str | None
    since: str
    expires: str | None
    suspended: bool
    note: str | None
    ended: str | None


class Snapshot(Line, frozen=True, kw_only=True, tag="snapshot"):
    """All there is; it takes the place of everything before."""

    at: float
    """Seconds since 1970, by the controller's clock."""
    resources: tuple[FeedResource, ...]
    hosts: dict[str, FeedHost]
    pools: tuple[Pool, ...]
    leases: tuple[LeaseChange, ...]


class Lost(Line, frozen=True, kw_only=True, tag="lost"):
    """Changes may have been missed; a new snapshot comes."""

    reason: str


AnyLine = Snapshot | Host | ValueChange | Pool | LeaseChange | Lost


class FeedRefusedError(Exception):
    """The controller does not give this feed: a code, and why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Making:
    """A snapshot that is not complete yet."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.hosts: dict[str, FeedHost] = {}
        self.pools: dict[tuple[str, str], Pool] = {}
        self.leases: dict[str, LeaseChange] = {}

    def take(self, line: AnyLine) -> None:
        """A record of the snapshot, or a change of what has come already."""
        match line:
            case Host():
                if not line.satisfies or line.state is None:
                    self.hosts.pop(line.host, None)
                else:
                    known = self.hosts.get(line.host)
                    values = known.values if known else {}
                    self.hosts[line.host] = FeedHost(line.state, line.closed, line.pools, values)
            case ValueChange():
                shown = FeedValue(line.value, line.state, line.reason)
                if line.host in self.hosts:
                    self.hosts[line.host].values[line.resource] = shown
            case Pool():
                self.pools[line.resource, line.instance] = line
            case LeaseChange():
                self.leases[line.lease] = line
                if line.ended is not None:
                    del self.leases[line.lease]
            case Snapshot() | Lost():
                pass


class Lines:
    """Makes lines of messages. `broken` once messages are missing: then ask for the feed anew."""

    def __init__(self) -> None:
        self.broken = False
        self._seq = 0
        self._header = Header(0, 0)
        self._resources: dict[str, FeedResource] = {}
        self._making: _Making | None = None
        self._readers: Final[dict[str, Callable[[list[str]], AnyLine | None]]] = {
            "snapshot": self._begin,
            "resource": self._resource,
            "host": self._host,
            "value": self._value,
            "pool": self._pool,
            "lease": self._lease,
            "complete": self._complete,
            "lost": self._lost,
            "refused": self._refused,
        }

    def start(self) -> None:
        """A new subscription: its messages count from 1."""
        self.broken = False
        self._header = Header(self._header.epoch, 0)
        self._making = None

    def lost(self, reason: str) -> Lost:
        """The line that says that changes may be missing."""
        self._making = None
        return Lost(**self._place(), reason=reason)

    def take(self, body: bytes) -> list[AnyLine]:
        """The lines of one message. Raises FeedRefusedError, and WireError for what is none."""
        header, records = read_message(body)
        expected = self._header.seq + 1
        if self.broken or header.seq != expected:
            if self.broken:
                return []
            self.broken = True
            return [self.lost(f"expected message {expected}, got {header.seq}")]
        self._header = header
        found: list[AnyLine] = []
        for fields in records:
            reader = self._readers.get(fields[0])
            if reader is None:
                continue
            try:
                line = reader(fields)
            except (ValueError, LookupError, ArithmeticError) as error:
                raise WireError(f"a record of the feed cannot be read: {fields!r}") from error
            if line is not None:
                found.append(line)
        return found

    def _place(self) -> dict[str, int]:
        self._seq += 1
        return {"epoch": self._header.epoch, "seq": self._seq}

    def _give(self, make: Callable[..., AnyLine], **fields: object) -> AnyLine | None:
        """A line; while a snapshot is being made it becomes part of that."""
        if self._making is not None:
            self._making.take(make(epoch=self._header.epoch, seq=0, **fields))
            return None
        return make(**self._place(), **fields)

    def _begin(self, fields: list[str]) -> None:
        self._making = _Making(float(fields[1]))
        self._resources = {}

    def _resource(self, fields: list[str]) -> None:
        _, index, name, kind, order, unit, *_ = fields
        shown = {"index": int(index), "name": name, "type": kind, "order": order}
        made = msgspec.convert({**shown, "unit": unit or None}, FeedResource)
        self._resources[index] = made

    def _complete(self, _: list[str]) -> AnyLine | None:
        made, self._making = self._making, None
        if made is None:
            return None
        place = self._place()
        pools = (msgspec.structs.replace(pool, seq=place["seq"]) for pool in made.pools.values())
        leases = (msgspec.structs.replace(one, seq=place["seq"]) for one in made.leases.values())
        return Snapshot(
            **place,
            at=made.at,
            resources=tuple(self._resources.values()),
            hosts=made.hosts,
            pools=tuple(pools),
            leases=tuple(leases),
        )

    def _host(self, fields: list[str]) -> AnyLine | None:
        _, host, state, closed, satisfies, pools, *_ = fields
        drawn = {self._resources[index].name: pool for index, pool in read_pools(pools)}
        return self._give(
            Host,
            host=host,
            state=state or None,
            closed=closed == "1",
            satisfies=satisfies == "1",
            pools=drawn,
        )

    def _reading(self, fields: list[str]) -> dict[str, object]:
        """What records of values and pools have in common."""
        index, resource, state, value, reason = fields[2:7]
        known = self._resources[index]
        fresh = state == "fresh"
        return {
            "resource": resource,
            "index": int(index),
            "state": state,
            "value": read_feed_value(value, known.type) if fresh else None,
            "reason": reason or None,
            "unit": known.unit,
        }

    def _value(self, fields: list[str]) -> AnyLine | None:
        return self._give(ValueChange, host=fields[1], **self._reading(fields))

    def _pool(self, fields: list[str]) -> AnyLine | None:
        amounts = (Decimal(text) if text else None for text in fields[7:11])
        named = dict(zip(("capacity", "leased", "reserve", "free"), amounts, strict=True))
        over = fields[11] == "1"
        return self._give(
            Pool, instance=fields[1], **self._reading(fields), **named, overcommitted=over
        )

    def _lease(self, fields: list[str]) -> AnyLine | None:
        _, lease, owner, job, resource, instance, amount, host, since, *rest = fields
        expires, suspended, note, ended, *_ = rest
        return self._give(
            LeaseChange,
            lease=lease,
            owner=owner,
            job=job,
            resource=resource,
            instance=instance,
            amount=Decimal(amount),
            host=host or None,
            since=since,
            expires=expires or None,
            suspended=suspended == "1",
            note=note or None,
            ended=ended or None,
        )

    def _lost(self, fields: list[str]) -> AnyLine | None:
        return self.lost(fields[1])

    def _refused(self, fields: list[str]) -> AnyLine | None:
        raise FeedRefusedError(fields[1], fields[2])
