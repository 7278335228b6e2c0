"""The jobs of one plugin host: sent, timed, answered, and who is to blame when it breaks."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from dynres.worker import frames
from dynres.worker.plugin_process import HostProcess
from dynres.worker.pulse import Pulse, Watch

SILENCE: Final = 1.5
"""Seconds without an answer to a ping after which a host that others wait for is given up."""
_TICK: Final = 0.25
"""Seconds between looks at a host with jobs."""
_START: Final = 10.0
_LAST_WORDS: Final = 1.0

Status = Literal["ok", "failed", "start_error", "timeout", "killed", "stuck", "cancelled"]
Blame = Literal["nobody", "this", "another", "unknown"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a plugin, or one read of a file."""

    probe: str
    timeout: float
    plugin: str | None = None
    options: dict[str, Any] = {}
    file: str | None = None
    limit: int = 0
    """Most bytes of `file`."""
    user: str | None = None
    """Run as this user; None: as the agent's own."""

    def same(self, other: "Job") -> bool:
        """Whether both run the same thing."""
        mine = (self.plugin, self.options, self.file, self.user)
        return mine == (other.plugin, other.options, other.file, other.user)

    def message(self, number: int) -> tuple[Any, ...]:
        """The request to a plugin host."""
        if self.file is not None:
            return ("file", number, self.probe, self.file, self.limit)
        return ("plugin", number, self.probe, self.plugin, self.options)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job. `payload`: items of a reading, or (bytes, age) of a file."""

    status: Status
    reason: str | None = None
    payload: Any = None
    said: bytes = b""
    code: int | None = None
    """Exit status of a host that ended, or minus the signal that ended it."""
    blame: Blame = "nobody"
    """Who broke the host, when this job lost it: this job, another, or one of several."""
    started: float = 0.0
    """CLOCK_BOOTTIME instant at which the job began."""
    threads: bool = False
    """Whether threads of its probe are left in the host."""


class Host:
    """One plugin host and the jobs that it has now. Raises OSError where it cannot be started.

    It runs as `user` (None: the agent's own), and what it starts has `mark` in its environment.
    """

    def __init__(
        self,
        path: str,
        extra_path: Sequence[str],
        on_broken: Callable[["Host"], None],
        watch: Watch,
        *,
        user: str | None = None,
        mark: str = "",
    ) -> None:
        self.user = user
        self.mark = mark
        self._loop = asyncio.get_running_loop()
        self._on_broken = on_broken
        self._jobs: dict[int, asyncio.Future[Answer]] = {}
        self._probes: dict[int, str] = {}
        """The probe of each job."""
        self._number = 0
        self._ready = asyncio.Event()
        self._pinged = False
        """Whether a ping is not answered yet."""
        self._silence = 0.0
        """For how long, counted in looks: when we were held up ourselves it is not to blame."""
        self._timer: asyncio.TimerHandle | None = None
        self._fault: str | None = None
        """Why the host cannot work, in its own words."""
        self.broken = False
        self.silent = False
        """Whether it has ever left a ping unanswered for SILENCE."""
        self.hung_idle = False
        """Whether it was given up without a job."""
        self.suspects: dict[str, Job] = {}
        """Probes that have left threads in it, and their jobs."""
        self.process = HostProcess(path, extra_path, self._take, self._ended, user=user, mark=mark)
        self._watch = watch
        self._pulse = Pulse(self.process.pid, self._ping, self._hangs_idle)

    async def run(self, job: Job) -> Answer:
        """One job to its end; breaks the host when it does not end in time."""
        try:
            async with asyncio.timeout(_START):
                await self._ready.wait()
        except TimeoutError:
            self.break_off("the plugin host did not start", "another")
        started = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self.broken:
            reason = "the plugin host did not start"
            said = self.process.log.tail
            if self._fault is not None:
                reason = self._fault
            return Answer(status="start_error", reason=reason, said=said, started=started)
        answer = await self._call(job)
        if answer.blame == "this" and answer.status == "killed":
            answer = await self._explain(answer)
        return msgspec.structs.replace(answer, started=started)

    async def _call(self, job: Job) -> Answer:
        number = self._number = self._number + 1
        future: asyncio.Future[Answer] = self._loop.create_future()
        try:
            self.send(job.message(number))
        except frames.FrameError as error:
            return Answer(status="start_error", reason=f"options: {error}")
        self._jobs[number], self._probes[number] = future, job.probe
        self._look_again()
        try:
            async with asyncio.timeout(job.timeout):
                answer = await future
        except TimeoutError:
            self._jobs.pop(number, None)
            self.break_off("another probe did not end in time", "another")
            reason = f"no answer within {job.timeout:g} s"
            said = self.process.log.tail
            return Answer(status="timeout", reason=reason, said=said, blame="this")
        finally:
            self._jobs.pop(number, None)
            self._probes.pop(number, None)
        if answer.threads:
            self.suspects[job.probe] = job
        else:
            self.suspects.pop(job.probe, None)
        self._pulse.trusted = not self.suspects
        return answer

    async def _explain(self, answer: Answer) -> Answer:
        """Wait a moment for the last words of a host that ended, and say how it ended."""
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self.process.gone.wait()
                await self.process.log.ended.wait()
        except TimeoutError:
            pass  # it cannot be ended, or something it started holds its output open
        code, said = self.process.status, self.process.log.tail
        if code is None:
            return msgspec.structs.replace(answer, said=said)
        if code >= 0:
            reason = f"it ended the plugin host with exit status {code}"
            return msgspec.structs.replace(
                answer, status="failed", reason=reason, said=said, code=code
            )
        return msgspec.structs.replace(answer, said=said, code=code)

    def send(self, message: tuple[Any, ...]) -> None:
        """Give it something to do. Raises frames.FrameError for other than built-in types."""
        self._pulse.unsure()
        self.process.send(message)

    def break_off(self, reason: str, blame: Blame) -> None:
        """Kill the host; each of its jobs ends as `killed`."""
        if self.broken:
            return
        self.broken = True
        self._watch.remove(self._pulse)
        self._pulse.close()
        if self._timer is not None:
            self._timer.cancel()
        self.process.kill()
        self._ready.set()
        for future in self._jobs.values():
            if not future.done():
                future.set_result(Answer(status="killed", reason=reason, blame=blame))
        self._on_broken(self)

    def _ended(self, why: str) -> None:
        self.break_off(why, "unknown" if len(self._jobs) > 1 else "this")

    def _take(self, message: tuple[Any, ...]) -> None:
        if self.broken:
            return
        if message[0] in {"ready", "pong"}:  # of the main thread, which takes the requests
            self._pinged, self._silence = False, 0.0
            self._pulse.heard()
        if message[0] == "ready":
            self._ready.set()
            self._look_again()
        if message[0] == "fault":
            self._fault = str(message[1])
            self.break_off(self._fault, "another")
        if message[0] != "done":
            return
        _, number, status, reason, said, payload, threads = message
        future = self._jobs.pop(number, None)
        self._look_again()
        if future is None or future.done():
            return
        if status == "leaking":
            self.break_off("another probe left too many threads running", "another")
            future.set_result(Answer(status="failed", reason=reason, said=said, blame="this"))
        else:
            answer = Answer(
                status=status, reason=reason, said=said, payload=payload, threads=bool(threads)
            )
            future.set_result(answer)

    def _look_again(self) -> None:
        """Look soon at a host with jobs, and with all that are idle at one without."""
        if self.broken:
            return
        if self._jobs:
            self._watch.remove(self._pulse)
            if self._timer is None:
                self._timer = self._loop.call_later(_TICK, self._look)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._watch.add(self._pulse)

    def _look(self) -> None:
        """See whether a host with jobs answers."""
        self._timer = None
        if self._jobs and not self._pinged:
            self._ping()
        elif self._jobs:
            self._silence += _TICK
        if self._jobs and self._silence >= SILENCE:
            self.silent = True
            if len(self._jobs) > 1 or self.process.stopped:
                self.break_off("the plugin host does not answer", "unknown")
            elif self.suspects.keys() - self._probes.values():
                self.hung_idle = True  # a thread that another probe has left in it
                self.break_off("the plugin host does not answer", "another")
        self._look_again()

    def _ping(self) -> None:
        self._pinged = True
        self.process.send(("ping",))

    def _hangs_idle(self) -> None:
        """It has no job, and does not answer."""
        self.hung_idle = True
        if self.process.stopped:
            self.suspects.clear()  # it is not a thread that keeps it from answering
        self.break_off("the plugin host does not answer", "another")
