"""What `dynres probe test` shows of a run: its surroundings, its output, values, a verdict."""

import shlex
from collections.abc import Iterator
from typing import Any

from dynres.cli.output import printable
from dynres.cli.words import run_time_text, value_text
from dynres.value import Value, plain_number
from dynres.worker.trial import Trial

WIDTH = 10


def as_document(trial: Trial) -> dict[str, Any]:
    """The shape that scripts rely on; further fields may come."""
    probe, result = trial.spec.probe, trial.result
    return {
        "probe": probe.name,
        "host": trial.spec.host,
        "kind": kind(trial),
        "command": list(probe.command) or None,
        "plugin": probe.plugin,
        "file": probe.file,
        "user": trial.user,
        "cwd": probe.cwd,
        "env": trial.env,
        "outcome": result.outcome,
        "reason": result.reason,
        "exit": result.exit,
        "signal": result.signal,
        "duration": result.duration,
        "stdout": result.stdout if probe.command else None,
        "stderr": result.stderr,
        "values": {name: _plain(value) for name, value in result.values.items()},
        "missed": result.missed,
        "refused": [{"name": r.name, "text": r.text, "reason": r.reason} for r in result.refused],
        "not_here": result.not_here,
    }


def kind(trial: Trial) -> str:
    """Command, plugin, file or stream."""
    probe = trial.spec.probe
    if probe.mode == "stream":
        return "stream"
    return "plugin" if probe.plugin else "file" if probe.file else "command"


def lines(trial: Trial) -> Iterator[str]:
    """The same for a person."""
    probe, result = trial.spec.probe, trial.result
    yield _line("probe", f"{probe.name} ({kind(trial)}) of host {trial.spec.host}")
    if probe.command:
        yield _line("command", shlex.join(probe.command))
    else:
        options = ", ".join(f"{name}={value!r}" for name, value in probe.options.items())
        yield _line("plugin" if probe.plugin else "file", f"{probe.plugin or probe.file}", options)
    yield _line("user", trial.user or f"{probe.user or trial.spec.default_user}: no such user")
    yield _line("cwd", probe.cwd)
    yield from _block("env", [f"{name}={text}" for name, text in (trial.env or {}).items()])
    if probe.command:
        yield from _block("stdout", result.stdout.splitlines())
    yield from _block("stderr", result.stderr.splitlines())
    if result.exit is not None or result.signal is not None:
        signalled = f"signal {result.signal}"
        yield _line("exit", signalled if result.exit is None else str(result.exit))
    yield _line("duration", run_time_text(result.duration), f"timeout {probe.timeout:g} s")
    yield from _block("values", [*_values(trial), *_unvalued(trial)])
    yield _line("verdict", verdict(trial))


def verdict(trial: Trial) -> str:
    """One line: what the daemon makes of it."""
    result = trial.result
    if result.not_here:
        return "ok: it does not apply to this host"
    return result.outcome + (f": {result.reason}" if result.reason else "")


def _values(trial: Trial) -> Iterator[str]:
    for name, value in trial.result.values.items():
        unit = trial.spec.units.get(name)
        shown = "unavailable" if value is None else value_text(_plain(value))
        yield f"{name} = {shown}" + (f" {unit}" if unit and value is not None else "")


def _unvalued(trial: Trial) -> Iterator[str]:
    refused = {r.name for r in trial.result.refused}
    for r in trial.result.refused:
        yield f"{r.name} = {r.text!r} is refused: {r.reason}"
    for name, why in trial.result.missed.items():
        if name not in refused:
            yield f"{name} has no value: {why}"


def _line(name: str, text: str, remark: str = "") -> str:
    return f"{name:<{WIDTH}}{printable(text)}" + (f"  ({printable(remark)})" if remark else "")


def _block(name: str, texts: list[str]) -> Iterator[str]:
    for index, text in enumerate(texts or ["-"]):
        yield _line("" if index else name, text)


def _plain(value: Value | None) -> Value | None:
    return plain_number(value) if isinstance(value, float) else value
