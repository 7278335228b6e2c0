"""Keeps streaming probes running: started, asked, restarted with back-off, ended in order."""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from dynres.value import format_duration
from dynres.worker.command import asked_of
from dynres.worker.holdable import held_to_amounts
from dynres.worker.load_sensor_format import QUIT, REQUEST
from dynres.worker.outcome import Outcome, RunResult, RunSpec
from dynres.worker.records import Batch, Records
from dynres.worker.timetable import first_slot_after, fraction

LONGEST_PAUSE: Final = 60.0
STABLE: Final = 60.0
"""Seconds of life after which the pauses between restarts begin anew."""
JITTER: Final = 0.25

Take = Callable[[RunResult, RunSpec, Collection[str]], None]
"""Told of every batch and of every end, and of which resources it is about."""


class Hears(Protocol):
    """What a stream that runs tells."""

    def started(self, pid: int) -> None:
        """Its process is there."""

    def heard(self, data: bytes) -> None:
        """It printed this."""


class StreamRuns(Protocol):
    """What runs a stream from its start to its end."""

    async def stream(self, spec: RunSpec, hears: Hears) -> RunResult:
        """Run it; never raises for what the probe does. `cancelled` when it was stopped."""
        ...

    def tell(self, probe: str, text: bytes) -> None:
        """Write to its stdin."""

    def stop(self, probe: str, farewell: bytes) -> None:
        """End it, in order; it may read `farewell` on its stdin first."""


@dataclass(slots=True)
class StreamState:
    """How a stream is doing, as `dynres status` shows it."""

    pid: int | None = None
    since: float | None = None
    """Instant of the start of the process that runs now."""
    records: int = 0
    refusals: int = 0
    starts: int = 0


class Streams:
    """All streaming probes of this host; `spawn` starts a task, `take` gets what they give."""

    def __init__(
        self,
        runs: StreamRuns,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        take: Take,
        clock: Callable[[], float],
    ) -> None:
        self._runs = runs
        self._spawn = spawn
        self._take = take
        self._clock = clock
        self._streams: dict[str, Stream] = {}
        self._ending: dict[str, list[Stream]] = {}

    def plan(self, wanted: Mapping[str, tuple[RunSpec, object]], *, recheck: bool) -> None:
        """Run these from now on: probe -> spec and what makes it this probe.

        An unchanged one goes on; a changed one is started when the old one has ended.
        """
        for name, stream in list(self._streams.items()):
            if name not in wanted or wanted[name][1] != stream.meaning:
                self._end(name, stream)
            elif recheck:
                stream.recheck()
        for name, (spec, meaning) in wanted.items():
            if name not in self._streams:
                before = list(self._ending.get(name, ()))
                stream = Stream(spec, meaning, self._runs, self._take, self._clock)
                self._streams[name] = stream
                self._spawn(stream.keep(before))

    def state(self, probe: str) -> StreamState | None:
        """How it is doing; None where there is no such stream."""
        stream = self._streams.get(probe)
        return None if stream is None else stream.state

    async def end(self) -> None:
        """End all of them, and wait until they are gone."""
        for name, stream in list(self._streams.items()):
            self._end(name, stream)
        for stream in self._all_ending():
            await stream.over.wait()

    def _all_ending(self) -> Iterator["Stream"]:
        for streams in list(self._ending.values()):
            yield from list(streams)

    def _end(self, name: str, stream: "Stream") -> None:
        del self._streams[name]
        still = [s for s in self._ending.get(name, ()) if not s.over.is_set()]
        self._ending[name] = [*still, stream]
        stream.end()


class Stream:
    """One streaming probe, kept running until `end`."""

    def __init__(
        self,
        spec: RunSpec,
        meaning: object,
        runs: StreamRuns,
        take: Take,
        clock: Callable[[], float],
    ) -> None:
        self.meaning = meaning
        self.state = StreamState()
        self.over = asyncio.Event()
        """Its process is gone and does not come again."""
        self._spec = spec
        self._name = spec.probe.name
        self._answers = spec.probe.format == "load_sensor"
        self._runs = runs
        self._take = take
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ending = False
        self._wake = asyncio.Event()
        self._records = self._new_records()
        self._silence: asyncio.TimerHandle | None = None
        self._good_at = 0.0
        """When the last good record came, by the loop's clock."""
        self._question: asyncio.TimerHandle | None = None
        self._asked_at: float | None = None
        """When the request that has no answer yet was sent."""
        self._stopped_for: str | None = None
        self._not_here = False

    def end(self) -> None:
        """End it, in order."""
        self._ending = True
        self._wake.set()
        self._runs.stop(self._name, QUIT if self._answers else b"")

    def recheck(self) -> None:
        """Start it again now where it did not apply to this host."""
        if self._not_here:
            self._wake.set()

    async def keep(self, before: Collection["Stream"]) -> None:
        """Run it again and again until `end`, once `before` are over."""
        for other in before:
            await other.over.wait()
        failures = 0
        try:
            while not self._has_to_end():
                begun = self._loop.time()
                result = await self._run()
                if self._has_to_end():
                    break
                failures = 0 if self._loop.time() - begun >= STABLE else failures
                pause = min(LONGEST_PAUSE, 2.0**failures) * random.uniform(1.0, 1.0 + JITTER)
                failures = min(failures + 1, 16)
                self._not_here = result.not_here
                if result.not_here:
                    pause, failures = self._spec.probe.recheck, 0
                self._take(result, self._spec, self._spec.resources)
                await self._sleep(pause)
        finally:
            self._forget_timers()
            self.over.set()

    def _has_to_end(self) -> bool:
        return self._ending

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        if not self._ending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), seconds)
        self._not_here = False

    async def _run(self) -> RunResult:
        """One life of its process."""
        self._records = self._new_records()
        self._stopped_for, self._asked_at = None, None
        self.state.starts += 1
        result = await self._runs.stream(self._spec, self)
        self._forget_timers()
        self.state.pid = self.state.since = None
        return result if result.not_here else self._told(result)

    def _told(self, result: RunResult) -> RunResult:
        """How its life ended, in the words of a stream."""
        if self._stopped_for is not None:
            return msgspec.structs.replace(result, outcome="timeout", reason=self._stopped_for)
        if result.outcome == "failed" and result.exit == 0:
            return msgspec.structs.replace(result, reason="it ended by itself (exit status 0)")
        if result.outcome == "cancelled":  # not by us: its launcher was replaced
            return msgspec.structs.replace(result, outcome="killed")
        return result

    def started(self, pid: int) -> None:
        """Its process is there."""
        self.state.pid, self.state.since = pid, self._clock()
        if self._ending:
            self.end()
            return
        self._listen()
        if self._answers:
            self._ask()

    def heard(self, data: bytes) -> None:
        """It printed this."""
        if self._ending or self._stopped_for is not None:
            return
        now = self._clock()
        batch = self._records.feed(data)
        self.state.records += batch.records
        self.state.refusals += batch.refusals
        asked_at, measured = self._asked_at, now
        if batch.records and asked_at is not None:
            self._asked_at, measured = None, asked_at
        if batch.values:
            self._listen()
        if batch.values or batch.missed:
            self._take(self._result(batch, measured, now), self._spec, told(batch))

    def _result(self, batch: Batch, measured: float, now: float) -> RunResult:
        outcome: Outcome = "ok" if batch.values else "bad_output"
        reasons = (f"{name}: {why}" for name, why in batch.missed.items())
        result = RunResult(
            probe=self._name,
            outcome=outcome,
            reason=None if batch.values else next(reasons),
            started=measured,
            duration=now - measured,
            values=batch.values,
            missed=batch.missed if batch.values else {},
            refused=batch.refused,
        )
        return held_to_amounts(result, self._spec)

    def _new_records(self) -> Records:
        probe = self._spec.probe
        return Records(probe.format, asked_of(self._spec), probe.output_limit)

    # Silence and requests

    def _listen(self) -> None:
        """A good record came: the next one has the time to live of the values."""
        self._good_at = self._loop.time()
        if self._silence is None and self._spec.ttl != float("inf"):
            self._silence = self._loop.call_later(self._spec.ttl, self._look)

    def _look(self) -> None:
        """See whether that time is over: to set a timer anew for each record would cost more."""
        due = self._good_at + self._spec.ttl
        if self._loop.time() < due:
            self._silence = self._loop.call_at(due, self._look)
        else:
            self._restart(f"no record for {format_duration(self._spec.ttl)} (ttl)")

    def _ask(self) -> None:
        """Ask for the next answer, unless the last one is still to come; then at the next slot."""
        now, interval = self._clock(), self._spec.interval
        if self._asked_at is None:
            self._asked_at = now
            self._runs.tell(self._name, REQUEST)
            self._loop.call_later(self._spec.probe.timeout, self._unanswered, now)
        phase = fraction(self._spec.host, self._name) * interval
        slot = first_slot_after(now, phase, interval)
        self._question = self._loop.call_later(max(0.0, slot - now), self._ask)

    def _unanswered(self, asked_at: float) -> None:
        if self._asked_at == asked_at and not self.over.is_set():
            self._restart(f"no answer within {format_duration(self._spec.probe.timeout)}")

    def _restart(self, why: str) -> None:
        if self._stopped_for is None and not self._ending:
            self._stopped_for = why
            self._forget_timers()
            self._runs.stop(self._name, b"")

    def _forget_timers(self) -> None:
        for timer in (self._silence, self._question):
            if timer is not None:
                timer.cancel()
        self._silence = self._question = None


def told(batch: Batch) -> Collection[str]:
    """The resources that a batch is about."""
    return {*batch.values, *batch.missed} if batch.missed else batch.values
