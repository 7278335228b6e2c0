"""`dynres agent` and `dynres controller`: the daemons, and their reload."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import click

from dynres.cli import output
from dynres.cli.options import (
    address_port,
    check_endpoints,
    config_option,
    controller_option,
    host_option,
    json_option,
)


def become(module: str, arguments: Iterable[str]) -> NoReturn:
    """Replace this process by the daemon, so that it carries nothing of the command line."""
    output.flush()
    # A reload that comes too early must not kill: it waits until the daemon takes its signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    # -P: a daemon started in /tmp must not import what lies there.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])


def flags(options: Mapping[str, object]) -> Iterator[str]:
    """Options as click has read them, as a command line again; those not given are left out."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        elif value is None or value is False:
            continue
        else:
            for item in value if isinstance(value, tuple) else (value,):
                yield from (flag, str(item))


def _reloaded(warnings: Iterable[str], as_json: bool) -> None:
    if as_json:
        output.document({"reloaded": True, "warnings": list(warnings)})
        return
    for warning in warnings:
        output.tell(f"warning: {output.printable(warning)}")
    output.say("the new configuration is in force")


@click.group(invoke_without_command=True)
@config_option
@click.option("--host", metavar="NAME", help="This host's name; default: agent.yaml's, or its own.")
@click.option(
    "--controller",
    metavar="ENDPOINT",
    multiple=True,
    callback=check_endpoints,
    help="A controller's tcp://HOST:5750 for agents; repeatable: it reports to each.",
)
@click.option("--once", is_flag=True, help="Run every probe once, report, and end.")
@click.option(
    "--metrics",
    metavar="ADDR:PORT",
    callback=address_port,
    help="Where /metrics and /healthz are served, or `off`; default: agent.yaml's.",
)
@click.pass_context
def agent(context: click.Context, /, **options: object) -> None:
    """Run the per-host daemon; SIGHUP or `dynres agent reload` reads its files again.

    \b
    Example:
      dynres agent --config /etc/dynres --controller tcp://head:5750
      dynres agent --once
      dynres agent reload
    """
    if context.invoked_subcommand is not None:
        return
    become("dynres.worker", flags(options))


@agent.command("reload", short_help="Let the local agent read its files again.")
@host_option
@json_option
@click.pass_context
def agent_reload(context: click.Context, host: str | None, as_json: bool) -> None:
    """Let the local agent read its files again; exit code 2 with the faults when it refuses them.

    \b
    Example:
      dynres agent reload
      dynres agent reload --host host1
    """
    from dynres.cli.local import ask_agent

    above = context.parent.params["host"] if context.parent else None
    _reloaded(ask_agent(host or above, "reload")["warnings"], as_json)


@click.group(invoke_without_command=True)
@config_option
@click.option("--listen", metavar="ADDR", help="Address to listen on; default: controller.yaml's.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of what must survive a restart; default: controller.yaml's.",
)
@click.option(
    "--metrics",
    metavar="ADDR:PORT",
    callback=address_port,
    help="Where /metrics and /healthz are served, or `off`; default: controller.yaml's.",
)
@click.option("--agent-port", type=click.IntRange(0, 65535), help="Port for agents (5750).")
@click.option("--client-port", type=click.IntRange(0, 65535), help="Port for clients (5751).")
@click.option("--feed-port", type=click.IntRange(0, 65535), help="Port of the feed (5752).")
@click.pass_context
def controller(context: click.Context, /, **options: object) -> None:
    """Run the controller; SIGHUP or `dynres controller reload` reads its files again.

    \b
    Example:
      dynres controller --config /etc/dynres --listen 0.0.0.0 --state /var/lib/dynres
      dynres controller reload
    """
    if context.invoked_subcommand is not None:
        return
    become("dynres.controller", flags(options))


@controller.command("reload", short_help="Let the controller read its files again.")
@controller_option
@json_option
def controller_reload(controller: tuple[str, ...], as_json: bool) -> None:
    """Let the controller read its files again; exit code 2 with the faults when it refuses them.

    \b
    Example:
      dynres controller reload --controller tcp://head:5751
    """
    from dynres.cli.ask import asking

    with asking(controller) as client:
        warnings = client.reload()
    _reloaded(warnings, as_json)
