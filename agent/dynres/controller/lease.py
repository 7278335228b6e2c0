"""What jobs ask for and hold, and how they are answered: the records of the pure core.

Amounts are exact decimals in the resource's unit, times seconds. `since` is wall-clock time (for
people and for other machines); everything that ages is counted elsewhere, on the serving clock.
"""

from decimal import Decimal
from typing import Final, Literal

import msgspec

from dynres.wire.lease_views import Verdict
from dynres.wire.leasing import LOCAL, Need, Seat

__all__ = [
    "HOST_REBOOTED",
    "LOCAL",
    "Answer",
    "Ask",
    "Cause",
    "Lease",
    "Need",
    "PoolsError",
    "Seat",
    "Shortage",
    "Verdict",
]

Cause = Literal["job", "ttl", "reconcile", "operator"]
"""Why a lease ended."""

HOST_REBOOTED: Final = "host_rebooted"
"""Note of a lease whose host has started again since."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of what is kept in great numbers: holds no containers of itself."""


class Lease(Record, frozen=True, omit_defaults=True, gc=False):
    """An amount that one job holds of one instance."""

    id: str
    owner: str
    job: str
    resource: str
    instance: str
    """Id of the instance within the resource, where it is charged."""
    amount: Decimal
    host: str
    """The host it was taken for; of a job's only lease on a pool (`per: job`), its first host."""
    since: float
    """Wall-clock time of the grant."""
    slots: int = 1
    request: str | None = None
    ttl: float | None = None
    boot_id: str | None = None
    """Boot id of the host when it was granted; None where no agent had registered."""
    suspended: bool = False
    """Its amount is given back until it is resumed."""
    running: bool = False
    """Taken with `--running`, without asking whether it fits."""
    note: str | None = None
    unit: str | None = None
    """Of the amount; None where the resource had none."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request to acquire: all of it or nothing."""

    owner: str = LOCAL
    job: str
    needs: tuple[Need, ...]
    seats: tuple[Seat, ...]
    request: str | None = None
    """Asked again with the same id, the same leases are returned."""
    ttl: float | None = None
    running: bool = False

    @property
    def key(self) -> tuple[str, str, str] | None:
        """What is remembered of it: owner, job, request id; None without a request id."""
        request = self.request
        return None if request is None else (self.owner, self.job, request)


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """What stands against a request, of one instance (None: the host is in none)."""

    resource: str
    instance: str | None
    asked: Decimal
    free: Decimal | None
    capacity: Decimal | None
    reason: str
    """wait: exhausted, measured, stale, unavailable, overridden, closed, `behind JOB`;
    never: capacity, absent, unknown host."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request to acquire or to resume."""

    answer: Verdict
    owner: str
    job: str
    leases: tuple[Lease, ...] = ()
    shortages: tuple[Shortage, ...] = ()


class PoolsError(Exception):
    """A request that is refused and changes nothing; `code` is for scripts."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        """usage | unknown_resource | unknown_lease | not_owner | request_reused"""
        self.message = message
        super().__init__(message)
