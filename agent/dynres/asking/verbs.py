"""The verbs of leases and operators, for a client that blocks and for one of asyncio."""

import functools
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from dynres.asking import making
from dynres.asking.errors import names, seconds, text
from dynres.asking.making import Hosts, Needs
from dynres.value import Value
from dynres.wire.lease_views import (
    AcquireView,
    ChangedView,
    HistoryView,
    LeasesView,
    ReleaseView,
    RenewView,
)
from dynres.wire.leasing import (
    LOCAL,
    Acquire,
    Acquired,
    AskHistory,
    AskLeases,
    Changed,
    CloseHosts,
    ForgetHosts,
    History,
    Leases,
    OpenHosts,
    Released,
    Renewed,
    Resume,
    SetOverride,
    Suspend,
    UnsetOverride,
    Waiting,
)
from dynres.wire.requests import AnyRequest

T = TypeVar("T")
OnWait = Callable[[Waiting], None]


class Asks(Protocol):
    """What the verbs need of a client."""

    def _ask(self, request: AnyRequest, kind: type[T], timeout: float | None) -> T:
        """Ask, and return the answer of that kind."""
        ...

    def _wait(self, request: Acquire, timeout: float | None, on_wait: OnWait | None) -> Acquired:
        """Ask, and wait for the request's turn."""
        ...


class LeaseVerbs(Asks):
    """Verbs of a client that blocks. Each raises ClientError for what gives no result."""

    def acquire(
        self,
        job: str,
        hosts: Hosts,
        needs: Needs,
        *,
        owner: str = LOCAL,
        slots: int = 1,
        request: str | None = None,
        ttl: float | None = None,
        running: bool = False,
        wait: float | None = None,
        on_wait: OnWait | None = None,
        timeout: float | None = None,
    ) -> AcquireView:
        """Take all of `needs` for the job, or nothing: `answer` is granted, wait or never.

        `needs`: `{"iris": 2, "scratch": "20GB/host"}` or texts `iris=2`. `hosts`: names (with
        `slots` each) or `{"h1": 4}`. `wait`: seconds to wait for it; `on_wait` is told about once
        a second that it still does. `ttl` in seconds. A call without `request` gets an id of its
        own, so that a retry within the call takes nothing twice.
        """
        made = making.acquire_request(
            job,
            hosts,
            needs,
            owner=owner,
            slots=slots,
            request=request,
            ttl=ttl,
            running=running,
            wait=wait,
        )
        if wait:
            return self._wait(made, timeout, on_wait).view
        return self._ask(made, Acquired, timeout).view

    def release(
        self,
        job: str | None = None,
        *,
        lease: str | Iterable[str] = (),
        host: str | None = None,
        owner: str | None = LOCAL,
        who: str | None = None,
        timeout: float | None = None,
    ) -> ReleaseView:
        """Give back what a job holds, single leases, or what the owner holds for a host.

        `owner` None: an operator, who may end anyone's leases by lease or host.
        """
        made = making.release_request(job, lease=lease, host=host, owner=owner, who=who)
        return self._ask(made, Released, timeout).view

    def renew(
        self,
        job: str | None = None,
        *,
        lease: str | Iterable[str] = (),
        owner: str = LOCAL,
        timeout: float | None = None,
    ) -> RenewView:
        """Give leases their full ttl again. RequestRefusedError where the job holds nothing."""
        made = making.renew_request(job, lease=lease, owner=owner)
        return self._ask(made, Renewed, timeout).view

    def suspend(self, job: str, *, owner: str = LOCAL, timeout: float | None = None) -> ReleaseView:
        """Give back what the job holds of resources with flag `release`, until it resumes."""
        return self._ask(
            Suspend(owner=text("owner", owner), job=text("job", job)), Released, timeout
        ).view

    def resume(self, job: str, *, owner: str = LOCAL, timeout: float | None = None) -> AcquireView:
        """Take the suspended amounts again, all of them, or answer `wait`."""
        return self._ask(
            Resume(owner=text("owner", owner), job=text("job", job)), Acquired, timeout
        ).view

    def reconcile(
        self,
        jobs: Iterable[str],
        as_of: float | datetime,
        *,
        owner: str = LOCAL,
        allow_empty: bool = False,
        timeout: float | None = None,
    ) -> ReleaseView:
        """Release the owner's leases older than `as_of` whose job is not among the live `jobs`."""
        made = making.reconcile_request(jobs, as_of, owner=owner, allow_empty=allow_empty)
        return self._ask(made, Released, timeout).view

    def leases(
        self,
        *,
        job: str | None = None,
        owner: str | None = None,
        host: str | None = None,
        timeout: float | None = None,
    ) -> LeasesView:
        """Every lease, or those of a job, an owner or a host."""
        made = AskLeases(owner=text("owner", owner), job=text("job", job), host=text("host", host))
        return self._ask(made, Leases, timeout).view

    def history(
        self,
        *,
        pool: str | None = None,
        job: str | None = None,
        host: str | None = None,
        owner: str | None = None,
        since: float | None = None,
        timeout: float | None = None,
    ) -> HistoryView:
        """What has happened within `since` seconds (None: in 30 days), the newest 10,000."""
        made = AskHistory(
            pool=text("pool", pool),
            job=text("job", job),
            host=text("host", host),
            owner=text("owner", owner),
            since=seconds("since", since),
        )
        return self._ask(made, History, timeout).view

    def set(
        self,
        resource: str,
        value: Value | int | None,
        *,
        hosts: Iterable[str] = (),
        pool: str | None = None,
        reason: str,
        who: str = LOCAL,
        lasts: float | None = None,
        timeout: float | None = None,
    ) -> ChangedView:
        """Let a value count on hosts or for a pool, whatever is measured; None: unavailable."""
        made = SetOverride(
            resource=text("resource", resource),
            value=making.override_value(value),
            hosts=names(hosts),
            pool=text("pool", pool),
            reason=text("reason", reason),
            who=text("who", who),
            lasts=seconds("lasts", lasts),
        )
        return self._ask(made, Changed, timeout).view

    def unset(
        self,
        resource: str,
        *,
        hosts: Iterable[str] = (),
        pool: str | None = None,
        who: str = LOCAL,
        timeout: float | None = None,
    ) -> ChangedView:
        """Let the declared or measured value count again; without hosts and pool everywhere."""
        made = UnsetOverride(
            resource=text("resource", resource),
            hosts=names(hosts),
            pool=text("pool", pool),
            who=text("who", who),
        )
        return self._ask(made, Changed, timeout).view

    def close_hosts(
        self, hosts: Iterable[str], *, reason: str, who: str = LOCAL, timeout: float | None = None
    ) -> ChangedView:
        """Give these hosts no work from now on; they keep their leases."""
        return self._ask(
            CloseHosts(hosts=names(hosts), reason=text("reason", reason), who=text("who", who)),
            Changed,
            timeout,
        ).view

    def open_hosts(
        self,
        hosts: Iterable[str],
        *,
        reason: str | None = None,
        who: str = LOCAL,
        timeout: float | None = None,
    ) -> ChangedView:
        """Give these hosts work again."""
        return self._ask(
            OpenHosts(hosts=names(hosts), reason=text("reason", reason), who=text("who", who)),
            Changed,
            timeout,
        ).view

    def forget_hosts(
        self,
        hosts: Iterable[str],
        *,
        reason: str | None = None,
        who: str = LOCAL,
        timeout: float | None = None,
    ) -> ChangedView:
        """Know hosts that are not declared, not up and hold nothing no more."""
        made = ForgetHosts(hosts=names(hosts), reason=text("reason", reason), who=text("who", who))
        return self._ask(made, Changed, timeout).view


P = ParamSpec("P")


class AsyncAsks(Protocol):
    """What the verbs of asyncio need of a client."""

    async def _verb(self, call: Callable[[LeaseVerbs], T], *, waits: bool) -> T:
        """Run a verb of the client that blocks, beside the loop."""
        ...


def _beside(
    verb: Callable[Concatenate[LeaseVerbs, P], T],
) -> Callable[Concatenate["AsyncLeaseVerbs", P], Awaitable[T]]:
    """A verb for asyncio, with the same arguments and result."""

    def run(client: "AsyncLeaseVerbs", /, *args: P.args, **keys: P.kwargs) -> Awaitable[T]:
        waits = bool(keys.get("wait"))
        return client._verb(lambda blocking: verb(blocking, *args, **keys), waits=waits)

    functools.update_wrapper(run, verb)
    return run


class AsyncLeaseVerbs(AsyncAsks):
    """The same verbs for asyncio."""

    acquire = _beside(LeaseVerbs.acquire)
    release = _beside(LeaseVerbs.release)
    renew = _beside(LeaseVerbs.renew)
    suspend = _beside(LeaseVerbs.suspend)
    resume = _beside(LeaseVerbs.resume)
    reconcile = _beside(LeaseVerbs.reconcile)
    leases = _beside(LeaseVerbs.leases)
    history = _beside(LeaseVerbs.history)
    set = _beside(LeaseVerbs.set)
    unset = _beside(LeaseVerbs.unset)
    close_hosts = _beside(LeaseVerbs.close_hosts)
    open_hosts = _beside(LeaseVerbs.open_hosts)
    forget_hosts = _beside(LeaseVerbs.forget_hosts)
