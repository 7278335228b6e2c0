"""What pools look like to clients: amounts, who holds of them, and who waits."""

from collections.abc import Iterator

from dynres.config.model import Resource
from dynres.controller.amounts import NOTHING
from dynres.controller.distribution import Instance
from dynres.controller.pool import Held, Pool, PoolKey
from dynres.controller.readings import Readings, override_source, timestamp
from dynres.wire.views import Holder, PoolsView, PoolView, Waiter


class PoolAnswers(Readings):
    """Views of everything that can be leased."""

    def pools(self, *, holders: bool = False) -> Iterator[PoolView]:
        """Every instance that can be leased, in file order; then those that only leases keep."""
        for instance in self._core.distribution.leasable():
            yield self.pool(self._core.resources[instance.resource], instance, holders=holders)
        for pool in self._core.pools.orphans():
            yield self._orphan(pool, holders=holders)

    def pools_view(self, *, holders: bool) -> PoolsView:
        """All pools."""
        return PoolsView(pools=tuple(self.pools(holders=holders)))

    def pool(self, resource: Resource, instance: Instance, *, holders: bool = False) -> PoolView:
        """One instance that can be leased."""
        known = self.measured(resource, instance)
        numbers = self._core.amounts(instance, known.value)
        standing = self._core.operators.of(instance)
        reported = known.value if instance.dynamic else None
        if standing is not None:
            reported = self.reported(resource, instance)
        key = (resource.name, instance.id)
        return PoolView(
            resource=resource.name,
            unit=resource.unit,
            members=self._core.distribution.members(instance),
            capacity=numbers.capacity,
            reported=reported,
            leased=numbers.leased,
            reserve=numbers.reserve,
            free=numbers.free if known.state == "fresh" else None,
            overcommitted=numbers.overcommitted,
            state=known.state,
            age=known.age,
            reporter=known.reporter if instance.dynamic else None,
            instance=instance.id,
            source=str(instance.place),
            holders=self.holders(key) if holders else None,
            waiting=self.waiting(key),
            override=None if standing is None else override_source(standing, self.now, self.wall),
        )

    def _orphan(self, pool: Pool, *, holders: bool) -> PoolView:
        """An instance that no file declares any more, until its leases end."""
        resource, instance = pool.key
        units = {held.lease.unit for held in pool.held.values()}
        return PoolView(
            resource=resource,
            unit=units.pop() if len(units) == 1 else None,
            members=(),
            capacity=NOTHING,
            reported=None,
            leased=pool.leased,
            reserve=NOTHING,
            free=NOTHING,
            overcommitted=pool.leased > 0,
            state="unavailable",
            age=None,
            reporter=None,
            instance=instance,
            source="not declared any more",
            holders=self.holders(pool.key) if holders else None,
            waiting=self.waiting(pool.key),
        )

    def holders(self, key: PoolKey) -> tuple[Holder, ...]:
        """Who holds of an instance; what is suspended is held by nobody."""
        held = self._core.pools.holders(key)
        return tuple(self._holder(one) for one in held if not one.lease.suspended)

    def _holder(self, held: Held) -> Holder:
        lease = held.lease
        return Holder(
            owner=lease.owner,
            job=lease.job,
            lease=lease.id,
            amount=lease.amount,
            host=lease.host,
            since=timestamp(lease.since),
            expires=self.expires(held),
        )

    def expires(self, held: Held) -> str | None:
        """When a lease ends by itself; None: never."""
        if held.expires is None:
            return None
        return timestamp(self.wall + held.expires - self.now)

    def waiting(self, key: PoolKey) -> tuple[Waiter, ...]:
        """Who waits for an instance, in order of arrival."""
        return tuple(
            Waiter(owner=ask.owner, job=ask.job, amount=amount, for_=since)
            for ask, amount, since in self._core.pools.waiting(key, self.now)
        )
