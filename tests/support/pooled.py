"""Pools over declarations made by hand, with a clock and facts that tests set."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from dynres.config.model import Configuration, Entry, Host, Location, Place, Resource
from dynres.controller.changes import LedgerState
from dynres.controller.distribution import Distribution, Instance, distribute
from dynres.controller.lease import Ask, Lease, Need, Seat
from dynres.controller.pool import Reading
from dynres.controller.pools import Pools
from dynres.controller.proposal import Instant, Proposal

PLACE = Place("resources.yaml", 1, 1)
EPOCH = 1_700_000_000.0


def where(*hosts: str) -> Location:
    """`all`, `others`, `default`, or hosts."""
    if hosts == ("all",):
        return Location(everyone=True)
    if hosts in {("others",), ("default",)}:
        return Location(rest=True)
    return Location(hosts=hosts)


def shared(name: str, *entries: tuple[Any, tuple[str, ...]], **keys: Any) -> Resource:
    """A shared resource: (value, hosts) for each pool."""
    flags = frozenset({"shared", *keys.pop("flags", ())})
    return declare(name, entries, flags=flags, **{"per": "job", **keys})


def consumable(name: str, *entries: tuple[Any, tuple[str, ...]], **keys: Any) -> Resource:
    """A per-host resource that jobs hold."""
    flags = frozenset({"consumable", *keys.pop("flags", ())})
    return declare(name, entries, flags=flags, **keys)


def declare(name: str, entries: Iterable[tuple[Any, tuple[str, ...]]], **keys: Any) -> Resource:
    """A resource; with an interval the entries' values are capacities."""
    own = {k: keys.pop(k) for k in ("reserve", "reserve_percent") if k in keys}
    dynamic = keys.get("interval") is not None
    made = []
    for value, hosts in entries:
        amount = None if value is None else Decimal(str(value))
        kind = {"capacity": amount} if dynamic else {"value": float(value)}
        made.append(Entry(location=where(*hosts), place=PLACE, **kind, **own))
    return Resource(name=name, order="decreasing", place=PLACE, entries=tuple(made), **keys)


class World:
    """Facts, a clock and pools; every proposal is durable at once unless a test says otherwise."""

    def __init__(self, *resources: Resource, hosts: Iterable[str] = ("h1", "h2", "h3")) -> None:
        self.now = 1000.0
        self.readings: dict[tuple[str, str], Reading] = {}
        self.shut: set[str] = set()
        self.boots: dict[str, str] = {}
        self.disputes: dict[str, set[str]] = {}
        self.state = LedgerState()
        self.epoch = 1
        self.granted: list[Proposal] = []
        self.events: list[Any] = []
        self.declare(*resources, hosts=hosts)
        self.pools = self._start()

    def declare(self, *resources: Resource, hosts: Iterable[str]) -> None:
        names = tuple(Host(name=name, place=PLACE) for name in hosts)
        self.configuration = Configuration(
            resources=resources, probes=(), hosts=names, listed=bool(names)
        )
        self.layout: Distribution = distribute(self.configuration)

    @property
    def resources(self) -> dict[str, Resource]:
        return {r.name: r for r in self.configuration.resources}

    @property
    def at(self) -> Instant:
        return Instant(self.now, EPOCH + self.now)

    def _start(self) -> Pools:
        pools = Pools(
            self.resources, self.layout, self, self.at, state=self.state, epoch=self.epoch
        )
        _, changes, _ = pools.configure(self.resources, self.layout, self.at)
        self.keep(changes)
        return pools

    def crash(self, later: float = 0.0) -> None:
        """Only what the ledger has kept is there afterwards."""
        self.epoch += 1
        self.now += later
        self.granted.clear()
        self.pools = self._start()

    def reload(self, *resources: Resource, hosts: Iterable[str] = ("h1", "h2", "h3")) -> list[str]:
        self.declare(*resources, hosts=hosts)
        said, changes, waiters = self.pools.configure(self.resources, self.layout, self.at)
        self.keep(changes)
        self.settle_all(waiters)
        return said

    # facts

    def reading(self, instance: Instance, now: float) -> Reading | None:
        known = self.readings.get((instance.resource, instance.id))
        if known is None and instance.dynamic:
            return Reading("unavailable", None, float("-inf"))
        return known

    def measure(self, resource: str, value: float | None, **keys: Any) -> None:
        instance = keys.pop("instance", resource)
        state = keys.pop("state", "fresh" if value is not None else "unavailable")
        number = None if value is None else float(value)
        when = keys.pop("at", self.now)
        self.readings[resource, instance] = Reading(state, number, when, **keys)
        if not hasattr(self, "pools"):
            return
        self.settle_all(self.pools.gained(self.at, (resource, instance)))

    def measure_only(self, resource: str, value: float | None) -> None:
        """As `measure`, but whoever waits is not served yet."""
        state = "fresh" if value is not None else "unavailable"
        number = None if value is None else float(value)
        self.readings[resource, resource] = Reading(state, number, self.now)  # type: ignore[arg-type]

    def closed(self, host: str) -> bool:
        return host in self.shut

    def boot_id(self, host: str) -> str | None:
        return self.boots.get(host)

    # settling

    def keep(self, changes: Iterable[Any]) -> None:
        for change in changes:
            self.state.apply(change, self.at.wall)

    def settle(self, proposal: Proposal) -> Proposal:
        """Durable, and so is what follows from it."""
        if proposal.behind is None:
            self.keep(proposal.changes)
            self.events += proposal.events
            if proposal.waiter is not None and proposal.waiter.by is proposal:
                self.granted.append(proposal)
            self.settle_all(self.pools.confirm(proposal, self.at))
        return proposal

    def settle_all(self, proposals: Iterable[Proposal]) -> None:
        for proposal in proposals:
            self.settle(proposal)

    def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.settle_all(self.pools.tick(self.at))

    # verbs

    def acquire(self, job: str, *hosts: Any, wait: bool = False, **needs: Any) -> Proposal:
        return self.settle(self.pools.acquire(ask(job, *hosts, **needs), self.at, wait=wait))

    def answer(self, job: str, *hosts: Any, **needs: Any) -> str:
        made = self.acquire(job, *hosts, **needs).answer
        assert made is not None
        return made.answer

    def reasons(self, job: str, *hosts: Any, **needs: Any) -> list[str]:
        made = self.acquire(job, *hosts, **needs).answer
        assert made is not None
        return [shortage.reason for shortage in made.shortages]

    def release(self, job: str, owner: str = "local", **keys: Any) -> tuple[str, ...]:
        return self.settle(self.pools.release_job(owner, job, **keys)).released

    def free(self, resource: str, host: str = "h1") -> Any:
        instance = self.layout.instance_for(resource, host)
        assert instance is not None
        return self.pools.amounts(instance, self.now).free

    def over(self, resource: str, host: str = "h1") -> bool:
        instance = self.layout.instance_for(resource, host)
        assert instance is not None
        return self.pools.amounts(instance, self.now).overcommitted

    def leases(self, job: str | None = None) -> list[Lease]:
        return [h.lease for h in self.pools.leases() if job in {None, h.lease.job}]


def ask(job: str, *hosts: Any, owner: str = "local", **needs: Any) -> Ask:
    """`ask("7", "h1", ("h2", 4), iris=2, scratch="1.5/host", request="r")`."""
    keys = {k: needs.pop(k) for k in ("request", "ttl", "running") if k in needs}
    seats = [Seat(h) if isinstance(h, str) else Seat(*h) for h in hosts or ("h1",)]
    made = []
    for name, amount in needs.items():
        number, _, per = str(amount).partition("/")
        made.append(Need(name, Decimal(number), per or None))  # type: ignore[arg-type]
    return Ask(owner=owner, job=job, needs=tuple(made), seats=tuple(seats), **keys)


def leased(pools: Pools) -> Mapping[tuple[str, str], Decimal]:
    return {key: pool.leased for key, pool in pools.grounds.pools.items() if pool.leased}
