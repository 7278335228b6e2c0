"""Faults in files: what, where, expected, got, and what to do; never only the first."""

from collections.abc import Iterable

import msgspec

from dynres.config.model import Place


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault or warning, printed as `file:line:column: what: expected …, got … (hint)`."""

    place: Place | None
    what: str
    expected: str | None = None
    got: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        parts = []
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.got is not None:
            parts.append(f"got {self.got}")
        detail = f": {', '.join(parts)}" if parts else ""
        return f"{where}{self.what}{detail}" + (f" ({self.hint})" if self.hint else "")

    def as_json(self) -> dict[str, str | None]:
        """The shape that `--json` prints in `error.faults`."""
        place = str(self.place) if self.place else None
        return {
            "place": place,
            "what": self.what,
            "expected": self.expected,
            "got": self.got,
            "hint": self.hint,
        }


class ConfigError(Exception):
    """A folder that cannot be used; `faults` holds every fault that was found, in file order."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))
