"""One agent per host on a machine: where its socket is, and the lock that keeps others out."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

SYSTEM_FOLDER: Final = Path("/run/dynres")
LONGEST_PATH: Final = 107
"""Bytes that the path of a unix socket may have."""


class ClaimError(Exception):
    """This agent cannot run here for this host; the text says why and what to do."""


def runtime_folder() -> Path:
    """Where sockets of local agents are: DYNRES_RUNTIME, else the user's own or the system's."""
    named = os.environ.get("DYNRES_RUNTIME")
    if named:
        return Path(named)
    own = os.environ.get("XDG_RUNTIME_DIR")
    return Path(own, "dynres") if own and os.geteuid() != 0 else SYSTEM_FOLDER


class Claim:
    """The right to run `host`'s probes, held until `release` or the end of the process.

    Raises ClaimError when another agent holds it, or the folder cannot be used.
    """

    def __init__(self, host: str) -> None:
        folder = runtime_folder()
        self.socket = folder / f"agent-{host}.sock"
        self._path = folder / f"agent-{host}.lock"
        if len(os.fsencode(self.socket)) > LONGEST_PATH - 4:
            raise ClaimError(f"{self.socket}: too long for a socket; set DYNRES_RUNTIME shorter")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            self._fd = self._lock(host)
        except OSError as error:
            raise ClaimError(
                f"{error.filename or folder}: {error.strerror}: the agent's socket goes there; "
                "make it writable for this user or name another folder in DYNRES_RUNTIME"
            ) from error

    def _lock(self, host: str) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = os.read(fd, 20).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise ClaimError(
                    f"another agent for host {host} is running, pid {pid} ({self._path})"
                ) from None
            if self._is_the_file(fd):
                with suppress(OSError):  # a full disk: then nobody can say which process has it
                    os.ftruncate(fd, 0)
                    os.write(fd, f"{os.getpid()}\n".encode())
                return fd
            os.close(fd)  # its owner removed it just before we had it

    def _is_the_file(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give it up: the next agent may start."""
        self._path.unlink(missing_ok=True)
        os.close(self._fd)
