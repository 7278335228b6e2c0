"""The agent's side of the launchers: one a probe user, each replaced when it fails."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from dynres.worker.launch import LaunchRequest, LaunchResult, LaunchStatus
from dynres.worker.launcher_process import LauncherFault, LauncherProcess
from dynres.worker.pulse import Watch
from dynres.worker.stream_pipe import Allowance, StreamPipe

Hear = Callable[[int | bytes], None]

STEADY: Final = 10.0
"""A launcher that lived as long is replaced at once; the next after a shorter life waits."""


class LauncherError(Exception):
    """There is no launcher, with the reason in words."""


class LauncherClient:
    """Runs external commands through launcher processes that are replaced when they fail.

    `agent` names the agent on this machine, uniquely (its host and its state): what an earlier
    launcher of the same agent left running is ended before the first run. `session` names it as it
    runs now: plugin hosts of an earlier session are ended as well.
    """

    def __init__(
        self,
        agent: str,
        session: str = "0",
        joins: Callable[[int], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._joins = joins
        self._watch = watch or Watch()
        self._agent = agent
        self._session = session
        self._seats: dict[str | None, _Seat] = {}
        self._allowance = Allowance()
        self._closed = False

    async def start(self) -> None:
        """Start the agent's own launcher and wait until it is ready. Raises LauncherError."""
        seat = self._seat(None)
        await seat.settled()
        if seat.fault is not None:
            raise LauncherError(seat.fault)

    async def run(self, request: LaunchRequest, hear: Hear | None = None) -> LaunchResult:
        """Run one command to its end. Never raises for what the command does.

        `request.run` must be unique among the runs in flight. When the calling task is
        cancelled, the run is ended in the background. `hear` gets what a stream tells: its pid
        when it has started, then what it prints.
        """
        if self._closed:
            return _ended(request.run, "cancelled", "the agent ends")
        return await self._seat(request.user).run(request, hear)

    def cancel(self, run: str) -> None:
        """End a run now; it ends as `cancelled`. Nothing happens when it is over already."""
        for seat in self._seats.values():
            seat.cancel(run)

    def tell(self, run: str, text: bytes) -> None:
        """Write to the stdin of a stream."""
        for seat in self._seats.values():
            seat.send(run, ("tell", run, text))

    def stop(self, run: str, farewell: bytes) -> None:
        """End a stream in order: `farewell` on its stdin, SIGTERM, SIGKILL."""
        for seat in self._seats.values():
            seat.send(run, ("stop", run, farewell))

    def sweep(self, user: str | None, mark: str) -> None:
        """Kill what a plugin host of that user with that mark has left."""
        process = self._seat(None if os.geteuid() == 0 else user).process
        if process is not None:
            process.send(("sweep", mark))

    async def close(self) -> None:
        """End the launchers and everything they run; runs in flight end as `cancelled`."""
        self._closed = True
        await asyncio.gather(*(seat.close() for seat in self._seats.values()))

    def pids(self) -> list[int]:
        """Process ids of the launchers that are up: for metrics and tests."""
        return [seat.process.pid for seat in self._seats.values() if seat.process is not None]

    def _seat(self, user: str | None) -> "_Seat":
        if user not in self._seats:
            key = self._agent if user is None else f"{self._agent}:{user}"
            self._seats[user] = _Seat(
                key,
                self._session,
                user,
                joins=self._joins,
                allowance=self._allowance,
                watch=self._watch,
            )
        return self._seats[user]


class _Seat:
    """The place of one user's launcher: whoever holds it now gets the runs."""

    def __init__(
        self,
        key: str,
        session: str,
        user: str | None,
        *,
        joins: Callable[[int], None] | None,
        allowance: Allowance,
        watch: Watch,
    ) -> None:
        self._joins = joins
        self._watch = watch
        self._allowance = allowance
        self.process: LauncherProcess | None = None
        self.fault: str | None = None
        """Why the last launcher did not become ready; None once one has."""
        self._key = key
        self._session = session
        self._user = user
        self._waiting: dict[str, asyncio.Future[LaunchResult]] = {}
        self._early: dict[str, asyncio.Future[None]] = {}
        """Runs that wait for a launcher."""
        self._hears: dict[str, Hear] = {}
        self._pipes: dict[str, StreamPipe] = {}
        """What the streams that run print."""
        self._settled = asyncio.Event()
        self._task = asyncio.create_task(self._keep_filled())

    async def settled(self) -> None:
        """Wait until a launcher is ready, or could not be made so."""
        await self._settled.wait()

    async def run(self, request: LaunchRequest, hear: Hear | None) -> LaunchResult:
        if not self._settled.is_set():
            early = await self._wait(request)
            if early is not None:
                return early
        if self.process is None:
            return _ended(request.run, "start_error", self.fault or "the agent ends")
        future: asyncio.Future[LaunchResult] = asyncio.get_running_loop().create_future()
        self._waiting[request.run] = future
        if hear is not None:
            self._hears[request.run] = hear
        self.process.run(request)
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(request.run)
            raise
        finally:
            self._waiting.pop(request.run, None)
            self._hears.pop(request.run, None)
            pipe = self._pipes.pop(request.run, None)
            if pipe is not None:
                pipe.close()

    async def _wait(self, request: LaunchRequest) -> LaunchResult | None:
        """Wait for a launcher; how the run ended, where it did so before there was one."""
        cut = self._early[request.run] = asyncio.get_running_loop().create_future()
        ready = asyncio.ensure_future(self._settled.wait())
        try:
            either: set[asyncio.Future[Any]] = {cut, ready}
            await asyncio.wait(either, timeout=request.timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            del self._early[request.run]
        if cut.done():
            return _ended(request.run, "cancelled", "cancelled")
        if not self._settled.is_set():
            return _ended(request.run, "start_error", "no launcher within the timeout")
        return None

    def cancel(self, run: str) -> None:
        early = self._early.get(run)
        if early is not None and not early.done():
            early.set_result(None)
        self.send(run, ("cancel", run))

    def send(self, run: str, message: tuple[object, ...]) -> None:
        """Send it, when that run is this launcher's and in flight."""
        if run in self._waiting and self.process is not None:
            self.process.send(message)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _keep_filled(self) -> None:
        """Start a launcher, watch it, replace it; the first failure at once, then ever later."""
        delay = 0.0
        try:
            while True:
                begun = time.monotonic()
                await self._hold_one()
                delay = 0.0 if time.monotonic() - begun > STEADY else min(8.0, max(0.25, delay * 2))
                await asyncio.sleep(delay)
        finally:
            self._end_runs(self._waiting, "the agent ends")
            for run in list(self._early):
                self.cancel(run)

    async def _hold_one(self) -> None:
        """One launcher from its start to its end; its runs end with it, with the reason."""
        process = LauncherProcess(self._on_result, self._on_start)
        replace = False
        reason = "the agent ends"
        try:
            await process.start(self._key, self._session, self._user, self._joins)
            self.process, self.fault = process, None
            self._settled.set()
            reason = await process.watch(self._watch)
            replace = True
            self._settled.clear()
        except (LauncherFault, OSError) as fault:  # OSError: no descriptor is left
            self.fault = reason = str(fault)
            self._settled.set()
        finally:
            self.process = None
            self._end_runs(self._waiting, reason)
            await process.end(at_once=replace)

    def _on_result(self, fields: dict[str, Any]) -> None:
        future = self._waiting.get(fields["run"])
        if future is not None and not future.done():
            pipe = self._pipes.get(fields["run"])
            if pipe is not None:
                pipe.finish()
            future.set_result(LaunchResult(**fields))

    def _on_start(self, run: str, pid: int, pipe: int) -> None:
        """A stream has started: what it prints is read here."""
        hear = self._hears.get(run)
        if hear is not None and pipe >= 0:
            self._pipes[run] = StreamPipe(pipe, self._allowance, hear)
            hear(pid)
        elif pipe >= 0:
            os.close(pipe)

    def _end_runs(self, runs: Iterable[str], reason: str) -> None:
        for run in list(runs):
            future = self._waiting[run]
            if not future.done():
                future.set_result(_ended(run, "cancelled", reason))


def _ended(run: str, status: LaunchStatus, reason: str) -> LaunchResult:
    """The result of a run that the launcher did not see to its end."""
    return LaunchResult(run, status, reason, started=time.clock_gettime(time.CLOCK_BOOTTIME))
