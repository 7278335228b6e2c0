"""Random histories with crashes at every step: what must hold after each of them."""

import os
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pooled import World, ask, consumable, leased, shared

from dynres.controller.lease import PoolsError
from dynres.controller.proposal import Proposal

EXAMPLES = int(os.environ.get("DYNRES_HISTORIES", "60"))
"""How many histories; `make heavy` tries many."""
HOSTS = ("h1", "h2", "h3", "h4")
JOBS = st.sampled_from("12345")
OWNERS = st.sampled_from(["local", "other"])
AMOUNTS = st.sampled_from(["0", "0.04", "0.5", "1", "2", "3", "7"])
SEATS = st.lists(
    st.tuples(st.sampled_from(HOSTS), st.integers(1, 3)),
    min_size=1,
    max_size=3,
    unique_by=lambda seat: seat[0],
)
NEEDS = st.dictionaries(
    st.sampled_from(["iris", "split", "gpu", "total", "free", "external"]),
    st.tuples(AMOUNTS, st.sampled_from(["", "/host", "/slot"])).map("".join),
    min_size=1,
    max_size=3,
)


def declared(iris: float, split: int) -> list[Any]:
    halves = ((5, HOSTS[:split]), (5, HOSTS[split:]))
    return [
        shared("iris", (iris, ("all",)), flags=["release"]),
        shared("split", *halves),
        consumable("gpu", (2, ("default",)), flags=["release"]),
        shared("total", (None, ("all",)), interval=5.0, measures="total"),
        shared("free", (8, ("all",)), interval=5.0, measures="free", settle=10.0),
        shared("external", (6, ("all",)), interval=5.0, measures="external"),
    ]


class Histories(RuleBasedStateMachine):
    """Proposals stay on their way until a rule settles one, or a crash drops them.

    `acknowledged` is what clients have been told they hold; `site` is what jobs use in truth.
    """

    @initialize()
    def begin(self) -> None:
        self.world = World(*declared(6, 2), hosts=HOSTS)
        self.underway: list[Proposal] = []
        self.acknowledged: dict[str, Decimal] = {}
        self.fitted: dict[tuple[str, str], bool] = {}
        self.iris, self.split = 6.0, 2
        for name, value in (("total", 5), ("free", 5), ("external", 1)):
            self.world.measure(name, value)
        self.serial = 0

    # decisions

    def decided(self, proposal: Proposal) -> None:
        if proposal.behind is None:
            self.underway.append(proposal)

    def settle(self, proposal: Proposal, outcome: str) -> None:
        """`lost`: durable, but the controller dies before it can tell anyone."""
        world = self.world
        self.underway.remove(proposal)
        if outcome == "failed":
            if proposal.changes:
                world.pools.rollback(proposal)
                return
            outcome = "durable"
        world.keep(proposal.changes)
        for held in proposal.ended:
            self.acknowledged.pop(held.lease.id, None)
        if outcome == "lost":
            self.crash(1.0)
            return
        more = world.pools.confirm(proposal, world.at)
        if proposal.answer and proposal.answer.answer == "granted":
            for lease in proposal.answer.leases:
                if lease.id in world.state.leases:
                    self.acknowledged[lease.id] = lease.amount
        for one in more:
            self.decided(one)

    @rule(
        job=JOBS,
        owner=OWNERS,
        seats=SEATS,
        needs=NEEDS,
        wait=st.booleans(),
        request=st.sampled_from([None, None, "a", "b"]),
        ttl=st.sampled_from([None, 20.0]),
    )
    def acquire(
        self, job: str, owner: str, seats: Any, needs: Any, wait: bool, request: Any, ttl: Any
    ):
        request_ = ask(job, *seats, owner=owner, request=request, ttl=ttl, **needs)
        free = self.all_free()
        try:
            proposal = self.world.pools.acquire(request_, self.world.at, wait=wait)
        except PoolsError:
            return
        if proposal.taken:
            self.check_fit(proposal, free)
        self.decided(proposal)

    @rule(
        job=JOBS,
        host=st.sampled_from(HOSTS),
        name=st.sampled_from(["iris", "iris", "gpu", "total", "free", "external"]),
        amount=st.sampled_from(["0.5", "1", "2", "2", "3"]),
        wait=st.booleans(),
    )
    def take(self, job: str, host: str, name: str, amount: str, wait: bool) -> None:
        self.acquire(job, "local", [(host, 1)], {name: amount}, wait, None, None)

    @rule(first=st.sampled_from(HOSTS), amount=st.sampled_from(["1", "2"]), times=st.integers(2, 6))
    def take_again_and_again(self, first: str, amount: str, times: int) -> None:
        for n in range(times):
            self.take(str(n), first, "iris", amount, n % 2 == 1)

    def check_fit(self, proposal: Proposal, free: dict[Any, Decimal | None]) -> None:
        wanted: dict[Any, Decimal] = {}
        for held in proposal.taken:
            key = held.pool.key
            wanted[key] = wanted.get(key, Decimal(0)) + held.lease.amount
        for key, amount in wanted.items():
            there = free[key]
            assert there is not None
            assert amount <= there

    def all_free(self) -> dict[Any, Decimal | None]:
        found: dict[Any, Decimal | None] = {}
        for name in self.world.resources:
            for host in HOSTS:
                instance = self.world.layout.instance_for(name, host)
                if instance is not None:
                    numbers = self.world.pools.amounts(instance, self.world.now)
                    found[name, instance.id] = numbers.free
        return found

    @rule(job=JOBS, seats=SEATS, needs=NEEDS)
    def running(self, job: str, seats: Any, needs: Any) -> None:
        try:
            request = ask(job, *seats, running=True, **needs)
            self.decided(self.world.pools.acquire(request, self.world.at))
        except PoolsError:
            return

    def some_job(self, pick: int) -> tuple[str, str]:
        """Owner and job of something that is held, if anything is."""
        held = list(self.world.pools.holdings.leases.values())
        lease = held[pick % len(held)].lease if held else None
        return (lease.owner, lease.job) if lease else ("local", "1")

    @rule(pick=st.integers(0, 99))
    def release(self, pick: int) -> None:
        self.decided(self.world.pools.release_job(*self.some_job(pick)))

    @rule(host=st.sampled_from(HOSTS))
    def release_host(self, host: str) -> None:
        self.decided(self.world.pools.release_host(host, None, cause="operator"))

    @rule(pick=st.integers(0, 99), verb=st.sampled_from(["suspend", "resume", "resume", "renew"]))
    def change(self, pick: int, verb: str) -> None:
        owner, job = self.some_job(pick)
        pools, at = self.world.pools, self.world.at
        try:
            if verb == "suspend":
                self.decided(pools.suspend(owner, job))
            else:
                self.decided(getattr(pools, verb)(owner, job, at))
        except PoolsError:
            assert verb == "renew"
        if pick % 2:
            self.settle_everything()

    @rule(jobs=st.sets(JOBS), age=st.sampled_from([0.0, 5.0, 30.0]))
    def reconcile(self, jobs: set[str], age: float) -> None:
        at = self.world.at
        self.decided(self.world.pools.reconcile("local", jobs, age, allow_empty=True, at=at))

    @precondition(lambda self: self.underway)
    @rule(outcome=st.sampled_from(["durable", "durable", "failed", "lost"]))
    def settled(self, outcome: str) -> None:
        # One writer: what was submitted first is durable first.
        self.settle(self.underway[0], outcome)

    @rule()
    def settle_everything(self) -> None:
        while self.underway:
            self.settle(self.underway[0], "durable")

    # what happens besides

    @rule(seconds=st.sampled_from([0.5, 5.0, 25.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        for proposal in self.world.pools.tick(self.world.at):
            self.decided(proposal)

    @rule(name=st.sampled_from(["total", "free", "external"]),
          value=st.sampled_from([None, 0, 1.5, 4, 9]))  # fmt: skip
    def measured(self, name: str, value: float | None) -> None:
        world = self.world
        instance = world.layout.instance_for(name, "h1")
        assert instance is not None
        world.measure_only(name, value)
        for proposal in world.pools.gained(world.at, (name, name)):
            self.decided(proposal)

    @rule(iris=st.sampled_from([0.0, 2.0, 6.0]), split=st.integers(1, 3))
    def reload(self, iris: float, split: int) -> None:
        world = self.world
        self.iris, self.split = iris, split
        world.declare(*declared(iris, split), hosts=HOSTS)
        _, changes, waiters = world.pools.configure(world.resources, world.layout, world.at)
        # In order: after all that was submitted before.
        self.settle_everything()
        world.keep(changes)
        for proposal in waiters:
            if not proposal.settled:
                self.decided(proposal) if proposal not in self.underway else None

    @rule(host=st.sampled_from(HOSTS), closed=st.booleans())
    def close(self, host: str, closed: bool) -> None:
        (self.world.shut.add if closed else self.world.shut.discard)(host)

    @rule(pick=st.integers(0, 9))
    def a_waiter_goes_away(self, pick: int) -> None:
        waiters = list(self.world.pools.queue)
        if waiters:
            for proposal in self.world.pools.leave(waiters[pick % len(waiters)], self.world.at):
                self.decided(proposal)

    @rule(later=st.sampled_from([0.0, 3.0, 1000.0]))
    def crash(self, later: float) -> None:
        self.underway.clear()
        self.world.crash(later)

    # what must hold

    @invariant()
    def what_was_answered_is_still_there(self) -> None:
        if not hasattr(self, "world"):
            return
        held = self.world.pools.holdings.leases
        for lease, amount in self.acknowledged.items():
            assert held[lease].lease.amount == amount

    @invariant()
    def sums_are_what_the_leases_add_up_to(self) -> None:
        if not hasattr(self, "world"):
            return
        pools = self.world.pools
        sums: dict[Any, Decimal] = {}
        for held in pools.holdings.leases.values():
            assert held.pool is pools.grounds.pools[held.pool.key]
            assert held.pool.held[held.lease.id] is held
            assert held.lease.instance == held.pool.key[1]
            if held.by is None:
                assert held.shown
                assert held.counted is not held.lease.suspended
            if held.counted:
                key = held.pool.key
                sums[key] = sums.get(key, Decimal(0)) + held.lease.amount
        assert sums == leased(pools)
        assert all(amount > 0 for amount in sums.values())

    @invariant()
    def static_pools_are_what_is_free_plus_what_is_leased(self) -> None:
        if not hasattr(self, "world"):
            return
        for name in ("iris", "split", "gpu"):
            for host in HOSTS:
                instance = self.world.layout.instance_for(name, host)
                assert instance is not None
                numbers = self.world.pools.amounts(instance, self.world.now)
                assert numbers.free is not None
                assert numbers.capacity is not None
                if numbers.overcommitted:
                    assert numbers.free == 0
                else:
                    assert numbers.free + numbers.leased == numbers.capacity

    @invariant()
    def what_a_measurement_cannot_show_is_what_was_taken_after_it(self) -> None:
        if not hasattr(self, "world"):
            return
        pool = self.world.pools.grounds.pools.get(("free", "free"))
        reading = self.world.readings.get(("free", "free"))
        if pool is None or pool.instance is None or reading is None or reading.value is None:
            return
        horizon = reading.measured - 10.0
        unseen = [h.lease.amount for h in pool.held.values() if h.counted and h.taken > horizon]
        numbers = pool.amounts(reading)
        expected = min(Decimal(str(reading.value)) - sum(unseen, Decimal(0)), 8 - numbers.leased)
        assert numbers.free == max(Decimal(0), expected)

    @invariant()
    def the_ledger_alone_gives_the_same_leases(self) -> None:
        if not hasattr(self, "world") or self.underway:
            return
        shown = {held.lease.id: held.lease for held in self.world.pools.leases()}
        assert shown == self.world.state.leases

    def teardown(self) -> None:
        """After the last release everything is as it was before the first grant."""
        if not hasattr(self, "world"):
            return
        self.settle_everything()
        for waiter in list(self.world.pools.queue):
            for proposal in self.world.pools.leave(waiter, self.world.at):
                self.decided(proposal)
        self.settle_everything()
        for host in HOSTS:
            self.release_host(host)
            self.settle_everything()
        assert leased(self.world.pools) == {}
        assert self.world.state.leases == {}
        self.world.crash()
        assert list(self.world.pools.leases()) == []


class TestHistories(Histories.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
