"""Answers who holds amounts: each verb becomes a decision, durable before it is answered.

A request that waits is told so again and again, which finds out in time that its client is gone.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from dynres.controller.answers import RefusedError
from dynres.controller.core import Core
from dynres.controller.feed import Feed
from dynres.controller.lease import Answer, Ask, PoolsError
from dynres.controller.lease_answers import (
    ToldLeases,
    acquire_view,
    expires_at,
    lease_view,
    told,
)
from dynres.controller.ledger_base import Ledger, LedgerError, LedgerFencedError
from dynres.controller.operating import Operating
from dynres.controller.parking import Reply
from dynres.controller.pool import Held
from dynres.controller.proposal import Instant, Proposal
from dynres.controller.settling import Settling
from dynres.controller.turns import Turns
from dynres.wire.lease_views import AcquireView, ReleaseView, RenewedLease, RenewView
from dynres.wire.leasing import (
    Acquire,
    Acquired,
    LeaseRequest,
    OperatorRequest,
    Reconcile,
    Release,
    Released,
    Renew,
    Renewed,
    Resume,
    Suspend,
)
from dynres.wire.requests import Failure

AGAIN: Final = 5.0
"""Seconds until leases are marked that could not be, because the ledger could not write."""
GATHER: Final = 0.05
"""Seconds in which measurements gather before waiters are looked after."""
log = logging.getLogger("dynres.controller")


class Leasing:
    """Pools and ledger of a running controller. Must be made inside the running loop."""

    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        instant: Callable[[], Instant],
        *,
        warn: Callable[[str], None],
        count: Callable[[str, str], None],
        fenced: Callable[[LedgerError], None],
    ) -> None:
        """`count` gets verb and answer, `fenced` is told when another controller has taken over."""
        self._core = core
        self._pools = core.pools
        self._instant = instant
        self._warn = warn
        self._count = count
        self._fenced = fenced
        self._loop = asyncio.get_running_loop()
        self._gathering = False
        self.feed: Feed | None = None
        self._settling = Settling(
            core, ledger, instant, follow=self._follow, told=self._told, failed=self._failed
        )
        self._turns = Turns(core.pools, self._settling, instant, count)
        self.operating = Operating(core, self._settling, instant, count)
        self._layout = core.distribution
        self._hosts = core.distribution.hosts

    @property
    def fault(self) -> str | None:
        """Why the ledger could not write the last time; None while it can."""
        return self._settling.fault

    # verbs

    def take(self, request: LeaseRequest | OperatorRequest, reply: Reply) -> None:
        """Answer a request, now or later."""
        try:
            if isinstance(request, Acquire):
                self._acquire(request, reply)
            elif isinstance(request, Release | Reconcile):
                self._release(request, reply)
            elif isinstance(request, Renew):
                self._renew(request, reply)
            elif isinstance(request, Suspend | Resume):
                self._suspend(request, reply)
            else:
                self.operating.take(request, reply)
        except PoolsError as error:
            self._answer(request, reply, Failure(code=error.code, message=error.message))
        except RefusedError as error:
            self._answer(request, reply, error.failure)

    def _answer(
        self,
        request: LeaseRequest | OperatorRequest,
        reply: Reply,
        answer: Acquired | Released | Renewed | Failure,
    ) -> None:
        verb = str(request.__struct_config__.tag)
        if isinstance(answer, Acquired):
            word: str = answer.view.answer
        else:
            word = answer.code if isinstance(answer, Failure) else "done"
        self._count(verb, word)
        reply(answer)

    def _acquire(self, request: Acquire, reply: Reply) -> None:
        waits = request.wait is not None and request.wait > 0
        ask = Ask(
            owner=request.owner,
            job=request.job,
            needs=request.needs,
            seats=request.seats,
            request=request.request,
            ttl=request.ttl,
            running=request.running,
        )
        at = self._instant()
        proposal = self._pools.acquire(ask, at, wait=waits)
        if proposal.behind is not None:
            self._settling.after(proposal.behind, lambda: self.take(request, reply))
            return
        waiter = proposal.waiter
        if waiter is not None and waiter.by is not proposal:
            self._turns.admit(waiter, reply, request.wait or 0.0)
        self._settle(request, reply, proposal)

    def _settle(
        self, request: Acquire | Resume | Suspend, reply: Reply, proposal: Proposal
    ) -> None:
        """Answer once the decision has taken effect; one that waits is answered elsewhere."""
        waiter = proposal.waiter
        waits = waiter is not None and waiter.by is not proposal

        def done(error: LedgerError | None) -> None:
            if waits and error is None:
                return
            if error is not None:
                self._answer(request, reply, _failure(error))
            elif proposal.answer is not None:
                self._answer(request, reply, Acquired(view=self._view(proposal.answer)))
                self._turns.tell(proposal)
            else:
                leases = tuple(lease_view(h, self._instant()) for h, _ in proposal.updated)
                view = ReleaseView(released=leases)
                self._answer(request, reply, Released(view=view))

        self._settling.settle(proposal, done)

    def _view(self, answer: Answer) -> AcquireView:
        return acquire_view(answer, self._pools, self._instant())

    def _release(self, request: Release | Reconcile, reply: Reply) -> None:
        proposal = self._released(request)
        if proposal.behind is not None:
            self._settling.after(proposal.behind, lambda: self.take(request, reply))
            return
        at = self._instant()
        view = ReleaseView(released=tuple([lease_view(held, at) for held in proposal.ended]))

        def done(error: LedgerError | None) -> None:
            answer = Released(view=view) if error is None else _failure(error)
            self._answer(request, reply, answer)

        self._settling.settle(proposal, done)

    def _released(self, request: Release | Reconcile) -> Proposal:
        pools = self._pools
        if isinstance(request, Reconcile):
            return pools.reconcile(
                request.owner,
                request.jobs,
                request.age,
                allow_empty=request.allow_empty,
                at=self._instant(),
            )
        owner, host, by = request.owner, request.host, request.who
        if request.leases:
            cause, who = ("operator", by) if owner is None else ("job", None)
            return pools.release_leases(request.leases, owner, cause=cause, by=who)  # type: ignore[arg-type]
        if host is not None:
            host = self._core.distribution.canonical(host) or host
        if request.job is not None and owner is not None:
            return pools.release_job(owner, request.job, host=host)
        if host is None:
            raise PoolsError("usage", "say what to release: a job, a lease or a host")
        if owner is None:
            return pools.release_host(host, None, cause="operator", by=by)
        return pools.release_host(host, owner)

    def _renew(self, request: Renew, reply: Reply) -> None:
        at = self._instant()
        pools = self._pools
        if request.leases:
            proposals = [pools.renew_lease(one, request.owner, at) for one in request.leases]
        elif request.job is not None:
            proposals = [pools.renew(request.owner, request.job, at)]
        else:
            raise PoolsError("usage", "say what to renew: a job or a lease")
        behind = next((p.behind for p in proposals if p.behind is not None), None)
        if behind is not None:
            self._settling.after(behind, lambda: self.take(request, reply))
            return
        known = pools.holdings
        if request.job is not None:
            held = known.of_job(request.owner, request.job)
        else:
            held = [known.leases[one] for one in request.leases]
        renewed = tuple(RenewedLease(lease=h.lease.id, expires=expires_at(h, at)) for h in held)
        for proposal in proposals:
            pools.confirm(proposal, at)
        for one in held:
            self._told(one, None)
        self._answer(request, reply, Renewed(view=RenewView(renewed=renewed)))

    def _suspend(self, request: Suspend | Resume, reply: Reply) -> None:
        owner, job = request.owner, request.job
        if isinstance(request, Suspend):
            proposal = self._pools.suspend(owner, job)
        else:
            proposal = self._pools.resume(owner, job, self._instant())
        if proposal.behind is not None:
            self._settling.after(proposal.behind, lambda: self.take(request, reply))
            return
        self._settle(request, reply, proposal)

    def _follow(self, proposal: Proposal) -> None:
        """A decision that nobody has asked for just now: a waiter's, or the end of a lease."""
        if proposal.waiter is not None:
            self._turns.serve(proposal)
        else:
            self._settling.settle(proposal, lambda error: _expired(proposal, error))

    # what happens around

    def tick(self) -> None:
        """Time has passed: leases and overrides end, waiters are told that they wait."""
        at = self._instant()
        self._settling.follow(self._pools.tick(at))
        self.operating.tick(at)
        events = self._core.events
        if events:
            self._settling.record(list(events))
            events.clear()
        self._turns.tick(at)

    def measured(self) -> None:
        """Something was measured, which may be what somebody waits for."""
        if len(self._turns) and not self._gathering:
            self._gathering = True
            self._loop.call_later(GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathering = False
        self._settling.follow(self._pools.gained(self._instant()))

    def look(self) -> None:
        """The core has done something: hosts may have joined, gone, or started again."""
        core = self._core
        if core.distribution is not self._layout:
            for text in self.configure():
                log.warning("%s", text)
        elif core.distribution.hosts is not self._hosts:
            self._hosts = core.distribution.hosts
            self._pools.joined()
            self._settling.follow(self._pools.gained(self._instant()))
        arrived = core.registry.arrived
        while arrived:
            self._booted(arrived.pop())

    def _booted(self, host: str) -> None:
        """Mark the leases from before the boot that a host's agent has named."""
        boot_id = self._core.facts.boot_id(host)
        if boot_id is None:
            return
        busy = next((h.by for h in self._pools.holdings.on_host(host) if h.by is not None), None)
        if busy is not None:
            self._settling.after(busy, lambda: self._booted(host))
            return
        proposal = self._pools.booted(host, boot_id)
        if not proposal.changes:
            return

        def done(error: LedgerError | None) -> None:
            if error is None:
                for held, _ in proposal.updated:
                    lease = held.lease
                    log.warning("lease %s of job %s: %s", lease.id, lease.job, _rebooted(host))
            else:
                self._loop.call_later(AGAIN, self._booted, host)

        self._settling.settle(proposal, done)

    def configure(self) -> list[str]:
        """Go by the core's declarations; what became of leases whose instance is gone."""
        core = self._core
        self._layout, self._hosts = core.distribution, core.distribution.hosts
        at = self._instant()
        self._pools.queue.be_fair_after(core.configuration.controller.fair_after)
        said, changes, more = self._pools.configure(core.resources, core.distribution, at)
        self._settling.record(changes)
        self._settling.follow(more)
        said += core.restated
        core.restated.clear()
        return said

    def leases(self) -> ToldLeases:
        """Every lease, for the feed."""
        return ToldLeases(self._pools.holdings.leases, self._instant())

    def _told(self, held: Held, ended: str | None) -> None:
        if self.feed is not None and self.feed.count:
            at = self._instant()
            self.feed.lease(told(held, at, ended), at.clock)

    def _failed(self, error: LedgerError) -> None:
        self._warn(str(error))
        if isinstance(error, LedgerFencedError):
            self._fenced(error)


def _expired(proposal: Proposal, error: LedgerError | None) -> None:
    if error is None:
        for held in proposal.ended:
            log.info("lease %s of job %s expired: released", held.lease.id, held.lease.job)


def _rebooted(host: str) -> str:
    return f"{host} has started again since; it is held until somebody releases it"


def _failure(error: LedgerError) -> Failure:
    return Failure(code="ledger", message=str(error))
