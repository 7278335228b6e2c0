"""An external probe as a request to the launcher, and the launcher's answer as a run's outcome."""

from collections.abc import Sequence
from typing import Final

import msgspec

from dynres.value import format_number
from dynres.worker.accounts import Account
from dynres.worker.formats import Parsed, parse
from dynres.worker.launch import LaunchRequest, LaunchResult, LaunchStatus
from dynres.worker.outcome import STDERR_TAIL, Outcome, RunResult, RunSpec

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
        **probe.env,
        "DYNRES_HOST": spec.host,
        "DYNRES_PROBE": probe.name,
        "DYNRES_RESOURCES": " ".join(spec.resources),
        "DYNRES_TIMEOUT": format_number(probe.timeout),
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
        allow_unsafe=probe.allow_unsafe,
        trusted=tuple(trusted),
    )


def verdict(launched: LaunchResult, spec: RunSpec) -> RunResult:
    """What became of the run; its output counts only after exit status 0."""
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
    if launched.exit:
        return msgspec.structs.replace(result, reason=_why(launched.exit, result.stderr))
    return judged(result, parsed_output(launched.stdout, spec))


def parsed_output(output: bytes, spec: RunSpec) -> Parsed:
    """What an output gives of what the run was asked for."""
    probe = spec.probe
    return parse(output, probe.format, spec.resources, probe.map, several=spec.several)


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
    )


def _why(status: int, stderr: str) -> str:
    """An exit status, and the last line that the probe wrote about it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f"exit status {status}" + (f": {lines[-1][:200]}" if lines else "")
