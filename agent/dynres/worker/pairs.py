"""What a format finds in an output: a name and a text, not yet judged."""

from collections.abc import Mapping

import msgspec

from dynres.value import ValueType


class BadOutputError(Exception):
    """The output as a whole cannot be read in its format; the text says why."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a format may need to know of the run whose output it reads."""

    resources: Mapping[str, ValueType]
    """Resource -> declared type, for those that were asked for."""
    names: Mapping[str, str] = {}
    """The probe's `map:`, its own name -> resource."""
    several: bool = False
    """Whether the probe feeds more resources than one, here or elsewhere."""
    units: Mapping[str, str] = {}
    """Resource -> unit, for those that have one."""
    host: str = ""
    status: int = 0
    """Exit status of the probe, for formats that give it a meaning."""

    def target(self, name: str) -> str:
        """The resource that the probe means by `name`."""
        return self.names.get(name, name)


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a probe said."""

    name: str
    """What the probe calls it; empty where a line has no name."""
    text: str | None
    """The value as written; None: the probe says that there is none now."""
    fault: str | None = None
    """Why the text cannot be a value, where the format already knows."""


def decode(raw: bytes) -> str:
    """Bytes as text in which each byte that is not UTF-8 stays recognisable (U+DC80…U+DCFF)."""
    return raw.decode("utf-8", "surrogateescape")
