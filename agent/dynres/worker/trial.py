"""One probe run as the daemon runs it, for a person who wants to see what comes of it."""

import asyncio
import os
import secrets
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from dynres.config.model import Configuration
from dynres.value import format_duration
from dynres.wire.targets import target
from dynres.worker.accounts import Account, AccountError
from dynres.worker.agent import clock
from dynres.worker.command import environment
from dynres.worker.outcome import RunResult, RunSpec
from dynres.worker.plan import Declaration
from dynres.worker.plugin_process import environment as plugin_environment
from dynres.worker.run import Runner
from dynres.worker.streams import Hears, Streams

STDOUT_KEPT: Final = 64 * 1024


class NoTrialError(Exception):
    """There is no such probe, or nothing asks for its values; the text says what there is."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and in which surroundings."""

    spec: RunSpec
    mapped: bool
    """Whether the daemon runs it on this host by its own files."""
    user: str | None
    """None: there is no such user."""
    env: dict[str, str] | None
    """The whole environment of the process; None where none is started for it (a file)."""
    result: RunResult


def spec_of(configuration: Configuration, host: str, probe: str) -> tuple[RunSpec, bool]:
    """What the agent of `host` runs for that probe, and whether it does by its own files.

    `RESOURCE/INSTANCE` is the probe of one entry of a shared resource. Raises NoTrialError.
    """
    declaration = Declaration(configuration, host)
    dynamic = {r.name for r in configuration.resources if r.dynamic}
    several = [r for r in configuration.resources if r.dynamic and r.shared]
    shared = {r.name for r in several}
    shared |= {target(r.name, e.instance) for r in several for e in r.entries if e.instance}
    for measured, mapped in ((declaration.own_measure() | shared, True), (dynamic, False)):
        spec = declaration.plan(measured).specs.get(probe)
        if spec is not None:
            return spec, mapped
    if any(p.name == probe for p in configuration.probes):
        raise NoTrialError(f"probe {probe} feeds no resource, so nothing of it would be taken")
    raise NoTrialError(f"no probe {probe}")


async def trial(spec: RunSpec, *, mapped: bool) -> Trial:
    """Run it once, in helper processes of its own. Raises OSError, LauncherError."""
    runner = Runner(f"probe-test-{os.getpid()}-{secrets.token_hex(4)}", spec.path)
    try:
        await runner.start(spec.probe.user or spec.default_user)
        account = await _account(runner, spec)
        if spec.probe.mode == "stream":
            result = await _first_record(runner, spec)
        else:
            result = await runner.run(spec, keep_stdout=True)
    finally:
        await runner.close()
    return Trial(
        spec=spec,
        mapped=mapped,
        user=account.name if account else None,
        env=_env(spec, account),
        result=result,
    )


async def _account(runner: Runner, spec: RunSpec) -> Account | None:
    try:
        async with asyncio.timeout(spec.probe.timeout):
            return await runner.account(spec)
    except (AccountError, TimeoutError):
        return None


def _env(spec: RunSpec, account: Account | None) -> dict[str, str] | None:
    if spec.probe.plugin is not None:
        own = {} if account is None else {"HOME": account.home, "USER": account.name}
        return {**plugin_environment(spec.path), **own}
    if not spec.probe.command or account is None:
        return None
    return environment(spec, account)


class _Watched:
    """A runner of streams that keeps what a person wants to see of one."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.stdout = bytearray()
        self.ended: RunResult | None = None

    async def stream(self, spec: RunSpec, hears: Hears) -> RunResult:
        """Run it, and remember how it ended."""
        self.ended = await self._runner.stream(spec, _Tee(hears, self.stdout))
        return self.ended

    def tell(self, probe: str, text: bytes) -> None:
        """Write to its stdin."""
        self._runner.tell(probe, text)

    def stop(self, probe: str, farewell: bytes) -> None:
        """End it, in order."""
        self._runner.stop(probe, farewell)


class _Tee:
    """Hands on what a stream tells, and keeps the beginning of what it prints."""

    def __init__(self, hears: Hears, kept: bytearray) -> None:
        self._hears = hears
        self._kept = kept

    def started(self, pid: int) -> None:
        """Its process is there."""
        self._hears.started(pid)

    def heard(self, data: bytes) -> None:
        """It printed this."""
        self._kept += data[: STDOUT_KEPT - len(self._kept)]
        self._hears.heard(data)


async def _first_record(runner: Runner, spec: RunSpec) -> RunResult:
    """A stream until its first good record, its end, or its timeout."""
    begun = clock()
    watched = _Watched(runner)
    first: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
    bad: list[RunResult] = []

    def take(result: RunResult, _: RunSpec, _resources: Collection[str]) -> None:
        """A record without a value is not the first good one: the next may be."""
        if result.outcome == "bad_output":
            bad.append(result)
        elif not first.done():
            first.set_result(result)

    async with asyncio.TaskGroup() as group:
        streams = Streams(watched, group.create_task, take, clock)
        wanted: Mapping[str, tuple[RunSpec, object]] = {spec.probe.name: (spec, None)}
        streams.plan(wanted, recheck=False)
        await asyncio.wait({first}, timeout=spec.probe.timeout)
        await streams.end()
    result = first.result() if first.done() else _silent(spec, begun, bad)
    end = watched.ended
    return msgspec.structs.replace(
        result,
        exit=end.exit if end else None,
        stderr=end.stderr if end else "",
        stdout=watched.stdout.decode("utf-8", "backslashreplace"),
        duration=clock() - begun,
    )


def _silent(spec: RunSpec, begun: float, bad: list[RunResult]) -> RunResult:
    """No good record came in time: the last bad one says why, where there was one."""
    within = format_duration(spec.probe.timeout)
    reason = f"no record within {within}"
    if bad:
        reason = f"no good record within {within}: {bad[-1].reason}"
    return RunResult(
        probe=spec.probe.name,
        outcome="timeout",
        reason=reason,
        started=begun,
        duration=0.0,
        refused=bad[-1].refused if bad else (),
    )
