"""What one probe run is asked for, and what became of it: the closed set of outcomes."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from dynres.config.model import Probe
from dynres.value import Value, ValueType

Outcome = Literal[
    "ok",
    "failed",
    "killed",
    "timeout",
    "stuck",
    "bad_output",
    "output_too_large",
    "start_error",
    "refused",
    "skipped",
    "cancelled",
]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

STDERR_TAIL: Final = 4096
"""How much of a probe's stderr is kept, in bytes."""


class Refused(msgspec.Struct, frozen=True):
    """A value that was not taken: what the probe called it, the text, and why."""

    name: str
    text: str
    reason: str


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One probe on this host: what to run and which resources it is to give."""

    probe: Probe
    resources: dict[str, ValueType]
    """Resource -> declared type, for those that this host must report."""
    several: bool = False
    """Whether the probe is declared to feed more resources than one, here or elsewhere."""
    amounts: frozenset[str] = frozenset()
    """The resources of which jobs can hold amounts."""
    units: dict[str, str] = {}
    """Resource -> unit, for those that have one."""
    shared: bool = False
    """Whether a shared resource is asked for: this host measures it for others too."""
    interval: float = 0.0
    """Smallest interval of the resources, in seconds."""
    ttl: float = float("inf")
    """Smallest time to live of the resources, in seconds."""
    host: str
    path: str
    """Where a command without a slash is looked up, and the probe's own PATH."""
    trusted_owners: tuple[str, ...] = ()
    """Users, beside root and the agent's own, who may own an executable."""
    default_user: str | None = None
    """User of an external probe that names none; None: the agent's own."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run."""

    probe: str
    outcome: Outcome
    reason: str | None = None
    """Why, in words; None only for `ok`."""
    exit: int | None = None
    """Exit status, where a process ended by itself."""
    signal: int | None = None
    started: float
    """CLOCK_BOOTTIME instant of the run's start, in seconds."""
    duration: float
    values: Mapping[str, Value | None] = {}
    """Resource -> value; None: the probe said that it is unavailable."""
    missed: dict[str, str] = {}
    """Resource -> why an `ok` run gave it no value; empty for every other outcome."""
    why: dict[str, str] = {}
    """Resource that the probe said to be unavailable -> why, where it said that too."""
    not_here: bool = False
    """The probe does not apply to this host; asked again after a reload and every `recheck`."""
    stderr: str = ""
    """The last `STDERR_TAIL` bytes."""
    stdout: str = ""
    """All of it, kept only where a person asked for this run."""
    refused: tuple[Refused, ...] = ()

    @property
    def failure(self) -> bool:
        """Whether `on_failure` applies to all of the probe's resources."""
        return self.outcome not in {"ok", "skipped", "cancelled"}


def speakable(result: RunResult) -> RunResult:
    """The result with reasons that any message can hold: what is not UTF-8 is written out.

    A file name that is not UTF-8 is a text with lone surrogates in Python (PEP 383).
    """
    if result.reason is None and not result.missed and not result.why:
        return result
    return msgspec.structs.replace(
        result,
        reason=None if result.reason is None else _written_out(result.reason),
        missed={name: _written_out(why) for name, why in result.missed.items()},
        why={name: _written_out(why) for name, why in result.why.items()},
    )


def _written_out(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
