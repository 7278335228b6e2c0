"""Starts runs in a few threads, so that a start that hangs costs only its own run.

One start: find the program, check who could change it, open the pipes, `posix_spawn`. A thread
whose start does not come back is set aside and another takes its place, up to a bound.
"""

from __future__ import annotations

import _thread
import errno
import os
import stat
import time
from _queue import SimpleQueue
from collections import deque

from dynres.worker import limits
from dynres.worker.ownership import UnsafeFile, check
from dynres.worker.spawn import spawn
from dynres.worker.start_errors import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynres.worker.running import Run

STARTERS = 3
"""Threads that start, when none hangs."""
MOST_STARTERS = 16
"""Threads in all; with as many starts hanging, the launcher has to be replaced."""
BUSY_TRIES = 10
BUSY_PAUSE = 0.02
"""A program that is open for writing is tried again for 0.2 s."""


class Child:
    """A process that has been started, with our ends of its pipes (non-blocking)."""

    __slots__ = ("err", "out", "pid", "pidfd", "stdin")

    def __init__(self, pid: int, pidfd: int, out: int, err: int, stdin: int | None) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.out = out
        self.err = err
        self.stdin = stdin
        """Our end of its stdin, where that is a pipe."""


class NotStarted:
    """Why there is no process: `status` is `start_error`, `refused` or `cancelled`."""

    __slots__ = ("reason", "status")

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        self.reason = reason


class Starts:
    """The starter threads and their queue; `done` fills up and `wake` is written to."""

    def __init__(self, agent: str, owner: int) -> None:
        self.done: deque[tuple[Run, Child | NotStarted]] = deque()
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.closed = False
        """Set when the launcher ends: nothing is started any more."""
        self._agent = agent
        self._owner = owner
        self._queue: SimpleQueue[Run] = SimpleQueue()
        self._threads = 0
        self._pending = 0
        self._aside = 0
        self._null = os.open("/dev/null", os.O_RDONLY)

    def submit(self, run: Run) -> None:
        """Start `run` as soon as a thread is free."""
        self._pending += 1
        self._queue.put(run)
        if self._threads < min(STARTERS, self._pending):
            self._add_thread()

    def set_aside(self) -> None:
        """One start hangs: let another thread take its place, up to the bound."""
        self._aside += 1
        if self._threads - self._aside < STARTERS and self._threads < MOST_STARTERS:
            self._add_thread()

    @property
    def pending(self) -> int:
        """Starts that were submitted and have not been taken back."""
        return self._pending

    def take(self) -> list[tuple[Run, Child | NotStarted]]:
        """The starts that have come back since the last call."""
        try:
            os.eventfd_read(self.wake)
        except BlockingIOError:
            return []
        done = []
        while self.done:
            run, outcome = self.done.popleft()
            self._pending -= 1
            self._aside -= run.set_aside
            done.append((run, outcome))
        return done

    def _add_thread(self) -> None:
        # A starter never ends: the kernel would hand its children to the main thread, which
        # takes those for orphans.
        self._threads += 1
        _thread.start_new_thread(self._work, ())

    def _work(self) -> None:
        while True:
            run = self._queue.get()
            run.taken = time.monotonic()
            outcome = (
                NotStarted("cancelled", "") if run.reported or self.closed else self._start(run)
            )
            self.done.append((run, outcome))
            os.eventfd_write(self.wake, 1)

    def _start(self, run: Run) -> Child | NotStarted:
        path = run.argv[0]
        try:
            path = find(path, run.env)
            if not run.allow_unsafe:
                check(path, run.argv, (self._owner, *run.trusted))
            return self._spawn(run, path)
        except UnsafeFile as error:
            return NotStarted("refused", str(error))
        except OSError as error:
            return NotStarted("start_error", explain(error, path, run.cwd))
        except ValueError as error:
            return NotStarted("start_error", str(error))

    def _spawn(self, run: Run, path: str) -> Child:
        ends: list[int] = []
        try:
            for _ in range(2):
                ends += os.pipe2(os.O_CLOEXEC)
            out, to_out, err, to_err = ends
            stdin, to_stdin = self._null, None
            if run.talks:
                stdin, to_stdin = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                ends += (stdin, to_stdin)
                os.set_blocking(stdin, True)
            os.set_blocking(out, False)
            os.set_blocking(err, False)
            pid = self._retry_busy(run, path, [stdin, to_out, to_err])
            pidfd = os.pidfd_open(pid)
        except OSError:
            for end in ends:
                os.close(end)
            raise
        os.close(to_out)
        os.close(to_err)
        if to_stdin is not None:
            os.close(stdin)
        return Child(pid, pidfd, out, err, to_stdin)

    def _retry_busy(self, run: Run, path: str, fds: list[int]) -> int:
        env = {**run.env, "DYNRES_AGENT": self._agent, "DYNRES_RUN": run.run}
        cwd = None if run.cwd == "/" else run.cwd
        wanted = limits.Limits(run.nice, run.memory, run.cpu)
        for attempt in range(BUSY_TRIES):
            try:
                if wanted:
                    return limits.spawn(wanted, path, run.argv, env, fds, cwd=cwd)
                return spawn(path, run.argv, env, fds, cwd=cwd)
            except OSError as error:
                if error.errno != errno.ETXTBSY or attempt == BUSY_TRIES - 1 or run.reported:
                    raise
                time.sleep(BUSY_PAUSE)
        raise AssertionError  # the last attempt returns or raises


def find(name: str, env: Mapping[str, str]) -> str:
    """The program that `name` means: itself when it has a `/`, else the first of that name in PATH.

    Raises FileNotFoundError.
    """
    if "/" in name:
        if not name.startswith("/"):
            raise ValueError(f"not an absolute path: {name}")
        return name
    for folder in env.get("PATH", "").split(":"):
        path = f"{folder}/{name}"
        if folder.startswith("/") and _runnable(path):
            return path
    raise ValueError(f"no such program in PATH ({env.get('PATH', '')}): {name}")


def _runnable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)  # noqa: PTH116
    except OSError:
        return False
