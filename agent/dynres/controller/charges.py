"""Works out what a request charges: which instance, for which host, how much."""

from collections.abc import Callable
from decimal import Decimal
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

from dynres.config.model import Per, Resource
from dynres.config.near import nearest
from dynres.controller.amounts import NOTHING
from dynres.controller.lease import Ask, Need, PoolsError, Shortage
from dynres.controller.pool import Pool
from dynres.value import check_amount, convert

FINER: Final[dict[Per, int]] = {"job": 0, "host": 1, "slot": 2}
LONGEST_ASKED: Final = 160
MOST_KEPT: Final = 2048
PLAIN_SUM: Final = Decimal("1e9")
"""Below it, sums of amounts always have at most 15 digits."""

Key = TypeVar("Key")
Thing = TypeVar("Thing")
PoolOf = Callable[[str, str], Pool | None]
"""The pool of a resource that a known host draws on; None where it is in no instance."""


class Charge(NamedTuple):
    """One lease to be."""

    pool: Pool
    host: str
    slots: int
    amount: Decimal
    others: tuple[str, ...] = ()
    """With `per: job`, the job's other hosts that draw on the pool."""


class Plan(NamedTuple):
    """All that a request would take, and what can never be."""

    charges: tuple[Charge, ...]
    totals: dict[Pool, Decimal]
    """What it wants of each pool, in the order asked."""
    hosts: tuple[str, ...]
    """Canonical names."""
    absent: tuple[Shortage, ...]
    asked: str
    """The request in words, or a digest of long ones: equal for equal requests."""


class Priced(NamedTuple):
    """What one need means: amount in the resource's unit, and the whole in words."""

    resource: Resource
    amount: Decimal
    per: Per
    text: str


class Planner:
    """Makes plans by the declarations in force; jobs ask much alike, so plans are kept."""

    def __init__(
        self,
        resources: dict[str, Resource],
        canonical: Callable[[str], str | None],
        pool_of: PoolOf,
    ) -> None:
        self._resources = resources
        self._canonical = canonical
        self._pool_of = pool_of
        self._priced: dict[Need, Priced] = {}
        self._plans: dict[tuple[object, object], Plan] = {}

    def plan(self, ask: Ask) -> Plan:
        """What `ask` charges. Raises PoolsError for what no request may ask."""
        key = (ask.needs, ask.seats)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make(ask)
            if not plan.absent:  # an absent host may join
                _keep(self._plans, key, plan)
        return plan

    def _make(self, ask: Ask) -> Plan:
        seats, unknown = self._seats(ask)
        charges: list[Charge] = []
        absent: list[Shortage] = []
        words: list[str] = []
        named: set[str] = set()
        for need in ask.needs:
            resource, amount, per, text = self._price(need)
            if resource.name in named:
                name = resource.name
                raise PoolsError("usage", f"{name} is asked for twice; ask once, for the sum")
            named.add(resource.name)
            words.append(text)
            if not amount:
                continue
            for host in unknown:
                lack = Shortage(resource.name, None, amount, None, None, f"unknown host {host}")
                absent.append(lack)
            found, lacking = self._charge(resource, amount, per, seats)
            charges += found
            absent += lacking
        if not ask.needs:
            raise PoolsError("usage", "nothing is asked for: name a resource and an amount")
        return Plan(
            tuple(charges), _totals(charges), tuple(seats), tuple(absent), _asked(words, seats)
        )

    def _seats(self, ask: Ask) -> tuple[dict[str, int], list[str]]:
        """Slots by canonical host; and names that no host has."""
        seats: dict[str, int] = {}
        unknown: list[str] = []
        for seat in ask.seats:
            if seat.slots < 1:
                raise PoolsError("usage", f"{seat.host}: at least 1 slot, got {seat.slots}")
            host = self._canonical(seat.host)
            if host is None:
                unknown.append(seat.host)
            else:
                seats[host] = seats.get(host, 0) + seat.slots
        if not ask.seats:
            raise PoolsError("usage", "no host is named: say which hosts the job runs on")
        return seats, unknown

    def _price(self, need: Need) -> Priced:
        priced = self._priced.get(need)
        if priced is None:
            resource = self._resource(need)
            amount = _amount(need, resource)
            per = _per(need, resource)
            text = f"{resource.name}={amount.normalize():f}/{per}"
            priced = Priced(resource, amount, per, text)
            _keep(self._priced, need, priced)
        return priced

    def _resource(self, need: Need) -> Resource:
        name = need.resource
        resource = self._resources.get(name)
        if resource is None:
            hint = nearest(name, self._resources)
            text = f"no resource {name[:80]!r} is known"
            raise PoolsError("unknown_resource", text + (f" ({hint})" if hint else ""))
        if not resource.leasable:
            raise PoolsError(
                "usage",
                f"{name} cannot be held: expected a numeric, decreasing resource with flag shared, "
                "global or consumable",
            )
        return resource

    def _charge(
        self, resource: Resource, amount: Decimal, per: Per, seats: dict[str, int]
    ) -> tuple[list[Charge], list[Shortage]]:
        charges: list[Charge] = []
        absent: list[Shortage] = []
        for host, slots in seats.items():
            pool = self._pool_of(resource.name, host)
            if pool is None:
                absent.append(
                    Shortage(resource.name, None, amount, None, None, f"absent on {host}")
                )
            elif per == "slot":
                charges.append(Charge(pool, host, slots, amount * slots))
            elif per == "host" or not charges:
                charges.append(Charge(pool, host, slots, amount))
            elif charges[0].pool is not pool:
                raise _two_pools(resource, amount, charges[0], pool, host)
            else:
                only = charges[0]
                others = (*only.others, host)
                charges[0] = only._replace(slots=only.slots + slots, others=others)
        return charges, absent


def _keep(memory: dict[Key, Thing], key: Key, thing: Thing) -> None:
    if len(memory) >= MOST_KEPT:
        memory.clear()
    memory[key] = thing


def _two_pools(
    resource: Resource, amount: Decimal, first: Charge, pool: Pool, host: str
) -> PoolsError:
    return PoolsError(
        "usage",
        f"{resource.name}={amount:f} is charged once per job, but {first.host} draws on "
        f"{first.pool.key[1]} and {host} on {pool.key[1]}: write {resource.name}={amount:f}/host",
    )


def _amount(need: Need, resource: Resource) -> Decimal:
    """The amount in the resource's unit, one that can be held."""
    amount = need.amount
    try:
        if not amount.is_finite():
            raise ValueError("not a finite number")
        if amount.is_signed() and amount:
            raise ValueError("negative")
        if need.unit and need.unit != resource.unit:
            if resource.unit is None:
                raise ValueError(f"unit {need.unit}, but {resource.name} has none")
            amount = convert(amount, need.unit, resource.unit, rounding="up").normalize()
        check_amount(amount)
    except ValueError as error:
        text = f"{need.resource}={need.amount}{need.unit or ''}: no amount of {resource.name}"
        raise PoolsError("usage", f"{text}: {error}") from error
    return amount


def _per(need: Need, resource: Resource) -> Per:
    if need.per is None:
        return resource.per
    if FINER[need.per] < FINER[resource.per]:
        raise PoolsError(
            "usage",
            f"{need.resource}: charged per {resource.per} here, which a request may narrow but not "
            f"widen to /{need.per}",
        )
    return need.per


def _totals(charges: list[Charge]) -> dict[Pool, Decimal]:
    totals: dict[Pool, Decimal] = {}
    for charge in charges:
        totals[charge.pool] = totals.get(charge.pool, NOTHING) + charge.amount
    for pool, total in totals.items():
        check_sum(pool, total)
    return totals


def check_sum(pool: Pool, total: Decimal) -> None:
    """Raise PoolsError when so much cannot be held of a pool."""
    if total < PLAIN_SUM:
        return
    try:
        check_amount(total)
    except ValueError as error:
        raise PoolsError("usage", f"{pool.key[0]}: a sum of {total:f} is {error}") from error


def _asked(words: list[str], seats: dict[str, int]) -> str:
    hosts = ",".join([f"{host}*{slots}" if slots != 1 else host for host, slots in seats.items()])
    text = f"{' '.join(words)} on {hosts}"
    if len(text) <= LONGEST_ASKED:
        return text
    return f"{text[: LONGEST_ASKED - 40]}… {blake2b(text.encode(), digest_size=16).hexdigest()}"
