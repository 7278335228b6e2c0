"""`dynres up`: controller and agent on this machine, on temporary state, and what they know."""

import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dynres.cli import output
from dynres.cli.canvas import CALLS, rest
from dynres.cli.children import Child
from dynres.cli.live import Display, Lines, Screen
from dynres.cli.options import config_option
from dynres.cli.output import CommandError, Exit
from dynres.cli.scratch import free_ports, scratch_folder
from dynres.cli.table import on_terminal

if TYPE_CHECKING:
    from dynres.client import Client
    from dynres.wire.views import PoolsView, ValuesView

REFRESH = 1.0
"""Seconds between two looks at the controller."""
_ENDS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_WAKES = _ENDS | {signal.SIGCHLD}


class Ports(NamedTuple):
    """Where the two daemons listen, on 127.0.0.1."""

    agents: int
    clients: int
    controller_page: int
    agent_page: int


def _ports() -> Ports:
    try:
        return Ports(*free_ports(4))
    except OSError as error:
        raise CommandError(f"127.0.0.1: {error.strerror}") from error


def controller_arguments(config: Path, ports: Ports, state: Path) -> tuple[str, ...]:
    """The controller's command line."""
    return (
        *("--config", str(config), "--listen", "127.0.0.1", "--state", str(state)),
        *("--agent-port", str(ports.agents), "--client-port", str(ports.clients)),
        *("--feed-port", "0"),
        *("--metrics", f"127.0.0.1:{ports.controller_page}"),
    )


def agent_arguments(config: Path, ports: Ports, host: str | None) -> tuple[str, ...]:
    """The agent's command line."""
    return (
        *("--config", str(config), "--controller", f"tcp://127.0.0.1:{ports.agents}"),
        *("--metrics", f"127.0.0.1:{ports.agent_page}"),
        *(("--host", host) if host else ()),
    )


def headlines(config: Path, ports: Ports, runtime: Path) -> tuple[str, ...]:
    """What runs, and how to ask it from another terminal."""
    return (
        f"dynres up: controller and agent with {config}; Ctrl-C ends both",
        f"  metrics  http://127.0.0.1:{ports.controller_page}/metrics (controller)",
        f"           http://127.0.0.1:{ports.agent_page}/metrics (agent)",
        f"  ask      DYNRES_CONTROLLER=tcp://127.0.0.1:{ports.clients} dynres values",
        f"  agent    DYNRES_RUNTIME={runtime} dynres status",
    )


class Log:
    """What the children write on stderr: kept while they start, then given to the display."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._kept: list[tuple[str, str]] | None = []
        self._lock = threading.Lock()

    def line(self, name: str, text: str) -> None:
        """One line of a child; called from its thread."""
        with self._lock:
            if self._kept is not None:
                self._kept.append((name, text))
            else:
                self._show(name, text)

    def started(self) -> None:
        """The children are up: show what they have to say, then and from now on."""
        with self._lock:
            for name, text in self._kept or ():
                self._show(name, text)
            self._kept = None

    def _show(self, name: str, text: str) -> None:
        self._display.log(name, text)
        if name == "agent" and "(not_listed)" in text:
            self._display.log("dynres", "up --host NAME lets the agent be a host that is listed")


def _ended(child: Child) -> CommandError:
    """Why `up` ends with its child, with the child's own words and exit code."""
    status = child.ended or 0
    child.drain()
    for line in child.lines:
        output.tell(output.printable(line))
    if status < 0:
        how = f"was killed by {signal.Signals(-status).name}"
    else:
        how = f"ended with exit code {status}"
    return CommandError(f"the {child.name} {how}", exit_code=status if status > 0 else Exit.FAILED)


def _look(client: "Client") -> "tuple[ValuesView, PoolsView] | None":
    """Both tables; None while the controller does not answer."""
    from dynres.client import ClientError

    try:
        return client.values(timeout=REFRESH), client.pools(timeout=REFRESH)
    except ClientError:
        return None


def watch(
    client: "Client", children: tuple[Child, ...], display: Display, log: Log
) -> Child | None:
    """Show what the controller knows until a signal ends it, or a child has ended: which one."""
    begun = answered = time.monotonic()
    started = False
    while True:
        for child in children:
            if child.ended is not None:
                return child
        views, now = _look(client), time.monotonic()
        if views is not None:
            if not started:
                log.started()
            started, answered = True, now
            display.show(*views, since=now - begun)
        elif now - answered > 5 * REFRESH:
            display.missing(f"the controller has not answered for {now - answered:.0f} s")
        wait = REFRESH if now - begun > 5 * REFRESH else REFRESH / 4
        if rest(wait, _WAKES, display.leave) in _ENDS:
            return None


@click.command()
@config_option
@click.option("--host", metavar="NAME", help="The agent's host; default: this machine's name.")
def up(config: Path, host: str | None) -> None:
    """Run controller and agent on this machine and show what they know, live.

    Nothing is installed and nothing is left: ports are free ones of 127.0.0.1, state is in a
    temporary folder. Without a terminal each value is a line when it appears or changes.

    \b
    Example:
      dynres up --config examples/quickstart
    """
    from dynres.client import Client

    # Taken by waiting for them, so that none comes between the start of a child and its end.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKES | CALLS)
    ports = _ports()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        runtime, state = folder / "run", folder / "state"
        runtime.mkdir(mode=0o700)
        state.mkdir(mode=0o700)
        head = headlines(config, ports, runtime)
        log = Log(display := Screen(head) if on_terminal() else Lines(head))
        environment = {"DYNRES_RUNTIME": str(runtime)}
        controller = Child(
            "controller",
            "dynres.controller",
            controller_arguments(config, ports, state),
            environment,
            log.line,
        )
        stack.callback(controller.stop)
        agent = Child(
            "agent", "dynres.worker", agent_arguments(config, ports, host), environment, log.line
        )
        stack.callback(agent.stop)
        client = stack.enter_context(Client(f"tcp://127.0.0.1:{ports.clients}"))
        with display:
            child = watch(client, (controller, agent), display, log)
        if child is not None:
            raise _ended(child)
