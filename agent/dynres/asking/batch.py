"""Many requests in flight on one connection, their answers in the order of the requests."""

import itertools
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Self, TypeVar

from dynres.asking import making
from dynres.asking.errors import RequestRefusedError, UnreachableError, packed
from dynres.asking.making import Hosts, Needs
from dynres.wire.codec import WireError
from dynres.wire.lease_views import AcquireView, ReleaseView, RenewView
from dynres.wire.leasing import LOCAL, Acquired, Released, Renewed, Waiting
from dynres.wire.link import LinkError
from dynres.wire.pipeline import WINDOW, Pipeline
from dynres.wire.requests import AnyAnswer, AnyRequest, Call, Failure, read_result

T = TypeVar("T")


class Pending(Generic[T]):
    """A request of a batch whose answer may not have come yet."""

    def __init__(self, batch: "Batch", key: str, kind: type[T]) -> None:
        self._batch = batch
        self._kind = kind
        self.key = key
        self.answer: AnyAnswer | None = None

    def result(self) -> T:
        """The answer, which is waited for. Raises ClientError."""
        while self.answer is None:
            self._batch.turn()
        if isinstance(self.answer, Failure):
            raise RequestRefusedError(self.answer.code, self.answer.message, self.answer.faults)
        if not isinstance(self.answer, self._kind):
            raise RequestRefusedError("protocol", "the answer is to another request")
        return self.answer


class Batch:
    """Requests are sent as they are made; iterate over it for the answers, in order.

    A context manager: its end waits for every answer. One thread only. A request is sent again
    where a controller does not answer: each has an id, so that nothing is taken twice.
    """

    def __init__(self, endpoints: Sequence[str], timeout: float) -> None:
        self._pipeline = Pipeline(endpoints)
        self._timeout = timeout
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._pending: dict[str, Pending[AnyAnswer]] = {}
        self._order: deque[Pending[AnyAnswer]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while self._pending and kind is None:
                self.turn()
        finally:
            self._pipeline.close()

    def __iter__(self) -> Iterator[AnyAnswer]:
        """The answers in the order of the requests; failures as `Failure`."""
        while self._order:
            first = self._order[0]
            while first.answer is None:
                self.turn()
            self._order.popleft()
            yield first.answer

    def ready(self) -> Iterator[AnyAnswer]:
        """The answers that have come, in the order of the requests, without waiting."""
        while self._order and (answer := self._order[0].answer) is not None:
            self._order.popleft()
            yield answer

    @property
    def open(self) -> int:
        """How many requests are not answered yet."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Whether another request would have to wait for an answer first."""
        return len(self._pending) >= WINDOW

    def ask(self, request: AnyRequest, kind: type[T]) -> Pending[T]:
        """Send a request. Raises UnreachableError, and RequestRefusedError for no request."""
        while self.full:
            self.turn()
        key = f"{self._prefix}-{next(self._numbers)}"
        body = packed(Call(id=key, request=request))
        pending: Pending[T] = Pending(self, key, kind)
        self._pending[key] = pending  # type: ignore[assignment]
        self._order.append(pending)  # type: ignore[arg-type]
        try:
            self._pipeline.send(key, body)
        except LinkError as error:
            raise UnreachableError("unreachable", str(error)) from error
        return pending

    def turn(self, beside: int | None = None) -> bool:
        """Take an answer; False where the descriptor `beside` can be read instead."""
        try:
            body = self._pipeline.receive(self._timeout, beside=beside)
        except LinkError as error:
            raise UnreachableError("unreachable", str(error)) from error
        if body is None:
            return False
        try:
            result = read_result(body)
        except WireError as error:
            message = f"not an answer that this client knows, of another version? {error}"
            raise RequestRefusedError("protocol", message) from error
        if isinstance(result.answer, Waiting):
            self._pipeline.heard()
            return True
        pending = self._pending.pop(result.id, None)
        if pending is not None:
            pending.answer = result.answer
            self._pipeline.settle(result.id)
        return True

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
    ) -> "View[AcquireView]":
        """As Client.acquire; `result()` of what comes back is its answer."""
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
        return View(self.ask(made, Acquired))

    def release(
        self,
        job: str | None = None,
        *,
        lease: str | Iterable[str] = (),
        host: str | None = None,
        owner: str | None = LOCAL,
    ) -> "View[ReleaseView]":
        """As Client.release."""
        made = making.release_request(job, lease=lease, host=host, owner=owner)
        return View(self.ask(made, Released))

    def renew(
        self, job: str | None = None, *, lease: str | Iterable[str] = (), owner: str = LOCAL
    ) -> "View[RenewView]":
        """As Client.renew."""
        return View(self.ask(making.renew_request(job, lease=lease, owner=owner), Renewed))


V = TypeVar("V", AcquireView, ReleaseView, RenewView)


class View(Generic[V]):
    """The view that an answer of a batch will have."""

    def __init__(self, pending: Pending[Acquired] | Pending[Released] | Pending[Renewed]) -> None:
        self._pending = pending

    def result(self) -> V:
        """The answer, which is waited for. Raises ClientError."""
        return self._pending.result().view  # type: ignore[return-value]
