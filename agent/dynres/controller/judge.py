"""Judges whether a plan fits now, and names everything that stands against it."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from dynres.controller.amounts import NOTHING, Amounts
from dynres.controller.charges import Plan, check_sum
from dynres.controller.distribution import Instance
from dynres.controller.lease import Shortage
from dynres.controller.pool import Pool, Reading

LAST: Final = float("inf")
"""Rank of whoever does not wait: after everyone who does."""


class Facts(Protocol):
    """What the core asks of its surroundings; each answer must be quick."""

    def reading(self, instance: Instance, now: float) -> Reading | None:
        """What is known of an instance; None: it is as declared (never for a measured one)."""
        ...

    def closed(self, host: str) -> bool:
        """Whether an operator has closed the host."""
        ...

    def boot_id(self, host: str) -> str | None:
        """The boot id that the host's agent has named, if any."""
        ...

    @property
    def disputes(self) -> Mapping[str, Collection[str]]:
        """Host -> resources that its own files define otherwise; only hosts that have some."""
        ...


class Judgement(NamedTuple):
    """What stands against a plan; nothing: it fits."""

    never: tuple[Shortage, ...]
    wait: tuple[Shortage, ...]
    short_of: tuple[Pool, ...]
    """The pools that would do if nothing were held of them."""


FITS: Final = Judgement((), (), ())


def judge(plan: Plan, facts: Facts, now: float, rank: float = LAST) -> Judgement:
    """Whether a plan fits now, for whoever has that rank in the queue. Raises PoolsError."""
    if not plan.absent and _all_fit(plan, facts, now, rank):
        return FITS
    never, wait, short_of = list(plan.absent), list[Shortage](), list[Pool]()
    closed = {c.pool for c in plan.charges if any(map(facts.closed, (c.host, *c.others)))}
    clashes = _clashes(plan, facts.disputes) if facts.disputes else {}
    for pool, amount in plan.totals.items():
        if pool.instance is None:  # a lease that outlived its instance, to be resumed
            wait.append(Shortage(*pool.key, amount, NOTHING, NOTHING, "unavailable"))
            continue
        reading = facts.reading(pool.instance, now)
        numbers = pool.amounts(reading)
        reason, draining = _reason(pool, amount, reading, numbers)
        if draining:
            short_of.append(pool)
        behind = pool.blocker
        if reason is None and behind is not None and behind.rank < rank:
            reason = f"behind {behind.ask.job}"
        reasons = [reason] if reason is not None else []
        if pool in closed:
            reasons.append("closed")
        if pool in clashes and not (reading is not None and reading.overridden):
            reasons.append(f"unavailable: definition differs on {clashes[pool]}")
        for why in reasons:
            lack = Shortage(*pool.key, amount, numbers.free, numbers.capacity, why)
            (never if why == "capacity" else wait).append(lack)
    return Judgement(tuple(never), tuple(wait), tuple(short_of))


def _clashes(plan: Plan, disputes: Mapping[str, Collection[str]]) -> dict[Pool, str]:
    """The shared pools of which a host's files say something else, and such a host of each."""
    return {
        charge.pool: host
        for charge in plan.charges
        if charge.pool.instance is not None and charge.pool.instance.host is None
        for host in (charge.host, *charge.others)
        if charge.pool.key[0] in disputes.get(host, ())
    }


def _all_fit(plan: Plan, facts: Facts, now: float, rank: float) -> bool:
    """Whether there is nothing to say; a plain loop, because most requests end here."""
    for host in plan.hosts:
        if facts.closed(host):
            return False
    if facts.disputes and _clashes(plan, facts.disputes):
        return False
    for pool, amount in plan.totals.items():  # noqa: SIM110
        if not _fits(pool, amount, facts, now, rank):
            return False
    return True


def _fits(pool: Pool, amount: Decimal, facts: Facts, now: float, rank: float) -> bool:
    blocker = pool.blocker
    if pool.instance is None or (blocker is not None and blocker.rank < rank):
        return False
    reading = facts.reading(pool.instance, now)
    free = pool.quick_free() if reading is None else pool.amounts(reading).free
    if free is None or amount > free:
        return False
    check_sum(pool, pool.leased + amount)
    return True


def _reason(
    pool: Pool, amount: Decimal, reading: Reading | None, numbers: Amounts
) -> tuple[str | None, bool]:
    """Why so much is not free (None: it is), and whether it would be if nothing were held."""
    overridden = reading is not None and reading.overridden
    if not overridden and amount > _declared(pool):
        return "capacity", False
    if numbers.free is None:
        state = reading.state if reading is not None else "unavailable"
        return ("overridden" if overridden else state), False
    if amount <= numbers.free:
        return None, False
    whole = pool.whole(reading)
    draining = whole is not None and amount <= whole
    if overridden:
        return "overridden", draining
    instance = pool.instance
    if instance is not None and instance.dynamic and not draining:
        # What our own jobs use is not in a number of what is free: to give it back may help.
        return "measured", pool.measures_free and pool.leased > 0
    return "exhausted", draining


def _declared(pool: Pool) -> Decimal:
    """The most that files allow to be held at once; infinite where they do not say."""
    most = pool.declared
    return Decimal("Infinity") if most is None else most
