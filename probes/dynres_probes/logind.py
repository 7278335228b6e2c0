"""Asks systemd-logind who is logged in, for machines that keep no utmp."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Session = tuple[str, int, str | None]
    """User name, uid, and terminal below /dev: None where logind knows none (ssh)."""


class Logind:
    """libsystemd's sd-login calls; OSError where the library or logind is missing."""

    def __init__(self) -> None:
        self._systemd = ctypes.CDLL("libsystemd.so.0")
        self._free: Callable[[Any], Any] = ctypes.CDLL(None).free

    def sessions(self) -> list[Session]:
        """Sessions of people: not of cron, of a greeter, or ended but for leftover processes."""
        names = ctypes.POINTER(ctypes.c_void_p)()
        count = self._systemd.sd_get_sessions(ctypes.byref(names))
        if count < 0:
            raise OSError(-count, "systemd-logind does not tell its sessions")
        found = []
        for index in range(count):
            session = self._session(self._take(ctypes.c_void_p(names[index])).encode())
            if session is not None:
                found.append(session)
        self._free(names)
        return found

    def _session(self, name: bytes) -> Session | None:
        user, kind = self._text("username", name), self._text("class", name)
        if user is None or kind is None or not kind.startswith("user"):
            return None
        if self._text("state", name) == "closing":
            return None
        uid = ctypes.c_uint()
        if self._systemd.sd_session_get_uid(name, ctypes.byref(uid)) < 0:
            return None  # it has ended since
        return user, uid.value, self._text("tty", name)

    def _text(self, what: str, session: bytes) -> str | None:
        answer = ctypes.c_void_p()
        ask = getattr(self._systemd, f"sd_session_get_{what}")
        return self._take(answer) if ask(session, ctypes.byref(answer)) >= 0 else None

    def _take(self, pointer: ctypes.c_void_p) -> str:
        """The C string at `pointer`, whose memory is given back."""
        text = ctypes.string_at(pointer).decode(errors="replace") if pointer else ""
        self._free(pointer)
        return text
