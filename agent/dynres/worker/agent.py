"""The agent at work: what is due is run, what has ended goes into the table and to the links.

All of it belongs to the event loop's thread. Decisions are made in `plan`, `timetable`, `latest`
and `reporter`; this module tells them what happened and does what they say.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Protocol

from dynres import __version__
from dynres.config.model import Configuration
from dynres.metrics import AgentMetrics, CurrentValue, on_loop
from dynres.wire.messages import OLDEST, VERSION, Hello
from dynres.wire.targets import instance_of, resource_of
from dynres.worker.alarm import Alarm
from dynres.worker.controllers import ControllerLink
from dynres.worker.failures import Failures
from dynres.worker.identity import Identity
from dynres.worker.latest import Ended, Latest
from dynres.worker.outcome import RunResult, RunSpec
from dynres.worker.plan import Declaration, Plan
from dynres.worker.reporter import Reporter
from dynres.worker.streams import StreamRuns, Streams
from dynres.worker.timetable import After, Changes, Timetable

log = logging.getLogger(__name__)


def clock() -> float:
    """Seconds that only go forward, suspend included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Runs(StreamRuns, Protocol):
    """What runs probes, once or as streams."""

    async def run(self, spec: RunSpec) -> RunResult:
        """One run; never raises for what the probe does."""
        ...

    def cancel(self, probe: str) -> None:
        """End the run of that probe that is under way."""

    def forget(self, probe: str) -> None:
        """That probe is no longer wanted: end its run, keep nothing of it."""


class Agent:
    """One host's probes, table and links; `spawn` starts a task in the daemon's group."""

    def __init__(
        self,
        host: str,
        identity: Identity,
        configuration: Configuration,
        runs: Runs,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.host = host
        self.started = clock()
        self.declaration = Declaration(configuration, host)
        self.refused: str | None = None
        """Why the files' newest state is not in force."""
        self.plan = Plan()
        self.latest = Latest()
        self.links: dict[str, ControllerLink] = {}
        self.timetable = Timetable(host, _max_running(configuration))
        self.changed = asyncio.Event()
        """Set whenever a run ended, a report left or a link's state changed."""
        self._runs = runs
        self._spawn = spawn
        self.streams = Streams(runs, spawn, self._take_of_stream, clock)
        self._failures = Failures()
        self._loop = asyncio.get_running_loop()
        self.metrics = AgentMetrics(on_loop(self._loop, lambda: list(self._current_values())))
        self._alarm = Alarm(self._tick)
        self._look: asyncio.Handle | None = None
        self._stopped = False
        self._identity = identity

    # What to run

    def begin(self, endpoints: Sequence[str], *, spread: bool) -> None:
        """Start the probes of the own files and the links. Raises LinkError."""
        self.connect(endpoints)
        self._replan(spread=spread)

    def connect(self, endpoints: Sequence[str]) -> None:
        """Have a link to each of these controllers and to no other. Raises LinkError."""
        for endpoint in self.links.keys() - set(endpoints):
            self.links.pop(endpoint).close()
            self.metrics.disconnected(endpoint)
        for endpoint in endpoints:
            if endpoint not in self.links:
                self.metrics.connected(endpoint, registered=False)
                reporter = Reporter(self.latest)
                self.links[endpoint] = ControllerLink(endpoint, self, reporter, clock)

    def reconfigure(self, configuration: Configuration) -> None:
        """A new valid configuration is in force from now on."""
        self.declaration = Declaration(configuration, self.host)
        self.refused = None
        self.timetable.max_running = _max_running(configuration)
        for link in self.links.values():
            if not link.registered:
                link.word = None
        self._replan(spread=False, recheck=True)
        self._greet_all()

    def refuse(self, reason: str) -> None:
        """The files are faulty: the last good configuration stays, and controllers are told."""
        self.refused = reason
        self._greet_all()

    def _greet_all(self) -> None:
        for link in self.links.values():
            link.greet()

    def _measured(self) -> frozenset[str]:
        words = [link.word for link in self.links.values() if link.word is not None]
        if words:
            return self.declaration.allowed(frozenset().union(*words))
        shared = self.declaration.shared(self.plan.rules.keys())
        return self.declaration.own_measure() | frozenset(shared)

    def _replan(self, *, spread: bool, recheck: bool = False) -> Changes:
        self.plan = self.declaration.plan(self._measured())
        self.latest.define(self.plan.rules)
        changes = self.timetable.plan(self.plan.cadences, clock(), spread=spread, recheck=recheck)
        for probe in changes.cancel:
            self._runs.cancel(probe)
        for probe in changes.removed:
            self._runs.forget(probe)
        self.streams.plan(self.plan.streams, recheck=recheck)
        probes = set(self.plan.specs)
        self.metrics.keep_only(probes)
        self._failures.keep_only(probes)
        self._tell_untold()
        self._tick()
        return changes

    def _tell_untold(self) -> None:
        """Say of what cannot be measured here why, so that another host is asked."""
        now = clock()
        for name, reason in self.plan.untold.items():
            if self.latest.probe(name) is None:
                log.warning("%s: %s", name, reason)
                resource = resource_of(name)
                result = RunResult(
                    probe=name,
                    outcome="ok",
                    started=now,
                    duration=0.0,
                    reason=reason,
                    values={resource: None},
                    not_here=True,
                )
                ended = self.latest.apply(result, (resource,))
                self._pass_on(ended)

    # Running

    def _tick_soon(self) -> None:
        """A run has ended: look when those that end with it have been taken too."""
        if self._look is None:
            self._look = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        """Start what is due and look again when the next is."""
        self._look = None
        if self._stopped:
            return
        now = clock()
        try:
            for start in self.timetable.start_due(now):
                self.metrics.late(start.lateness)
                name = start.probe
                meaning = self.plan.cadences[name].definition
                self._spawn(self._run(name, self.plan.specs[name], meaning))
        finally:  # whatever it is, the others go on
            self._alarm.set(self.timetable.next_at())

    async def _run(self, probe: str, spec: RunSpec, meaning: object) -> None:
        if not self._is_current(probe, meaning):
            self.timetable.ended(probe, clock(), "ok")  # a reload came before it had begun
            self._tick_soon()
            return
        result = await self._runs.run(spec)
        now = clock()
        self.timetable.ended(probe, now, _after(result))
        if self._is_current(probe, meaning):
            self._take(result, spec.resources, now, settled=not self.timetable.running)
        self.changed.set()
        self._tick_soon()

    def _is_current(self, probe: str, meaning: object) -> bool:
        """Whether the plan still holds this probe, unchanged."""
        cadence = self.plan.cadences.get(probe)
        return cadence is not None and cadence.definition == meaning

    def _take_of_stream(self, result: RunResult, spec: RunSpec, about: Collection[str]) -> None:
        """A batch of records, or the end of a stream; `about`: which resources it tells of."""
        if self.plan.specs.get(result.probe) is not None:
            # Batches are read by the event loop itself; the end of a stream is never `ok`.
            by_loop = result.outcome == "ok"
            self._take(result, about, clock(), settled=True, by_loop=by_loop)
            self.changed.set()

    def _take(
        self,
        result: RunResult,
        asked: Collection[str],
        now: float,
        *,
        settled: bool = False,
        by_loop: bool = False,
    ) -> None:
        self.metrics.ran(result.probe, result.outcome, result.duration)
        line = self._failures.line(result, now)
        if line is not None:
            log.log(logging.WARNING if result.failure else logging.INFO, "%s", line)
        self._pass_on(self.latest.apply(result, asked), settled=settled, by_loop=by_loop)

    def _pass_on(
        self, ended: Ended | None, *, settled: bool = False, by_loop: bool = False
    ) -> None:
        if ended is not None:
            for link in self.links.values():
                link.ended(ended, settled=settled, by_loop=by_loop)

    def all_have_run(self, without: Collection[str]) -> bool:
        """Whether every probe, `without` these, has run at least once."""
        wanted = (name for name in self.plan.specs if name not in without)
        return not self.timetable.running and all(map(self.latest.probe, wanted))

    def stop(self) -> None:
        """Start nothing any more."""
        self._stopped = True
        self._alarm.close()

    async def end_streams(self) -> None:
        """End the streaming probes, in order."""
        await self.streams.end()

    def disconnect(self) -> None:
        """Say goodbye to every controller."""
        for link in self.links.values():
            link.close()
        self.links.clear()

    # What links ask

    def hello(self) -> Hello:
        """The hello that is true now."""
        return Hello(
            oldest=OLDEST,
            newest=VERSION,
            software=__version__,
            host=self.host,
            machine_id=self._identity.machine_id,
            boot_id=self._identity.boot_id,
            session=self._identity.session,
            uptime=clock() - self.started,
            definitions=self.declaration.definitions,
            reporting=self.declaration.shared(self.plan.rules.keys()),
            refused=self.refused,
        )

    def allowed(self, measure: frozenset[str]) -> frozenset[str]:
        """What of it the agent's own files allow."""
        return self.declaration.allowed(measure)

    def word_changed(self, link: ControllerLink) -> None:
        """A controller wants something else measured than before."""
        if self._measured() != self.plan.rules.keys():
            self._replan(spread=False)

    def state_changed(self, link: ControllerLink) -> None:
        """A link's state is another one."""
        self.metrics.connected(link.endpoint, link.registered)
        self.changed.set()

    def reported(self, link: ControllerLink) -> None:
        """A report was handed to a link."""
        self.metrics.reported()
        self.changed.set()

    def _current_values(self) -> Iterator[CurrentValue]:
        """What the metrics page shows."""
        for name, standing in self.latest.standings(clock()):
            resource, pool = resource_of(name), instance_of(name)
            only = None if pool == resource else pool  # named after it: there is no other
            yield CurrentValue(resource, standing.value, standing.age, pool=only)


def _after(result: RunResult) -> After:
    if result.not_here:
        return "not_here"
    return "failed" if result.failure else "ok"


def _max_running(configuration: Configuration) -> int:
    return configuration.agent.max_running or 2 * (os.cpu_count() or 1)
