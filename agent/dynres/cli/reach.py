"""What `dynres doctor` finds out beyond this machine: controllers that answer, clocks."""

import ctypes
import re
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from dynres.cli.findings import Finding, fail, good, warn

CONNECT: Final = 3.0
CLIENT_PORT: Final = 5751
CLOCK_APART: Final = 5.0
"""Seconds between this host's clock and the controller's that are worth a warning."""
_SIGNATURE: Final = 0xFF
"""First byte of every greeting of a peer that speaks ZeroMQ's protocol."""
_TIME_ERROR: Final = 5
_TCP = re.compile(r"tcp://(?P<host>.+):(?P<port>\d+)")


def controllers(endpoints: Sequence[str]) -> Iterator[Finding]:
    """Whether something that speaks our protocol listens where the agent will connect."""
    for endpoint in endpoints:
        tcp = _TCP.fullmatch(endpoint)
        if tcp is None:
            yield good("controller", f"{endpoint}: not looked at")
            continue
        try:
            speaks = _greets(tcp["host"].strip("[]"), int(tcp["port"]))
        except OSError as error:
            todo = "is it running, and is its port for agents open from here?"
            why = "does not answer" if isinstance(error, TimeoutError) else error.strerror or error
            yield fail("controller", f"{endpoint}: {why}", todo)
            continue
        if speaks:
            yield good("controller", f"{endpoint}: listens")
        else:
            todo = "name the controller's port for agents (5750)"
            yield fail("controller", f"{endpoint}: something else than dynres listens", todo)


def _greets(host: str, port: int) -> bool:
    with socket.create_connection((host, port), CONNECT) as link:
        link.settimeout(CONNECT)
        try:
            first = link.recv(1)
        except TimeoutError:
            return False  # it waits for us to speak: no peer of ours
    return first == bytes([_SIGNATURE])


def client_endpoints(endpoints: Sequence[str]) -> tuple[str, ...]:
    """Where the same controllers answer clients, as far as they use the usual port."""
    found = (_TCP.fullmatch(endpoint) for endpoint in endpoints)
    return tuple(f"tcp://{tcp['host']}:{CLIENT_PORT}" for tcp in found if tcp)


def clock(endpoints: Sequence[str], host: str) -> Iterator[Finding]:
    """Ages count by the clock since boot; the wall clock matters for files and logs only."""
    try:
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
    except OSError as error:
        yield fail("clock", f"no CLOCK_BOOTTIME: {error.strerror}", "a kernel of 2.6.39 or later")
        return
    if _unsynchronized():
        todo = "run chrony, ntpd or systemd-timesyncd; values are not affected, ages of files are"
        yield warn("clock", f"up {up:.0f} s; the wall clock is not synchronized", todo)
    else:
        yield good("clock", f"up {up:.0f} s; the wall clock is synchronized")
    yield from _compared(endpoints, host)


def _unsynchronized() -> bool:
    """Whether the kernel says so (it also does where nobody tells it)."""
    buffer = (ctypes.c_byte * 512)()  # a `struct timex`: 208 bytes; no field set: a question
    return bool(ctypes.CDLL(None).adjtimex(ctypes.byref(buffer)) == _TIME_ERROR)


def _compared(endpoints: Sequence[str], host: str) -> Iterator[Finding]:
    from dynres.client import Client, ClientError

    if not endpoints:
        return
    before = time.time()
    try:
        with Client(tuple(endpoints), timeout=CONNECT) as client:
            view = client.values([host])
    except ClientError as error:
        todo = (
            "name the controller's port for clients with --controller; nothing else depends on it"
        )
        yield warn("clock", f"not compared with the controller's: {error}", todo)
        return
    after = time.time()
    theirs = datetime.fromisoformat(view.at).timestamp()
    apart = max(before - theirs - 1.0, theirs - after, 0.0)
    if apart > CLOCK_APART:
        todo = "set the clock of one of them; values are not affected, ages of files are"
        yield warn("clock", f"{apart:.0f} s apart from the controller's", todo)
    else:
        yield good("clock", "agrees with the controller's")
