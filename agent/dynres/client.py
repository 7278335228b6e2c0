"""The client library: what a batch scheduler or a script asks the controller."""

import asyncio
import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self, TypeVar

import msgspec

from dynres.asking.batch import Batch
from dynres.asking.errors import (
    ClientError,
    RequestRefusedError,
    UnreachableError,
    expect,
    names,
    packed,
    text,
    waiting,
)
from dynres.asking.making import read_need
from dynres.asking.verbs import AsyncLeaseVerbs, LeaseVerbs, OnWait
from dynres.wire.follow import Follow
from dynres.wire.leasing import Acquire, Acquired
from dynres.wire.lines import AnyLine, FeedRefusedError
from dynres.wire.link import LinkError, Requester, beside
from dynres.wire.requests import (
    AnyRequest,
    AskExplain,
    AskFeed,
    AskHosts,
    AskPools,
    AskReload,
    AskValues,
    Call,
    Explained,
    FeedAt,
    Hosts,
    Pools,
    Reloaded,
    Values,
)
from dynres.wire.views import Explanation, HostsView, PoolsView, ValuesView

__all__ = [
    "AsyncClient",
    "Batch",
    "Client",
    "ClientError",
    "RequestRefusedError",
    "UnreachableError",
    "read_need",
]

DEFAULT_ENDPOINT: Final = "tcp://127.0.0.1:5751"
TIMEOUT: Final = 5.0
RELOAD_TIMEOUT: Final = 60.0
"""Reading a large folder takes longer than an answer out of memory."""
SILENCE: Final = 5.0
"""Seconds without a word on a request that waits after which a controller is taken to be gone."""
PAUSE: Final = 0.5
"""Seconds between two tries to reach it again."""
T = TypeVar("T")


class Client(LeaseVerbs):
    """A connection to the first controller of `endpoints` that answers; thread-safe.

    Every call takes a `timeout` in seconds for all endpoints together. Raises UnreachableError
    when none has answered, RequestRefusedError for what the controller refuses.
    """

    def __init__(
        self, endpoints: str | Sequence[str] = DEFAULT_ENDPOINT, *, timeout: float = TIMEOUT
    ) -> None:
        self._endpoints = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        try:
            self._requester = Requester(self._endpoints)
        except LinkError as error:
            raise UnreachableError("unreachable", str(error)) from error

    def _id(self) -> str:
        """Of a request; any thread may ask."""
        return f"{self._prefix}-{next(self._numbers)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; waits for a call that another thread has under way."""
        with self._lock:
            self._requester.close()

    def hosts(
        self,
        where: str | None = None,
        *,
        hosts: Iterable[str] = (),
        all_hosts: bool = False,
        details: bool | None = None,
        timeout: float | None = None,
    ) -> HostsView:
        """The hosts that are up and not closed, or all; `hosts` narrows to those names.

        `where`: only those that satisfy this requirement; `unknown` of the answer are those where
        it is not known. `details`: also all about each; by default, without `where`.
        TypeError where it is no text: a list of names is `hosts`.
        """
        if not (where is None or isinstance(where, str)):
            raise TypeError(f"where: expected a requirement as text, got {where!r} (hosts=…?)")
        request = AskHosts(
            hosts=names(hosts),
            all_hosts=all_hosts,
            where=where,
            details=where is None if details is None else details,
        )
        return self._ask(request, Hosts, timeout).view

    def values(
        self,
        hosts: Iterable[str] = (),
        resources: Iterable[str] = (),
        *,
        timeout: float | None = None,
    ) -> ValuesView:
        """The table, or the hosts and resources named."""
        request = AskValues(hosts=names(hosts), resources=names(resources))
        return self._ask(request, Values, timeout).view

    def pools(self, *, holders: bool = False, timeout: float | None = None) -> PoolsView:
        """Every instance that can be leased."""
        return self._ask(AskPools(holders=holders), Pools, timeout).view

    def explain(
        self,
        host: str,
        resource: str,
        *,
        where: str | None = None,
        timeout: float | None = None,
    ) -> Explanation:
        """All about one value, and why the requirement `where` holds on that host or does not."""
        request = AskExplain(
            host=text("host", host), resource=text("resource", resource), where=text("where", where)
        )
        return self._ask(request, Explained, timeout).view

    def watch(self, where: str | None = None, *, timeout: float | None = None) -> Iterator[AnyLine]:
        """A snapshot of the hosts that satisfy `where` (of all), and then each change, for ever.

        After `Lost` (changes may be missing, the controller was away) comes a new snapshot. Only
        the beginning can fail, with UnreachableError after `timeout` seconds, or
        RequestRefusedError; later a requirement that a reload has made meaningless does.
        """
        with self._follow(where, timeout) as follow, _told():
            yield from follow

    def _follow(self, where: str | None, timeout: float | None) -> Follow:
        patience = self._timeout if timeout is None else timeout
        return Follow(
            lambda: self._feed(patience), where, patience=patience, missing=UnreachableError
        )

    def _feed(self, timeout: float) -> str:
        """The feed of the first controller that answers, as seen from here."""
        for endpoint in self._endpoints:
            with (
                contextlib.suppress(UnreachableError),
                Client(endpoint, timeout=timeout / len(self._endpoints)) as client,
            ):
                return beside(endpoint, client._ask(AskFeed(), FeedAt, None).endpoint)
        where = ", ".join(self._endpoints)
        raise UnreachableError("unreachable", f"no controller has told of its feed at {where}")

    def reload(self, *, timeout: float = RELOAD_TIMEOUT) -> tuple[str, ...]:
        """Let the controller read its files again; its warnings, and what became of leases.

        Raises RequestRefusedError with the faults where the files are refused: then the last good
        configuration stays in force.
        """
        answer = self._ask(AskReload(), Reloaded, timeout)
        return (*answer.warnings, *answer.moved)

    def batch(self, *, timeout: float | None = None) -> Batch:
        """Many requests in flight on a connection of their own; `timeout` without any answer."""
        return Batch(self._endpoints, self._timeout if timeout is None else timeout)

    def _wait(self, request: Acquire, timeout: float | None, on_wait: OnWait | None) -> Acquired:
        """Wait for a request's turn, on a connection of its own: when that goes, so does the
        request. A controller that is gone for a while is asked again, for what is left.
        """
        patience = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + (request.wait or 0.0)
        call = Call(id=self._id(), request=request)
        heard = False

        def interim(body: bytes) -> bool:
            nonlocal heard
            sign = waiting(body)
            if sign is not None:
                heard = True
                if on_wait is not None:
                    on_wait(sign)
            return sign is not None

        with contextlib.closing(Requester(self._endpoints)) as requester:
            while True:
                left = max(0.0, deadline - time.monotonic())
                asked = msgspec.structs.replace(request, wait=left)
                body = packed(msgspec.structs.replace(call, request=asked))
                try:
                    answer = requester.request(
                        body, left + patience, interim=interim, silence=SILENCE
                    )
                except LinkError as error:
                    if heard and time.monotonic() < deadline:
                        time.sleep(PAUSE)
                        continue
                    raise UnreachableError("unreachable", str(error)) from error
                return expect(Acquired, call, answer)

    def _ask(self, request: AnyRequest, kind: type[T], timeout: float | None) -> T:
        with self._lock:
            call = Call(id=self._id(), request=request)
            try:
                body = self._requester.request(
                    packed(call), self._timeout if timeout is None else timeout
                )
            except LinkError as error:
                raise UnreachableError("unreachable", str(error)) from error
        return expect(kind, call, body)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What following the feed raises, in the words of this library."""
    try:
        yield
    except LinkError as error:
        raise UnreachableError("unreachable", str(error)) from error
    except FeedRefusedError as error:
        raise RequestRefusedError(error.code, error.message) from error


class AsyncClient(AsyncLeaseVerbs):
    """The same verbs for asyncio; calls run one after the other in a thread of the client's own."""

    def __init__(
        self, endpoints: str | Sequence[str] = DEFAULT_ENDPOINT, *, timeout: float = TIMEOUT
    ) -> None:
        self._client = Client(endpoints, timeout=timeout)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dynres-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, after the calls that are under way."""
        await self._run(self._client.close)
        self._thread.shutdown(wait=False)

    async def _verb(self, call: Callable[[LeaseVerbs], T], *, waits: bool) -> T:
        """A request that waits does so in a thread of its own."""
        if waits:
            return await asyncio.to_thread(call, self._client)
        return await self._run(lambda: call(self._client))

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def hosts(
        self,
        where: str | None = None,
        *,
        hosts: Iterable[str] = (),
        all_hosts: bool = False,
        details: bool | None = None,
        timeout: float | None = None,
    ) -> Awaitable[HostsView]:
        """As Client.hosts."""
        return self._run(
            lambda: self._client.hosts(
                where, hosts=hosts, all_hosts=all_hosts, details=details, timeout=timeout
            )
        )

    def values(
        self,
        hosts: Iterable[str] = (),
        resources: Iterable[str] = (),
        *,
        timeout: float | None = None,
    ) -> Awaitable[ValuesView]:
        """As Client.values."""
        return self._run(lambda: self._client.values(hosts, resources, timeout=timeout))

    def pools(self, *, holders: bool = False, timeout: float | None = None) -> Awaitable[PoolsView]:
        """As Client.pools."""
        return self._run(lambda: self._client.pools(holders=holders, timeout=timeout))

    def explain(
        self,
        host: str,
        resource: str,
        *,
        where: str | None = None,
        timeout: float | None = None,
    ) -> Awaitable[Explanation]:
        """As Client.explain."""
        return self._run(lambda: self._client.explain(host, resource, where=where, timeout=timeout))

    async def watch(
        self,
        where: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[AnyLine]:
        """As Client.watch; in a thread of its own, so that other calls go on."""
        follow = self._client._follow(where, timeout)
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dynres-watch")
        try:
            with _told():
                while True:
                    line = await loop.run_in_executor(thread, next, follow, None)
                    if line is None:
                        return
                    yield line
        finally:
            follow.stop()
            thread.submit(follow.close)  # by the thread that uses it, once it has come back
            thread.shutdown(wait=False)

    def batch(self, work: Callable[[Batch], T], *, timeout: float | None = None) -> Awaitable[T]:
        """Many requests in flight: `work` makes them and takes the answers, in a thread."""

        def run() -> T:
            with self._client.batch(timeout=timeout) as batch:
                return work(batch)

        return asyncio.to_thread(run)

    def reload(self, *, timeout: float = RELOAD_TIMEOUT) -> Awaitable[tuple[str, ...]]:
        """As Client.reload."""
        return self._run(lambda: self._client.reload(timeout=timeout))
