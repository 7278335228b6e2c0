"""What the ledger keeps: changes of leases, overrides and hosts, and the state they add up to.

A ledger stores changes in order, and `LedgerState.apply` says what each one means: replaying
them gives the state, whichever engine stands behind.
"""

from decimal import Decimal
from typing import Final

import msgspec

from dynres.controller.lease import Cause, Lease
from dynres.value import Value

REMEMBERED: Final = 7 * 86400.0
"""Seconds for which request ids and ended leases are remembered."""
HISTORY_KEPT: Final = 30 * 86400.0
"""Seconds for which history is kept."""

RequestKey = tuple[str, str, str]
"""Owner, job, request id."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", gc=False):
    """Base of all changes."""


class Grant(Change, frozen=True, omit_defaults=True, tag="grant"):
    """One request was granted; `asked` is the request in words, or a digest of them."""

    owner: str
    job: str
    leases: tuple[Lease, ...]
    request: str | None = None
    asked: str = ""


class End(Change, frozen=True, omit_defaults=True, tag="end"):
    """A lease ended. All but its id is for history."""

    lease: str
    owner: str
    job: str
    resource: str
    instance: str
    host: str
    amount: Decimal
    cause: Cause
    by: str | None = None
    """Who ended it, where that was not its owner."""


class Update(Change, frozen=True, omit_defaults=True, tag="update"):
    """Something of a lease has changed: each of the last ones where it is not None."""

    lease: str
    owner: str
    job: str
    resource: str
    instance: str
    """Where it was charged until now."""
    host: str
    amount: Decimal
    suspended: bool | None = None
    note: str | None = None
    moved: str | None = None
    """Id of the instance where it is charged from now on."""
    restated: Decimal | None = None
    """The same amount in another unit."""
    unit: str | None = None
    """That unit."""

    def of(self, lease: Lease) -> Lease:
        """The lease as it is after the change."""
        replace = msgspec.structs.replace
        if self.suspended is not None:
            lease = replace(lease, suspended=self.suspended)
        if self.note is not None:
            lease = replace(lease, note=self.note)
        if self.restated is not None:
            lease = replace(lease, amount=self.restated, unit=self.unit)
        return lease if self.moved is None else replace(lease, instance=self.moved)


class Override(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that an operator has set, for some hosts or for one pool; None: unavailable."""

    resource: str
    value: Value | None
    reason: str
    who: str
    since: float
    """Wall-clock time."""
    hosts: tuple[str, ...] = ()
    instance: str | None = None
    lasts: float | None = None
    """Seconds after which it ends by itself."""
    unit: str | None = None
    """Of a number."""


class SetOverride(Change, frozen=True, omit_defaults=True, tag="set"):
    """An operator's override; takes the place of the one under the same key."""

    key: str
    """Whatever tells overrides apart: `RESOURCE@HOST`, `RESOURCE/INSTANCE`."""
    override: Override


class UnsetOverride(Change, frozen=True, omit_defaults=True, tag="unset"):
    """An override ended; `who` None: by itself."""

    key: str
    resource: str
    who: str | None = None
    hosts: tuple[str, ...] = ()
    instance: str | None = None


class Closed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a host is closed."""

    reason: str
    who: str
    since: float


class CloseHost(Change, frozen=True, omit_defaults=True, tag="close"):
    """A host gets no grant from now on."""

    host: str
    closed: Closed


class OpenHost(Change, frozen=True, omit_defaults=True, tag="open"):
    """A host is closed no more."""

    host: str
    who: str
    reason: str | None = None


class Event(Change, frozen=True, omit_defaults=True, tag="event"):
    """Something for the history alone: an answer that was not granted, a change of reporter."""

    what: str
    owner: str | None = None
    job: str | None = None
    resource: str | None = None
    instance: str | None = None
    host: str | None = None
    amount: Decimal | None = None
    detail: str | None = None


AnyChange = Grant | End | Update | SetOverride | UnsetOverride | CloseHost | OpenHost | Event


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """What a request id was used for."""

    at: float
    """Wall-clock time of the grant."""
    asked: str
    leases: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Whose lease it was that ended, and when (wall-clock time)."""

    owner: str
    at: float


class LedgerState(msgspec.Struct):
    """All that outlives a controller, except the history."""

    leases: dict[str, Lease] = {}
    requests: dict[RequestKey, Remembered] = {}
    ended: dict[str, Ended] = {}
    overrides: dict[str, Override] = {}
    closed: dict[str, Closed] = {}

    def apply(self, change: AnyChange, at: float) -> None:
        """Let `change`, made durable at wall-clock time `at`, take effect."""
        if isinstance(change, Grant):
            for lease in change.leases:
                self.leases[lease.id] = lease
            self.remember(change, at)
        elif isinstance(change, End):
            self.leases.pop(change.lease, None)
            self.remember(change, at)
        elif isinstance(change, Update):
            known = self.leases.get(change.lease)
            if known is not None:
                self.leases[change.lease] = change.of(known)
        elif isinstance(change, SetOverride):
            self.overrides[change.key] = change.override
        elif isinstance(change, UnsetOverride):
            self.overrides.pop(change.key, None)
        elif isinstance(change, CloseHost):
            self.closed[change.host] = change.closed
        elif isinstance(change, OpenHost):
            self.closed.pop(change.host, None)

    def remember(self, change: AnyChange, at: float) -> None:
        """Only what is remembered for seven days: request ids, and whose lease ended."""
        if isinstance(change, Grant) and change.request is not None:
            ids = tuple(lease.id for lease in change.leases)
            key = (change.owner, change.job, change.request)
            self.requests[key] = Remembered(at, change.asked, ids)
        elif isinstance(change, End):
            self.ended[change.lease] = Ended(change.owner, at)

    def forget(self, before: float) -> None:
        """Drop what was remembered before that wall-clock time."""
        self.requests = {k: r for k, r in self.requests.items() if r.at >= before}
        self.ended = {k: e for k, e in self.ended.items() if e.at >= before}
