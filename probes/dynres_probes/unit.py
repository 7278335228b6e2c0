"""A systemd unit: whether it is active, in which state, and how often it was started again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dynres.probe import NOT_HERE, NotHere, ProbeError
from dynres_probes import tool

What = Literal["active", "state", "restarts"]

_PROPERTIES: Final = "LoadState,ActiveState,SubState,NRestarts"
_NO_SYSTEMD: Final = ("not been booted with systemd", "failed to connect to bus")


@dataclass(frozen=True, slots=True)
class Options:
    """Which unit, and what is told of it."""

    unit: str
    """Such as `slurmd.service`; without a suffix a service."""
    what: tuple[What, ...] = ("active",)
    optional: bool = False
    """A host without this unit is NOT_HERE; else that is a failure."""
    timeout: float = 5.0
    """Seconds that systemctl has; less than the probe's own timeout."""

    def __post_init__(self) -> None:
        """Refuse what systemctl would take for an option or a pattern."""
        if not self.unit or self.unit.startswith("-") or set(self.unit) & set("*?[ /"):
            raise ValueError(f"unit: expected one unit such as slurmd.service, got {self.unit!r}")
        if not self.what:
            raise ValueError("what: at least one")


class Unit:
    """Values named after `what`; NOT_HERE on a machine without systemd."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | bool | str | NotHere | None]:
        """One run. ProbeError when there is no such unit and it is not `optional`."""
        options = self._options
        command = ("systemctl", "show", f"--property={_PROPERTIES}", "--", options.unit)
        nothing: dict[str, float | bool | str | NotHere | None]
        nothing = dict.fromkeys(options.what, NOT_HERE)
        try:
            done = tool.run(command, options.timeout)
        except FileNotFoundError:
            return nothing
        if any(words in done.stderr.lower() for words in _NO_SYSTEMD):
            return nothing
        if done.status:
            raise ProbeError(f"systemctl: exit status {done.status}: {done.stderr.strip()[:200]}")
        properties = parse(done.stdout)
        if properties.get("LoadState") == "not-found":
            if options.optional:
                return nothing
            raise ProbeError(f"{options.unit}: no such unit")
        return {what: measure(properties, what) for what in options.what}


def parse(text: str) -> dict[str, str]:
    """The `NAME=value` lines of `systemctl show`. ProbeError without a state."""
    lines = (line.partition("=") for line in text.splitlines())
    properties = {name: value for name, equals, value in lines if equals}
    if not properties.get("ActiveState"):
        raise ProbeError(f"systemctl: expected ActiveState=…, got {text[:200]!r}")
    return properties


def measure(properties: Mapping[str, str], what: What) -> float | bool | str | None:
    """One value: a unit that is reloading is active; one that starts or stops is not."""
    state = properties["ActiveState"]
    if what == "active":
        return state in {"active", "reloading", "refreshing"}
    if what == "state":
        sub = properties.get("SubState")
        return f"{state} ({sub})" if sub else state
    restarts = properties.get("NRestarts", "")
    return float(restarts) if restarts.isdigit() else None
