"""Decides who may hold how much: acquire, release, renew, suspend, resume, reconcile, expiry.

State in, decisions out: every verb gives a `Proposal`. Its owner makes `proposal.changes` durable
and then calls `confirm` or `rollback`; both may give further proposals, for waiters whose turn has
come, to be treated alike. Nothing here knows a clock, a file or a network.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from dynres.config.model import Resource
from dynres.controller.amounts import Amounts
from dynres.controller.changes import (
    AnyChange,
    Event,
    Grant,
    LedgerState,
    Remembered,
    RequestKey,
)
from dynres.controller.charges import Plan, check_sum
from dynres.controller.distribution import Instance
from dynres.controller.grounds import Grounds, Layout
from dynres.controller.judge import LAST, Facts, Judgement, judge
from dynres.controller.lease import (
    HOST_REBOOTED,
    Answer,
    Ask,
    Lease,
    PoolsError,
    Shortage,
    Verdict,
)
from dynres.controller.pool import Held, Pool, PoolKey, Reading
from dynres.controller.proposal import Instant, Proposal
from dynres.controller.releasing import Releasing
from dynres.controller.waiting import FAIR_AFTER, Queue, Waiter


class Pools(Releasing):
    """All pools, leases and waiters of one controller."""

    def __init__(
        self,
        resources: dict[str, Resource],
        layout: Layout,
        facts: Facts,
        at: Instant,
        *,
        state: LedgerState | None = None,
        epoch: int = 0,
        fair_after: float = FAIR_AFTER,
    ) -> None:
        """Begin with what the ledger has kept; `epoch` makes lease ids unlike all earlier ones.

        Call `configure` next: leases of instances that are gone are moved there.
        """
        super().__init__(Grounds(resources, layout))
        self._facts = facts
        self._prefix = f"{epoch}-"
        self._serial = 0
        self._answers: dict[tuple[str, str], object] = {}
        self.queue = Queue(fair_after)
        if state is not None:
            self._load(state, at)

    def _load(self, state: LedgerState, at: Instant) -> None:
        for lease in state.leases.values():
            pool = self.grounds.pool_at((lease.resource, lease.instance))
            began = at.clock - max(0.0, at.wall - lease.since)
            held = Held(lease, pool, None, at.clock, began, shown=True)
            self.holdings.add(held)
            self.holdings.prolong(held, at.clock)
            if not lease.suspended:
                pool.count(held)
        self.holdings.recall(state, at)

    # acquire

    def acquire(self, ask: Ask, at: Instant, *, wait: bool = False) -> Proposal:
        """Decide a request. With `wait`, an answer `wait` also enters it into the queue.

        `proposal.waiter` is then its place there: call `leave` when whoever waits goes away. The
        same request id asked again with `wait` gets the same place. Raises PoolsError.
        """
        if self.queue.next_aging <= at.clock:
            self._age(at)
        key = ask.key
        known = None if key is None else self._known(ask, key)
        if known is not None:
            return known
        plan = self.grounds.planner.plan(ask)
        waiter = None if key is None else self.queue.same(key)
        if waiter is not None and waiter.plan.asked != plan.asked:
            raise _reused(ask, waiter.plan.asked, plan.asked)
        judgement = self._judge(plan, ask, at, LAST if waiter is None else waiter.rank)
        if not (judgement.never or judgement.wait):
            proposal = self._grant(ask, plan, at, key)
            if waiter is not None:  # its turn has come, whoever asked
                proposal.waiter, waiter.by = waiter, proposal
            return proposal
        proposal = self._refusal(ask, judgement)
        if wait and not judgement.never:
            if waiter is None:
                waiter = self.queue.join(ask, plan, self.grounds.generation, at.clock)
            proposal.waiter = waiter
        return proposal

    def _judge(self, plan: Plan, ask: Ask, at: Instant, rank: float = LAST) -> Judgement:
        if not ask.running:
            return judge(plan, self._facts, at.clock, rank)
        for pool, amount in plan.totals.items():
            check_sum(pool, pool.leased + amount)
        return Judgement(plan.absent, (), ())

    def _known(self, ask: Ask, key: RequestKey) -> Proposal | None:
        """What was answered to the same request id before."""
        underway = self._underway.get(key)
        if underway is not None:
            return Proposal(behind=underway)
        known = self.holdings.requests.get(key)
        if known is None:
            return None
        proposal = Proposal()
        asked = self.grounds.planner.plan(ask).asked if self._comparable(ask) else None
        if asked is not None and asked != known.asked:
            raise _reused(ask, known.asked, asked)
        held = [self.holdings.leases[id_] for id_ in known.leases if id_ in self.holdings.leases]
        changing = next((h.by for h in held if h.by is not None), None)
        if changing is not None and changing.ended:
            proposal.behind = changing
            return proposal
        verdict: Verdict = "released" if known.leases and not held else "granted"
        proposal.answer = Answer(verdict, ask.owner, ask.job, tuple(h.lease for h in held))
        return proposal

    def _comparable(self, ask: Ask) -> bool:
        """Whether what was asked is still declared: a reload does not make a retry an error."""
        return all(need.resource in self.grounds.resources for need in ask.needs)

    def _grant(self, ask: Ask, plan: Plan, at: Instant, key: RequestKey | None) -> Proposal:
        proposal = Proposal()
        leases: list[Lease] = []
        taken: list[Held] = []
        ids: list[str] = []
        owner, job, request, boot_id = ask.owner, ask.job, ask.request, self._facts.boot_id
        now, wall = at
        for pool, host, slots, amount, _ in plan.charges:
            self._serial += 1
            resource, instance = pool.key
            lease = Lease(
                f"{self._prefix}{self._serial}", owner, job, resource, instance, amount,
                host, wall, slots, request, ask.ttl, boot_id(host), False, ask.running,
                None, pool.unit,
            )  # fmt: skip
            held = Held(lease, pool, proposal, now, now)
            self.holdings.add(held)
            pool.count(held)
            ids.append(lease.id)
            leases.append(lease)
            taken.append(held)
        proposal.taken = tuple(taken)
        granted = tuple(leases)
        if granted or request is not None:
            proposal.changes = (Grant(owner, job, granted, request, plan.asked),)
        if key is not None:
            proposal.key = key
            proposal.remember = Remembered(now, plan.asked, tuple(ids))
            self._underway[key] = proposal
        proposal.answer = Answer("granted", owner, job, granted)
        return proposal

    def _refusal(self, ask: Ask, judgement: Judgement) -> Proposal:
        proposal = Proposal()
        never = bool(judgement.never)
        shortages = (*judgement.never, *judgement.wait)
        verdict: Verdict = "never" if never else "wait"
        proposal.answer = Answer(verdict, ask.owner, ask.job, (), shortages)
        first = shortages[0]
        told = (verdict, first.resource, first.instance, first.reason)
        job = (ask.owner, ask.job)
        if self._answers.get(job) != told:  # who asks again and again is noted once
            if len(self._answers) >= 4096:
                self._answers.clear()
            self._answers[job] = told
            proposal.events = (_refused(ask, verdict, first),)
        return proposal

    # waiting

    def leave(self, waiter: Waiter, at: Instant) -> list[Proposal]:
        """Whoever waited has gone away; a grant that is on its way to it stands."""
        return self._retry(self.queue.leave(waiter), at)

    def shortages(self, waiter: Waiter, at: Instant) -> tuple[Shortage, ...]:
        """What stands against the request of a waiter now, if anything does."""
        if waiter.generation != self.grounds.generation:
            return ()
        judgement = self._judge(waiter.plan, waiter.ask, at, waiter.rank)
        return (*judgement.never, *judgement.wait)

    def gained(self, at: Instant, key: PoolKey | None = None) -> list[Proposal]:
        """An instance may have gained (None: any): a measurement, an override, a host opened."""
        if not self.queue:
            return []
        if key is None:
            return self._serve(list(self.queue), at)
        pool = self.grounds.pools.get(key)
        return [] if pool is None else self._retry((pool,), at)

    def tick(self, at: Instant) -> list[Proposal]:
        """Time has passed: ends leases whose ttl is over, and looks after every waiter."""
        self.holdings.forget(at.clock)
        proposals = [self._end([held], "ttl") for held in self.holdings.due(at.clock)]
        if self.queue:
            self._age(at)
            proposals += self._serve(list(self.queue), at)
        return proposals

    def _retry(self, gained: Iterable[Pool], at: Instant) -> list[Proposal]:
        pools = [pool for pool in gained if pool.waiters]
        if not pools:
            return []
        if len(pools) == 1:
            return self._serve(list(pools[0].waiters.values()), at)
        ranked = {rank: w for pool in pools for rank, w in pool.waiters.items()}
        return self._serve([ranked[rank] for rank in sorted(ranked)], at)

    def _serve(self, waiters: list[Waiter], at: Instant) -> list[Proposal]:
        """Grant in order of arrival what fits now."""
        proposals = []
        for waiter in waiters:
            if waiter.by is None:
                proposal = self._try(waiter, at)
                if proposal is not None:
                    proposals.append(proposal)
        return proposals

    def _try(self, waiter: Waiter, at: Instant) -> Proposal | None:
        ask = waiter.ask
        try:
            key = ask.key
            proposal = None if key is None else self._known(ask, key)
            if proposal is None:
                if waiter.generation != self.grounds.generation:
                    plan = self.grounds.planner.plan(ask)
                    self.queue.replan(waiter, plan, self.grounds.generation)
                judgement = self._judge(waiter.plan, ask, at, waiter.rank)
                if judgement.wait and not judgement.never:
                    if waiter.aged:
                        self.queue.block(waiter, judgement.short_of)
                    return None
                if judgement.never:
                    proposal = self._refusal(ask, judgement)
                else:
                    proposal = self._grant(ask, waiter.plan, at, key)
        except PoolsError as error:
            proposal = Proposal()
            proposal.error = error
        if proposal.behind is not None:
            return None
        proposal.waiter, waiter.by = waiter, proposal
        return proposal

    def _age(self, at: Instant) -> None:
        for waiter in self.queue.age(at.clock):
            if waiter.by is None and waiter.generation == self.grounds.generation:
                judgement = judge(waiter.plan, self._facts, at.clock, waiter.rank)
                self.queue.block(waiter, judgement.short_of)

    # settling

    def confirm(self, proposal: Proposal, at: Instant) -> list[Proposal]:
        """The changes are durable (or there were none): the decision takes effect."""
        gained = self._apply(proposal, at.clock)
        waiter = proposal.waiter
        if waiter is not None and waiter.by is proposal:
            gained.update(dict.fromkeys(self.queue.leave(waiter)))
        return self._retry(gained, at) if gained and self.queue else []

    def rollback(self, proposal: Proposal) -> None:
        """The commit failed: all is as before the decision. Waiters are tried at the next tick."""
        self._undo(proposal)
        waiter = proposal.waiter
        if waiter is not None and waiter.by is proposal:
            waiter.by = None

    # suspend and resume

    def resume(self, owner: str, job: str, at: Instant) -> Proposal:
        """Take the suspended amounts of a job again, all of them, or answer `wait`."""
        proposal, held = self._free_to_change(owner, job)
        if proposal.behind is not None:
            return proposal
        suspended = [h for h in held if h.lease.suspended]
        plan = self.grounds.plan_of(suspended)
        judgement = judge(plan, self._facts, at.clock)
        if judgement.never or judgement.wait:
            short = (*judgement.never, *judgement.wait)
            proposal.answer = Answer("wait", owner, job, (), short)
            return proposal
        self._update(proposal, suspended, suspended=False)
        for one in suspended:
            one.taken = at.clock
            one.pool.count(one)
        leases = tuple(u.of(h.lease) for h, u in proposal.updated)
        proposal.answer = Answer("granted", owner, job, leases)
        return proposal

    # facts that change

    def booted(self, host: str, boot_id: str) -> Proposal:
        """A host's agent has named its boot id: leases from before it are marked."""
        proposal = Proposal()
        older = [
            held
            for held in self.holdings.on_host(host)
            if held.by is None
            and held.lease.boot_id not in {None, boot_id}
            and held.lease.note != HOST_REBOOTED
        ]
        self._update(proposal, older, note=HOST_REBOOTED)
        return proposal

    def configure(
        self, resources: dict[str, Resource], layout: Layout, at: Instant
    ) -> tuple[list[str], list[AnyChange], list[Proposal]]:
        """Go by other declarations, at once.

        Gives what to say of leases whose instance is gone, changes to record (nobody waits for
        them), and proposals for waiters. Call it too when the layout is replaced.
        """
        self.queue.keep_units(self.grounds.resources, resources)
        said, changes = self.grounds.configure(resources, layout)
        return said, changes, self.gained(at)

    def joined(self) -> None:
        """A host has joined the layout that is in force."""
        self.grounds.joined()

    # views

    def amounts(self, instance: Instance, now: float) -> Amounts:
        """What an instance holds now; grants on their way count as held."""
        return self.amounts_if(instance, self._facts.reading(instance, now))

    def amounts_if(self, instance: Instance, reading: Reading | None) -> Amounts:
        """What an instance holds if that is what is known of it."""
        pool = self.grounds.pools.get((instance.resource, instance.id))
        if pool is None:
            pool = self.grounds.passing(instance)
        return pool.amounts(reading)

    def orphans(self) -> Iterator[Pool]:
        """Pools that no file declares any more but of which something is held: capacity 0."""
        return (p for p in self.grounds.pools.values() if p.instance is None and p.held)

    def holders(self, key: PoolKey) -> list[Held]:
        """The durable leases of an instance, oldest first."""
        pool = self.grounds.pools.get(key)
        return [] if pool is None else [h for h in pool.held.values() if h.shown]

    def leases(self) -> Iterator[Held]:
        """Every durable lease."""
        return (held for held in self.holdings.leases.values() if held.shown)

    def waiting(self, key: PoolKey, now: float) -> list[tuple[Ask, Decimal, float]]:
        """Who waits for an instance: the request, the amount, since how many seconds."""
        pool = self.grounds.pools.get(key)
        if pool is None:
            return []
        return [
            (w.ask, amount, max(0.0, now - w.since))
            for w in pool.waiters.values()
            if (amount := w.amount(pool)) is not None
        ]


def _reused(ask: Ask, before: str, now: str) -> PoolsError:
    return PoolsError(
        "request_reused",
        f"request {ask.request} of job {ask.job} was used before, for {before}; now {now}: "
        "a new request needs an id of its own",
    )


def _refused(ask: Ask, verdict: str, first: Shortage) -> Event:
    return Event(
        verdict, ask.owner, ask.job, first.resource, first.instance,
        ask.seats[0].host, first.asked, first.reason,
    )  # fmt: skip
