"""Requests that wait: their clients are told again and again, and answered when their turn comes.

What is told finds out that a client is gone: nothing is granted to one that is, and nobody waits
behind it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from dynres.controller.lease import Answer
from dynres.controller.lease_answers import acquire_view, shortage_views
from dynres.controller.ledger_base import LedgerError
from dynres.controller.parking import Guest, Parked, Parking, Reply
from dynres.controller.pools import Pools
from dynres.controller.proposal import Instant, Proposal
from dynres.controller.settling import Settling
from dynres.controller.waiting import Waiter
from dynres.wire.lease_views import AcquireView
from dynres.wire.leasing import Acquired, Waiting
from dynres.wire.requests import Failure

BEAT: Final = 1.0
"""Seconds between two signs to a client that waits."""


class Turns:
    """Everybody who waits for their turn. Must be made inside the running loop."""

    def __init__(
        self,
        pools: Pools,
        settling: Settling,
        instant: Callable[[], Instant],
        count: Callable[[str, str], None],
    ) -> None:
        self._pools = pools
        self._settling = settling
        self._instant = instant
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._parking = Parking()
        self._beaten = instant().clock

    def __len__(self) -> int:
        return len(self._parking)

    def admit(self, waiter: Waiter, reply: Reply, seconds: float) -> None:
        """One more client waits, for so long."""
        at = self._instant()
        guest = self._parking.admit(waiter, reply, at.clock)
        parked = self._parking.get(waiter)
        if parked is not None:
            guest.cancel = self._loop.call_later(seconds, self._over, parked, guest).cancel
            self._beat(parked, guest, at)

    def _beat(self, parked: Parked, guest: Guest, at: Instant) -> bool:
        view = self._view(parked.waiter, at)
        return guest.reply(Waiting(view=view, since=at.clock - parked.since))

    def _view(self, waiter: Waiter, at: Instant) -> AcquireView:
        ask = waiter.ask
        lacks = shortage_views(self._pools.shortages(waiter, at), self._pools)
        return AcquireView(answer="wait", owner=ask.owner, job=ask.job, leases=(), shortages=lacks)

    def _over(self, parked: Parked, guest: Guest) -> None:
        """A client's time is over."""
        if parked.waiter.by is not None:
            guest.over = True  # its grant is on its way
            return
        at = self._instant()
        self._count("acquire", "wait")
        guest.reply(Acquired(view=self._view(parked.waiter, at)))
        self._dismiss(parked, guest, at)

    def _dismiss(self, parked: Parked, guest: Guest, at: Instant) -> None:
        if self._parking.dismiss(parked, guest):
            self._parking.end(parked)
            self._settling.follow(self._pools.leave(parked.waiter, at))

    def tick(self, at: Instant) -> None:
        """Time has passed: everybody is told that they wait."""
        if at.clock - self._beaten < BEAT:
            return
        self._beaten = at.clock
        for parked in self._parking:
            for guest in list(parked.guests):
                if not self._beat(parked, guest, at) and parked.waiter.by is None:
                    self._dismiss(parked, guest, at)

    def serve(self, proposal: Proposal) -> None:
        """A waiter's turn has come."""
        waiter = proposal.waiter
        parked = self._parking.get(waiter)
        at = self._instant()
        if waiter is not None and parked is not None and not self._present(parked, at):
            self._pools.rollback(proposal)
            self._parking.end(parked)
            self._settling.follow(self._pools.leave(waiter, at))
            return
        self._settling.settle(proposal, lambda error: self._settled(proposal, error))

    def _present(self, parked: Parked, at: Instant) -> bool:
        """Whether anybody still waits for it."""
        for guest in list(parked.guests):
            if not self._beat(parked, guest, at):
                self._parking.dismiss(parked, guest)
        return bool(parked.guests)

    def _settled(self, proposal: Proposal, error: LedgerError | None) -> None:
        if error is None:
            self.tell(proposal)
            return
        parked = self._parking.get(proposal.waiter)
        if parked is not None:  # the others wait on
            at = self._instant()
            for guest in [guest for guest in parked.guests if guest.over]:
                guest.reply(Failure(code="ledger", message=str(error)))
                self._dismiss(parked, guest, at)

    def tell(self, proposal: Proposal) -> None:
        """The clients that waited for this decision have their answer."""
        parked = self._parking.get(proposal.waiter)
        if parked is None:
            return
        fault, answer = proposal.error, proposal.answer
        for guest in self._parking.end(parked):
            if fault is not None:
                self._count("acquire", fault.code)
                guest.reply(Failure(code=fault.code, message=fault.message))
            elif answer is not None:
                self._count("acquire", answer.answer)
                guest.reply(Acquired(view=self._acquired(answer)))

    def _acquired(self, answer: Answer) -> AcquireView:
        return acquire_view(answer, self._pools, self._instant())
