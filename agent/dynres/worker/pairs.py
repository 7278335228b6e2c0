"""What a format finds in an output: a name and a text, not yet judged."""

import msgspec


class BadOutputError(Exception):
    """The output as a whole cannot be read in its format; the text says why."""


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
