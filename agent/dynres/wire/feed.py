"""The feed's text: one record a line, its fields separated by tabs, which no value can hold.

A message is a header line and records; `docs/wire.md` gives every field. Fields may be added at
the end of a record, and kinds of records: a reader passes over what it does not know.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, Literal, NamedTuple

import msgspec

from dynres.value import Order, Value, ValueType, format_number
from dynres.wire.codec import WireError

NAME: Final = "dynres-feed"
VERSION: Final = "1"
FEED_BEAT: Final = 5.0
"""Seconds between two messages, at most, in both directions."""
FEED_SILENCE: Final = 15.0
"""Seconds of silence after which the other side is taken to be gone."""

FeedState = Literal["fresh", "stale", "unavailable", "absent"]

_CLEAN: Final = dict.fromkeys((*range(32), *range(127, 160)), " ")


class Header(msgspec.Struct, frozen=True):
    """Where a message stands: `seq` counts the messages of one subscription from 1."""

    epoch: int
    seq: int


class Subscribe(msgspec.Struct, frozen=True):
    """A client wants the feed, of the hosts that satisfy `where` (empty: of all)."""

    where: str


class Beat(msgspec.Struct, frozen=True):
    """A client is still there."""


def clean(text: str) -> str:
    """A text that fits into a field."""
    return text.translate(_CLEAN)


def value_text(value: Value | None) -> str:
    """A value as a field: `true`/`false`, lossless numbers, a text as it is; empty for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(value) if isinstance(value, str) else format_number(value)


def read_feed_value(text: str, kind: ValueType) -> Value:
    """A field as a value of that type. Raises ValueError."""
    if kind == "numeric":
        return float(text)
    return text == "true" if kind == "boolean" else text


def amount_text(amount: Decimal | None) -> str:
    """An exact amount as a field; empty for none."""
    if amount is None:
        return ""
    plain = f"{amount:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def record(*fields: str) -> str:
    """One record."""
    return "\t".join(fields)


def message(header: Header, records: Iterable[str]) -> bytes:
    """One message."""
    first = f"{NAME}\t{VERSION}\t{header.epoch}\t{header.seq}"
    return "\n".join((first, *records, "")).encode()


def read_message(body: bytes) -> tuple[Header, list[list[str]]]:
    """Header and records of a message. Raises WireError."""
    try:
        first, *lines = body.decode().split("\n")
        name, version, epoch, seq, *_ = first.split("\t")
        if (name, version) != (NAME, VERSION):
            raise WireError(f"not a message of {NAME} {VERSION}: {first[:80]!r}")
        return Header(int(epoch), int(seq)), [line.split("\t") for line in lines if line]
    except (ValueError, UnicodeDecodeError) as error:
        raise WireError(f"not a message of the feed: {error}") from error


def subscribe_text(where: str | None) -> bytes:
    """What a client sends first."""
    return record(NAME, VERSION, "watch", clean(where or "")).encode()


def beat_text() -> bytes:
    """What a client sends every FEED_BEAT seconds."""
    return record(NAME, VERSION, "beat").encode()


def read_request(body: bytes) -> Subscribe | Beat:
    """What a client has sent. Raises WireError."""
    try:
        name, version, verb, *rest = body.decode().rstrip("\r\n\0").split("\t", 3)
    except ValueError as error:
        raise WireError("expected dynres-feed, 1 and a verb, separated by tabs") from error
    if (name, version) != (NAME, VERSION):
        raise WireError(f"this controller speaks {NAME} {VERSION}, got {name[:40]} {version[:8]}")
    if verb == "watch":
        return Subscribe((rest[0] if rest else "").strip())
    if verb == "beat":
        return Beat()
    raise WireError(f"expected watch or beat, got {verb[:40]!r}")


# records


def resource_record(index: int, name: str, kind: ValueType, order: Order, unit: str | None) -> str:
    """A resource, and the index by which values name it until the next snapshot."""
    return record("resource", str(index), name, kind, order, clean(unit or ""))


def host_record(
    host: str, state: str, *, closed: bool, satisfies: bool, pools: Iterable[tuple[int, str]] = ()
) -> str:
    """A host; one that does not satisfy the requirement (any more) is to be forgotten.

    `pools`: index of each shared resource that it has, and the instance that it draws on.
    """
    drawn = " ".join(f"{index}={_instance(instance)}" for index, instance in pools)
    return record("host", host, state, str(int(closed)), str(int(satisfies)), drawn)


def _instance(instance: str) -> str:
    """An instance's id without blanks, which separate them."""
    return clean(instance).replace(" ", "_")


def read_pools(field: str) -> Iterator[tuple[str, str]]:
    """Index and instance of each shared resource of a host."""
    for drawn in field.split():
        index, _, instance = drawn.partition("=")
        yield index, instance


class Told(NamedTuple):
    """A value as the feed tells it."""

    state: FeedState
    value: Value | None
    reason: str | None


def value_record(host: str, index: int, resource: str, told: Told) -> str:
    """A host's own value."""
    value, why = value_text(told.value), clean(told.reason or "")
    return record("value", host, str(index), resource, told.state, value, why)


class Held(NamedTuple):
    """The amounts of a pool; None: not known, or nothing that can be leased."""

    capacity: Decimal | None = None
    leased: Decimal | None = None
    reserve: Decimal | None = None
    free: Decimal | None = None
    overcommitted: bool = False


def pool_record(instance: str, index: int, resource: str, told: Told, held: Held) -> str:
    """A shared instance."""
    return record(
        "pool",
        _instance(instance),
        str(index),
        resource,
        told.state,
        value_text(told.value),
        clean(told.reason or ""),
        *map(amount_text, held[:4]),
        str(int(held.overcommitted)),
    )


class LeaseTold(NamedTuple):
    """A lease as the feed tells it; `ended`: why it is no more, empty while it is."""

    lease: str
    owner: str
    job: str
    resource: str
    instance: str
    amount: Decimal
    host: str
    since: str
    expires: str | None = None
    suspended: bool = False
    note: str | None = None
    ended: str | None = None


def lease_record(lease: LeaseTold) -> str:
    """A lease that was granted, has changed or has ended."""
    named = (lease.lease, lease.owner, lease.job, lease.resource)
    where = (_instance(lease.instance), amount_text(lease.amount), lease.host, lease.since)
    rest = (lease.expires or "", str(int(lease.suspended)), lease.note or "", lease.ended or "")
    return record("lease", *map(clean, (*named, *where, *rest)))
