"""A network interface: whether its link is up, and how fast it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dynres.probe import NOT_HERE, NotHere, ProbeError
from dynres.value import is_name

What = Literal["up", "speed", "state", "duplex"]

SYS_NET = Path("/sys/class/net")
_FILES: Final = ("operstate", "carrier", "speed", "duplex")


@dataclass(frozen=True, slots=True)
class Options:
    """Which interface, and what is told of it."""

    interface: str
    what: tuple[What, ...] = ("up",)
    optional: bool = False
    """A host without this interface is NOT_HERE; else that is a failure."""

    def __post_init__(self) -> None:
        """Refuse what is no interface's name."""
        if not self.interface or "/" in self.interface or self.interface in {".", ".."}:
            raise ValueError(f"interface: expected a name such as eth0, got {self.interface!r}")
        if not self.what:
            raise ValueError("what: at least one")


class Link:
    """Values named after `what`."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | bool | str | NotHere | None]:
        """One run. ProbeError when there is no such interface and it is not `optional`."""
        options = self._options
        folder = SYS_NET / options.interface
        if not folder.exists():
            if options.optional:
                return dict.fromkeys(options.what, NOT_HERE)
            there = ", ".join(sorted(path.name for path in SYS_NET.iterdir()))
            raise ProbeError(f"{options.interface}: no such interface; there are {there}")
        said = {name: _text(folder / name) for name in _FILES}
        return {what: measure(said, what) for what in options.what}


def _text(path: Path) -> str | None:
    """A file of the kernel; None where it does not say (EINVAL while an interface is down)."""
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return None


def measure(said: Mapping[str, str | None], what: What) -> float | bool | str | None:
    """One value out of the kernel's files.

    An interface without a notion of states (`unknown`: lo, tun) is up when it has a carrier.
    Speed is in Mb/s; None while the link is down or the driver does not know it.
    """
    state = said.get("operstate") or "unknown"
    up = state == "up" or (state == "unknown" and said.get("carrier") == "1")
    if what == "up":
        return up
    if what == "state":
        return state
    if what == "duplex":
        duplex = said.get("duplex")
        return duplex if up and duplex and is_name(duplex) and duplex != "unknown" else None
    speed = said.get("speed") or ""
    return float(speed) if up and speed.isdigit() and 0 < int(speed) < 2**31 else None
