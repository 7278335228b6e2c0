"""Things that many cells hold, as small numbers: texts of values, reasons, origins."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)

SLACK: Final = 1024
"""Codes that may be handed out beyond twice the live ones before a sweep is worth its time."""


class Interned(Generic[T]):
    """A two-way table thing <-> code. Codes that no cell holds are handed out again after `sweep`.

    Reasons and texts come from probes without end (a time in a message is enough), so what
    nobody holds any more has to go.
    """

    def __init__(self) -> None:
        self._codes: dict[T, int] = {}
        self._things: list[T | None] = []
        self._free: list[int] = []
        self._limit = SLACK
        self.crowded = False
        """Whether a sweep is due."""

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, thing: T) -> int:
        """The code of `thing`, a new one where it has none."""
        code = self._codes.get(thing)
        if code is None:
            if self._free:
                code = self._free.pop()
                self._things[code] = thing
            else:
                code = len(self._things)
                self._things.append(thing)
            self._codes[thing] = code
            self.crowded = len(self._codes) > self._limit
        return code

    def find(self, thing: T) -> int | None:
        """The code of `thing`, or None."""
        return self._codes.get(thing)

    def thing(self, code: int) -> T:
        """What a code stands for; only for codes that a cell holds."""
        thing = self._things[code]
        if thing is None:
            raise LookupError(f"code {code} is not in use")
        return thing

    def adopt(self, old: "Interned[T]", codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The codes that stand here for what `codes` stand for in `old`; -1 stays -1."""
        distinct, places = np.unique(codes, return_inverse=True)
        mine = [self.code(old.thing(c)) if c >= 0 else -1 for c in distinct.tolist()]
        return np.array(mine, dtype=np.int32)[places]

    def sweep(self, held: npt.NDArray[np.intp]) -> None:
        """Forget every code that is not in `held`."""
        live = np.zeros(len(self._things), dtype=np.bool_)
        live[held] = True
        for code in np.flatnonzero(~live).tolist():
            thing = self._things[code]
            if thing is not None:
                del self._codes[thing]
                self._things[code] = None
                self._free.append(code)
        self._limit = 2 * len(self._codes) + SLACK
        self.crowded = False
