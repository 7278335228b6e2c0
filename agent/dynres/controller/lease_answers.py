"""Leases, answers and history as clients see them."""

from collections.abc import Iterable, Iterator, Mapping

from dynres.controller.history import HistoryEntry
from dynres.controller.lease import Answer, Shortage
from dynres.controller.operators import FOR_EVER, Standing
from dynres.controller.pool import Held
from dynres.controller.pools import Pools
from dynres.controller.proposal import Instant
from dynres.controller.readings import timestamp
from dynres.wire.feed import LeaseTold
from dynres.wire.lease_views import (
    AcquireView,
    EntryView,
    GrantedLease,
    LeaseView,
    OverrideView,
    ShortageView,
)


def expires_at(held: Held | None, at: Instant) -> str | None:
    """When a lease ends by itself; None: never."""
    if held is None or held.expires is None:
        return None
    return timestamp(at.wall + held.expires - at.clock)


def acquire_view(answer: Answer, pools: Pools, at: Instant) -> AcquireView:
    """What was answered to a request."""
    known = pools.holdings.leases
    return AcquireView(
        answer=answer.answer,
        owner=answer.owner,
        job=answer.job,
        leases=tuple(
            [
                GrantedLease(
                    lease=lease.id,
                    resource=lease.resource,
                    instance=lease.instance,
                    amount=lease.amount,
                    host=lease.host,
                    expires=None if lease.ttl is None else expires_at(known.get(lease.id), at),
                    unit=lease.unit,
                )
                for lease in answer.leases
            ]
        ),
        shortages=shortage_views(answer.shortages, pools),
    )


def shortage_views(shortages: Iterable[Shortage], pools: Pools) -> tuple[ShortageView, ...]:
    """What stands against a request."""
    resources = pools.grounds.resources
    return tuple(
        [
            ShortageView(
                resource=lack.resource,
                instance=lack.instance,
                asked=lack.asked,
                free=lack.free,
                capacity=lack.capacity,
                reason=lack.reason,
                unit=resources[lack.resource].unit if lack.resource in resources else None,
            )
            for lack in shortages
        ]
    )


def lease_view(held: Held, at: Instant) -> LeaseView:
    """All about a lease."""
    lease = held.lease
    return LeaseView(
        lease=lease.id,
        owner=lease.owner,
        job=lease.job,
        resource=lease.resource,
        instance=lease.instance,
        amount=lease.amount,
        host=lease.host,
        since=timestamp(lease.since),
        expires=expires_at(held, at),
        suspended=lease.suspended,
        note=lease.note,
        unit=lease.unit,
    )


def override_view(standing: Standing, host: str | None, at: Instant) -> OverrideView:
    """A value that an operator has set, on one host or for a pool."""
    override, ends = standing.override, standing.ends
    return OverrideView(
        resource=override.resource,
        value=override.value,
        host=host,
        instance=override.instance,
        who=override.who,
        reason=override.reason,
        since=timestamp(override.since),
        until=None if ends == FOR_EVER else timestamp(at.wall + ends - at.clock),
    )


def entry_view(entry: HistoryEntry) -> EntryView:
    """One thing that happened."""
    return EntryView(
        at=timestamp(entry.at),
        what=entry.what,
        owner=entry.owner,
        job=entry.job,
        lease=entry.lease,
        resource=entry.resource,
        instance=entry.instance,
        host=entry.host,
        amount=entry.amount,
        detail=entry.detail,
        by=entry.by,
    )


def told(held: Held, at: Instant, ended: str | None = None) -> LeaseTold:
    """A lease as the feed tells it."""
    lease = held.lease
    return LeaseTold(
        lease.id,
        lease.owner,
        lease.job,
        lease.resource,
        lease.instance,
        lease.amount,
        lease.host,
        timestamp(lease.since),
        expires_at(held, at),
        lease.suspended,
        lease.note,
        ended,
    )


class ToldLeases(Mapping[str, LeaseTold]):
    """Every durable lease by its id, each put into the feed's words when it is asked for."""

    def __init__(self, leases: Mapping[str, Held], at: Instant) -> None:
        self._leases = leases
        self._at = at

    def __getitem__(self, lease: str) -> LeaseTold:
        held = self._leases[lease]
        if not held.shown:
            raise KeyError(lease)
        return told(held, self._at)

    def __iter__(self) -> Iterator[str]:
        return (lease for lease, held in self._leases.items() if held.shown)

    def __len__(self) -> int:
        return sum(1 for _ in self)
