"""Finds and ends what runs leave behind: processes the launcher has adopted as a subreaper.

A process whose parent ended becomes a child of the launcher's *main thread*; the runs' own
processes are children of the starter threads. So one `waitid` limited to this thread tells,
without looking through /proc, whether anything was left at all.
"""

from __future__ import annotations

import errno
import os
import select
import time

from dynres.worker.proc import children, environ, owner, pids, variable
from dynres.worker.run_marks import hosts_of, mark_of, number_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dynres.worker.running import Run

_SIGKILL = 9
_WNOTHREAD = 0x20000000
_EXITED = os.WEXITED | os.WNOHANG | _WNOTHREAD

RUN_MARK = b"DYNRES_RUN="
AGENT_MARK = b"DYNRES_AGENT="
LAUNCHER_MARK = b"DYNRES_LAUNCHER="
PLUGIN_MARK = b"DYNRES_PLUGIN_HOST="
"""Of plugin hosts and what they started: AGENT#SESSION#NUMBER."""


class Orphan:
    """An adopted process: whose it is, or whose it can be, and a pidfd once it was killed."""

    __slots__ = ("owner", "pidfd", "suspects")

    def __init__(self, owner: str | None, suspects: set[str]) -> None:
        self.owner = owner
        self.suspects = suspects
        self.pidfd: int | None = None


class Orphans:
    """The adopted processes; dead ones are reaped, those without a run that goes on are killed."""

    def __init__(self, epoll: select.epoll, agent: str) -> None:
        self._epoll = epoll
        self._agent = agent
        self._known: dict[int, Orphan] = {}
        self.pidfds: set[int] = set()
        """Readable in the epoll when a killed one has died: call `settle` then."""

    def reap(self) -> bool:
        """Reap the dead ones; whether any is alive."""
        while True:
            try:
                gone = os.waitid(os.P_ALL, 0, _EXITED)
            except ChildProcessError:
                self._forget(list(self._known))
                return False
            if gone is None:
                return True
            self._forget([gone.si_pid])

    def settle(
        self,
        going: Collection[str],
        mains: Collection[int],
        ending: str = "",
        runs: Collection[Run] = (),
    ) -> None:
        """Reap, look for new ones, and kill each whose run is not among `going`.

        `mains`: pids of the runs' own processes. `ending`: the run that has just ended. `runs`:
        those of `going`.
        """
        if not self.reap():
            return
        for pid in children():
            if pid not in self._known and pid not in mains:
                self._meet(pid, going, ending, runs)
        for pid, orphan in self._known.items():
            if orphan.owner is None:
                orphan.suspects.intersection_update(going)
                if not orphan.suspects:
                    orphan.owner = ending
            if orphan.owner is not None and orphan.owner not in going and orphan.pidfd is None:
                self._kill(pid, orphan)
        # Not reaped here: each that dies wakes us, and what it leaves is looked for then.

    def left_by(self, run: str) -> list[int]:
        """Pids that were charged to `run` and are still there."""
        return [pid for pid, orphan in self._known.items() if orphan.owner == run]

    def kill_all(self) -> bool:
        """Kill every child of this process, whoever's, and reap; whether any is left."""
        for pid in children():
            _try_kill(pid)
        while True:
            try:
                if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is None:
                    return True
            except ChildProcessError:
                return False

    def _meet(self, pid: int, going: Collection[str], ending: str, runs: Collection[Run]) -> None:
        environment = environ(pid)
        if variable(environment, LAUNCHER_MARK) is not None:
            return  # a start between its creation and its execution: still our own image
        run = variable(environment, RUN_MARK)
        if run is not None and run in going:
            return  # looked at again when that run ends; it may be its main process just started
        if run is not None:
            self._known[pid] = Orphan(run, set())
            return
        number = self._number(pid)
        suspects = {*going} if number is None else {r.run for r in runs if r.mark == number}
        # Of a run that has ended: killed at once, whatever else goes on.
        self._known[pid] = Orphan(None if suspects else ending, suspects)

    def _number(self, pid: int) -> int | None:
        """The number that a process without an environment still has."""
        mark = mark_of(pid)
        return None if mark is None else number_in(mark, self._agent)

    def _kill(self, pid: int, orphan: Orphan) -> None:
        # Our own child and not reaped by anyone but us: the pid cannot have changed hands.
        _try_kill(pid)
        try:
            orphan.pidfd = os.pidfd_open(pid)
        except OSError:
            return  # no descriptor left: tried again when the next run ends
        self.pidfds.add(orphan.pidfd)
        self._epoll.register(orphan.pidfd, select.EPOLLIN)

    def _forget(self, pids: Collection[int]) -> None:
        for pid in pids:
            orphan = self._known.pop(pid, None)
            if orphan is not None and orphan.pidfd is not None:
                self.pidfds.discard(orphan.pidfd)
                self._epoll.unregister(orphan.pidfd)
                os.close(orphan.pidfd)


def kill_group(leader: int, number: int) -> None:
    """Signal a process group whose leader has not been reaped: its number cannot be another's."""
    try:
        os.killpg(leader, number)
    except OSError as error:
        if error.errno not in {errno.ESRCH, errno.EPERM}:
            raise


def _try_kill(pid: int) -> None:
    try:
        os.kill(pid, _SIGKILL)
    except OSError:
        return  # it has become another user's: nothing more can be done


def sweep(agent: str, session: str, patience: float) -> int:
    """Kill what an earlier launcher or earlier plugin hosts of `agent` left, themselves included.

    How many there were. `session` names the agent as it runs now: its plugin hosts are left alone.
    Looks at processes of this user only (root: at plugin hosts of any), and returns when they are
    gone, or after `patience` s.
    """
    now, before = f"{agent}#{session}#", f"{agent}#"
    numbers_now, numbers = hosts_of(agent, session), hosts_of(agent)

    def of_old(pid: int) -> bool:
        environment, number = environ(pid), mark_of(pid)
        host = variable(environment, PLUGIN_MARK)
        if host is not None and host.startswith(before):
            return not host.startswith(now)
        if number is not None and number in numbers:
            return number not in numbers_now
        ours = variable(environment, AGENT_MARK) == agent
        ours = ours or (number is not None and number_in(number, agent) is not None)
        return ours and _may_kill(pid)

    return _sweep(of_old, patience)


def sweep_plugins(mark: str, patience: float) -> int:
    """Kill what has the mark of a plugin host, or (ending in `#`) of any of a session.

    How many there were.
    """
    numbers = hosts_of(*mark.rsplit("#", 2))

    def left(pid: int) -> bool:
        host = variable(environ(pid), PLUGIN_MARK) or ""
        named = host.startswith(mark) if mark.endswith("#") else host == mark
        number = mark_of(pid)
        return named or (number is not None and number in numbers)

    return _sweep(left, patience)


def _sweep(wanted: Callable[[int], bool], patience: float) -> int:
    end = time.monotonic() + patience
    swept = 0
    while True:
        found = _kill_wanted(wanted)
        swept += len(found)
        _await_all(found, end)
        if not found or time.monotonic() >= end:  # once more: one may have forked meanwhile
            return swept


def _kill_wanted(wanted: Callable[[int], bool]) -> list[int]:
    """Kill every process of which `wanted` says so; their pidfds."""
    ours = os.getpid()
    killed = []
    for pid in pids():
        if pid == ours or not wanted(pid):
            continue
        try:
            pidfd = os.pidfd_open(pid)
            killed.append(pidfd)
            # Looked at again now that the pidfd holds it: the pid may have changed hands.
            if wanted(pid):
                _kill_held(pidfd)
        except OSError:
            continue  # gone already, or it has become another user's
    return killed


def _may_kill(pid: int) -> bool:
    return owner(pid) == os.geteuid()


def _kill_held(pidfd: int) -> None:
    import signal  # costs memory that only a launcher with something to sweep pays

    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _await_all(pidfds: list[int], end: float) -> None:
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(max(0.0, end - time.monotonic()) * 1000)
        os.close(pidfd)
