"""Starts runs in threads of their own, so that a start that hangs costs only its own run.

One start: find the program, check who could change it, open the pipes, `posix_spawn`. One thread
works through all that is due; when a start of it does not come back it is set aside and another
takes its place, up to a bound. The main thread is not woken for a start that went well: it hears
of it with the end of the process, or when it looks for it.
"""

from __future__ import annotations

import _thread
import errno
import os
import select
import stat
import time
from _queue import SimpleQueue

from dynres.worker import limits
from dynres.worker.ownership import UnsafeFile, check
from dynres.worker.run_marks import RunMarks
from dynres.worker.spawn import spawn
from dynres.worker.start_errors import explain
from dynres.worker.task_groups import TaskGroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Mapping

    from dynres.worker.running import Run
else:
    from _collections import deque  # what `collections` has beside it is 0.4 MB

BATCH = 8
"""Waiting starts for each thread that is awake; with more, another helps."""
PACE = 0.0015
"""Seconds between two starts of a small group: most processes are through by then, and those that
start together are late by what the others take, each time another time."""
UNHURRIED = 0.1
"""Seconds of timeout from which on a run is started apart from others."""
HELPERS = 3
"""Threads awake at once, beside those whose start hangs."""
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
    """The starter threads and their queue; each process is put into `epoll` by its pidfd.

    `wake` becomes readable where a start has to be looked at before its process has ended.
    """

    def __init__(self, agent: str, owner: int, epoll: select.epoll) -> None:
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._done: deque[tuple[Run, Child | NotStarted]] = deque()
        self._epoll = epoll
        epoll.register(self.wake, select.EPOLLIN)
        self.closed = False
        """Set when the launcher ends: nothing is started any more."""
        self._agent = agent
        self._owner = owner
        self._marks = RunMarks(agent)
        self._groups = TaskGroups()
        self._queue: deque[Run] = deque()
        self._calls: SimpleQueue[None] = SimpleQueue()
        """One item wakes one idle thread."""
        self._lock = _thread.allocate_lock()
        """Held while `_awake` and `_aside` are decided upon, and while a start is handed over."""
        self._threads = 0
        self._awake = 0
        self._aside = 0
        self._null = os.open("/dev/null", os.O_RDONLY)

    def submit(self, run: Run) -> None:
        """Start `run` after those that wait already."""
        self._queue.append(run)
        self._call()

    def set_aside(self, run: Run) -> None:
        """The start of `run` hangs: let another thread take its place, up to the bound."""
        with self._lock:
            if run.came_back:
                return
            run.set_aside = True
            self._awake -= 1
            self._aside += 1
        self._call()

    def take(self) -> Iterator[tuple[Run, Child | NotStarted]]:
        """The starts that have come back since the last call."""
        while self._done:
            run, outcome = self._done.popleft()
            if run.set_aside:
                self._call()
            yield run, outcome

    def handed_over(self) -> None:
        """Wait until a start that `take` gave is the caller's altogether, its pidfd in the epoll.

        It is on its way there; but an event of an earlier descriptor with its number may be quicker
        (a process that is being created holds copies of descriptors that we have closed).
        """
        with self._lock:
            return

    def hushed(self) -> None:
        """`wake` was readable: it is no longer."""
        try:
            os.eventfd_read(self.wake)
        except BlockingIOError:
            return

    def _call(self) -> None:
        """See to it that a thread works through the queue; a long one gets more."""
        with self._lock:
            wanted = min(HELPERS, -(-len(self._queue) // BATCH))
            if self._awake >= wanted:
                return
            if self._awake + self._aside < self._threads:
                self._calls.put(None)
            elif self._threads < MOST_STARTERS:
                # A starter never ends: the kernel would hand its children to the main thread,
                # which takes those for orphans.
                self._threads += 1
                _thread.start_new_thread(self._work, ())
            else:
                return
            self._awake += 1

    def _work(self) -> None:
        while True:
            began = time.monotonic()
            while (run := self._next()) is not None and self._served(run):
                if self._is_small_group():
                    time.sleep(max(0.0, began + PACE - time.monotonic()))
                began = time.monotonic()
            self._calls.get()

    def _is_small_group(self) -> bool:
        """Whether only a few wait, which have the time for it."""
        with self._lock:
            return 0 < len(self._queue) <= BATCH and self._queue[0].timeout >= UNHURRIED

    def _next(self) -> Run | None:
        """The next one to start; None: nothing waits, and this thread counts as idle."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._awake -= 1
            return None

    def _served(self, run: Run) -> bool:
        """Start it; whether this thread may go on, not having been set aside meanwhile."""
        run.taken = time.monotonic()
        outcome = NotStarted("cancelled", "") if run.reported or self.closed else self._start(run)
        with self._lock:
            self._aside -= run.set_aside
            go_on = not run.set_aside
            run.came_back = True
            self._done.append((run, outcome))
            if isinstance(outcome, Child):
                self._epoll.register(outcome.pidfd, select.EPOLLIN)
        if isinstance(outcome, NotStarted) or run.stream or run.reported or not go_on:
            os.eventfd_write(self.wake, 1)
        return go_on

    def _start(self, run: Run) -> Child | NotStarted:
        path = run.argv[0]
        try:
            if run.processes is not None and os.geteuid() == 0:
                run.group = self._groups.of(run.probe, run.processes)
                if run.group is None:
                    return NotStarted("refused", limits.NOT_OF_ROOT.format(run.processes))
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
        wanted = limits.Limits(run.nice, run.memory, run.cpu, run.processes, run.group)
        for attempt in range(BUSY_TRIES):
            turn = self._marks.enter(run)
            try:
                if wanted:
                    return limits.spawn(
                        wanted, path, run.argv, env, fds, cwd=cwd, created=turn.leave
                    )
                return spawn(path, run.argv, env, fds, cwd=cwd)
            except OSError as error:
                if error.errno != errno.ETXTBSY or attempt == BUSY_TRIES - 1 or run.reported:
                    raise
            finally:
                turn.leave()
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
