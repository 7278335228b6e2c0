"""An external probe as a request to the launcher, and the launcher's answer as a run's outcome."""

from collections.abc import Sequence
from typing import Final

import msgspec

from dynres.value import Value, format_number
from dynres.wire.targets import resource_of
from dynres.worker.accounts import Account
from dynres.worker.elim_format import NOT_HERE_STATUS
from dynres.worker.formats import Parsed, parse
from dynres.worker.launch import LaunchRequest, LaunchResult, LaunchStatus
from dynres.worker.nagios_format import STATUSES
from dynres.worker.outcome import STDERR_TAIL, Outcome, RunResult, RunSpec
from dynres.worker.pairs import Asked

_OUTCOMES: Final[dict[LaunchStatus, Outcome]] = {
    "signalled": "killed",
    "timeout": "timeout",
    "stuck": "stuck",
    "too_large": "output_too_large",
    "start_error": "start_error",
    "refused": "refused",
    "cancelled": "cancelled",
}


def environment(spec: RunSpec, account: Account) -> dict[str, str]:
    """The whole environment of the probe: built, never inherited; `env:` over it."""
    probe = spec.probe
    return {
        "PATH": spec.path,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "HOME": account.home,
        "USER": account.name,
        **(_lsf(spec) if probe.format == "elim" else {}),
        **probe.env,
        "DYNRES_HOST": spec.host,
        "DYNRES_PROBE": resource_of(probe.name),
        "DYNRES_RESOURCES": " ".join(spec.resources),
        "DYNRES_TIMEOUT": format_number(probe.timeout),
    }


def _lsf(spec: RunSpec) -> dict[str, str]:
    """What an elim finds: its resources by its own names, and whether it measures for others."""
    own = {resource: name for name, resource in spec.probe.map.items()}
    return {
        "LSF_RESOURCES": " ".join(own.get(name, name) for name in spec.resources),
        "LSF_MASTER": "Y" if spec.shared else "N",
        "ELIM_ABORT_VALUE": str(NOT_HERE_STATUS),
    }


def request(
    spec: RunSpec, run: str, user: str | None, account: Account, trusted: Sequence[int]
) -> LaunchRequest:
    """What the launcher is asked; `user` None: the agent's own, whose account is `account`."""
    probe = spec.probe
    return LaunchRequest(
        run=run,
        argv=probe.command,
        env=environment(spec, account),
        timeout=probe.timeout,
        cwd=probe.cwd,
        output_limit=probe.output_limit,
        user=user,
        nice=probe.nice,
        memory=probe.memory,
        cpu=probe.cpu,
        processes=probe.processes,
        allow_unsafe=probe.allow_unsafe,
        trusted=tuple(trusted),
        stream=probe.mode == "stream",
        talks=probe.format == "load_sensor",
    )


def verdict(launched: LaunchResult, spec: RunSpec) -> RunResult:
    """What became of the run; its output counts only after an exit status that is no failure."""
    result = ended(launched, spec)
    if launched.status != "exited" or result.not_here:
        return result
    if launched.exit and not _has_meaning(launched.exit, spec):
        return result
    return judged(result, parsed_output(launched.stdout, spec, launched.exit or 0))


def ended(launched: LaunchResult, spec: RunSpec) -> RunResult:
    """How the process ended, whatever it printed: `failed` where it ended by itself."""
    result = RunResult(
        probe=spec.probe.name,
        outcome=_OUTCOMES.get(launched.status, "failed"),
        reason=launched.reason,
        exit=launched.exit,
        signal=launched.signal,
        started=launched.started,
        duration=launched.duration,
        stderr=launched.stderr[-STDERR_TAIL:].decode("utf-8", "backslashreplace"),
        stdout=launched.stdout.decode("utf-8", "backslashreplace"),
    )
    if launched.status != "exited":
        return result
    if launched.exit == NOT_HERE_STATUS and spec.probe.format == "elim":
        nothing: dict[str, Value | None] = dict.fromkeys(spec.resources)
        return msgspec.structs.replace(result, outcome="ok", values=nothing, not_here=True)
    return msgspec.structs.replace(result, reason=_why(launched.exit or 0, result.stderr))


def _has_meaning(status: int, spec: RunSpec) -> bool:
    return spec.probe.format == "nagios" and status < len(STATUSES)


def asked_of(spec: RunSpec, status: int = 0) -> Asked:
    """What a format needs to know of a run."""
    return Asked(
        resources=spec.resources,
        names=spec.probe.map,
        several=spec.several,
        units=spec.units,
        host=spec.host,
        status=status,
    )


def parsed_output(output: bytes, spec: RunSpec, status: int = 0) -> Parsed:
    """What an output gives of what the run was asked for."""
    return parse(output, spec.probe.format, asked_of(spec, status))


def judged(result: RunResult, parsed: Parsed) -> RunResult:
    """The result with what its output gave: `ok` with at least one value, else `bad_output`."""
    if parsed.problem is not None:
        return msgspec.structs.replace(
            result, outcome="bad_output", reason=parsed.problem, refused=parsed.refused
        )
    return msgspec.structs.replace(
        result,
        outcome="ok",
        reason=None,
        values=parsed.values,
        missed=parsed.missed,
        refused=parsed.refused,
        why=parsed.why,
    )


def _why(status: int, stderr: str) -> str:
    """An exit status, and the last line that the probe wrote about it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f"exit status {status}" + (f": {lines[-1][:200]}" if lines else "")
