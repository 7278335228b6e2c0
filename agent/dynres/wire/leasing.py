"""Requests of those who hold amounts, and of operators; and how they are answered."""

from decimal import Decimal
from typing import Literal

import msgspec

from dynres.value import Value
from dynres.wire.envelope import Answer, Request
from dynres.wire.lease_views import (
    AcquireView,
    ChangedView,
    HistoryView,
    LeasesView,
    ReleaseView,
    RenewView,
)

LOCAL = "local"
"""The owner where no keys are in use and none is named."""


class Need(msgspec.Struct, frozen=True):
    """One resource that is asked for; `per` None: as the resource says."""

    resource: str
    amount: Decimal
    per: Literal["job", "host", "slot"] | None = None
    unit: str | None = None
    """Unit of the amount; None: the resource's own."""


class Seat(msgspec.Struct, frozen=True):
    """A host of the job, and how many slots it has there."""

    host: str
    slots: int = 1


class Acquire(Request, frozen=True, kw_only=True, tag="acquire"):
    """Take all of it, or nothing. `wait`: seconds to wait for it; None: answer at once."""

    owner: str = LOCAL
    job: str
    needs: tuple[Need, ...]
    seats: tuple[Seat, ...]
    request: str | None = None
    ttl: float | None = None
    running: bool = False
    wait: float | None = None


class Release(Request, frozen=True, kw_only=True, tag="release"):
    """Give back what a job holds (on one host), single leases, or all that is held for a host.

    `owner` None: an operator, who may end anyone's leases (not by job).
    """

    owner: str | None = LOCAL
    job: str | None = None
    leases: tuple[str, ...] = ()
    host: str | None = None
    who: str | None = None


class Renew(Request, frozen=True, kw_only=True, tag="renew"):
    """Give the leases of a job, or these, their full ttl again."""

    owner: str = LOCAL
    job: str | None = None
    leases: tuple[str, ...] = ()


class Suspend(Request, frozen=True, kw_only=True, tag="suspend"):
    """Give back what a job holds of resources with flag `release`, until it resumes."""

    owner: str = LOCAL
    job: str


class Resume(Request, frozen=True, kw_only=True, tag="resume"):
    """Take the suspended amounts of a job again, or answer `wait`."""

    owner: str = LOCAL
    job: str


class Reconcile(Request, frozen=True, kw_only=True, tag="reconcile"):
    """Release the owner's leases of jobs that are not in the list, begun `age` seconds ago."""

    owner: str = LOCAL
    jobs: tuple[str, ...]
    age: float
    allow_empty: bool = False


class AskLeases(Request, frozen=True, kw_only=True, tag="leases"):
    """Every lease, or those of one owner, job or host."""

    owner: str | None = None
    job: str | None = None
    host: str | None = None


class AskHistory(Request, frozen=True, kw_only=True, tag="history"):
    """What has happened within `since` seconds (None: all that is kept)."""

    pool: str | None = None
    job: str | None = None
    host: str | None = None
    owner: str | None = None
    since: float | None = None
    limit: int = 10_000


class SetOverride(Request, frozen=True, kw_only=True, tag="set"):
    """Let a value count whatever is declared or measured; None: unavailable.

    A text is read as the resource's type, a number with a unit that converts.
    """

    resource: str
    value: Value | None
    hosts: tuple[str, ...] = ()
    pool: str | None = None
    reason: str
    who: str = LOCAL
    lasts: float | None = None
    """Seconds after which it ends by itself."""


class UnsetOverride(Request, frozen=True, kw_only=True, tag="unset"):
    """Let the declared or measured value count again."""

    resource: str
    hosts: tuple[str, ...] = ()
    pool: str | None = None
    who: str = LOCAL


class CloseHosts(Request, frozen=True, kw_only=True, tag="close"):
    """Give these hosts no work from now on."""

    hosts: tuple[str, ...]
    reason: str
    who: str = LOCAL


class OpenHosts(Request, frozen=True, kw_only=True, tag="open"):
    """Give these hosts work again."""

    hosts: tuple[str, ...]
    reason: str | None = None
    who: str = LOCAL


class ForgetHosts(Request, frozen=True, kw_only=True, tag="forget"):
    """Know unlisted hosts that are not up and hold nothing no more."""

    hosts: tuple[str, ...]
    reason: str | None = None
    who: str = LOCAL


LeaseRequest = Acquire | Release | Renew | Suspend | Resume | Reconcile
OperatorRequest = SetOverride | UnsetOverride | CloseHosts | OpenHosts | ForgetHosts


class Acquired(Answer, frozen=True, kw_only=True, tag="acquired"):
    """Answer to Acquire and Resume."""

    view: AcquireView


class Waiting(Answer, frozen=True, kw_only=True, tag="waiting"):
    """No answer yet: a request still waits, `since` seconds. Comes again and again."""

    view: AcquireView
    since: float


class Released(Answer, frozen=True, kw_only=True, tag="released"):
    """Answer to Release, Reconcile and Suspend."""

    view: ReleaseView


class Renewed(Answer, frozen=True, kw_only=True, tag="renewed"):
    """Answer to Renew."""

    view: RenewView


class Leases(Answer, frozen=True, kw_only=True, tag="leases"):
    """Answer to AskLeases."""

    view: LeasesView


class History(Answer, frozen=True, kw_only=True, tag="history"):
    """Answer to AskHistory."""

    view: HistoryView


class Changed(Answer, frozen=True, kw_only=True, tag="changed"):
    """Answer to an operator's request."""

    view: ChangedView
