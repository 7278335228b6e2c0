"""Who is logged in, and when a login terminal was last used."""

from __future__ import annotations

import os

from dynres_probes import utmp

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

UTMP: Final = "/run/utmp"
LOGIND: Final = "/run/systemd/sessions"
TERMINALS: Final = "/dev/pts"


class Login:
    """A user name and the terminals (paths below /dev) of one login."""

    def __init__(self, user: str, terminals: tuple[str, ...]) -> None:
        self.user = user
        self.terminals = terminals


class Logins:
    """Reads utmp; where there is none, asks systemd-logind; where there is neither, nobody."""

    def __init__(self) -> None:
        self._logind: object | None = None

    def read(self) -> list[Login]:
        """Everyone logged in now. Raises OSError when the machine does not tell."""
        try:
            records = utmp.logins(UTMP)
        except FileNotFoundError:
            return self._from_logind()
        return [
            Login(user, (f"/dev/{terminal}",) if terminal else ())
            for user, terminal, pid in records
            if _alive(pid)  # a crashed login leaves its entry behind
        ]

    def _from_logind(self) -> list[Login]:
        # The library lists this very folder. It costs 1.2 MB, and mostly nobody is logged in.
        try:
            if not os.listdir(LOGIND):
                return []
        except (FileNotFoundError, NotADirectoryError):
            return []
        from dynres_probes.logind import Logind

        if not isinstance(self._logind, Logind):
            self._logind = Logind()
        return [
            Login(user, (f"/dev/{terminal}",) if terminal else _terminals_of(uid))
            for user, uid, terminal in self._logind.sessions()
        ]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _terminals_of(uid: int) -> tuple[str, ...]:
    """The pseudo-terminals of a user; logind does not know which one an ssh login got."""
    owned = []
    for name in os.listdir(TERMINALS):
        path = f"{TERMINALS}/{name}"
        try:
            if name.isdigit() and os.stat(path).st_uid == uid:
                owned.append(path)
        except FileNotFoundError:
            continue
    return tuple(owned)


def last_uses(terminals: Iterable[str]) -> dict[str, float]:
    """When each terminal was last read from, by the wall clock; one that is gone is left out."""
    uses = {}
    for terminal in terminals:
        try:
            uses[terminal] = os.stat(terminal).st_atime
        except OSError:
            continue  # a graphical display (:0), or logged out since
    return uses


class Activity:
    """Turns terminals' wall-clock stamps into an instant of the clock that only goes forward.

    The wall clock is trusted once per terminal, when it is first seen; after that a changed
    stamp says "since the last look". So a clock that is set never makes a host busy or idle.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, float] = {}
        self._looked: float | None = None
        self.newest: float | None = None
        """Instant of the newest activity seen so far; None: nobody was seen."""

    def look(self, stamps: dict[str, float], wall: float, now: float) -> None:
        """Take in what `last_uses` gave at the wall-clock time `wall`, the instant `now`."""
        for terminal, stamp in stamps.items():
            if self._stamps.get(terminal) == stamp:
                continue
            ago = max(0.0, wall - stamp)
            if terminal in self._stamps and self._looked is not None:
                ago = min(ago, now - self._looked)
            self.newest = max(self.newest if self.newest is not None else now - ago, now - ago)
        self._stamps, self._looked = stamps, now
