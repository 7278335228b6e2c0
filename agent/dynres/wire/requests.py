"""What clients ask the controller, and how it answers: one request, one answer, by id."""

import msgspec

from dynres.wire.codec import decode
from dynres.wire.envelope import Answer, Request
from dynres.wire.leasing import (
    Acquired,
    AskHistory,
    AskLeases,
    Changed,
    History,
    LeaseRequest,
    Leases,
    OperatorRequest,
    Released,
    Renewed,
    Waiting,
)
from dynres.wire.views import Explanation, HostsView, PoolsView, ValuesView


class AskHosts(Request, frozen=True, kw_only=True, tag="hosts"):
    """Which hosts are there; `hosts` narrows to those names (empty: all)."""

    hosts: tuple[str, ...] = ()
    all_hosts: bool = False
    """Also those that are not up, or closed."""
    where: str | None = None
    """Only those that satisfy this requirement."""
    details: bool = True
    """Whether all about each host is wanted, beside its name."""


class AskValues(Request, frozen=True, kw_only=True, tag="values"):
    """The table, or the rows and columns named."""

    hosts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class AskPools(Request, frozen=True, kw_only=True, tag="pools"):
    """Every instance that can be leased."""

    holders: bool = False


class AskExplain(Request, frozen=True, kw_only=True, tag="explain"):
    """All about one value, and why a requirement holds on that host or does not."""

    host: str
    resource: str
    where: str | None = None


class AskFeed(Request, frozen=True, kw_only=True, tag="feed"):
    """Where the feed is."""


class AskReload(Request, frozen=True, kw_only=True, tag="reload"):
    """Read the configuration again and say whether it is in force."""


class Hosts(Answer, frozen=True, kw_only=True, tag="hosts"):
    """Answer to AskHosts."""

    view: HostsView


class Values(Answer, frozen=True, kw_only=True, tag="values"):
    """Answer to AskValues."""

    view: ValuesView


class Pools(Answer, frozen=True, kw_only=True, tag="pools"):
    """Answer to AskPools."""

    view: PoolsView


class Explained(Answer, frozen=True, kw_only=True, tag="explained"):
    """Answer to AskExplain."""

    view: Explanation


class FeedAt(Answer, frozen=True, kw_only=True, tag="feed"):
    """The feed's endpoint as the controller has bound it: `tcp://ADDRESS:PORT`."""

    endpoint: str


class Reloaded(Answer, frozen=True, kw_only=True, tag="reloaded"):
    """The new configuration is in force; warnings in words, and what became of leases."""

    warnings: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


class Failure(Answer, frozen=True, kw_only=True, tag="failure"):
    """The request was refused: a code for scripts, a message for people, faults of files."""

    code: str
    """usage | requirement | unknown_host | unknown_resource | unknown_lease | not_owner |
    request_reused | ledger | config | internal"""
    message: str
    faults: tuple[dict[str, str | None], ...] = ()


Question = AskHosts | AskValues | AskPools | AskExplain | AskFeed | AskLeases | AskHistory
AnyRequest = Question | AskReload | LeaseRequest | OperatorRequest
LeaseAnswer = Acquired | Waiting | Released | Renewed | Leases | History | Changed
AnyAnswer = Hosts | Values | Pools | Explained | FeedAt | Reloaded | LeaseAnswer | Failure


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request on its way; the answer bears the same id."""

    id: str
    request: AnyRequest


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """An answer on its way."""

    id: str
    answer: AnyAnswer


_CALL = msgspec.msgpack.Decoder(Call)
_RESULT = msgspec.msgpack.Decoder(Result)


def read_call(body: bytes | memoryview) -> Call:
    """A client's request. Raises WireError."""
    return decode(_CALL, body)


def read_result(body: bytes | memoryview) -> Result:
    """The controller's answer. Raises WireError."""
    return decode(_RESULT, body)
