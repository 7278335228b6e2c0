"""Gathers faults and warnings while a folder is read, so that all are told at once."""

from collections.abc import Iterable
from typing import Final

from dynres.config.faults import Fault
from dynres.config.model import Place
from dynres.config.terms import NearMisses

SHOWN_FAULTS: Final = 1000
ENOUGH_FAULTS: Final = 10_000


class Findings:
    """Faults and warnings found so far."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.near = NearMisses()

    @property
    def full(self) -> bool:
        """So much is wrong that reading on tells nobody anything."""
        return len(self.faults) >= ENOUGH_FAULTS

    def fault(
        self,
        place: Place | None,
        what: str,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Note something that makes the folder unusable."""
        self.faults.append(Fault(place=place, what=what, expected=expected, got=got, hint=hint))

    def warn(self, place: Place | None, what: str, hint: str | None = None) -> None:
        """Note something that is probably not meant."""
        self.warnings.append(Fault(place=place, what=what, hint=hint))

    def add(self, faults: Iterable[Fault], warnings: Iterable[Fault] = ()) -> None:
        """Take over what another part has found."""
        self.faults += faults
        self.warnings += warnings


_FILES: Final = ("resources.yaml", "resources.d", "hosts.yaml", "agent.yaml", "controller.yaml")


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Each fault once, by file (as they are read), line and column; at most SHOWN_FAULTS."""
    rank = {file: index for index, file in enumerate(_FILES)}

    def key(fault: Fault) -> tuple[int, str, int, int]:
        if fault.place is None:
            return -1, "", 0, 0
        place = fault.place
        return (
            rank.get(place.file.split("/", 1)[0], len(rank)),
            place.file,
            place.line,
            place.column,
        )

    unique = sorted(dict.fromkeys(faults), key=key)
    if len(unique) > SHOWN_FAULTS:
        more = Fault(place=None, what=f"{len(unique) - SHOWN_FAULTS} more faults, not shown")
        return (*unique[:SHOWN_FAULTS], more)
    return tuple(unique)
