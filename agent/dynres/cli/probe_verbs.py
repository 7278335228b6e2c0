"""`dynres probe list` and `dynres probe test`: the probes of a folder, and one run of one."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dynres.cli import output
from dynres.cli.options import config_option, json_option, read_folder
from dynres.cli.output import CommandError, Exit
from dynres.cli.table import Cell, Row, Table, show
from dynres.cli.words import NONE
from dynres.config.model import Configuration, Probe
from dynres.value import format_duration

if TYPE_CHECKING:
    from dynres.worker.trial import Trial

PROBE_COLUMNS = ("PROBE", "KIND", "RUNS", "INTERVAL", "TIMEOUT", "FORMAT", "FEEDS", "SOURCE")
PLUGIN_COLUMNS = ("PLUGIN", "CLASS", "PACKAGE", "VERSION")


class ProbeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A probe of the folder: what it runs, how often, and what it feeds."""

    name: str
    kind: str
    """command | plugin | file"""
    command: tuple[str, ...] | None
    plugin: str | None
    file: str | None
    interval: float | None
    """The smallest interval of its resources; None where it feeds none."""
    timeout: float
    format: str | None
    """None for a plugin, and where the default decides (by how many resources it feeds)."""
    mode: str
    user: str | None
    resources: tuple[str, ...]
    builtin: bool
    place: str


class PluginLine(msgspec.Struct, frozen=True, kw_only=True):
    """An installed plugin."""

    name: str
    target: str = msgspec.field(name="class")
    package: str | None
    version: str | None


def probe_line(probe: Probe, configuration: Configuration) -> ProbeLine:
    """What is worth knowing of one probe."""
    fed = [resource for resource in configuration.resources if resource.probe == probe.name]
    kind = "plugin" if probe.plugin else "file" if probe.file else "command"
    return ProbeLine(
        name=probe.name,
        kind=kind,
        command=probe.command or None,
        plugin=probe.plugin,
        file=probe.file,
        interval=min((r.interval for r in fed if r.interval is not None), default=None),
        timeout=probe.timeout,
        format=probe.format,
        mode=probe.mode,
        user=probe.user,
        resources=tuple(resource.name for resource in fed),
        builtin=bool(fed) and all(resource.builtin for resource in fed),
        place=str(probe.place),
    )


def plugin_lines() -> Iterator[PluginLine]:
    """The plugins of this installation, by name."""
    for point in sorted(entry_points(group="dynres.probes"), key=lambda point: point.name):
        package = point.dist
        yield PluginLine(
            name=point.name,
            target=point.value,
            package=package.name if package else None,
            version=package.version if package else None,
        )


def probe_row(line: ProbeLine) -> Row:
    """The cells of one probe."""
    runs = " ".join(line.command) if line.command else line.plugin or line.file or NONE
    default = "value" if len(line.resources) == 1 else "lines or json"
    return (
        Cell(line.name, "bold"),
        Cell(line.kind),
        Cell(runs),
        Cell(format_duration(line.interval) if line.interval else NONE),
        Cell(format_duration(line.timeout)),
        Cell(NONE if line.plugin else line.format or default),
        Cell(" ".join(line.resources) or NONE),
        Cell("built in" if line.builtin else line.place, "dim"),
    )


def plugin_row(line: PluginLine) -> Row:
    """The cells of one plugin."""
    cells = (line.target, line.package or NONE, line.version or NONE)
    return (Cell(line.name, "bold"), *map(Cell, cells))


@click.group()
def probe() -> None:
    """Probes of a configuration folder.

    \b
    Example:
      dynres probe list --config examples/quickstart
      dynres probe test root_free --config examples/quickstart
    """


@probe.command("list", short_help="What each runs, how often, and what it feeds.")
@config_option
@json_option
def list_(config: Path, as_json: bool) -> None:
    """List the probes of the folder, what they run and feed, and the installed plugins.

    \b
    Example:
      dynres probe list --config examples/quickstart
    """
    configuration = read_folder(config, "agent").configuration
    probes = [probe_line(probe, configuration) for probe in configuration.probes]
    plugins = list(plugin_lines())
    if as_json:
        output.document(msgspec.to_builtins({"probes": probes, "plugins": plugins}))
        return
    right = frozenset({"INTERVAL", "TIMEOUT"})
    show(Table(PROBE_COLUMNS, [probe_row(line) for line in probes], right))
    output.say()
    show(Table(PLUGIN_COLUMNS, [plugin_row(line) for line in plugins]))


@probe.command("test", short_help="Run one once, as the daemon would, and show it all.")
@click.argument("name", metavar="NAME")
@config_option
@click.option("--host", metavar="NAME", help="As which host; default: agent.yaml's, or its own.")
@json_option
def test(name: str, config: Path, host: str | None, as_json: bool) -> int:
    """Run one probe once, exactly as the daemon would, and show what came of it.

    As root it becomes the service's user first. A stream is ended after its first good record, or
    at its timeout. Exit code 0: the run was ok.

    \b
    Example:
      dynres probe test scratch_free
      dynres probe test scratch_free --config examples/scratch --json
    """
    import os
    import socket

    from dynres.cli.machine import capabilities_of_agent
    from dynres.cli.probe_test import as_document, lines
    from dynres.cli.service_user import become_service_user

    configuration = read_folder(config.absolute(), "agent").configuration
    # With `user:` a probe needs what the service's manager gave it.
    become_service_user(capabilities_of_agent(host) if os.geteuid() == 0 else 0)
    trial = _try(configuration, host or configuration.agent.host or socket.gethostname(), name)
    if not trial.mapped:
        output.tell(f"warning: the daemon of {trial.spec.host} does not run it: none of its")
        output.tell("resources has an entry that covers that host")
    if as_json:
        output.document(as_document(trial))
    else:
        for line in lines(trial):
            output.say(line)
    return Exit.DONE if trial.result.outcome == "ok" else Exit.FAILED


def _try(configuration: Configuration, host: str, name: str) -> "Trial":
    """The run. Raises CommandError: 2 for a probe that is none, 1 where nothing can be run."""
    import asyncio

    from dynres.worker.launcher_client import LauncherError
    from dynres.worker.trial import NoTrialError, spec_of, trial

    try:
        spec, mapped = spec_of(configuration, host, name)
    except NoTrialError as error:
        from difflib import get_close_matches

        names = [probe.name for probe in configuration.probes]
        near = get_close_matches(name, names, n=1)
        there = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
        hint = "" if name in names else f"; {there}"
        raise CommandError(f"{error}{hint}", code="usage", exit_code=Exit.USAGE) from None
    try:
        return asyncio.run(trial(spec, mapped=mapped))
    except (LauncherError, OSError) as error:
        raise CommandError(f"the helper processes cannot be started: {error}") from error
