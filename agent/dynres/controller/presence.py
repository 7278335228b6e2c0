"""Which hosts are up, as one column: the same that each session says, for thousands at once."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from dynres.controller.session import UNREACHABLE_AFTER, Session

NEVER: Final = -np.inf


class Presence:
    """When each known host was heard of last; NEVER where its session is over, or has none."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._heard = np.full(1, NEVER)

    def reset(self, known: Iterable[tuple[str, Session | None]]) -> None:
        """Begin anew with these hosts and their sessions."""
        self._places = {}
        heard: list[float] = []
        for host, session in known:
            self._places[host] = len(heard)
            heard.append(NEVER if session is None or session.over else session.heard)
        self._heard = np.array([*heard, NEVER])

    def add(self, session: Session) -> None:
        """A session begins; its host may be a new one."""
        place = self._places.get(session.host)
        if place is None:
            place = self._places[session.host] = len(self._places)
            if place >= len(self._heard) - 1:  # the last stays free, for hosts that are not known
                more = max(64, place // 2)
                self._heard = np.pad(self._heard, (0, more), constant_values=NEVER)
        self._heard[place] = session.heard

    def heard(self, session: Session) -> None:
        """A message came."""
        place = self._places.get(session.host)
        if place is not None:
            self._heard[place] = session.heard

    def ended(self, session: Session) -> None:
        """A session is over."""
        place = self._places.get(session.host)
        if place is not None:
            self._heard[place] = NEVER

    def places(self, hosts: Iterable[str]) -> npt.NDArray[np.intp]:
        """Where each of these hosts is in the column; good until other hosts are known."""
        return np.array([self._places.get(host, -1) for host in hosts], dtype=np.intp)

    def up(self, places: npt.NDArray[np.intp], now: float) -> npt.NDArray[np.bool_]:
        """Which of them are up at `now`."""
        found: npt.NDArray[np.bool_] = now - self._heard[places] <= UNREACHABLE_AFTER
        return found
