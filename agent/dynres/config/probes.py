"""Decides whether a declared probe can be run, and makes the frozen one of it."""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

from dynres.config import schema
from dynres.config.findings import Findings
from dynres.config.model import Probe
from dynres.config.near import nearest, several
from dynres.config.plugins import read_options
from dynres.config.scalars import Map, Scalar
from dynres.config.series import read_series
from dynres.value import format_duration

FORMATS: Final = (
    "value",
    "lines",
    "json",
    "elim",
    "load_sensor",
    "startd_cron",
    "pbs",
    "nagios",
    "prometheus",
)
OF_ONE: Final = ("value", "pbs")
"""Formats that give one resource."""
STREAMS: Final = ("elim", "load_sensor")
"""Formats that are streams unless the probe says otherwise."""
NEVER_STREAMS: Final = ("pbs", "nagios", "prometheus")
"""Formats whose output has no records."""
NEVER_FILES: Final = ("load_sensor", "nagios")
"""Formats that are a conversation or need an exit status."""
KINDS: Final = ("command", "plugin", "file")
SHORTEST_EXTERNAL: Final = 1.0
LONGEST_TIMEOUT: Final = 10.0
_COMMAND_ONLY: Final = ("env", "cwd", "memory", "cpu", "processes", "nice")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def timeout_of(shape: schema.Probe, interval: float) -> float:
    """The timeout of a probe whose shortest interval this is, in seconds."""
    return shape.timeout if shape.timeout is not None else min(interval, LONGEST_TIMEOUT)


def mode_of(shape: schema.Probe) -> Literal["once", "stream"]:
    """Whether the process is to end or to stay: as written, else by the format."""
    if shape.mode is not None:
        return "stream" if shape.mode == "stream" else "once"
    return "stream" if shape.command and schema.text(shape.format) in STREAMS else "once"


def build_probe(
    shape: schema.Probe,
    node: Map,
    name: str,
    *,
    interval: float | None,
    feeds: Iterable[str],
    findings: Findings,
) -> Probe:
    """The probe `name`, run every `interval` s (None: nothing uses it) for the resources `feeds`.

    What is wrong is noted in `findings`; the probe is then of no use.
    """
    owner, feeds = f"probe {name}", list(feeds)
    kind = _kind(shape, node, owner, findings)
    _check_command(shape, node, owner, findings)
    _check_format(shape, node, owner, kind=kind, feeds=feeds, findings=findings)
    _check_keys(shape, node, owner, kind, findings)
    _check_map(shape, node, owner, feeds, findings)
    options: dict[str, Any] = {}
    if kind == "plugin" and shape.plugin:
        options = read_options(shape.plugin, node, owner, findings)
    return Probe(
        name=name,
        command=tuple(shape.command or ()),
        plugin=shape.plugin,
        file=shape.file,
        options=options,
        timeout=timeout_of(shape, interval or LONGEST_TIMEOUT),
        format=schema.text(shape.format),
        mode=mode_of(shape),
        user=shape.user,
        retry=shape.retry,
        memory=shape.memory,
        cpu=shape.cpu,
        processes=shape.processes,
        allow_unsafe=shape.allow_unsafe,
        place=node.place,
        **_given(shape),
    )


def _given(shape: schema.Probe) -> dict[str, Any]:
    """The settings that were written, where the frozen probe has defaults of its own."""
    given: dict[str, Any] = {
        key: value
        for key in ("cwd", "recheck", "output_limit", "nice", "env", "map")
        if (value := getattr(shape, key)) is not None
    }
    if "map" in given:
        given["map"] = {key: target.text for key, target in given["map"].items()}
    return given


def _kind(shape: schema.Probe, node: Map, owner: str, findings: Findings) -> str | None:
    kinds = [kind for kind in KINDS if getattr(shape, kind) is not None]
    if len(kinds) == 1:
        return kinds[0]
    expected = "one of command, plugin, file"
    if kinds:
        place = node.place_of(kinds[1])
        findings.fault(place, owner, expected, " and ".join(kinds), "leave one of them")
    else:
        findings.fault(node.place, owner, expected, "none", "command: [/path/to/program]")
    return None


def _check_command(shape: schema.Probe, node: Map, owner: str, findings: Findings) -> None:
    if shape.command is None:
        return
    place = node.place_of("command")
    if not shape.command or not shape.command[0]:
        got = "an empty list" if not shape.command else "an empty name"
        findings.fault(place, f"{owner}: command", "a program and its arguments", got)
    elif "/" in shape.command[0] and not shape.command[0].startswith("/"):
        findings.fault(
            place,
            f"{owner}: command",
            "an absolute path, or a name that is looked up in PATH",
            shape.command[0],
            "probes run in /, so a relative path leads nowhere",
        )
    for name in shape.env or {}:
        if not _ENV_NAME.fullmatch(name) or name.startswith("DYNRES_"):
            env = node["env"]
            where = env.key(name) if isinstance(env, Map) else None
            findings.fault(
                where.place if where is not None else env.place,
                f"{owner}: env",
                "a name of letters, digits, _ that does not begin with DYNRES_",
                repr(name),
            )


def _check_format(
    shape: schema.Probe,
    node: Map,
    owner: str,
    *,
    kind: str | None,
    feeds: list[str],
    findings: Findings,
) -> None:
    word = schema.text(shape.format)
    _check_mode(shape, node, owner, kind, findings)
    if word is None or shape.format is None:
        return
    place, what = shape.format.place, f"{owner}: format"
    if kind == "plugin":
        findings.fault(place, what, "none: a plugin returns values", word, "leave it out")
    elif word not in FORMATS:
        findings.fault(place, what, " | ".join(FORMATS), repr(word), nearest(word, FORMATS))
    elif kind == "file" and word in NEVER_FILES:
        findings.fault(place, what, "a command", f"a file in format {word}")
    elif word in OF_ONE and len(feeds) > 1:
        more = ", …" if len(feeds) > 3 else ""
        got = f"{word} for {len(feeds)} resources ({', '.join(feeds[:3])}{more})"
        findings.fault(place, what, "lines or json for several resources", got)


def _check_mode(
    shape: schema.Probe, node: Map, owner: str, kind: str | None, findings: Findings
) -> None:
    """A stream is a command whose format has records; a load sensor is always one."""
    word, mode = schema.text(shape.format), mode_of(shape)
    place, what = node.place_of("mode" if shape.mode else "format"), f"{owner}: mode"
    if mode == "stream" and kind in {"plugin", "file"}:
        findings.fault(place, what, "a command, which is started and stays", f"a {kind}")
    elif mode == "stream" and word in NEVER_STREAMS:
        findings.fault(place, what, f"once for format {word}", "stream", "leave it out")
    elif mode == "once" and word == "load_sensor" and kind == "command":
        findings.fault(place, what, "stream for a load sensor", "once", "leave it out")


def _check_keys(
    shape: schema.Probe, node: Map, owner: str, kind: str | None, findings: Findings
) -> None:
    """Settings that this kind of probe has no use for."""
    if kind is not None and kind != "plugin" and "options" in node:
        hint = "write them as arguments of the command" if kind == "command" else "leave them out"
        findings.fault(node.place_of("options"), f"{owner}: options", "a plugin", f"a {kind}", hint)
    for key in _COMMAND_ONLY:
        if kind in {"plugin", "file"} and getattr(shape, key) is not None:
            findings.fault(
                node.place_of(key), f"{owner}: {key}", "a command", f"a {kind}", "leave it out"
            )


def _check_map(
    shape: schema.Probe, node: Map, owner: str, feeds: list[str], findings: Findings
) -> None:
    """`map:` leads to resources that this probe feeds, each once."""
    seen: dict[str, Scalar] = {}
    if schema.text(shape.format) == "prometheus":
        _check_series(shape, node, owner, findings)
    for target in (shape.map or {}).values():
        what = f"{owner}: map"
        if target.text in seen:
            first = seen[target.text].place
            findings.fault(target.place, what, "each resource once", f"{target}, also at {first}")
        elif feeds and target.text not in feeds:
            hint = nearest(target.text, feeds)
            findings.fault(
                target.place, what, f"a resource it feeds: {several(feeds)}", target.text, hint
            )
        seen.setdefault(target.text, target)


def _check_series(shape: schema.Probe, node: Map, owner: str, findings: Findings) -> None:
    """In format `prometheus` a name in `map:` is a series."""
    names = node.get("map")
    for name in shape.map or {}:
        try:
            read_series(name)
        except ValueError as error:
            key = names.key(name) if isinstance(names, Map) else None
            place = key.place if key is not None else node.place
            expected = 'a series such as up or up{job="x"}'
            findings.fault(place, f"{owner}: map", expected, f"{name!r} ({error})")


def check_interval(
    shape: schema.Probe, interval: float, place: Any, owner: str, findings: Findings
) -> None:
    """An external probe runs at most once a second."""
    if shape.command is not None and interval < SHORTEST_EXTERNAL:
        findings.fault(
            place,
            f"{owner}: interval",
            "at least 1s for a command",
            format_duration(interval),
            "a plugin may run more often",
        )
