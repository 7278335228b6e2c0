"""One probe, once: dispatched by its kind, measured, and given an outcome whatever happens."""

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from dynres.config.model import AgentSettings
from dynres.worker.accounts import Account, AccountError, Accounts
from dynres.worker.command import ended, judged, parsed_output, request, verdict
from dynres.worker.holdable import held_to_amounts
from dynres.worker.launch import LaunchRequest
from dynres.worker.launcher_client import Hear, LauncherClient
from dynres.worker.outcome import STDERR_TAIL, Outcome, RunResult, RunSpec, speakable
from dynres.worker.plugin_client import Answer, Job, PluginHosts
from dynres.worker.plugin_values import take_reading
from dynres.worker.pulse import Watch
from dynres.worker.streams import Hears

SERVICE_USERS: Final = ("dynres", "nobody")
"""Who runs probes that name no user when the agent itself is root."""
USERS_TIME: Final = 1.0
"""Seconds that the start of the agent waits for the system to say who its users are."""
FUTURE: Final = 60.0
"""Seconds by which a file may have been changed in the future before it is not believed."""

_NO_USERS: Final = "the system does not say who its users are"
_CUT: Final = "cut short by a reload or the agent's stop"

log = logging.getLogger(__name__)


def clock() -> float:
    """Seconds that only go forward, suspend included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Runner:
    """Runs probes: commands in the launcher, plugins and files in plugin hosts.

    `agent` names this agent on this machine, `path` is the PATH of plugin hosts, `plugin_path` is
    added to their sys.path. `joins` is called with the pid of each helper process, before that
    starts anything. One probe's runs never overlap; different probes' runs do.
    """

    def __init__(
        self,
        agent: str,
        path: str = AgentSettings().path,
        *,
        plugin_path: Sequence[str] = (),
        joins: Callable[[int], None] | None = None,
    ) -> None:
        session = os.urandom(4).hex()
        self._watch = watch = Watch()
        self._launcher = LauncherClient(agent, session, joins, watch)
        mark = f"{agent}#{session}#"
        self._hosts = PluginHosts(
            path, plugin_path, mark=mark, joins=joins, on_gone=self._launcher.sweep, watch=watch
        )
        self._accounts = Accounts()
        self._numbers = itertools.count(1)
        self._flights: dict[str, _Flight] = {}
        self._asked_before: dict[str, tuple[RunSpec, LaunchRequest]] = {}
        """The request of each probe's last run, which a run of the same probe repeats."""
        self._jobs_before: dict[str, tuple[RunSpec, Job]] = {}
        """The same for plugins and files."""

    async def start(self, default_user: str | None = None) -> None:
        """Start the helper processes; most plugins will run as `default_user`.

        Raises OSError, LauncherError.
        """
        with contextlib.suppress(AccountError, TimeoutError):
            async with asyncio.timeout(USERS_TIME):
                user, _ = await self._run_as(default_user)
            self._hosts.start(user)
        await self._launcher.start()

    async def run(self, spec: RunSpec, *, keep_stdout: bool = False) -> RunResult:
        """One run to its end; never raises for what the probe does."""
        result = held_to_amounts(await self._fly(spec, self._dispatch), spec)
        if keep_stdout or not result.stdout:
            return result
        return msgspec.structs.replace(result, stdout="")

    async def stream(self, spec: RunSpec, hears: Hears) -> RunResult:
        """One life of a streaming probe; never raises for what it does.

        How it ended; `cancelled` where it was stopped, or lost its launcher.
        """

        async def live(spec: RunSpec, flight: "_Flight") -> RunResult:
            asked = await self._asked(spec, flight)
            if isinstance(asked, RunResult):
                return asked
            return ended(await self._launcher.run(asked, _hear(hears, self._watch)), spec)

        return await self._fly(spec, live)

    async def _fly(
        self, spec: RunSpec, do: Callable[[RunSpec, "_Flight"], Awaitable[RunResult]]
    ) -> RunResult:
        started = clock()
        name = spec.probe.name
        flight = self._flights[name] = _Flight(f"{name}-{next(self._numbers)}")
        try:
            result = await do(spec, flight)
        except Exception as error:  # the one place where nothing may get through
            log.exception("probe %s: internal error", name)
            text = f"internal error: {type(error).__name__}: {error}"
            result = _ended(spec, "failed", text, started)
        finally:
            if self._flights.get(name) is flight:
                del self._flights[name]
        if flight.cancelled and result.outcome != "ok":
            cut = _ended(spec, "cancelled", _CUT, started)
            return msgspec.structs.replace(cut, stderr=result.stderr, exit=result.exit)
        return speakable(result)

    async def account(self, spec: RunSpec) -> Account:
        """The user that a run is made as. Raises AccountError; waits as long as the system does."""
        return (await self._run_as(spec.probe.user or spec.default_user))[1]

    def tell(self, probe: str, text: bytes) -> None:
        """Write to the stdin of a stream."""
        flight = self._flights.get(probe)
        if flight is not None:
            self._launcher.tell(flight.run, text)

    def stop(self, probe: str, farewell: bytes) -> None:
        """End a stream in order."""
        flight = self._flights.get(probe)
        if flight is not None:
            flight.cancelled = True
            self._launcher.stop(flight.run, farewell)

    def cancel(self, probe: str) -> None:
        """End the run of that probe that is under way; it changes nothing."""
        flight = self._flights.get(probe)
        if flight is not None:
            flight.cancelled = True
            self._launcher.cancel(flight.run)
            self._hosts.cancel(probe)

    def forget(self, probe: str) -> None:
        """The probe is no longer configured: end its run, drop its plugin instance."""
        self.cancel(probe)
        self._asked_before.pop(probe, None)
        self._jobs_before.pop(probe, None)
        self._hosts.forget(probe)

    async def close(self) -> None:
        """End every run, the helper processes and all that they started."""
        for probe in list(self._flights):
            self.cancel(probe)
        await self._hosts.close()
        await self._launcher.close()

    async def _dispatch(self, spec: RunSpec, flight: "_Flight") -> RunResult:
        if spec.probe.command:
            return await self._command(spec, flight)
        started = clock()
        before = self._jobs_before.get(spec.probe.name)
        if before is not None and before[0] is spec:
            job: Job | RunResult = before[1]
        else:
            job = await self._job(spec, started)
        if isinstance(job, RunResult):
            return job
        answer = await self._hosts.run(job)
        started = answer.started or started
        if answer.status != "ok":
            return _not_ok(spec, answer, started)
        return (_file if job.file is not None else _plugin)(spec, answer, started)

    async def _job(self, spec: RunSpec, started: float) -> Job | RunResult:
        """What to ask a plugin host; a result where it is clear already that it cannot be run."""
        probe = spec.probe
        try:
            async with asyncio.timeout(probe.timeout):
                user, _ = await self._run_as(probe.user or spec.default_user)
        except TimeoutError:
            return _ended(spec, "timeout", _NO_USERS, started)
        except AccountError as error:
            return _ended(spec, "start_error", str(error), started)
        job = Job(
            user=user,
            probe=probe.name,
            timeout=probe.timeout,
            plugin=probe.plugin,
            options=probe.options,
            file=probe.file,
            limit=probe.output_limit,
        )
        self._jobs_before[probe.name] = spec, job
        return job

    async def _command(self, spec: RunSpec, flight: "_Flight") -> RunResult:
        asked = await self._asked(spec, flight)
        if isinstance(asked, RunResult):
            return asked
        return verdict(await self._launcher.run(asked), spec)

    async def _asked(self, spec: RunSpec, flight: "_Flight") -> LaunchRequest | RunResult:
        """What to ask the launcher; a result where it is clear already that it cannot be run."""
        before = self._asked_before.get(spec.probe.name)
        if before is not None and before[0] is spec:
            return before[1]._replace(run=flight.run)
        started = clock()
        try:
            async with asyncio.timeout(spec.probe.timeout):
                user, account = await self._run_as(spec.probe.user or spec.default_user)
                trusted = [(await self._accounts.find(n)).uid for n in spec.trusted_owners]
        except TimeoutError:
            return _ended(spec, "timeout", _NO_USERS, started)
        except AccountError as error:
            return _ended(spec, "start_error", str(error), started)
        if flight.cancelled:
            return _ended(spec, "cancelled", _CUT, started)
        asked = request(spec, flight.run, user, account, trusted)
        self._asked_before[spec.probe.name] = spec, asked
        return asked

    async def _run_as(self, wanted: str | None) -> tuple[str | None, Account]:
        """The user to ask for (None: no change) and the account that this means."""
        if wanted is not None:
            account = await self._accounts.find(wanted)
            return None if account.uid == os.geteuid() else wanted, account
        if os.geteuid() != 0:
            return None, await self._accounts.find(None)
        for name in SERVICE_USERS:
            try:
                return name, await self._accounts.find(name)
            except AccountError:
                continue
        raise AccountError(
            "the agent is root and a probe never is unless it says `user: root`; "
            f"neither {' nor '.join(SERVICE_USERS)} exists"
        )


def _hear(hears: Hears, watch: Watch) -> Hear:
    def hear(told: int | bytes) -> None:
        if isinstance(told, int):
            hears.started(told)
        else:
            hears.heard(told)
            watch.glance()

    return hear


class _Flight:
    """A run under way."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.cancelled = False


def _ended(spec: RunSpec, outcome: Outcome, reason: str | None, started: float) -> RunResult:
    name, duration = spec.probe.name, clock() - started
    return RunResult(probe=name, outcome=outcome, reason=reason, started=started, duration=duration)


def _not_ok(spec: RunSpec, answer: Answer, started: float) -> RunResult:
    code = answer.code
    outcome = "failed" if answer.status == "ok" else answer.status
    return msgspec.structs.replace(
        _ended(spec, outcome, answer.reason, started),
        exit=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stderr=_tail(answer.said),
    )


def _plugin(spec: RunSpec, answer: Answer, started: float) -> RunResult:
    parsed, not_here = take_reading(answer.payload, spec)
    result = judged(_ended(spec, "ok", None, started), parsed)
    return msgspec.structs.replace(result, not_here=not_here, stderr=_tail(answer.said))


def _file(spec: RunSpec, answer: Answer, started: float) -> RunResult:
    """A file's values were measured when it was last written."""
    body, age = answer.payload
    limit = spec.probe.output_limit
    if len(body) > limit:
        return _ended(spec, "output_too_large", f"more than {limit} bytes", started)
    if age < -FUTURE:
        reason = f"{spec.probe.file}: changed {-age:.0f} s in the future: a clock is wrong"
        return _ended(spec, "failed", reason, started)
    result = _ended(spec, "ok", None, started)
    result = msgspec.structs.replace(result, started=started - max(0.0, age))
    return judged(result, parsed_output(body, spec))


def _tail(said: bytes) -> str:
    return said[-STDERR_TAIL:].decode("utf-8", "backslashreplace")
