"""A decision on its way into the ledger: what it holds meanwhile, and how it is answered.

Between the decision and its durability nobody else can have the same units: what a grant takes
is taken at once and given back when the commit fails; what a release gives back is given back
only once it is durable.
"""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dynres.controller.changes import AnyChange, Remembered, RequestKey, Update
from dynres.controller.lease import Answer, PoolsError

if TYPE_CHECKING:
    from dynres.controller.pool import Held
    from dynres.controller.waiting import Waiter


class Instant(NamedTuple):
    """Now, on the serving clock (seconds, forward only) and on the wall clock."""

    clock: float
    wall: float


class Proposal(msgspec.Struct, eq=False):
    """What was decided.

    Whoever asked for it makes `changes` durable, then calls `Pools.confirm`, or `Pools.rollback`
    where that failed, exactly once; without changes, `confirm` at once. Where `behind` is set
    nothing was decided: something that it depends on is on its way; ask again once that proposal
    is settled. `events` are for the history: nobody waits for them.
    """

    answer: Answer | None = None
    """Of an acquire or resume: what to say once it is durable."""
    error: PoolsError | None = None
    """Of a waiter whose request became impossible through a reload."""
    behind: "Proposal | None" = None
    changes: tuple[AnyChange, ...] = ()
    events: tuple[AnyChange, ...] = ()
    waiter: "Waiter | None" = None
    """Who waits: in the queue (answer `wait`), or for this grant."""
    taken: "tuple[Held, ...]" = ()
    """New leases."""
    ended: "tuple[Held, ...]" = ()
    """Leases that end: what a release says it has released."""
    updated: "tuple[tuple[Held, Update], ...]" = ()
    key: RequestKey | None = None
    remember: Remembered | None = None
    settled: bool = False

    @property
    def released(self) -> tuple[str, ...]:
        """Ids of the leases that end with it."""
        return tuple(held.lease.id for held in self.ended)
