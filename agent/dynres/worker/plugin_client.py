"""Decides which plugin host a probe runs in, and replaces the hosts that probes break.

All probes share one host until one of them breaks it: does not end in time, ends the process, or
keeps it from answering. The host is then killed and replaced, the other runs in flight are tried
once more, and the probe that broke it has a host of its own from then on, so that the state of
the others (averages, counters) is not lost again. Where several were in flight and nobody can say
which one it was, each is tried in a host of its own, and those that break that one too stay apart.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from dynres.worker.plugin_calls import Answer, Host, Job
from dynres.worker.pulse import Watch

__all__ = ["Answer", "Job", "PluginHosts"]

_REAP: Final = 1.0
"""Seconds that a killed host has to be gone; then its probe is stuck until it is."""
_CUT: Final = Answer(status="cancelled", reason="cut short")


class PluginHosts:
    """All plugin hosts of this agent.

    `path` is the PATH of the hosts; `extra_path` comes at the end of their sys.path. `mark` begins
    the mark of each, by which what it started is found; `joins` is called with the pid of each,
    `on_gone` with user and mark of each that is gone.
    """

    def __init__(
        self,
        path: str,
        extra_path: Sequence[str] = (),
        *,
        mark: str = "",
        joins: Callable[[int], None] | None = None,
        on_gone: Callable[[str | None, str], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._mark = mark
        self._watch = watch or Watch()
        self._on_gone = on_gone
        self._joins = joins
        self._numbers = itertools.count(1)
        self._path = path
        self._extra_path = extra_path
        self._shared: dict[str | None, Host] = {}
        """One for each user."""
        self._own: dict[str, Host] = {}
        self._apart: dict[str, Job] = {}
        """Probes that broke a host, as they were then."""
        self._last: dict[str, asyncio.Future[Any]] = {}
        """Probe -> what is done when its job that is under way is over."""
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        """Probe -> what whoever waits for its job is told by, when that is over or cut short."""
        self._killed: dict[str, Host] = {}
        """Probe -> the host that it broke, until that is gone."""
        self._hosts: set[Host] = set()
        self._disposing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Process ids of the hosts that are not gone yet."""
        return [host.process.pid for host in self._hosts if not host.process.gone.is_set()]

    @property
    def apart(self) -> tuple[str, ...]:
        """Probes that have a host of their own because they broke one."""
        return tuple(self._apart)

    def start(self, user: str | None = None) -> None:
        """Start the shared host of a user ahead of its first job. Raises OSError."""
        self._shared_host(user)

    async def run(self, job: Job) -> Answer:
        """One job to its end, or until `cancel`; one probe's jobs run one after the other."""
        if self._closed:
            return Answer(status="cancelled", reason="the agent stops")
        before = self._last.get(job.probe)
        host = self._at_hand(job) if before is None else None
        if host is None:
            return await self._until_cut(job, self._after(before, job))
        answer = await self._directly(host, job)
        if answer.blame == "nobody":
            return answer
        return await self._until_cut(job, self._after(None, job, (host, answer)))

    def _at_hand(self, job: Job) -> Host | None:
        """The host that can run it now, as nearly always; None: that takes time to find out."""
        if job.probe in self._apart or job.probe in self._killed:
            return None
        host = self._shared.get(job.user)
        return host if host is not None and host.ready else None

    async def _directly(self, host: Host, job: Job) -> Answer:
        """Without a task of its own, which would cost as much as the rest of a small job."""
        loop = asyncio.get_running_loop()
        over = self._last[job.probe] = loop.create_future()
        told: asyncio.Future[Answer] = loop.create_future()
        self._waiting[job.probe] = told

        def on_answer(answer: Answer) -> None:
            self._over(job.probe, over)
            if told.done() and answer.blame == "this":
                self._broke(job, host)  # cut short, but it has to be known all the same
            for future in (over, told):
                if not future.done():
                    future.set_result(answer)

        host.submit(job, on_answer)
        return await told

    async def _until_cut(self, job: Job, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What becomes of `work`, unless `cancel` comes before."""
        task = asyncio.create_task(work)
        self._last[job.probe] = task
        task.add_done_callback(lambda done: self._over(job.probe, done))
        cut: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[job.probe] = cut
        await asyncio.wait({task, cut}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled():
            return _CUT
        return task.result()

    def cancel(self, probe: str) -> None:
        """Do not wait for the probe's job any longer; it is left to end by itself, or in time."""
        told = self._waiting.get(probe)
        if told is not None and not told.done():
            told.set_result(_CUT)

    def forget(self, probe: str) -> None:
        """The probe is no longer configured, or otherwise: drop its instance and its own host."""
        self._apart.pop(probe, None)
        own = self._own.pop(probe, None)
        if own is not None:
            own.break_off("its probe is gone", "another")
        for shared in self._shared.values():
            if not shared.broken:
                shared.send(("forget", probe))

    async def close(self) -> None:
        """Kill every host, and wait a moment until they are gone; jobs end as cancelled."""
        self._closed = True
        for probe in list(self._waiting):
            self.cancel(probe)
        under_way = list(self._last.values())
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for host in list(self._hosts):
            host.break_off("the agent stops", "another")
        await asyncio.gather(*self._disposing)

    def _over(self, probe: str, under_way: "asyncio.Future[Any]") -> None:
        if self._last.get(probe) is under_way:
            del self._last[probe]
            self._waiting.pop(probe, None)

    async def _after(
        self,
        before: "asyncio.Future[Any] | None",
        job: Job,
        tried: tuple[Host, Answer] | None = None,
    ) -> Answer:
        """All that a job may need, once `before` is over; `tried`: what it was answered already."""
        if before is not None:
            await asyncio.wait({before})
        try:
            return await (self._judged(job, *tried) if tried is not None else self._run(job))
        except OSError as error:
            return Answer(status="start_error", reason=f"no plugin host: {error.strerror}")

    async def _run(self, job: Job) -> Answer:
        known = self._apart.get(job.probe)
        if known is not None and not known.same(job):
            self.forget(job.probe)
        if await self._stuck(job.probe):
            return Answer(status="stuck", reason="an earlier run cannot be ended by SIGKILL")
        apart = job.probe in self._apart
        host = self._own_host(job) if apart else self._shared_host(job.user)
        return await self._judged(job, host, await host.run(job))

    async def _judged(self, job: Job, host: Host, answer: Answer) -> Answer:
        """What is true of the job, after `host` has given that answer."""
        answer = await host.explained(answer)
        if answer.blame == "unknown":
            host, answer = await self._try_alone(job)
        elif answer.blame == "another" and not self._closed:
            host = self._shared_host(job.user)
            answer = await host.run(job)
            if answer.blame in {"another", "unknown"}:  # the next one that broke it
                host, answer = await self._try_alone(job)
        if answer.blame == "this":
            self._broke(job, host)
        return answer

    def _broke(self, job: Job, host: Host) -> None:
        """That job broke that host: it runs apart from now on, and not before the host is gone."""
        self._apart[job.probe] = job
        self._killed[job.probe] = host

    async def _try_alone(self, job: Job) -> tuple[Host, Answer]:
        """Run a job that may have broken a host where it can break nothing but its own."""
        host = self._new_host(job.user)
        answer = await host.run(job)
        if answer.blame == "unknown":
            answer = msgspec.structs.replace(answer, blame="this")
        if answer.blame == "nobody" and host.silent:
            self._apart[job.probe] = job
            self._own[job.probe] = host
        elif answer.blame == "nobody":
            host.break_off("not needed any longer", "another")
        return host, answer

    async def _stuck(self, probe: str) -> bool:
        """Whether the host that this probe broke is still there."""
        host = self._killed.get(probe)
        if host is None:
            return False
        try:
            async with asyncio.timeout(_REAP):
                await host.process.gone.wait()
        except TimeoutError:
            return True
        del self._killed[probe]
        return False

    def _shared_host(self, user: str | None) -> Host:
        host = self._shared.get(user)
        if host is None or host.broken:
            host = self._shared[user] = self._new_host(user)
        return host

    def _own_host(self, job: Job) -> Host:
        host = self._own.get(job.probe)
        if host is None or host.broken:
            host = self._own[job.probe] = self._new_host(job.user)
        return host

    def _new_host(self, user: str | None) -> Host:
        mark = f"{self._mark}{next(self._numbers)}" if self._mark else ""
        host = Host(self._path, self._extra_path, self._dispose, self._watch, user=user, mark=mark)
        self._hosts.add(host)
        if self._joins is not None:
            self._joins(host.process.pid)
        return host

    def _dispose(self, host: Host) -> None:
        if host.hung_idle and not self._closed:
            self._replace(host)
        task = asyncio.get_running_loop().create_task(self._see_off(host))
        self._disposing.add(task)
        task.add_done_callback(self._disposing.discard)

    def _replace(self, host: Host) -> None:
        """It hung while nobody ran: whoever has left threads in it runs apart from now on."""
        if self._shared.get(host.user) is host:
            self._apart.update(host.suspects)
            with contextlib.suppress(OSError):  # then the next job tries, and says why
                self.start(host.user)

    async def _see_off(self, host: Host) -> None:
        """Wait for the end of a killed host and let go of its descriptors."""
        try:
            async with asyncio.timeout(_REAP if self._closed else None):
                await host.process.gone.wait()
        except TimeoutError:
            pass  # it cannot be ended: nothing more can be done about it
        await host.process.close()
        self._hosts.discard(host)
        if self._on_gone is not None:
            self._on_gone(host.user, host.mark)
