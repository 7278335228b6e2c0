"""Ends and changes leases: release, expiry, reconcile, renew, suspend; and what settling means."""

from collections.abc import Collection, Sequence

from dynres.controller.changes import End, Ended, RequestKey, Update
from dynres.controller.grounds import Grounds
from dynres.controller.holdings import Holdings
from dynres.controller.lease import Cause, PoolsError
from dynres.controller.pool import Held, Pool
from dynres.controller.proposal import Instant, Proposal


class Releasing:
    """The leases, and what gives amounts back."""

    def __init__(self, grounds: Grounds) -> None:
        self.grounds = grounds
        self.holdings = Holdings()
        self._underway: dict[RequestKey, Proposal] = {}
        """Grants with a request id that are not settled yet."""

    # release

    def release_job(
        self, owner: str, job: str, *, host: str | None = None, cause: Cause = "job"
    ) -> Proposal:
        """End every lease of a job (on one host); nothing is held: nothing is released."""
        held = self.holdings.of_job(owner, job)
        return self._end([h for h in held if host is None or h.lease.host == host], cause)

    def release_host(
        self, host: str, owner: str | None, *, cause: Cause = "job", by: str | None = None
    ) -> Proposal:
        """End every lease that `owner` (None: anyone) holds for a host."""
        held = self.holdings.on_host(host)
        return self._end([h for h in held if owner in {None, h.lease.owner}], cause, by)

    def release_leases(
        self,
        ids: Collection[str],
        owner: str | None,
        *,
        cause: Cause = "job",
        by: str | None = None,
    ) -> Proposal:
        """End these leases. Raises PoolsError for one that is unknown or not `owner`'s.

        What the owner has released before is passed over. `owner` None: an operator, who may end
        anyone's.
        """
        found: list[Held] = []
        for lease in dict.fromkeys(ids):
            held = self.holdings.leases.get(lease)
            ended = self.holdings.ended.get(lease)
            whose = held.lease.owner if held is not None else ended.owner if ended else None
            if whose is None:
                raise PoolsError("unknown_lease", f"no lease {lease[:80]!r} is known")
            if owner not in {None, whose}:
                raise PoolsError("not_owner", f"lease {lease} is not {owner}'s but {whose}'s")
            if held is not None:
                found.append(held)
        return self._end(found, cause, by)

    def reconcile(
        self,
        owner: str,
        jobs: Collection[str],
        older_than: float,
        *,
        allow_empty: bool,
        at: Instant,
    ) -> Proposal:
        """End the owner's leases of jobs that are not in the list.

        `older_than`: seconds since the list was begun; younger leases are left alone. Raises
        PoolsError for an empty list without `allow_empty`.
        """
        if not jobs and not allow_empty:
            raise PoolsError(
                "usage",
                "the list of live jobs is empty, which would release everything: --allow-empty "
                "says that this is meant",
            )
        live = frozenset(jobs)
        begun = at.clock - older_than
        gone = [
            held
            for job, leases in self.holdings.of_owner(owner)
            if job not in live
            for held in leases
            if held.began < begun
        ]
        return self._end(gone, "reconcile")

    def _end(self, leases: Sequence[Held], cause: Cause, by: str | None = None) -> Proposal:
        for held in leases:
            if held.by is not None:
                return Proposal(behind=held.by)
        proposal = Proposal(ended=tuple(leases))
        changes = []
        for held in leases:
            held.by = proposal
            lease = held.lease
            change = End(
                lease.id, lease.owner, lease.job, lease.resource, lease.instance,
                lease.host, lease.amount, cause, by,
            )  # fmt: skip
            changes.append(change)
        proposal.changes = tuple(changes)
        return proposal

    # change

    def renew(self, owner: str, job: str, at: Instant) -> Proposal:
        """Give each lease of a job its full ttl again, at once; `proposal.answer` stays None.

        Raises PoolsError where the job holds nothing (its leases may have expired).
        """
        proposal = Proposal()
        held = self.holdings.of_job(owner, job)
        if not held:
            raise PoolsError("unknown_lease", f"job {job} of {owner} holds nothing")
        for one in held:
            if one.by is not None and (one.by.ended or one.by.taken):
                proposal.behind = one.by
                return proposal
        for one in held:
            self.holdings.prolong(one, at.clock)
        return proposal

    def renew_lease(self, lease: str, owner: str, at: Instant) -> Proposal:
        """Give one lease its full ttl again. Raises PoolsError as release does."""
        held = self.holdings.leases.get(lease)
        if held is None:
            raise PoolsError("unknown_lease", f"no lease {lease[:80]!r} is known")
        if held.lease.owner != owner:
            raise PoolsError(
                "not_owner", f"lease {lease} is not {owner}'s but {held.lease.owner}'s"
            )
        proposal = Proposal()
        if held.by is not None and (held.by.ended or held.by.taken):
            proposal.behind = held.by
        else:
            self.holdings.prolong(held, at.clock)
        return proposal

    def suspend(self, owner: str, job: str) -> Proposal:
        """Give back what the job holds of resources with flag `release`, until it resumes."""
        proposal, held = self._free_to_change(owner, job)
        if proposal.behind is None:
            able = [
                h for h in held if not h.lease.suspended and self.grounds.releases(h.lease.resource)
            ]
            self._update(proposal, able, suspended=True)
        return proposal

    def _free_to_change(self, owner: str, job: str) -> tuple[Proposal, list[Held]]:
        proposal = Proposal()
        held = self.holdings.of_job(owner, job)
        proposal.behind = next((h.by for h in held if h.by is not None), None)
        return proposal, held

    def _update(
        self,
        proposal: Proposal,
        leases: Sequence[Held],
        *,
        suspended: bool | None = None,
        note: str | None = None,
    ) -> None:
        updated = []
        for held in leases:
            held.by = proposal
            lease = held.lease
            change = Update(
                lease.id, lease.owner, lease.job, lease.resource, lease.instance,
                lease.host, lease.amount, suspended, note,
            )  # fmt: skip
            updated.append((held, change))
        proposal.updated = tuple(updated)
        proposal.changes = tuple([change for _, change in updated])

    # settling

    def _apply(self, proposal: Proposal, now: float) -> dict[Pool, None]:
        """A decision takes effect; the pools that have gained."""
        proposal.settled = True
        gained: dict[Pool, None] = {}
        for held in proposal.taken:
            held.by = None
            held.shown = True
            if held.lease.ttl is not None:
                self.holdings.prolong(held, now)
        if proposal.key is not None and proposal.remember is not None:
            del self._underway[proposal.key]
            self.holdings.requests[proposal.key] = proposal.remember
        for held in proposal.ended:
            self._drop(held, gained)
            self.holdings.ended[held.lease.id] = Ended(held.lease.owner, now)
        for held, change in proposal.updated:
            held.by = None
            if change.suspended and held.counted:
                held.pool.discount(held)
                gained[held.pool] = None
            held.lease = change.of(held.lease)
        return gained

    def _undo(self, proposal: Proposal) -> None:
        """Nothing of a decision takes effect."""
        proposal.settled = True
        for held in proposal.taken:
            self._drop(held, {})
        if proposal.key is not None:
            del self._underway[proposal.key]
        for held in proposal.ended:
            held.by = None
        for held, change in proposal.updated:
            held.by = None
            if change.suspended is False and held.counted:
                held.pool.discount(held)

    def _drop(self, held: Held, gained: dict[Pool, None]) -> None:
        held.by = None
        pool = held.pool
        if held.counted:
            pool.discount(held)
            gained[pool] = None
        self.holdings.remove(held)
        if pool.instance is None:
            self.grounds.tidy(pool)
