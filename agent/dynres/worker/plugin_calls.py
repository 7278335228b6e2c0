"""The jobs of one plugin host: sent, timed, answered, and who is to blame when it breaks."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dynres.worker import frames, proc
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


OnAnswer = Callable[[Answer], None]


class _Call(NamedTuple):
    """A job that has no answer yet."""

    job: Job
    on_answer: OnAnswer
    started: float
    timer: asyncio.TimerHandle


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
        self._calls: dict[int, _Call] = {}
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
        self._pulse = Pulse(self.process.pid, self._ping, self._hangs_idle, only_told=True)

    @property
    def ready(self) -> bool:
        """Whether a job can be given to it now."""
        return self._ready.is_set() and not self.broken

    async def run(self, job: Job) -> Answer:
        """One job to its end; breaks the host when it does not end in time."""
        try:
            async with asyncio.timeout(_START):
                await self._ready.wait()
        except TimeoutError:
            self.break_off("the plugin host did not start", "another")
        if self.broken:
            reason = self._fault or "the plugin host did not start"
            said, started = self.process.log.tail, time.clock_gettime(time.CLOCK_BOOTTIME)
            return Answer(status="start_error", reason=reason, said=said, started=started)
        future: asyncio.Future[Answer] = self._loop.create_future()

        def on_answer(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        number = self.submit(job, on_answer)
        try:
            return await self.explained(await future)
        finally:
            self._forget(number)

    def submit(self, job: Job, on_answer: OnAnswer) -> int:
        """Give it a job while it is ready; breaks the host when that does not end in time.

        `on_answer` is called once, at once where the job cannot be sent. Returns its number.
        """
        number = self._number = self._number + 1
        started = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            self.send(job.message(number))
        except frames.FrameError as error:
            on_answer(Answer(status="start_error", reason=f"options: {error}", started=started))
            return number
        timer = self._loop.call_later(job.timeout, self._late, number)
        self._calls[number] = _Call(job, on_answer, started, timer)
        self._look_again()
        return number

    def _late(self, number: int) -> None:
        """That job has not ended in time."""
        call = self._forget(number)
        if call is None:
            return
        # Where the host is silent too, another of its jobs may be what keeps this one waiting.
        unknown = bool(self._calls) and self._silence > 0
        why = f"{call.job.probe} did not end within {call.job.timeout:g} s"
        self.break_off(why, "unknown" if unknown else "another")
        reason, said = f"no answer within {call.job.timeout:g} s", self.process.log.tail
        blame: Blame = "unknown" if unknown else "this"
        answer = Answer(status="timeout", reason=reason, said=said, blame=blame)
        call.on_answer(msgspec.structs.replace(answer, started=call.started))

    def _forget(self, number: int) -> _Call | None:
        call = self._calls.pop(number, None)
        if call is not None:
            call.timer.cancel()
        return call

    async def explained(self, answer: Answer) -> Answer:
        """The answer, with how the host ended where it is to blame for that."""
        if answer.blame == "this" and answer.status == "killed":
            return await self._explain(answer)
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
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.timer.cancel()
            started = call.started
            call.on_answer(Answer(status="killed", reason=reason, blame=blame, started=started))
        self._on_broken(self)

    def _ended(self, why: str) -> None:
        self.break_off(why, "unknown" if len(self._calls) > 1 else "this")

    def _take(self, message: tuple[Any, ...]) -> None:
        if self.broken:
            return
        # Of the main thread, which takes the requests.
        if message[0] in {"ready", "pong"} or (message[0] == "done" and message[-1]):
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
        call = self._forget(message[1])
        self._look_again()
        if call is not None:
            self._done(call, *message[2:-1])

    def _done(
        self,
        call: _Call,
        status: Literal["ok", "failed", "start_error", "leaking"],
        reason: str | None,
        *rest: Any,
    ) -> None:
        """`rest`: what it said, payload, whether threads are left."""
        said, payload, threads = rest
        if status == "leaking":
            self.break_off(f"{call.job.probe} left too many threads running", "another")
            answer = Answer(status="failed", reason=reason, said=said, blame="this")
            call.on_answer(msgspec.structs.replace(answer, started=call.started))
            return
        if threads:
            self.suspects[call.job.probe] = call.job
        else:
            self.suspects.pop(call.job.probe, None)
        self._pulse.trusted = not self.suspects
        call.on_answer(
            Answer(
                status=status,
                reason=reason,
                said=said,
                payload=payload,
                threads=bool(threads),
                started=call.started,
            )
        )

    def _look_again(self) -> None:
        """Look soon at a host with jobs, and with all that are idle at one without."""
        if self.broken:
            return
        if self._calls:
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
        if self._calls and not self._pinged:
            self._ping()
        elif self._calls:
            self._silence += _TICK
        if self._calls and self._silence >= SILENCE:
            self.silent = True
            if len(self._calls) > 1 or self.process.stopped:
                self.break_off(self._silent(), "unknown")
            elif self.suspects.keys() - {call.job.probe for call in self._calls.values()}:
                self.hung_idle = True  # a thread that another probe has left in it
                self.break_off(self._silent(), "another")
        self._look_again()

    def _silent(self) -> str:
        return f"the plugin host ({proc.described(self.process.pid)}) does not answer"

    def _ping(self) -> None:
        self._pinged = True
        self.process.send(("ping",))

    def _hangs_idle(self) -> None:
        """It has no job, and does not answer."""
        self.hung_idle = True
        if self.process.stopped:
            self.suspects.clear()  # it is not a thread that keeps it from answering
        self.break_off(self._silent(), "another")
