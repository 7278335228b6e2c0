"""Starts a process whose limits (nice, memory, ...) hold from its first instruction on.

`posix_spawn` cannot set them, and setting them once it has returned loses against a child that
forks at once. So the child is held before it executes, at two FIFOs: opening the first tells
that it is there, opening the second waits until its limits are set.
"""

from __future__ import annotations

import _thread
import errno
import os
import resource
import time

from dynres.worker import task_groups
from dynres.worker.spawn import spawn as spawn_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOT_OF_ROOT = (
    "`processes: {}` cannot be held for a probe of root, whom the system does not count: it needs "
    "the service's control group (systemd's `Delegate=yes`), or another user (`user:`)"
)

_SIGKILL = 9
_LOOKS = 1000
_FOLDERS = ("/dev/shm", "/run", "/tmp", "/var/tmp")


class Limits:
    """What differs from the launcher's own; false where nothing does."""

    __slots__ = ("cpu", "group", "memory", "nice", "processes")

    def __init__(
        self,
        nice: int,
        memory: int | None,
        cpu: float | None,
        processes: int | None = None,
        group: str | None = None,
    ) -> None:
        self.nice = nice
        self.memory = memory
        self.cpu = cpu
        self.processes = processes
        self.group = group
        """The control group that holds `processes`; None: the system counts this user's."""

    def __bool__(self) -> bool:
        wanted = (self.memory, self.cpu, self.processes)
        return bool(self.nice) or any(limit is not None for limit in wanted)

    def apply(self, pid: int) -> None:
        """Set them on process `pid`. Raises OSError whose text says which one was not allowed."""
        if self.memory is not None:
            self._prlimit(pid, "memory", resource.RLIMIT_AS, self.memory, self.memory)
        if self.cpu is not None:
            seconds = max(1, -int(-self.cpu // 1))
            # SIGXCPU at the limit, SIGKILL one second later for those who catch it.
            self._prlimit(pid, "cpu", resource.RLIMIT_CPU, seconds, seconds + 1)
        if self.processes is not None and self.group is not None:
            task_groups.move(pid, self.group)
        elif self.processes is not None:
            # The system counts all that this user has. Among them already are the child itself, and
            # this thread, which is about to end.
            most = _tasks_of(os.geteuid()) - 2 + self.processes
            self._prlimit(pid, "processes", resource.RLIMIT_NPROC, most, most)
        if self.nice:
            nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + self.nice)
            try:
                os.setpriority(os.PRIO_PROCESS, pid, nice)
            except OSError as error:
                raise _refused("nice", self.nice, error) from None

    def _prlimit(self, pid: int, name: str, which: int, soft: int, hard: int) -> None:
        try:
            resource.prlimit(pid, which, (soft, hard))
        except (OSError, ValueError) as error:
            raise _refused(name, soft, error) from None


def _tasks_of(user: int) -> int:
    """Processes and threads that a user has now."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    stat = file.read(1024)
                count += int(stat[stat.rfind(b")") + 2 :].split(b" ", 18)[17])
        except OSError:
            continue
    return count


def _refused(name: str, value: int, error: Exception) -> OSError:
    code = error.errno if isinstance(error, OSError) and error.errno else errno.EPERM
    return OSError(code, f"`{name}: {value}` is not allowed here ({os.strerror(code)})")


def spawn(
    limits: Limits,
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    fds: Sequence[int],
    *,
    cwd: str | None,
    created: Callable[[], None],
) -> int:
    """As `spawn.spawn`, with `limits` in force before `path` executes. Raises OSError.

    `created` is called, by another thread, once the process is there.
    """
    hold = _Hold(limits, created)
    try:
        _thread.start_new_thread(hold.wait_and_apply, ())
    except RuntimeError:
        hold.close()
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path) from None
    try:
        opens = [(hold.arrived.path, os.O_WRONLY), (hold.ready.path, os.O_RDONLY)]
        pid = spawn_plain(path, argv, env, fds, cwd=cwd, opens=opens)
    finally:
        hold.release()
    if hold.fault is not None:
        os.kill(pid, _SIGKILL)
        os.waitpid(pid, 0)
        raise hold.fault
    return pid


class _Fifo:
    """A FIFO without a name, opened anew through /proc (an anonymous pipe would not block)."""

    def __init__(self) -> None:
        self.name = _make_fifo()
        try:
            self.fd = os.open(self.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        finally:
            os.unlink(self.name)  # noqa: PTH108
        self.path = f"/proc/self/fd/{self.fd}"


def _make_fifo() -> str:
    for folder in _FOLDERS:
        name = f"{folder}/.dynres-{os.urandom(8).hex()}"
        try:
            os.mkfifo(name, 0o600)
        except OSError:
            continue
        return name
    raise OSError(errno.EACCES, "limits need a FIFO, and no folder takes one", _FOLDERS[0])


class _Hold:
    """Holds one child between its creation and its execution, and sets its limits meanwhile."""

    def __init__(self, limits: Limits, created: Callable[[], None]) -> None:
        self._created = created
        self.arrived = _Fifo()
        self.ready = _Fifo()
        self.fault: OSError | None = None
        self._limits = limits
        self._freed = False
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def wait_and_apply(self) -> None:
        """In a thread of its own: wait for the child, set its limits, let it go on."""
        opened = [os.open(self.arrived.path, os.O_RDONLY | os.O_CLOEXEC)]
        self._created()
        pid = self._held()
        try:
            if pid is None:
                raise OSError(errno.ESRCH, "the process to be limited was not found in /proc")
            self._limits.apply(pid)
        except OSError as error:
            self.fault = error
            if pid is not None:
                os.kill(pid, _SIGKILL)
        opened.append(os.open(self.ready.path, os.O_WRONLY | os.O_CLOEXEC))
        for fd in opened:
            os.close(fd)
        self._done.release()

    def release(self) -> None:
        """After the start: free a thread that waits for a child which never came, or died."""
        self._freed = True
        flags = os.O_RDWR | os.O_CLOEXEC  # never waits
        freed = [os.open(fifo.path, flags) for fifo in (self.arrived, self.ready)]
        self._done.acquire()
        for fd in freed:
            os.close(fd)
        self.close()

    def close(self) -> None:
        os.close(self.arrived.fd)
        os.close(self.ready.fd)

    def _held(self) -> int | None:
        """The process that has our first FIFO open as descriptor 0."""
        # Its `open` frees ours a moment before its descriptor can be seen.
        for _ in range(_LOOKS):
            pid = self._look()
            if pid is not None or self._freed:
                return pid
            time.sleep(0.001)
        return None

    def _look(self) -> int | None:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
        for pid in sorted(pids, reverse=True):  # the newest first
            try:
                if os.readlink(f"/proc/{pid}/fd/0").startswith(self.arrived.name):  # noqa: PTH115
                    return pid
            except OSError:
                continue
        return None
