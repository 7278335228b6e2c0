"""One run inside the launcher: its request, its process, its bounded output and how it ends."""

from __future__ import annotations

import os
import time

from dynres.worker.launch_bounds import STDERR_KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from typing import Any

    from dynres.worker.starts import Child

STARTING, RUNNING, TERMINATING, KILLED, ENDED = range(5)
"""Phases. ENDED: the process is reaped; its pipes or what it left may still be there."""


class Request:
    """What a run was asked for: the fields of a LaunchRequest."""

    def __init__(
        self,
        *,
        run: str,
        argv: tuple[str, ...],
        env: dict[str, str],
        timeout: float,
        cwd: str,
        output_limit: int,
        user: str | None,
        nice: int,
        memory: int | None,
        cpu: float | None,
        allow_unsafe: bool,
        trusted: tuple[int, ...],
        stream: bool = False,
        talks: bool = False,
        processes: int | None = None,
    ) -> None:
        self.run = run
        self.argv = argv
        self.env = env
        self.timeout = timeout
        self.cwd = cwd
        self.output_limit = output_limit
        self.user = user
        self.nice = nice
        self.memory = memory
        self.cpu = cpu
        self.allow_unsafe = allow_unsafe
        self.trusted = trusted
        self.stream = stream
        self.talks = talks
        self.processes = processes


class Run(Request):
    """State of one run, named `name`, of what `shape` asks for."""

    CHUNK = 65536

    def __init__(self, shape: Request, name: str) -> None:
        self.__dict__.update(shape.__dict__)  # as super().__init__ would, but cheaper
        self.run = name
        self.started = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.since = time.monotonic()
        self.phase = STARTING
        self.deadline: float | None = None
        """When the launcher looks at this run again (monotonic)."""
        self.taken: float | None = None
        """When a starter began with it (monotonic)."""
        self.set_aside = False
        """Its starter does not come back soon and counts as hanging."""
        self.came_back = False
        """Its starter has come back."""
        self.mark = 0
        """The number that its process is marked with (`run_marks`); 0 before its creation."""
        self.group: str | None = None
        """The control group that bounds its tasks, where it needs one."""
        self.reported = False
        """The agent has been told; what remains is to clear up."""
        self.blocks = False
        """It is stuck, and its command is not tried again before it is over."""
        self.verdict: str | None = None
        """Why the run was ended from outside: timeout, too_large, cancelled."""
        self.reason: str | None = None
        self.child: Child | None = None
        self.pipes: set[int] = set()
        self.ended: float | None = None
        self._exit: int | None = None
        self._signal: int | None = None
        self.quitting = False
        """It was asked to quit; SIGTERM comes next."""
        self.watcher: select.epoll | None = None
        """The epoll that its pipes are in now."""
        self._stdout = bytearray()
        self._stderr = bytearray()

    @property
    def probe(self) -> str:
        """What the runs of one probe have in common: their names are PROBE-NUMBER."""
        return self.run.rpartition("-")[0] or self.run

    @property
    def words(self) -> str:
        """The command as a person types it, cut short."""
        text = " ".join(self.argv)
        return text if len(text) <= 200 else text[:200] + "…"

    @property
    def young(self) -> bool:
        """Whether it began just now: its pipes are not looked at yet."""
        return self.watcher is None and self.phase <= RUNNING and not (self.reported or self.stream)

    def read(self, fd: int) -> int:
        """Take once what is in a pipe: how much; 0 at its end, or when nothing is there."""
        try:
            data = os.read(fd, self.CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.pipes.discard(fd)
            self._close(fd)
            return 0
        assert self.child is not None
        if fd == self.child.err:
            self._stderr += data
            del self._stderr[:-STDERR_KEPT]
        elif not self.over_limit:
            self._stdout += data[: self.output_limit + 1 - len(self._stdout)]
        return len(data)

    @property
    def over_limit(self) -> bool:
        """Whether stdout was longer than allowed."""
        return len(self._stdout) > self.output_limit

    def drain(self) -> None:
        """Take what is in the pipes now, at most one limit's worth more: the writers are gone."""
        for fd in list(self.pipes):
            left = 64
            while left and self.read(fd):
                left -= 1

    def close_pipes(self) -> None:
        """Read no further."""
        for fd in self.pipes:
            self._close(fd)
        self.pipes.clear()

    def _close(self, fd: int) -> None:
        # Taken out of the epoll first: a process that is being created just now may hold a copy,
        # which would keep it there, and ready.
        if self.watcher is not None:
            self.watcher.unregister(fd)
        os.close(fd)

    def settle(self, status: os.waitid_result) -> None:
        """The process has ended: `status` says how."""
        self.phase = ENDED
        self.ended = time.monotonic()
        if status.si_code == os.CLD_EXITED:
            self._exit = status.si_status
        else:
            self._signal = status.si_status

    def result(self) -> dict[str, Any]:
        """The fields of a LaunchResult for a run whose process was started."""
        if self.over_limit and self.verdict in {None, "timeout"}:
            self.verdict = "too_large"
            self.reason = f"more than {self.output_limit} bytes on stdout"
        status = self.verdict
        if status is None:
            status = "exited" if self._signal is None else "signalled"
        reason = self.reason
        if status == "signalled":
            reason = f"ended by signal {self._signal}"
        return {
            **self.verdict_only(status, reason),
            "exit": self._exit,
            "signal": self._signal,
            "stdout": bytes(self._stdout[: self.output_limit]),
            "stderr": bytes(self._stderr),
        }

    def verdict_only(self, status: str, reason: str | None) -> dict[str, Any]:
        """The fields of a LaunchResult without any output."""
        return {
            "run": self.run,
            "status": status,
            "reason": reason,
            "started": self.started,
            "duration": (self.ended or time.monotonic()) - self.since,
        }
