"""Makes decisions durable, then lets them take effect, and then whatever follows from them."""

from collections.abc import Callable, Iterable, Sequence

from dynres.controller.changes import AnyChange
from dynres.controller.core import Core
from dynres.controller.ledger_base import Ledger, LedgerError
from dynres.controller.pool import Held, Pool
from dynres.controller.proposal import Instant, Proposal

Done = Callable[[LedgerError | None], None]
"""Told whether a decision has taken effect (None), or why not."""


class Settling:
    """The way of every proposal: ledger, pools, those who follow."""

    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        instant: Callable[[], Instant],
        *,
        follow: Callable[[Proposal], None],
        told: Callable[[Held, str | None], None],
        failed: Callable[[LedgerError], None],
    ) -> None:
        """`follow` gets proposals that no client has asked for, `told` each lease that was
        granted or has changed, or has ended with a cause, `failed` each error of the ledger.
        """
        self._core = core
        self._pools = core.pools
        self._ledger = ledger
        self._instant = instant
        self._follow = follow
        self._told = told
        self._failed = failed
        self.fault: str | None = None
        """Why the ledger could not write the last time; None while it can."""
        self._behind: dict[Proposal, list[Callable[[], None]]] = {}

    def after(self, proposal: Proposal, again: Callable[[], None]) -> None:
        """Ask again once that proposal is settled."""
        self._behind.setdefault(proposal, []).append(again)

    def settle(self, proposal: Proposal, done: Done) -> None:
        """Let a decision take effect; not one that is `behind` another."""
        if proposal.events:
            self.record(proposal.events)
        if not proposal.changes:
            self._settled(proposal, done, None)
            return
        self._held(proposal)
        self._ledger.submit(proposal.changes, lambda error: self._settled(proposal, done, error))

    def record(self, changes: Sequence[AnyChange]) -> None:
        """Write what nobody waits for."""
        if changes:
            self._ledger.submit(changes, self._recorded)

    def _recorded(self, error: LedgerError | None) -> None:
        """Remember how the ledger is."""
        self.fault = None if error is None else str(error)
        if error is not None:
            self._failed(error)

    def submit(self, changes: Sequence[AnyChange], done: Done) -> None:
        """Make changes durable that are no proposal."""

        def settled(error: LedgerError | None) -> None:
            self._recorded(error)
            done(error)

        self._ledger.submit(changes, settled)

    def _settled(self, proposal: Proposal, done: Done, error: LedgerError | None) -> None:
        more: list[Proposal] = []
        if error is None:
            more = self._pools.confirm(proposal, self._instant())
            self._tell(proposal)
        else:
            self._pools.rollback(proposal)
        if proposal.changes:
            self._recorded(error)
            self._held(proposal)
        done(error)
        self.follow(more)
        for again in self._behind.pop(proposal, ()):
            again()

    def follow(self, proposals: Iterable[Proposal]) -> None:
        """What has become possible, or due."""
        for proposal in proposals:
            self._follow(proposal)

    def _tell(self, proposal: Proposal) -> None:
        for held in proposal.taken:
            self._told(held, None)
        for held, _ in proposal.updated:
            self._told(held, None)
        for held, change in zip(proposal.ended, proposal.changes, strict=False):
            self._told(held, getattr(change, "cause", "job"))

    def _held(self, proposal: Proposal) -> None:
        """What is free of these instances is to be worked out again."""
        pools: dict[Pool, None] = {}
        for held in (*proposal.taken, *proposal.ended, *(h for h, _ in proposal.updated)):
            pools[held.pool] = None
        for pool in pools:
            if pool.instance is not None:
                self._core.held(pool.instance)
