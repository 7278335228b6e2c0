"""The shapes in which the controller shows its tables: what `--json` prints, field by field.

Every field is always present; `None` where there is nothing. Ages are seconds.
"""

from decimal import Decimal
from typing import Literal

import msgspec

from dynres.value import Value, plain_number

HostState = Literal["up", "unreachable", "never"]
ValueState = Literal["fresh", "stale", "unavailable"]
SourceKind = Literal["static", "probe", "pool", "override", "on_failure"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all views."""


class Source(View, frozen=True, kw_only=True):
    """Where a value comes from; of an override who has set it, when, why, and until when."""

    kind: SourceKind
    probe: str | None = None
    reporter: str | None = None
    place: str | None = None
    who: str | None = None
    since: str | None = None
    why: str | None = None
    until: str | None = None


class ValueView(View, frozen=True, kw_only=True):
    """One resource on one host; `value` is None in every state but fresh."""

    value: Value | None
    last: Value | None
    unit: str | None
    state: ValueState
    reason: str | None
    age: float | None
    source: Source
    reported: Value | None = None
    """While an operator's value counts: the newest that was declared or measured."""


class AgentView(View, frozen=True, kw_only=True):
    """The agent of a host."""

    version: str
    uptime: float


class ConfigView(View, frozen=True, kw_only=True):
    """How the agent's files compare with the controller's."""

    same: bool
    differs: tuple[str, ...]
    refused: str | None


class HostDetail(View, frozen=True, kw_only=True):
    """One host; `agent` and `config` are None until an agent has registered."""

    state: HostState
    closed: bool
    agent: AgentView | None
    config: ConfigView | None
    why_closed: str | None = None


class HostView(HostDetail, frozen=True, kw_only=True):
    """One host and its values."""

    values: dict[str, ValueView]


class ValuesView(View, frozen=True, kw_only=True):
    """`dynres values --json`; `at` is RFC 3339 in UTC."""

    at: str
    hosts: dict[str, HostView]


class HostsView(View, frozen=True, kw_only=True):
    """`dynres hosts --json`: those that satisfy the requirement, and those where it is unknown.

    `details` adds per host the state and how its configuration compares.
    """

    hosts: tuple[str, ...]
    unknown: tuple[str, ...]
    details: dict[str, HostDetail]


class Holder(View, frozen=True, kw_only=True):
    """A lease on a pool."""

    owner: str
    job: str
    lease: str
    amount: Decimal
    host: str
    since: str
    expires: str | None


class Waiter(View, frozen=True, kw_only=True):
    """A request that waits for a pool; `for_` (JSON `for`) is how long, in seconds."""

    owner: str
    job: str
    amount: Decimal
    for_: float = msgspec.field(name="for")


class PoolView(View, frozen=True, kw_only=True):
    """One instance that can be leased."""

    resource: str
    unit: str | None
    members: tuple[str, ...]
    capacity: Decimal | None
    reported: Value | None
    leased: Decimal
    reserve: Decimal
    free: Decimal | None
    overcommitted: bool
    state: ValueState
    age: float | None
    reporter: str | None
    instance: str
    source: str
    holders: tuple[Holder, ...] | None
    waiting: tuple[Waiter, ...]
    override: Source | None = None
    """Who has set what counts, when and why; None where nobody has."""


class PoolsView(View, frozen=True, kw_only=True):
    """`dynres pools --json`."""

    pools: tuple[PoolView, ...]


class Explanation(View, frozen=True, kw_only=True):
    """`dynres explain HOST RESOURCE`: the value, and everything about it in sentences."""

    host: str
    resource: str
    value: ValueView | None
    sentences: tuple[str, ...]


def _json_default(thing: object) -> object:
    if isinstance(thing, Decimal):
        return plain_number(float(thing))
    raise TypeError(f"{type(thing).__name__} has no JSON form")


def to_builtins(view: msgspec.Struct) -> object:
    """A view as plain dicts, lists, strings and numbers, ready for `json.dumps`.

    Whole numbers become `int`, so that they print as `7`, not `7.0`. Amounts have at most 15
    significant digits, so a double carries them exactly.
    """
    return _tidy(msgspec.to_builtins(view, builtin_types=(Decimal,), enc_hook=_json_default))


def _tidy(thing: object) -> object:
    if isinstance(thing, dict):
        return {key: _tidy(item) for key, item in thing.items()}
    if isinstance(thing, list | tuple):
        return [_tidy(item) for item in thing]
    if isinstance(thing, Decimal):
        return plain_number(float(thing))
    if isinstance(thing, float):
        return plain_number(thing)
    return thing
