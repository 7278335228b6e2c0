"""Answers the requests of clients, long ones in turns so that agents are heard meanwhile."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from dynres.controller.answers import Answers, RefusedError
from dynres.controller.core import Core
from dynres.controller.explain import explain
from dynres.controller.history import MOST, HistoryAsk
from dynres.controller.lease_answers import entry_view, lease_view
from dynres.controller.ledger_base import Ledger, LedgerError
from dynres.controller.placement import Placement
from dynres.controller.proposal import Instant
from dynres.controller.why import explain_requirement
from dynres.wire.codec import WireError, encode
from dynres.wire.lease_views import HistoryView, LeasesView
from dynres.wire.leasing import AskHistory, AskLeases, History, Leases
from dynres.wire.requests import (
    AnyAnswer,
    AskExplain,
    AskFeed,
    AskHosts,
    AskPools,
    AskReload,
    AskValues,
    Call,
    Explained,
    Failure,
    FeedAt,
    Hosts,
    Pools,
    Reloaded,
    Result,
)

TURN: Final = 0.01
"""Seconds that an answer may take before others get their turn."""


class _Envelope(msgspec.Struct):
    id: str


class Desk:
    """Takes a client's request, gives the bytes of the answer."""

    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        reload: Callable[[], Awaitable[Reloaded | Failure]],
        measured: Callable[[str, float], None],
        feed: str,
    ) -> None:
        self._core = core
        self._placement = Placement(core)
        self._feed = feed
        self._ledger = ledger
        self._clock = clock
        self._reload = reload
        self._measured = measured

    async def answer(self, call: Call) -> bytes:
        """The answer to a request."""
        begun = time.perf_counter()
        try:
            if isinstance(call.request, AskValues):
                answer = await self._values(call.id, call.request)
            else:
                answer = encode(Result(id=call.id, answer=await self._short(call)))
        except RefusedError as error:
            answer = encode(Result(id=call.id, answer=error.failure))
        self._measured(str(call.request.__struct_config__.tag), time.perf_counter() - begun)
        return answer

    async def _short(self, call: Call) -> AnyAnswer:
        request = call.request
        answers = Answers(self._core, self._clock())
        if isinstance(request, AskHosts):
            if request.where is not None:
                return Hosts(view=answers.hosts_where(self._placement, request, request.where))
            return Hosts(view=answers.hosts(request.hosts, all_hosts=request.all_hosts))
        if isinstance(request, AskPools):
            return Pools(view=answers.pools_view(holders=request.holders))
        if isinstance(request, AskExplain):
            view = explain(self._core, answers, request.host, request.resource)
            if request.where is not None:
                requirement = answers.requirement(self._placement, request.where)
                why = explain_requirement(answers, self._placement, requirement, view.host)
                view = msgspec.structs.replace(view, sentences=(*view.sentences, *why))
            return Explained(view=view)
        if isinstance(request, AskFeed):
            return FeedAt(endpoint=self._feed)
        if isinstance(request, AskLeases):
            return self._leases(request)
        if isinstance(request, AskHistory):
            return await self._history(request)
        if isinstance(request, AskReload):
            return await self._reload()
        raise RefusedError("usage", "this request is answered elsewhere")

    def _leases(self, request: AskLeases) -> Leases:
        at = Instant(self._clock(), time.time())
        held = self._core.pools.leases()
        wanted = (request.owner, request.job, request.host)
        found = (
            one
            for one in held
            if all(
                want in {None, has}
                for want, has in zip(
                    wanted, (one.lease.owner, one.lease.job, one.lease.host), strict=True
                )
            )
        )
        return Leases(view=LeasesView(leases=tuple(lease_view(one, at) for one in found)))

    async def _history(self, request: AskHistory) -> History:
        """It is read from the disk, by a thread: others go on."""
        host = request.host and self._core.distribution.canonical(request.host)
        ask = HistoryAsk(
            pool=request.pool,
            job=request.job,
            host=host or request.host,
            owner=request.owner,
            since=None if request.since is None else time.time() - request.since,
            limit=max(1, min(request.limit, MOST)),
        )
        try:
            found = await asyncio.to_thread(self._ledger.history, ask)
        except LedgerError as error:
            raise RefusedError("ledger", str(error)) from error
        return History(view=HistoryView(entries=tuple(map(entry_view, found))))

    async def _values(self, call_id: str, request: AskValues) -> bytes:
        """The table, host by host. It begins again when the configuration changes meanwhile."""
        while True:
            configuration = self._core.configuration
            answers = Answers(self._core, self._clock())
            chosen = [answers.resource_named(name) for name in dict.fromkeys(request.resources)]
            resources = chosen or configuration.resources
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            shown: dict[str, msgspec.Raw] = {}
            turn = time.perf_counter()
            for host in answers.hosts_named(request.hosts):
                shown[host] = msgspec.Raw(encode(answers.values_of(host, resources)))
                if time.perf_counter() - turn > TURN:
                    await asyncio.sleep(0)
                    if self._core.configuration is not configuration:
                        break
                    answers = Answers(self._core, self._clock())
                    turn = time.perf_counter()
            else:
                view = {"at": at, "hosts": shown}
                return msgspec.msgpack.encode(
                    {"id": call_id, "answer": {"t": "values", "view": view}}
                )


def unreadable(body: bytes, error: WireError) -> bytes:
    """A request that this version does not know still bears an id, so that its client learns."""
    return _failure(body, "usage", f"not a request that this controller knows: {error}")


def broken(body: bytes, error: BaseException) -> bytes:
    """The answer to a request that a defect kept from being answered."""
    return _failure(body, "internal", f"the controller could not answer: {error!r} (see its log)")


def _failure(body: bytes, code: str, message: str) -> bytes:
    try:
        call_id = msgspec.msgpack.decode(body, type=_Envelope).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        call_id = ""
    return encode(Result(id=call_id, answer=Failure(code=code, message=message)))
