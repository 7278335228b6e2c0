"""`dynres doctor`: what on this machine keeps the agent from working well, and what to do."""

import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import click

from dynres.cli import output
from dynres.cli.findings import Finding, fail, good, warn
from dynres.cli.options import DEFAULT_CONFIG, check_endpoints, host_option, json_option
from dynres.cli.output import CommandError, Exit, fault_line, printable
from dynres.cli.service_user import become_service_user
from dynres.config.model import Configuration

MOST_SHOWN = 5
WITHOUT = {
    "connecting": "no controller answers",
    "greeting": "connected, but the hello is not answered",
    "silent": "nothing has been heard for three heartbeats",
}
"""How a link is that has no registered agent."""


@click.command()
@host_option
@click.option(
    "--config",
    metavar="DIR",
    type=click.Path(path_type=Path),
    envvar="DYNRES_CONFIG",
    show_envvar=True,
    help=f"The configuration folder; default: the running agent's, else {DEFAULT_CONFIG}.",
)
@click.option(
    "--controller",
    metavar="ENDPOINT",
    multiple=True,
    callback=check_endpoints,
    envvar="DYNRES_CONTROLLER",
    show_envvar=True,
    help="Where a controller answers clients, to compare clocks; default: the agent's, port 5751.",
)
@json_option
def doctor(
    host: str | None, config: Path | None, controller: tuple[str, ...], as_json: bool
) -> int:
    """Check this machine, its files and its agent; each line is ok, warn or FAIL and what to do.

    Best run as root, who may look at the running agent. Exit code 1 when a line is FAIL.

    \b
    Example:
      dynres doctor
      dynres doctor --host host1 --json
    """
    findings: list[Finding] = []
    for finding in examine(host, config, controller):
        findings.append(finding)
        if not as_json:
            for line in finding.lines():
                output.say(printable(line))
    failed = sum(finding.verdict == "fail" for finding in findings)
    if as_json:
        checks = [finding.as_json() for finding in findings]
        warned = sum(finding.verdict == "warn" for finding in findings)
        output.document({"checks": checks, "failed": failed, "warned": warned})
    return Exit.FAILED if failed else Exit.DONE


def examine(host: str | None, named: Path | None, clients: tuple[str, ...]) -> Iterator[Finding]:
    """Every check, one after the other; what one finds does not keep the next from being made."""
    from dynres.cli import machine, reach

    status = yield from _agent(host)
    pid = status["pid"] if status else None
    process = machine.Process.of(pid)
    folder = named or Path(status["config"]["folder"] if status else DEFAULT_CONFIG)
    folder = folder.absolute()
    configuration = yield from _configuration(folder)
    settings = configuration.agent
    yield from machine.user(process)
    yield from machine.path(settings.path)
    yield from machine.privileges(process, configuration)
    yield from machine.limits(process)
    yield from machine.runtime_folder(process)
    yield from machine.configuration_files(folder, process)
    if status is not None:
        yield from _in_force(status)
        yield from _links(status)
        yield from _probes(status)
        endpoints = tuple(link["endpoint"] for link in status["controllers"])
    else:
        endpoints = settings.controllers
        yield from reach.controllers(endpoints)
    name = host or (status["host"] if status else settings.host) or socket.gethostname()
    yield from reach.clock(clients or reach.client_endpoints(endpoints), name)
    yield from _helpers(settings.path)


def _agent(host: str | None) -> Generator[Finding, None, dict[str, Any] | None]:
    """Whether an agent runs here; its status."""
    from dynres.cli.local import ask_agent

    try:
        status: dict[str, Any] = ask_agent(host, "status")
    except CommandError as error:
        todo = "start it: systemctl start dynres-agent, or dynres agent"
        yield warn("agent", error.message, todo)
        return None
    yield good("agent", f"agent of host {status['host']} runs, pid {status['pid']}")
    return status


def _configuration(folder: Path) -> Generator[Finding, None, Configuration]:
    """Whether the folder is valid; the configuration, or an empty one where it is not."""
    from dynres.config.faults import ConfigError
    from dynres.config.load import load

    try:
        loaded = load(folder, "agent")
    except ConfigError as error:
        faults = [fault_line(fault.as_json()) for fault in error.faults]
        more = f" and {len(faults) - MOST_SHOWN} more" if len(faults) > MOST_SHOWN else ""
        yield fail("configuration", "; ".join(faults[:MOST_SHOWN]) + more, "see: dynres check")
        return Configuration(resources=(), probes=())
    count = len(loaded.configuration.resources)
    if loaded.warnings:
        said = "; ".join(map(str, loaded.warnings[:MOST_SHOWN]))
        yield warn("configuration", f"{folder} is valid, with warnings: {said}", "dynres check")
    else:
        yield good("configuration", f"{folder} is valid: {count} resources")
    return loaded.configuration


def _in_force(status: dict[str, Any]) -> Iterator[Finding]:
    config = status["config"]
    if config["state"] == "ok":
        yield good("in force", f"the agent goes by {config['folder']}")
        return
    todo = "mend the files, then: dynres agent reload"
    yield fail("in force", f"the agent has refused its newest files: {config['reason']}", todo)


def _links(status: dict[str, Any]) -> Iterator[Finding]:
    for link in status["controllers"]:
        where = link["endpoint"]
        if link["state"] == "registered":
            yield good("controller", f"{where}: registered as {link['known_as']}")
            yield from _differences(link)
        elif link["refusal"]:
            todo = "the controller's hosts.yaml and registration: say who may register"
            yield fail("controller", f"{where}: refused: {link['refusal']['reason']}", todo)
        else:
            todo = "is it running, and is its port for agents (5750) open from here?"
            yield fail("controller", f"{where}: {WITHOUT[link['state']]}", todo)


def _differences(link: dict[str, Any]) -> Iterator[Finding]:
    found = {**link["problems"], **link["differs"]}
    if found:
        said = "; ".join(f"{name}: {why}" for name, why in list(found.items())[:MOST_SHOWN])
        todo = "make the files the same on both sides, then reload both"
        yield warn("controller", f"{link['endpoint']}: does not take {said}", todo)


def _probes(status: dict[str, Any]) -> Iterator[Finding]:
    failing = [probe for probe in status["probes"] if probe["failures"]]
    for probe in failing[:MOST_SHOWN]:
        said = f"{probe['probe']}: {probe['failures']} runs failed: {probe['reason']}"
        yield warn("probe", said, f"dynres probe test {probe['probe']}")
    if not failing:
        yield good("probes", f"none of {len(status['probes'])} fails")


def _helpers(path: str) -> Iterator[Finding]:
    """Whether a launcher and a plugin host start; as the service's user, so it comes last."""
    import asyncio
    import os

    from dynres.worker.launcher_client import LauncherError
    from dynres.worker.run import Runner

    async def start() -> None:
        runner = Runner(f"doctor-{os.getpid()}", path)
        try:
            await runner.start()
        finally:
            await runner.close()

    try:
        become_service_user()
        asyncio.run(start())
    except (CommandError, LauncherError, OSError) as error:
        yield fail("launcher", f"does not start: {error}", "see the lines above; then its log")
    else:
        yield good("launcher", "launcher and plugin host start")
