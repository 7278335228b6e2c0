"""Finds leases by id, job and host, and what is remembered of those that ended."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, TypeVar

from dynres.controller.changes import REMEMBERED, Ended, LedgerState, Remembered, RequestKey
from dynres.controller.pool import Held
from dynres.controller.proposal import Instant

FORGET_AT_ONCE: Final = 1000
"""Entries dropped in one go, at most."""
Key = TypeVar("Key")


class Holdings:
    """Every lease, pending ones too, and the request ids of the last seven days."""

    def __init__(self) -> None:
        self.leases: dict[str, Held] = {}
        self._owners: dict[str, dict[str, dict[str, Held]]] = {}
        self._hosts: dict[str, dict[str, Held]] = {}
        self._expiries: list[tuple[float, str]] = []
        self.requests: dict[RequestKey, Remembered] = {}
        """In order of time; `at` is on the serving clock here."""
        self.ended: dict[str, Ended] = {}
        """In order of time; `at` is on the serving clock here."""

    def add(self, held: Held) -> None:
        """A lease is found from now on."""
        lease = held.lease
        self.leases[lease.id] = held
        held.pool.held[lease.id] = held
        jobs = self._owners.get(lease.owner)
        if jobs is None:
            jobs = self._owners[lease.owner] = {}
        job = jobs.get(lease.job)
        if job is None:
            job = jobs[lease.job] = {}
        job[lease.id] = held
        host = self._hosts.get(lease.host)
        if host is None:
            host = self._hosts[lease.host] = {}
        host[lease.id] = held

    def remove(self, held: Held) -> None:
        """A lease is found no more."""
        lease = held.lease
        del self.leases[lease.id]
        del held.pool.held[lease.id]
        jobs = self._owners[lease.owner]
        job = jobs[lease.job]
        del job[lease.id]
        if not job:
            del jobs[lease.job]
            if not jobs:
                del self._owners[lease.owner]
        host = self._hosts[lease.host]
        del host[lease.id]
        if not host:
            del self._hosts[lease.host]

    def of_job(self, owner: str, job: str) -> list[Held]:
        """The leases of one job."""
        jobs = self._owners.get(owner)
        leases = None if jobs is None else jobs.get(job)
        return [] if leases is None else list(leases.values())

    def of_owner(self, owner: str) -> Iterator[tuple[str, list[Held]]]:
        """The leases of one owner, job by job."""
        for job, leases in self._owners.get(owner, {}).items():
            yield job, list(leases.values())

    def on_host(self, host: str) -> list[Held]:
        """The leases that were taken for a host, whoever holds them."""
        return list(self._hosts.get(host, {}).values())

    def holds(self, host: str) -> bool:
        """Whether any lease was taken for the host."""
        return host in self._hosts

    # time

    def prolong(self, held: Held, now: float) -> None:
        """The lease has its full ttl from now on."""
        ttl = held.lease.ttl
        if ttl is not None:
            if held.expires is None:
                heappush(self._expiries, (now + ttl, held.lease.id))
            held.expires = now + ttl

    def due(self, now: float) -> list[Held]:
        """The leases whose ttl is over and that nothing else is changing."""
        found: list[Held] = []
        again: list[tuple[float, str]] = []
        while self._expiries and self._expiries[0][0] <= now:
            _, lease = heappop(self._expiries)
            held = self.leases.get(lease)
            if held is None or held.expires is None:
                continue
            if held.expires > now:
                heappush(self._expiries, (held.expires, lease))
                continue
            again.append((held.expires, lease))  # until its end is durable
            if held.by is None:
                found.append(held)
        for entry in again:
            heappush(self._expiries, entry)
        return found

    # memory

    def recall(self, state: LedgerState, at: Instant) -> None:
        """Remember what the ledger has kept."""
        for key, request in state.requests.items():
            then = at.clock - max(0.0, at.wall - request.at)
            self.requests[key] = Remembered(then, request.asked, request.leases)
        for lease, ended in state.ended.items():
            self.ended[lease] = Ended(ended.owner, at.clock - max(0.0, at.wall - ended.at))

    def forget(self, now: float) -> None:
        """Drop what is older than seven days, some at a time."""
        oldest = now - REMEMBERED
        _forget(self.requests, oldest)
        _forget(self.ended, oldest)


def _forget(memory: dict[Key, Remembered] | dict[Key, Ended], oldest: float) -> None:
    old: list[Key] = []
    for key, thing in memory.items():
        if thing.at > oldest or len(old) >= FORGET_AT_ONCE:
            break
        old.append(key)
    for key in old:
        del memory[key]
