"""Runs a program for a probe: its output bounded, ended in time, and with all that it started."""

import contextlib
import os
import secrets
import select
import shutil
import signal
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dynres.probe import ProbeError

OUTPUT_LIMIT: Final = 2**20
STDERR_KEPT: Final = 4096
PATIENCE: Final = 0.5
"""Seconds after SIGKILL until a process counts as one that cannot be ended."""
_DRAIN: Final = 0.2
_MARK: Final = "DYNRES_TOOL"
_SWEEPS: Final = 20

_stuck: "dict[tuple[str, ...], Child]" = {}
"""Commands of which a copy cannot be ended: no second one starts beside it."""


class Finished(NamedTuple):
    """What a program printed, and its exit status (minus the signal that ended it)."""

    status: int
    stdout: str
    stderr: str


class Child:
    """One running program. Raises OSError where it cannot be started."""

    def __init__(self, path: str, argv: Sequence[str], limit: int = OUTPUT_LIMIT) -> None:
        self.status: int | None = None
        """Exit status, or minus the signal that ended it; None while it runs."""
        self.started = _ticks_now()
        self.mark = secrets.token_hex(8)
        self.out, self.err = bytearray(), bytearray()
        self._limit = limit
        out, their_out = _pipe()
        err, their_err = _pipe()
        self._pipes = {out: self.out, err: self.err}
        try:
            self.pid = _spawn(path, argv, self.mark, their_out, their_err)
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self.close()
            raise
        finally:
            os.close(their_out)
            os.close(their_err)

    @property
    def too_much(self) -> bool:
        """Whether it printed more than it may."""
        return len(self.out) > self._limit

    @property
    def floods(self) -> bool:
        """Whether it printed more than it may and is still read."""
        return self.too_much and bool(self._pipes)

    def descriptors(self) -> list[int]:
        """What to wait for."""
        return [*self._pipes, *([self._pidfd] if self.status is None else [])]

    def look(self) -> None:
        """Take what is in the pipes, and its end."""
        for fd, kept in list(self._pipes.items()):
            self._take(fd, kept)
        if self.status is None:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            if ended is not None:
                exited = ended.si_code == os.CLD_EXITED
                self.status = ended.si_status if exited else -ended.si_status
                os.close(self._pidfd)

    def _take(self, fd: int, kept: bytearray) -> None:
        for _ in range(4 * OUTPUT_LIMIT // 65536):
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                return
            if not data:
                del self._pipes[fd]
                os.close(fd)
                return
            kept += data
            if kept is self.err:
                del kept[:-STDERR_KEPT]
            elif self.too_much:
                return

    def signal(self, number: int) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Read no further."""
        for fd in self._pipes:
            os.close(fd)
        self._pipes.clear()


def wait(children: Sequence[Child], deadline: float) -> None:
    """Until all have ended, one printed too much, or `deadline` (monotonic) has come."""
    while any(child.status is None for child in children):
        left = deadline - time.monotonic()
        if left <= 0 or any(child.floods for child in children):
            return
        poll = select.poll()
        for child in children:
            for fd in child.descriptors():
                poll.register(fd, select.POLLIN)
        poll.poll(left * 1000)
        for child in children:
            child.look()


def kill(children: Sequence[Child]) -> None:
    """SIGKILL to all, and wait a moment: those that cannot be ended have no `status` then."""
    for child in children:
        child.signal(signal.SIGKILL)
        child.close()
    wait(children, time.monotonic() + PATIENCE)


def run(
    command: Sequence[str],
    seconds: float,
    limit: int = OUTPUT_LIMIT,
    owners: Sequence[str] = (),
) -> Finished:
    """One run to its end; whatever it started is ended with it, also what left its session.

    `owners`: users beside root and this one who may own the program and its folders.

    Raises ProbeError where it cannot be started, takes longer than `seconds`, or prints more
    than `limit` bytes; FileNotFoundError where there is no such program.
    """
    key, name = tuple(command), command[0]
    if key in _stuck and not ended(_stuck[key]):
        raise ProbeError(f"{name}: an earlier copy cannot be ended, pid {_stuck[key].pid}")
    _stuck.pop(key, None)
    try:
        child = Child(find(name, owners), command, limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ProbeError(f"{name}: {error.strerror}") from None
    try:
        wait([child], time.monotonic() + seconds)
        _drain(child)
    finally:
        status = child.status
        kill([child])
        _end_marked(child)
        if child.status is None:
            _stuck[key] = child
    if child.too_much:
        raise ProbeError(f"{name}: more than {limit} bytes of output")
    if status is None:
        raise ProbeError(f"{name}: did not end within {seconds:g} s")
    texts = (bytes(part).decode("utf-8", "replace") for part in (child.out, child.err))
    return Finished(status, *texts)


def ended(child: Child) -> bool:
    """Whether it is gone by now."""
    child.look()
    return child.status is not None


def find(name: str, owners: Sequence[str] = ()) -> str:
    """The program, by path or in PATH, when nobody but root, this user and `owners` may change it.

    Raises FileNotFoundError, ProbeError.
    """
    path = shutil.which(name)
    if path is None:
        there = "/" in name and Path(name).exists()
        if there:
            raise ProbeError(f"{name}: not an executable file")
        raise FileNotFoundError(f"{name}: no such program")
    real = Path(path).resolve()
    trusted = {0, os.geteuid(), *map(_uid, owners)}
    for part in (real, *real.parents):
        status = part.stat()
        sticky = part != real and status.st_mode & stat.S_ISVTX and status.st_uid == 0
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        if others or status.st_uid not in trusted:
            mode = stat.filemode(status.st_mode)
            raise ProbeError(
                f"{part}: owner {status.st_uid}, {mode}: others than root and this user "
                "could change what runs here; chown and chmod it"
            )
    return path


def _uid(user: str) -> int:
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ProbeError(f"owners: no such user: {user}") from None


def _pipe() -> tuple[int, int]:
    """A pipe of which only our end never waits."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours, False)
    return ours, theirs


def _spawn(path: str, argv: Sequence[str], mark: str, out: int, err: int) -> int:
    # It stays in the plugin host's process group, so that it ends with the host too.
    return os.posix_spawn(
        path,
        list(argv),
        {**os.environ, _MARK: mark},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ],
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _drain(child: Child) -> None:
    """What is in the pipes after its end; a background child may hold them open."""
    deadline = time.monotonic() + _DRAIN
    while child.status is not None and child.descriptors() and not child.too_much:
        left = deadline - time.monotonic()
        poll = select.poll()
        for fd in child.descriptors():
            poll.register(fd, select.POLLIN)
        if left <= 0 or not poll.poll(left * 1000):
            return
        child.look()


def _ticks_now() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _end_marked(child: Child) -> None:
    """SIGKILL to every process that carries the child's mark, until there is none."""
    mark = f"{_MARK}={child.mark}".encode()
    for _ in range(_SWEEPS):
        found = False
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdigit() and int(name) != child.pid:
                found = _end_if_marked(int(name), mark, child.started) or found
        if not found:
            return


def _end_if_marked(pid: int, mark: bytes, since: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        # Older ones cannot be its own, and reading from a process that hangs may hang.
        if int(fields[19]) < since - 1 or fields[0] in b"ZXx":
            return False
        pidfd = os.pidfd_open(pid)
    except (OSError, IndexError, ValueError):
        return False
    try:
        if mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True
