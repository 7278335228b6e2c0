"""Which pools there are: instances as declared, and those that only leases keep alive."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from dynres.config.model import Resource
from dynres.controller.amounts import NOTHING
from dynres.controller.changes import AnyChange, Update
from dynres.controller.charges import Charge, Plan, Planner
from dynres.controller.distribution import Instance
from dynres.controller.lease import Lease
from dynres.controller.pool import Held, Pool, PoolKey
from dynres.value import check_amount, convert

NO_UNIT: Final = "no unit"


class Layout(Protocol):
    """What is asked of the distribution; hosts that join it later are found in it."""

    def canonical(self, host: str) -> str | None:
        """The known host that a name means."""
        ...

    def instance_for(self, resource: str, host: str) -> Instance | None:
        """The instance that a known host draws on."""
        ...

    def pools(self, resource: str | None = None) -> Iterator[Instance]:
        """The shared instances of a resource."""
        ...


class Grounds:
    """Pools by (resource, instance); made when they are first needed."""

    def __init__(self, resources: dict[str, Resource], layout: Layout) -> None:
        self.pools: dict[PoolKey, Pool] = {}
        self.generation = 0
        """One more with each `configure`: plans of another one are void."""
        self._install(resources, layout)

    def _install(self, resources: dict[str, Resource], layout: Layout) -> None:
        self.resources = resources
        self._layout = layout
        self._where: dict[tuple[str, str], Pool] = {}
        self._ids: dict[str, dict[str, Instance]] = {}
        self.planner = Planner(resources, layout.canonical, self.pool_of)
        self.generation += 1

    def joined(self) -> None:
        """A host has joined the layout: a name may mean another host now."""
        self.planner = Planner(self.resources, self._layout.canonical, self.pool_of)

    def pool_of(self, resource: str, host: str) -> Pool | None:
        """The pool that a known host draws on."""
        pool = self._where.get((resource, host))
        if pool is None:
            instance = self._layout.instance_for(resource, host)
            if instance is not None:
                pool = self._where[resource, host] = self._pool(instance)
        return pool

    def _pool(self, instance: Instance) -> Pool:
        key = (instance.resource, instance.id)
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(key, self.resources[instance.resource], instance)
        return pool

    def passing(self, instance: Instance) -> Pool:
        """A pool of which nothing is held, only to look at."""
        key = (instance.resource, instance.id)
        return Pool(key, self.resources[instance.resource], instance)

    def pool_at(self, key: PoolKey) -> Pool:
        """The pool of that key; what is declared of it is settled by `configure`."""
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(key, self.resources.get(key[0]), None)
        return pool

    def releases(self, resource: str) -> bool:
        """Whether suspended jobs give amounts of the resource back."""
        declared = self.resources.get(resource)
        return declared is not None and "release" in declared.flags

    def tidy(self, pool: Pool) -> None:
        """A pool that no file declares goes with its last lease."""
        if pool.instance is None and pool.idle:
            self.pools.pop(pool.key, None)

    def plan_of(self, leases: Sequence[Held]) -> Plan:
        """What it takes to hold these amounts (again)."""
        totals: dict[Pool, Decimal] = {}
        for held in leases:
            totals[held.pool] = totals.get(held.pool, NOTHING) + held.lease.amount
        charges = tuple(Charge(h.pool, h.lease.host, h.lease.slots, h.lease.amount) for h in leases)
        hosts = tuple(dict.fromkeys(held.lease.host for held in leases))
        return Plan(charges, totals, hosts, (), "")

    # reload

    def configure(
        self, resources: dict[str, Resource], layout: Layout
    ) -> tuple[list[str], list[AnyChange]]:
        """Go by other declarations; what to say, and changes that record leases moved."""
        self._install(resources, layout)
        said: list[str] = []
        changes: list[AnyChange] = []
        pools = list(self.pools.values())
        for pool in pools:
            instance = self._find(pool)
            pool.install(self.resources.get(pool.key[0]), instance)
            if instance is None and not pool.held:
                pool.waiters.clear()
                pool.blocker = None
                del self.pools[pool.key]
            elif instance is not None:
                self._restate(pool, said, changes)
        for pool in pools:
            if pool.instance is None and pool.held:
                self._move_all(pool, said, changes)
                self.tidy(pool)
        return said, changes

    def _restate(self, pool: Pool, said: list[str], changes: list[AnyChange]) -> None:
        """Another unit is declared: what is held is the same amount in it, or kept apart."""
        name, id_ = pool.key
        apart: dict[str, int] = {}
        for held in list(pool.held.values()):
            lease = held.lease
            if lease.unit == pool.unit:
                continue
            amount = in_unit(lease.amount, lease.unit, pool.unit)
            if amount is None:
                other = self.pool_at((name, f"{id_} in {lease.unit or NO_UNIT}"))
                changes.append(_update(lease, moved=other.key[1]))
                _move(held, other)
                apart[other.key[1]] = apart.get(other.key[1], 0) + 1
            else:
                changes.append(_update(lease, restated=amount, unit=pool.unit))
                said.append(
                    f"{name}: lease {lease.id} of job {lease.job} holds {lease.amount:f} "
                    f"{lease.unit} of {id_}, which is {amount:f} {pool.unit} now"
                )
                _restate(held, amount, pool.unit)
        for where, count in apart.items():
            now = pool.unit or NO_UNIT
            said.append(
                f"{name}: the unit is {now} now; {_leases(count)} kept as {where}, with capacity "
                "0, until they end"
            )

    def _leasable(self, resource: str) -> Resource | None:
        declared = self.resources.get(resource)
        return declared if declared is not None and declared.leasable else None

    def _find(self, pool: Pool) -> Instance | None:
        """The instance of a pool as it is declared now."""
        name, id_ = pool.key
        resource = self._leasable(name)
        if resource is None:
            return None
        if resource.shared:
            ids = self._ids.get(name)
            if ids is None:
                ids = self._ids[name] = {i.id: i for i in self._layout.pools(name)}
            return ids.get(id_)
        hosts = [held.lease.host for held in pool.held.values()]
        for host in dict.fromkeys([*_own(pool), *hosts, id_]):
            instance = self._layout.instance_for(name, host)
            if instance is not None and instance.id == id_:
                return instance
        return None

    def _move_all(self, pool: Pool, said: list[str], changes: list[AnyChange]) -> None:
        """The instance is gone: its leases go where their hosts are now, as far as there is one."""
        name, id_ = pool.key
        moved: dict[str, int] = {}
        for held in list(pool.held.values()):
            lease = held.lease
            target = self.pool_of(name, lease.host) if self._leasable(name) else None
            if target is None:
                continue
            amount = in_unit(lease.amount, lease.unit, target.unit)
            if amount is None:
                continue
            changes.append(_update(lease, moved=target.key[1]))
            if lease.unit != target.unit:
                changes.append(_update(lease, restated=amount, unit=target.unit))
                _restate(held, amount, target.unit)
            _move(held, target)
            moved[target.key[1]] = moved.get(target.key[1], 0) + 1
        for where, count in moved.items():
            said.append(f"{name}: instance {id_} is gone; {_leases(count)} now at {where}")
        if pool.held:
            said.append(
                f"{name}: instance {id_} is gone; {_leases(len(pool.held))} kept, with capacity 0, "
                "until they end"
            )


def _own(pool: Pool) -> tuple[str, ...]:
    instance = pool.instance
    return (instance.host,) if instance is not None and instance.host is not None else ()


def in_unit(amount: Decimal, unit: str | None, to: str | None) -> Decimal | None:
    """The amount in another unit, rounded up; None where that measures something else."""
    if unit == to:
        return amount
    if unit is None or to is None:
        return None
    try:
        converted = convert(amount, unit, to, rounding="up").normalize()
        check_amount(converted)
    except ValueError:
        return None
    return converted


def _update(lease: Lease, **changed: Any) -> Update:
    known = (lease.id, lease.owner, lease.job, lease.resource, lease.instance)
    return Update(*known, lease.host, lease.amount, **changed)


def _restate(held: Held, amount: Decimal, unit: str | None) -> None:
    """The same amount, in another unit."""
    if held.counted:
        held.pool.leased += amount - held.lease.amount
    held.lease = msgspec.structs.replace(held.lease, amount=amount, unit=unit)
    held.pool.recount()


def _leases(count: int) -> str:
    return "1 lease is" if count == 1 else f"{count} leases are"


def _move(held: Held, target: Pool) -> None:
    """Charge a lease elsewhere."""
    source, lease = held.pool, held.lease
    del source.held[lease.id]
    if held.counted:
        source.leased -= lease.amount
        target.leased += lease.amount
    held.pool = target
    held.lease = msgspec.structs.replace(lease, instance=target.key[1])
    target.held[lease.id] = held
    source.recount()
    target.recount()
