"""The hosts that one requirement selects, and what a change of the tables means for them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynres.controller.requirement import Requirement
from dynres.controller.tracker import Delta, Tracker


class Outcome(NamedTuple):
    """Rows that are new in a selection, that are in it no more, and that stay with changes."""

    appear: list[int]
    vanish: list[int]
    stay: list[int]


class Selection:
    """Hosts that are up, not closed, and satisfy a requirement; every host for None."""

    def __init__(self, requirement: Requirement | None, tracker: Tracker, now: float) -> None:
        self.requirement = requirement
        self._tracker = tracker
        self._chosen: npt.NDArray[np.bool_] = np.zeros(tracker.table.width, dtype=np.bool_)
        rows = self._every()
        self._chosen[rows] = self._choose(rows, now)

    def rows(self) -> list[int]:
        """The rows that are selected."""
        return np.flatnonzero(self._chosen).tolist()

    def __contains__(self, row: int) -> bool:
        return row < len(self._chosen) and bool(self._chosen[row])

    def forget(self, row: int) -> bool:
        """A row is given up; whether it was selected."""
        was = row in self
        if was:
            self._chosen[row] = False
        return was

    def update(self, delta: Delta, now: float) -> Outcome:
        """Select anew where something has changed that the requirement asks about."""
        more = self._tracker.table.width - len(self._chosen)
        if more > 0:
            self._chosen = np.pad(self._chosen, (0, more))
        touched = delta.rows
        pools = {instance.resource for instance in delta.pools}
        if self.requirement is not None and pools & self.requirement.resources:
            rows = self._every()
        else:
            rows = np.array(sorted(touched), dtype=np.intp)
        before = self._chosen[rows]
        after = self._choose(rows, now)
        self._chosen[rows] = after
        kept = rows[before & after].tolist()
        return Outcome(
            appear=rows[after & ~before].tolist(),
            vanish=rows[before & ~after].tolist(),
            stay=[row for row in kept if row in touched],
        )

    def _every(self) -> npt.NDArray[np.intp]:
        return np.array(sorted(self._tracker.table.rows.values()), dtype=np.intp)

    def _choose(self, rows: npt.NDArray[np.intp], now: float) -> npt.NDArray[np.bool_]:
        if self.requirement is None or not len(rows):
            return np.ones(len(rows), dtype=np.bool_)
        chosen = self.requirement.evaluate(self._tracker.core.columns.at(now, rows)).satisfied
        for place in np.flatnonzero(chosen).tolist():
            state, closed = self._tracker.standing(int(rows[place]))
            chosen[place] = state == "up" and not closed
        return chosen
