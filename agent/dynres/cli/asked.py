"""Options of those who hold amounts, as the client library takes them."""

import getpass
import os
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from dynres.cli.options import COMMA_OUTSIDE, host_names
from dynres.value import read_duration
from dynres.wire.leasing import LOCAL, Need, Seat

if TYPE_CHECKING:
    from dynres.client import Client

Decorated = Callable[..., Any]
_SLOTS = re.compile(r"(.*)\*(\d{1,6})", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)
OWNER: Final = "Whose leases; default: local."


def duration(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> float | None:
    """Check `15`, `15s`, `500ms`, `5m`, `1h30m`; as seconds. A usage error otherwise."""
    try:
        return None if value is None else read_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error


def _needs(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[Need, ...]:
    """Check `R=AMOUNT[unit][/job|/host|/slot]`. A usage error otherwise."""
    if not value:
        return ()
    from dynres.client import read_need

    try:
        return tuple(map(read_need, value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def owner_option(function: Decorated) -> Decorated:
    """`--owner O`, as argument `owner: str`."""
    return click.option("--owner", metavar="O", default=LOCAL, help=OWNER)(function)


def need_option(function: Decorated) -> Decorated:
    """`--need R=AMOUNT…`, repeatable, as argument `need: tuple[Need, ...]`."""
    return click.option(
        "--need",
        metavar="R=AMOUNT",
        multiple=True,
        callback=_needs,
        help="What it needs, as iris=2, scratch=20GB/host or cores=1/slot; repeatable. [required]",
    )(function)


def ttl_option(function: Decorated) -> Decorated:
    """`--ttl D`, as argument `ttl: float | None`."""
    help_text = "The lease ends by itself after this time, unless it is renewed."
    return click.option("--ttl", metavar="D", callback=duration, help=help_text)(function)


def read_hosts(text: str, slots: int = 1) -> tuple[Seat, ...]:
    """Host sets, each with its slots: `h1*4,h2*8`, `node[001-064]*2`. A usage error otherwise."""
    seats: list[Seat] = []
    for term in COMMA_OUTSIDE.split(text):
        match = _SLOTS.fullmatch(term)
        count = int(match[2]) if match else slots
        if count < 1:
            raise click.UsageError(f"HOST {term!r}: at least 1 slot")
        seats += [Seat(host, count) for host in host_names((match[1] if match else term,))]
    return tuple(seats)


def without_groups(client: "Client", seats: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The seats with the hosts of each `@group`, which only the controller knows."""
    found: list[Seat] = []
    for seat in seats:
        if seat.host.startswith("@"):
            hosts = client.hosts(hosts=(seat.host,), all_hosts=True, details=False).hosts
            found += [Seat(host, seat.slots) for host in hosts]
        else:
            found.append(seat)
    return tuple(found)


def read_as_of(text: str) -> float:
    """A time as seconds since 1970: RFC 3339, seconds, or `-30s` before now. ValueError else."""
    if text.startswith("-"):
        return time.time() - read_duration(text[1:])
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"{text!r}: expected RFC 3339 with a zone (2026-11-30T10:00:00Z), seconds since 1970, "
            "or -30s"
        )
    return moment.timestamp()


def who() -> str:
    """Who runs the command, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
