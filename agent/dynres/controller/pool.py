"""One instance as a pool: what is held of it, what is free of it, and who waits for it.

Sums run along with every change, so that a decision never looks at all leases.
"""

from collections import deque
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dynres.config.model import Resource
from dynres.controller.amounts import NOTHING, Amounts, amounts, measured_amount
from dynres.controller.distribution import Instance
from dynres.controller.lease import Lease
from dynres.value import Value
from dynres.wire.views import ValueState

if TYPE_CHECKING:
    from dynres.controller.proposal import Proposal
    from dynres.controller.waiting import Waiter

PoolKey = tuple[str, str]
"""Resource, and id of the instance."""

GONE: Final = Amounts(NOTHING, NOTHING, NOTHING, NOTHING, False)


class Reading(NamedTuple):
    """What is known of an instance now, other than what the files declare."""

    state: ValueState
    value: Value | None
    """The measured value, or the one an operator has set; None unless fresh."""
    measured: float
    """Instant of the measurement, or of the override, on the serving clock."""
    overridden: bool = False


class Held(msgspec.Struct, eq=False):
    """A lease in memory, and what of it is on its way into the ledger."""

    lease: Lease
    pool: "Pool"
    by: "Proposal | None"
    """The proposal that changes it and is not settled yet."""
    taken: float
    """When the amount was taken, as far as a measurement could show it: never too early."""
    began: float
    """When it was granted, by the best estimate."""
    counted: bool = False
    """Whether its amount is taken from the pool."""
    times: int = 0
    """How often it was taken: once, and once more with each resume."""
    shown: bool = False
    """Whether its grant is durable."""
    expires: float | None = None


class Pool:
    """An instance and the sums of what is held of it."""

    __slots__ = (
        "_horizon", "_late", "_static_room", "_unseen", "blocker", "declared", "held", "instance",
        "key", "leased", "measures_free", "resource", "unit",
        "waiters",
    )  # fmt: skip

    def __init__(self, key: PoolKey, resource: Resource | None, instance: Instance | None) -> None:
        self.key = key
        self.leased = NOTHING
        self.held: dict[str, Held] = {}
        """By lease id; suspended ones too."""
        self.waiters: dict[int, Waiter] = {}
        """All who need of it, in order of arrival."""
        self.blocker: Waiter | None = None
        """Who has waited so long for it that nobody who came later takes of it."""
        self.install(resource, instance)

    def install(self, resource: Resource | None, instance: Instance | None) -> None:
        """Go by this declaration; None: there is no such instance any more."""
        self.resource = resource
        self.instance = instance
        self._static_room: Decimal | None = None
        self.declared: Decimal | None = None
        """The most that files allow to be held at once; None where they do not say."""
        self.measures_free = False
        self.unit = None if resource is None else resource.unit
        """Of every amount that is taken of it."""
        self.recount()
        if resource is None or instance is None:
            return
        if instance.capacity is not None:
            whole = amounts(resource, instance._replace(dynamic=False), None)
            self.declared = instance.capacity - whole.reserve
        if instance.dynamic:
            self.measures_free = resource.measures == "free"
        else:
            self._static_room = self.declared or NOTHING

    def recount(self) -> None:
        """Leases have come from elsewhere: what a measurement cannot show is added up anew."""
        self._late: deque[tuple[float, int, Held]] | None = None
        self._horizon = float("-inf")
        self._unseen = NOTHING

    # what is held

    def count(self, held: Held) -> None:
        """Take the amount of a lease."""
        held.counted = True
        held.times += 1
        amount = held.lease.amount
        self.leased += amount
        if self._late is not None:
            self._late.append((held.taken, held.times, held))
            self._unseen += amount

    def discount(self, held: Held) -> None:
        """Give the amount of a lease back."""
        held.counted = False
        amount = held.lease.amount
        self.leased -= amount
        if self._late is not None and held.taken > self._horizon:
            self._unseen -= amount

    @property
    def idle(self) -> bool:
        """Whether nobody holds of it or waits for it."""
        return not self.held and not self.waiters

    # what is free

    def quick_free(self) -> Decimal | None:
        """What is free of a static pool that no operator has overridden; None for any other.

        Negative where more is held than there is.
        """
        room = self._static_room
        return None if room is None else room - self.leased

    def whole(self, reading: Reading | None) -> Decimal | None:
        """What would be free if nothing were held; None where that is not known now."""
        return self._numbers(reading, NOTHING, NOTHING).free

    def amounts(self, reading: Reading | None) -> Amounts:
        """All numbers of the pool; `reading` None: as declared."""
        unseen = NOTHING
        if self.measures_free and reading is not None and reading.state == "fresh":
            settle = self.resource.settle if self.resource is not None else None
            unseen = self._not_in(reading.measured - (settle or 0.0))
        return self._numbers(reading, self.leased, unseen)

    def _numbers(self, reading: Reading | None, leased: Decimal, unseen: Decimal) -> Amounts:
        resource, instance = self.resource, self.instance
        if resource is None or instance is None:
            return GONE._replace(leased=leased, overcommitted=leased > 0)
        if reading is None:
            return amounts(resource, instance, None, leased)
        fresh = reading.value if reading.state == "fresh" else None
        if instance.dynamic:
            return amounts(resource, instance, fresh, leased, unseen)
        amount = measured_amount(fresh) if isinstance(fresh, float) else None
        if amount is None:  # an operator has made it unavailable
            return amounts(resource, instance, None, leased)._replace(free=None)
        return amounts(resource, instance._replace(capacity=amount), None, leased)

    def _not_in(self, horizon: float) -> Decimal:
        """The sum of what was taken after `horizon`: less than settle before a measurement.

        Horizons move forward with the measurements, so each lease is passed once; only where
        one goes back (an override ends) all that is held is looked at again.
        """
        late = self._late
        if late is None or horizon < self._horizon:
            counted = (h for h in self.held.values() if h.counted)
            late = self._late = deque(sorted(((h.taken, h.times, h) for h in counted), key=_when))
            self._unseen = sum((h.lease.amount for _, _, h in late), NOTHING)
        self._horizon = horizon
        while late and late[0][0] <= horizon:
            _, times, held = late.popleft()
            if held.counted and held.times == times:  # else it was given back since
                self._unseen -= held.lease.amount
        return self._unseen


def _when(item: tuple[float, int, Held]) -> float:
    return item[0]
