"""The shapes of leases, of answers to those who ask for them, and of what has happened."""

from decimal import Decimal
from typing import Literal

from dynres.value import Value
from dynres.wire.views import View

Verdict = Literal["granted", "wait", "never", "released"]


class GrantedLease(View, frozen=True, kw_only=True):
    """A lease as it is granted; `expires` is RFC 3339 in UTC, None without a ttl."""

    lease: str
    resource: str
    instance: str
    amount: Decimal
    host: str
    expires: str | None
    unit: str | None = None
    """Of the amount."""


class ShortageView(View, frozen=True, kw_only=True):
    """What stands against a request, of one instance (None: the host is in none)."""

    resource: str
    instance: str | None
    asked: Decimal
    free: Decimal | None
    capacity: Decimal | None
    reason: str
    unit: str | None = None
    """Of the amounts."""


class AcquireView(View, frozen=True, kw_only=True):
    """`dynres acquire --json`: granted, wait (not now), never, or released (it was, before)."""

    answer: Verdict
    owner: str
    job: str
    leases: tuple[GrantedLease, ...]
    shortages: tuple[ShortageView, ...]


class LeaseView(View, frozen=True, kw_only=True):
    """One lease; `since` and `expires` are RFC 3339 in UTC."""

    lease: str
    owner: str
    job: str
    resource: str
    instance: str
    amount: Decimal
    host: str
    since: str
    expires: str | None
    suspended: bool
    note: str | None
    unit: str | None = None
    """Of the amount."""


class LeasesView(View, frozen=True, kw_only=True):
    """`dynres leases --json`."""

    leases: tuple[LeaseView, ...]


class ReleaseView(View, frozen=True, kw_only=True):
    """What a release, a reconcile or a suspend has given back: maybe nothing."""

    released: tuple[LeaseView, ...]


class RenewedLease(View, frozen=True, kw_only=True):
    """A lease after a renew."""

    lease: str
    expires: str | None


class RenewView(View, frozen=True, kw_only=True):
    """The leases of a job after a renew; those without a ttl do not expire."""

    renewed: tuple[RenewedLease, ...]


class EntryView(View, frozen=True, kw_only=True):
    """One thing that happened, `at` RFC 3339 in UTC."""

    at: str
    what: str
    """granted, released, suspended, resumed, noted, moved, restated, wait, never, set, unset,
    closed, opened, forgotten, reporter"""
    owner: str | None
    job: str | None
    lease: str | None
    resource: str | None
    instance: str | None
    host: str | None
    amount: Decimal | None
    detail: str | None
    """Cause of a release, reason of an answer, value and reason of an override."""
    by: str | None


class HistoryView(View, frozen=True, kw_only=True):
    """`dynres history --json`, oldest first."""

    entries: tuple[EntryView, ...]


class OverrideView(View, frozen=True, kw_only=True):
    """A value that an operator has set; None: unavailable. Times are RFC 3339 in UTC."""

    resource: str
    value: Value | None
    host: str | None
    instance: str | None
    who: str
    reason: str
    since: str
    until: str | None


class ChangedView(View, frozen=True, kw_only=True):
    """What an operator's set or unset has changed, or the hosts and pools that it has changed."""

    overrides: tuple[OverrideView, ...]
    hosts: tuple[str, ...]
    pools: tuple[str, ...] = ()
    """Instances of a shared resource."""
