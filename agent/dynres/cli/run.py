"""`dynres run`: waits its turn, runs a command, renews, and releases when it ends."""

import os
import socket
import sys

import click

from dynres.cli.asked import duration, need_option, owner_option, read_hosts
from dynres.cli.options import controller_option
from dynres.cli.output import CommandError
from dynres.value import LONGEST_DURATION
from dynres.wire.leasing import Need, Seat

TTL = 60.0
"""Seconds after which the amounts are free again when `run` itself is killed."""


@click.command(context_settings={"allow_interspersed_args": False})
@need_option
@click.option("--job", metavar="J", help="The job; default: a name of this run's own.")
@click.option("--host", metavar="SET[*SLOTS]", help="Where it runs; default: this machine.")
@click.option("--slots", metavar="N", type=click.IntRange(1), default=1, help="Slots on each host.")
@click.option(
    "--ttl",
    metavar="D",
    callback=duration,
    default=f"{TTL:g}s",
    show_default=True,
    help="After a kill -9 of run itself the amounts are free again after this time.",
)
@click.option("--wait", metavar="D", callback=duration, help="Give up (75) after this time.")
@owner_option
@controller_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *,
    need: tuple[Need, ...],
    job: str | None,
    host: str | None,
    slots: int,
    ttl: float,
    wait: float | None,
    owner: str,
    controller: tuple[str, ...],
    command: tuple[str, ...],
) -> int:
    """Run COMMAND while holding amounts: wait their turn, renew them, release them at its end.

    What it waits for is said on stderr. Signals are passed on; the exit code is the command's,
    128+N when signal N has ended it. By itself it ends only with 69 (never), 75 (--wait is over),
    77 (not allowed) or 111 (no controller).

    \b
    Example:
      dynres run --need iris=2 -- iris_solver -in model.inp
    """
    if not need:
        raise click.UsageError("Missing option --need.")
    from dynres.cli.running import NotRunError, Run

    seats = (Seat(socket.gethostname(), slots),) if host is None else read_hosts(host, slots)
    name = job or f"run-{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
    waits = LONGEST_DURATION if wait is None else wait
    sys.stdout.flush()
    try:
        return Run(controller, name, seats, need, owner=owner, ttl=ttl, wait=waits).go(command)
    except NotRunError as error:
        raise CommandError(str(error), code=error.code, exit_code=error.exit_code) from error
