"""Who waits for what, in order of arrival; after a long wait nobody takes what the oldest lacks.

A waiter holds nothing. Those that do not fit are passed over until the oldest has waited
`fair_after`: from then on it blocks each pool that it has been found short of, until it is granted
or gone. So the oldest waiter is blocked by nobody, and every pool that it needs fills up for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dynres.config.model import Resource
from dynres.controller.changes import RequestKey
from dynres.controller.lease import Ask, Need
from dynres.controller.pool import Pool

if TYPE_CHECKING:
    from dynres.controller.charges import Plan
    from dynres.controller.proposal import Proposal

FAIR_AFTER: Final = 300.0
"""Seconds after which the oldest waiter is passed over no more."""
NEVER: Final = float("inf")


class Waiter:
    """A request that waits; `rank` is its place in the order of arrival."""

    __slots__ = ("aged", "ask", "by", "generation", "lacks", "plan", "rank", "since")

    def __init__(self, rank: int, ask: Ask, plan: "Plan", generation: int, since: float) -> None:
        self.rank = rank
        self.ask = ask
        self.plan = plan
        self.generation = generation
        """Of the configuration that the plan was made by."""
        self.since = since
        self.by: Proposal | None = None
        """Its grant, on its way."""
        self.aged = False
        self.lacks: dict[Pool, None] = {}
        """The pools that it blocks."""

    def amount(self, pool: Pool) -> Decimal | None:
        """How much it wants of a pool; None: nothing."""
        return self.plan.totals.get(pool)


class Queue:
    """All waiters."""

    def __init__(self, fair_after: float = FAIR_AFTER) -> None:
        self.fair_after = fair_after
        self._arrivals = 0
        self._waiters: dict[int, Waiter] = {}
        self._keys: dict[RequestKey, Waiter] = {}
        self.next_aging = NEVER
        """When the next waiter has waited `fair_after`."""

    def be_fair_after(self, seconds: float) -> None:
        """Go by another `fair_after`, for those who wait already too, from the next look on."""
        if seconds != self.fair_after:
            self.fair_after = seconds
            self.next_aging = -NEVER

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(list(self._waiters.values()))

    def __contains__(self, waiter: Waiter) -> bool:
        return self._waiters.get(waiter.rank) is waiter

    def same(self, key: RequestKey) -> Waiter | None:
        """Who waits with the same request id."""
        return self._keys.get(key)

    def keep_units(self, before: Mapping[str, Resource], now: Mapping[str, Resource]) -> None:
        """Bare amounts were asked for in the units declared then, and mean the same from now on."""

        def kept(need: Need) -> Need:
            then, later = before.get(need.resource), now.get(need.resource)
            if need.unit or then is None or later is None or then.unit == later.unit:
                return need
            return replace(need, unit=then.unit or "(none)")

        for waiter in self:
            needs = tuple(map(kept, waiter.ask.needs))
            if needs != waiter.ask.needs:
                waiter.ask = replace(waiter.ask, needs=needs)

    def join(self, ask: Ask, plan: "Plan", generation: int, now: float) -> Waiter:
        """A new waiter, the last in every queue."""
        self._arrivals += 1
        waiter = Waiter(self._arrivals, ask, plan, generation, now)
        self._waiters[waiter.rank] = waiter
        key = ask.key
        if key is not None:
            self._keys[key] = waiter
        for pool in plan.totals:
            pool.waiters[waiter.rank] = waiter
        self.next_aging = min(self.next_aging, now + self.fair_after)
        return waiter

    def leave(self, waiter: Waiter) -> tuple[Pool, ...]:
        """Out of every queue; the pools that it blocks no more."""
        if self._waiters.pop(waiter.rank, None) is None:
            return ()
        key = waiter.ask.key
        if key is not None:
            self._keys.pop(key, None)
        return self._withdraw(waiter)

    def _withdraw(self, waiter: Waiter) -> tuple[Pool, ...]:
        for pool in waiter.plan.totals:
            pool.waiters.pop(waiter.rank, None)
        lacked = tuple(waiter.lacks)
        waiter.lacks.clear()
        for pool in lacked:
            if pool.blocker is waiter:
                blocking = (w for w in pool.waiters.values() if pool in w.lacks)
                pool.blocker = next(blocking, None)
        return lacked

    def replan(self, waiter: Waiter, plan: "Plan", generation: int) -> None:
        """The pools have changed by a reload; the waiter keeps its place."""
        self._withdraw(waiter)
        waiter.plan, waiter.generation = plan, generation
        for pool in plan.totals:
            pool.waiters[waiter.rank] = waiter
            if len(pool.waiters) > 1:
                ordered = sorted(pool.waiters.items())
                pool.waiters.clear()
                pool.waiters.update(ordered)

    def age(self, now: float) -> list[Waiter]:
        """Everyone who has waited `fair_after`, the oldest first."""
        aged: list[Waiter] = []
        self.next_aging = NEVER
        for waiter in self._waiters.values():
            due = waiter.since + self.fair_after
            if due > now:
                self.next_aging = due
                break
            waiter.aged = True
            aged.append(waiter)
        return aged

    @staticmethod
    def block(waiter: Waiter, pools: Iterable[Pool]) -> None:
        """An aged waiter was found short of these pools."""
        for pool in pools:
            waiter.lacks[pool] = None
            if pool.blocker is None or waiter.rank < pool.blocker.rank:
                pool.blocker = waiter
