"""What has happened to pools, jobs and hosts, read from the changes that a ledger has kept."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

import msgspec

from dynres.controller.changes import (
    AnyChange,
    CloseHost,
    End,
    Event,
    Grant,
    OpenHost,
    SetOverride,
    UnsetOverride,
    Update,
)
from dynres.value import format_duration, format_value

MOST = 10_000
"""Entries in one answer, at most: the newest."""


class HistoryAsk(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries; what is None does not matter."""

    pool: str | None = None
    """A resource, an instance's id, or RESOURCE/INSTANCE."""
    job: str | None = None
    host: str | None = None
    owner: str | None = None
    since: float | None = None
    """Wall-clock time."""
    limit: int = MOST

    @property
    def words(self) -> list[str]:
        """Texts that each change that is meant must hold."""
        pool = self.pool.rpartition("/")[2] if self.pool else None
        return [word for word in (self.job, self.host, self.owner, pool) if word]


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    at: float
    """Wall-clock time."""
    what: str
    """granted, released, suspended, resumed, noted, moved, restated, wait, never, set, unset,
    closed, opened, or the name of an event."""
    owner: str | None = None
    job: str | None = None
    lease: str | None = None
    resource: str | None = None
    instance: str | None = None
    host: str | None = None
    amount: Decimal | None = None
    detail: str | None = None
    """Cause of a release, reason of an answer, who and why of an override."""
    by: str | None = None


def entries(at: float, changes: Iterable[AnyChange], ask: HistoryAsk) -> list[HistoryEntry]:
    """What these changes of one instant say, as far as it was asked for."""
    return [e for change in changes for e in _told(at, change) if _meant(e, ask)]


def _meant(entry: HistoryEntry, ask: HistoryAsk) -> bool:
    if ask.job is not None and entry.job != ask.job:
        return False
    if ask.owner is not None and entry.owner != ask.owner:
        return False
    if ask.host is not None and entry.host != ask.host:
        return False
    if ask.since is not None and entry.at < ask.since:
        return False
    names = {entry.resource, entry.instance, f"{entry.resource}/{entry.instance}"}
    return ask.pool is None or ask.pool in names


def _told(at: float, change: AnyChange) -> Iterator[HistoryEntry]:
    if isinstance(change, Grant):
        for lease in change.leases:
            yield HistoryEntry(
                at=at,
                what="granted",
                owner=lease.owner,
                job=lease.job,
                lease=lease.id,
                resource=lease.resource,
                instance=lease.instance,
                host=lease.host,
                amount=lease.amount,
                detail="running" if lease.running else None,
            )
    elif isinstance(change, End | Update):
        yield HistoryEntry(
            at=at,
            what="released" if isinstance(change, End) else _changed(change),
            owner=change.owner,
            job=change.job,
            lease=change.lease,
            resource=change.resource,
            instance=change.instance,
            host=change.host,
            amount=change.amount,
            detail=change.cause if isinstance(change, End) else _detail(change),
            by=change.by if isinstance(change, End) else None,
        )
    elif isinstance(change, Event):
        known = {name: getattr(change, name) for name in change.__struct_fields__}
        yield HistoryEntry(at=at, **known)
    else:
        yield from _operator(at, change)


def _changed(change: Update) -> str:
    if change.suspended is not None:
        return "suspended" if change.suspended else "resumed"
    if change.restated is not None:
        return "restated"
    return "moved" if change.moved is not None else "noted"


def _detail(change: Update) -> str | None:
    if change.restated is not None:
        return f"{change.restated.normalize():f} {change.unit} now"
    return change.note or change.moved


def _operator(
    at: float, change: SetOverride | UnsetOverride | CloseHost | OpenHost
) -> Iterator[HistoryEntry]:
    if isinstance(change, CloseHost):
        closed = change.closed
        yield HistoryEntry(
            at=at, what="closed", host=change.host, detail=closed.reason, by=closed.who
        )
    elif isinstance(change, OpenHost):
        yield HistoryEntry(
            at=at, what="opened", host=change.host, detail=change.reason, by=change.who
        )
    elif isinstance(change, SetOverride):
        override = change.override
        lasts = f", for {format_duration(override.lasts)}" if override.lasts else ""
        shown = format_value(override.value) if override.value is not None else "unavailable"
        for host in override.hosts or (None,):
            yield HistoryEntry(
                at=at,
                what="set",
                resource=override.resource,
                instance=override.instance,
                host=host,
                detail=f"{shown}{lasts}: {override.reason}",
                by=override.who,
            )
    else:
        for host in change.hosts or (None,):
            yield HistoryEntry(
                at=at,
                what="unset",
                resource=change.resource,
                instance=change.instance,
                host=host,
                detail="its time is over" if change.who is None else None,
                by=change.who,
            )
