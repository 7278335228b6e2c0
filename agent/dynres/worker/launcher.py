"""The launcher: a small process of its own that starts, watches and reaps external probes.

It takes requests from the agent on descriptor 3 and answers with how each run ended; it
interprets nothing. It ends, with everything it runs, as soon as the agent is gone.
"""

from __future__ import annotations

import os
import select
import sys
import time
from heapq import heappop, heappush

from dynres.worker import feeds, running
from dynres.worker.channel import NEVER, Channel
from dynres.worker.launch_bounds import (
    DRAIN,
    FAREWELL,
    GRACE,
    KILL_PATIENCE,
    LAUNCHER_FD,
    MOST_SHAPES,
    PLUGIN_FAREWELL,
    QUIT,
    SIDE_FD,
    SIGKILL,
    SIGTERM,
    SLOW_START,
)
from dynres.worker.launcher_setup import SetupFault, set_up
from dynres.worker.orphans import Orphans, kill_group, sweep_plugins
from dynres.worker.running import Request, Run
from dynres.worker.side import Side
from dynres.worker.starts import MOST_STARTERS, Child, NotStarted, Starts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Launcher:
    """One event loop over the agent's sockets, the runs' pipes and pidfds, and deadlines."""

    def __init__(self, fd: int, side: int, agent: str, owner: int) -> None:
        self._epoll = select.epoll()
        self._channel = Channel(fd, self._epoll)
        self._side = Side(side)
        self._feeds = feeds.Feeds(self._epoll)
        self._starts = Starts(agent, owner, self._epoll)
        self._orphans = Orphans(self._epoll, agent)
        self._shapes: dict[int, Request] = {}
        """What was asked for, by the agent's number for it."""
        self._runs: dict[str, Run] = {}
        self._by_fd: dict[int, Run] = {}
        self._timers: list[tuple[float, int, Run]] = []
        self._serial = 0
        self._hanging = 0
        """Threads whose start has not come back at its timeout."""
        self._blocked: dict[tuple[str, ...], str] = {}
        """Commands of which a copy is stuck, and why: not tried again until it is gone."""

    def serve(self) -> None:
        """Work until the agent is gone; then end everything."""
        self._channel.send(("ready", os.getpid()))
        self._channel.flush()
        while self._turn():
            pass
        self._end_everything()

    def _turn(self) -> bool:
        """Wait, and handle what has happened. False when the agent is gone."""
        events = self._epoll.poll(self._wait())
        for run, outcome in self._starts.take():
            self._on_start(run, outcome)
        for fd, mask in events:
            if fd == self._channel.fd:
                if mask & select.EPOLLOUT:
                    self._channel.flush()
                if mask & ~select.EPOLLOUT and not self._receive():
                    return False
            elif fd == self._starts.wake:
                self._starts.hushed()
            elif fd in self._orphans.pidfds:
                self._clear_up("")
            elif fd in self._by_fd:
                self._on_run(self._by_fd[fd], fd)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, run = heappop(self._timers)
            if run.deadline == when:
                self._on_deadline(run)
        if self._channel.backlog:
            # Most runs that began just now end soon: they are answered together.
            self._channel.flush_soon(now, any(run.young for run in self._runs.values()))
        return True

    def _wait(self) -> float:
        """Seconds until the next deadline; ones that no longer count do not wake us."""
        while self._timers and self._timers[0][2].deadline != self._timers[0][0]:
            heappop(self._timers)
        due = min(self._timers[0][0] if self._timers else NEVER, self._channel.due)
        return -1.0 if due == NEVER else max(0.0, due - time.monotonic())

    def _at(self, run: Run, when: float | None) -> None:
        run.deadline = when
        if when is not None:
            self._serial += 1
            heappush(self._timers, (when, self._serial, run))

    # ------------------------------------------------------------------ requests

    def _receive(self) -> bool:
        messages = self._channel.receive()
        if messages is None:
            return False
        for message in messages:
            match message:
                case ("again", int() as number, str() as name):
                    self._begin(Run(self._shapes[number], name))
                case ("run", int() as number, dict() as fields):
                    if len(self._shapes) >= MOST_SHAPES:
                        self._shapes.clear()
                    self._shapes[number] = shape = Request(**fields)
                    self._begin(Run(shape, shape.run))
                case ("ping",):
                    self._channel.send(("pong",))
                case ("cancel", str() as name):
                    self._cancel(name)
                case ("tell", str() as name, bytes() as text):
                    if name in self._runs:
                        feeds.tell(self._runs[name], text)
                case ("stop", str() as name, bytes() as farewell):
                    self._end_stream(name, farewell)
                case ("sweep", str() as mark):
                    sweep_plugins(mark, 0.0)
                case _:
                    return False
        return True

    def _begin(self, run: Run) -> None:
        why = self._blocked.get(run.argv)
        if why is not None:
            self._channel.send(("result", run.verdict_only("stuck", f"still there: {why}")))
            return
        self._runs[run.run] = run
        self._at(run, run.since + min(SLOW_START, run.timeout))
        self._starts.submit(run)

    def _cancel(self, name: str) -> None:
        run = self._runs.get(name)
        if run is None or run.reported:
            return
        if run.phase == running.STARTING:
            self._report(run, run.verdict_only("cancelled", "cancelled"))
        elif run.phase != running.ENDED:
            run.verdict = run.reason = "cancelled"
            self._kill(run)

    # ------------------------------------------------------------------ one run

    def _on_start(self, run: Run, outcome: Child | NotStarted) -> None:
        if run.blocks:
            self._hanging -= 1
        if isinstance(outcome, NotStarted):
            self._report(run, run.verdict_only(outcome.status, outcome.reason))
            self._finish(run)
            return
        run.child = outcome
        run.phase = running.RUNNING
        run.pipes = {outcome.err} if run.stream else {outcome.out, outcome.err}
        for fd in (*run.pipes, outcome.pidfd):
            self._by_fd[fd] = run
        if run.stream:
            if not self._side.hand_over(run.run, outcome.out):
                self._report(run, run.verdict_only("cancelled", "its output finds no reader"))
            self._channel.send(("started", run.run, outcome.pid))
            self._feeds.watch(run)
            self._at(run, None)
        elif run.deadline is None or time.monotonic() >= run.since + SLOW_START:
            self._watch(run)
        if run.reported:
            self._kill(run)

    def _watch(self, run: Run) -> None:
        """It takes longer: read its pipes from now on, until its timeout."""
        self._feeds.watch(run)
        self._at(run, run.since + run.timeout)

    def _on_run(self, run: Run, fd: int) -> None:
        """One of a run's descriptors is ready."""
        if run.child is not None and fd == run.child.pidfd:
            self._on_end(run)
            return
        if fd not in run.pipes:
            return  # closed since the event was gathered
        if run.stream and run.phase == running.RUNNING:
            self._feeds.hold(run)
            self._at(run, feeds.soon())
            return
        run.read(fd)
        if fd not in run.pipes:
            del self._by_fd[fd]
        if run.phase == running.ENDED:
            self._try_finish(run)
        elif run.over_limit and run.verdict is None:
            run.verdict, run.reason = "too_large", f"more than {run.output_limit} bytes on stdout"
            self._kill(run)

    def _on_end(self, run: Run) -> None:
        """The process has ended: kill its group while its pid is still ours, then reap it."""
        child = run.child
        assert child is not None
        self._starts.handed_over()
        if os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        kill_group(child.pid, SIGKILL)
        status = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        assert status is not None
        del self._by_fd[child.pidfd]
        # Closing alone leaves it there, and ready, as long as a process that is being created just
        # now holds a copy of it: the loop would spin.
        self._epoll.unregister(child.pidfd)
        os.close(child.pidfd)
        feeds.hang_up(run)
        run.settle(status)
        if self._orphans.reap():
            self._clear_up(run.run)
        self._drain(run)
        self._try_finish(run)

    def _drain(self, run: Run) -> None:
        """Take what is in the pipes now."""
        before = list(run.pipes)
        run.drain()
        for fd in before:
            if fd not in run.pipes:
                del self._by_fd[fd]

    def _on_deadline(self, run: Run) -> None:
        if run.phase == running.STARTING:
            self._on_slow_start(run)
        elif run.phase == running.RUNNING and run.stream:
            self._read_stream(run)
        elif run.phase == running.RUNNING and time.monotonic() < run.since + run.timeout:
            self._watch(run)
        elif run.phase == running.RUNNING:
            self._feeds.watch(run)
            run.verdict, run.reason = "timeout", f"did not end within {run.timeout:g} s"
            run.phase = running.TERMINATING
            self._terminate(run)
        elif run.phase == running.TERMINATING and run.quitting:
            self._terminate(run)
        elif run.phase == running.TERMINATING:
            self._kill(run)
        elif run.phase == running.KILLED:
            assert run.child is not None
            self._stick(run, f"process {run.child.pid} cannot be killed: {run.words}")
        else:
            self._try_finish(run)

    def _read_stream(self, run: Run) -> None:
        before = list(run.pipes)
        more = feeds.read(run)
        self._at(run, time.monotonic() + feeds.PAUSE if more else None)
        if not more:
            self._feeds.watch(run)
        for fd in before:
            if fd not in run.pipes:
                del self._by_fd[fd]

    def _end_stream(self, name: str, farewell: bytes) -> None:
        """End a stream in order: what it wants to read first, SIGTERM, SIGKILL."""
        run = self._runs.get(name)
        if run is None or run.phase != running.RUNNING:
            self._cancel(name)
            return
        run.verdict, run.reason = "cancelled", "stopped"
        run.phase = running.TERMINATING
        self._feeds.watch(run)
        if farewell:
            feeds.tell(run, farewell)
            feeds.hang_up(run)
            run.quitting = True
            self._at(run, time.monotonic() + QUIT)
        else:
            self._terminate(run)

    def _terminate(self, run: Run) -> None:
        assert run.child is not None
        run.quitting = False
        kill_group(run.child.pid, SIGTERM)
        self._at(run, time.monotonic() + GRACE)

    def _on_slow_start(self, run: Run) -> None:
        now, end = time.monotonic(), run.since + run.timeout
        if run.came_back:
            self._at(run, now + SLOW_START)  # it is taken before that, in the next turn
            return
        if run.taken is not None and not run.set_aside and now >= min(end, run.taken + SLOW_START):
            self._starts.set_aside(run)
        if now < end:
            again = end if run.set_aside else (run.taken or now) + SLOW_START
            self._at(run, min(again, end))
        elif run.taken is not None:
            why = f"its start does not come back (a file system that hangs?): {run.words}"
            self._stick(run, why)
            self._hanging += 1
            if self._hanging == MOST_STARTERS:
                self._channel.send(("full", "the start hangs in every thread of the launcher"))
        else:
            self._report(run, run.verdict_only("start_error", "no starter thread became free"))

    def _kill(self, run: Run) -> None:
        assert run.child is not None
        self._feeds.watch(run)
        run.phase = running.KILLED
        kill_group(run.child.pid, SIGKILL)
        self._at(run, time.monotonic() + KILL_PATIENCE)

    def _stick(self, run: Run, why: str) -> None:
        run.blocks = True
        self._blocked[run.argv] = why
        self._at(run, None)
        self._report(run, run.verdict_only("stuck", why))

    # ------------------------------------------------------------------ clearing up

    def _clear_up(self, ending: str) -> None:
        """Kill what ended runs have left; see which of them are over now."""
        going = {name for name, run in self._runs.items() if run.phase != running.ENDED}
        mains = {run.child.pid for name, run in self._runs.items() if name in going and run.child}
        going_runs = [run for name, run in self._runs.items() if name in going]
        self._orphans.settle(going, mains, ending, going_runs)
        for run in [run for run in self._runs.values() if run.phase == running.ENDED]:
            self._try_finish(run)

    def _try_finish(self, run: Run) -> None:
        """Finish an ended run when its pipes are at their end and nothing it left is there."""
        assert run.ended is not None
        now = time.monotonic()
        left = self._orphans.left_by(run.run)
        if run.pipes:
            self._feeds.watch(run)
            if now < run.ended + DRAIN:
                self._at(run, run.ended + DRAIN)
                return
            self._drain(run)
            for fd in run.pipes:
                del self._by_fd[fd]
            run.close_pipes()
        if not left:
            self._report(run, run.result())
            self._finish(run)
        elif now < run.ended + KILL_PATIENCE:
            self._at(run, run.ended + KILL_PATIENCE)
        elif not run.reported:
            self._stick(run, f"it left process {left[0]}, which cannot be killed: {run.words}")

    def _report(self, run: Run, fields: dict[str, Any]) -> None:
        if not run.reported:
            run.reported = True
            self._channel.send(("result", fields))

    def _finish(self, run: Run) -> None:
        self._at(run, None)
        self._runs.pop(run.run, None)
        if run.blocks:
            self._blocked.pop(run.argv, None)

    def _end_everything(self) -> None:
        end = time.monotonic() + FAREWELL
        self._starts.closed = True
        for run in self._runs.values():
            if run.child is not None and run.phase != running.ENDED:
                kill_group(run.child.pid, SIGKILL)
        while self._orphans.kill_all() and time.monotonic() < end:
            time.sleep(0.005)


def main() -> None:
    """`launcher AGENT SESSION OWNER [USER]`.

    The agent's id, that of its present run, its user id, and whom to run probes as.
    """
    agent, session, owner, *user = sys.argv[1:]
    try:
        set_up(agent, session, user[0] if user else None)
    except SetupFault as fault:
        channel = Channel(LAUNCHER_FD, select.epoll())
        channel.send(("failed", str(fault)))
        channel.flush()
        return
    Launcher(LAUNCHER_FD, SIDE_FD, agent, int(owner)).serve()
    sweep_plugins(f"{agent}#{session}#", PLUGIN_FAREWELL)
    os._exit(0)  # threads whose start hangs must not keep us


if __name__ == "__main__":
    main()
