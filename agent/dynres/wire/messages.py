"""Every message between agent and controller, frozen and validated when decoded.

Times are seconds. An *age* is how long ago something was, by the sender's CLOCK_BOOTTIME, at the
moment of sending: no message carries a wall-clock time. `docs/wire.md` describes the order.
"""

from typing import Annotated

import msgspec

from dynres.value import Value

VERSION = 4
"""The newest protocol version that this code speaks; OLDEST the oldest."""
OLDEST = 1
SIDE_BY_SIDE = 2
"""From this version on a report may hold `numbers`."""
NAMED_ONCE = 3
"""From this version on the resources of `numbers` need not be repeated in each report."""
PACKED = 4
"""From this version on `numbers` may be packed."""

Age = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all messages. Unknown fields are ignored: either side may be one version ahead."""


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's last stamp, and how long before sending it came to the agent."""

    stamp: float
    since: Age


# agent -> controller


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """First message on every connection, and again after a reload of the agent's files."""

    oldest: Count
    newest: Count
    software: str
    host: str
    machine_id: str
    boot_id: str
    session: str
    """Random, new at each start of the agent; reports are numbered within it."""
    uptime: Age
    definitions: dict[str, str]
    """Resource -> digest of type, unit, order, scope and source, for every declared resource."""
    reporting: tuple[str, ...] = ()
    """Shared instances that this agent measures now, each as a target (`targets.py`)."""
    refused: str | None = None
    """Why the agent goes on with an older configuration than its files hold."""


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One probe run that ended since the last report.

    In an `ok` run every value that the session reported of this probe before counts as measured
    again (same value, new age), except those named in `missed` and those in the report itself.
    """

    probe: str
    outcome: str
    age: Age
    """Since the run started."""
    duration: Age
    reason: str | None = None
    missed: dict[str, str] = {}
    """Resource -> why this run gave it no value."""
    not_here: bool = False
    """Whether the probe says that it does not apply to this host."""


class Measured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that is new or has changed; `value` None: known to be unavailable, for `reason`."""

    resource: str
    probe: str
    age: Age
    instance: str | None = None
    """Id of the instance, of a shared resource."""
    value: Value | None = None
    reason: str | None = None
    fallback: bool = False
    """Whether `on_failure` gave it."""


class MeasuredNumbers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Many numbers that one run gave, side by side, each of its resource.

    The same as one `Measured` each, without instance, reason and fallback.
    """

    probe: str
    age: Age
    values: list[float] = []
    """As many as `resources`."""
    packed: bytes | None = None
    """Since version 4, in place of `values`: IEEE 754 doubles, little-endian, 8 bytes each."""
    order: Count = 0
    """Number of this list of resources; not 0: later numbers of the probe may refer to it, up to
    the next full report, and until the probe has another.
    """
    resources: tuple[str, ...] | None = None
    """None, since version 3: those that were told under `order`."""

    @property
    def count(self) -> float:
        """How many numbers there are; not a whole number where the last one is cut off."""
        return len(self.values) if self.packed is None else len(self.packed) / 8


class Report(Message, frozen=True, kw_only=True, tag="report"):
    """What was measured since the last report; `full`: everything that the agent knows."""

    seq: Count
    full: bool = False
    runs: tuple[Run, ...] = ()
    values: tuple[Measured, ...] = ()
    numbers: tuple[MeasuredNumbers, ...] = ()
    """Since version 2; one probe has at most one."""
    echo: Echo | None = None


class Beat(Message, frozen=True, kw_only=True, tag="beat"):
    """An agent's heartbeat, every `heartbeat` seconds and at once when asked by `Alive`."""

    echo: Echo | None = None


class Bye(Message, frozen=True, kw_only=True, tag="bye"):
    """The agent ends on purpose."""


# controller -> agent


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    """The session is accepted; the agent answers with a full report."""

    version: Count
    software: str
    host: str
    """The name under which the controller knows this host."""
    heartbeat: Age
    stamp: float
    measure: tuple[str, ...]
    """Targets (`targets.py`) that it is to measure, as its own files declare them: the last word.
    """
    differs: dict[str, str] = {}
    """Resources whose definitions differ between the two sides -> how."""


class Refusal(Message, frozen=True, kw_only=True, tag="refusal"):
    """The session is not accepted, or no longer; `reason` says why and what to do."""

    code: str
    """version | not_listed | host_taken | replaced | unknown (say hello first)"""
    reason: str


class Stamp(Message, frozen=True, kw_only=True, tag="stamp"):
    """The controller's heartbeat; the agent echoes `stamp` (the controller's own clock)."""

    stamp: float


class Assign(Message, frozen=True, kw_only=True, tag="assign"):
    """What to measure from now on: after a reload or a change of reporter."""

    measure: tuple[str, ...]
    differs: dict[str, str] = {}


class SendAll(Message, frozen=True, kw_only=True, tag="send_all"):
    """A report is missing: send a full one, `within` seconds (spread over that time)."""

    within: Age = 0.0


class Alive(Message, frozen=True, kw_only=True, tag="alive"):
    """Another session claims this host: answer with a `Beat` now, or be replaced."""


class Problem(Message, frozen=True, kw_only=True, tag="problem"):
    """Parts of a report that were not taken: target -> reason. The rest was."""

    refused: dict[str, str]


FromAgent = Hello | Report | Beat | Bye
FromController = Welcome | Refusal | Stamp | Assign | SendAll | Alive | Problem
