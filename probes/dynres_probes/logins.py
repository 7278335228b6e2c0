"""Who is logged in, and when a login terminal was last used."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

UTMP: Final = Path("/run/utmp")
LOGIND: Final = Path("/run/systemd/sessions")


class Login(NamedTuple):
    """A user name and the terminals (paths below /dev) of one login."""

    user: str
    terminals: tuple[str, ...]


class Logins:
    """Reads utmp; where there is none, asks systemd-logind; where there is neither, nobody."""

    def __init__(self) -> None:
        self._logind: object | None = None

    def read(self) -> list[Login]:
        """Everyone logged in now. Raises OSError when the machine does not tell."""
        if UTMP.exists():
            return self._from_utmp()
        return self._from_logind() if LOGIND.exists() else []

    def _from_utmp(self) -> list[Login]:
        import psutil  # 3.6 MB, and only where there is a utmp

        return [
            Login(user.name, (f"/dev/{user.terminal}",) if user.terminal else ())
            for user in psutil.users()
            if user.pid is None or _alive(int(user.pid))  # a crashed login leaves its entry behind
        ]

    def _from_logind(self) -> list[Login]:
        from dynres_probes.logind import Logind

        if not isinstance(self._logind, Logind):
            self._logind = Logind()
        return [
            Login(s.user, (f"/dev/{s.terminal}",) if s.terminal else _terminals_of(s.uid))
            for s in self._logind.sessions()
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
    for path in Path("/dev/pts").glob("[0-9]*"):
        try:
            if path.stat().st_uid == uid:
                owned.append(str(path))
        except FileNotFoundError:
            continue
    return tuple(owned)


def last_uses(terminals: Iterable[str]) -> dict[str, float]:
    """When each terminal was last read from, by the wall clock; one that is gone is left out."""
    uses = {}
    for terminal in terminals:
        try:
            uses[terminal] = Path(terminal).stat().st_atime
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
