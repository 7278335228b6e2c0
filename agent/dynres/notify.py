"""Tells systemd what a daemon is doing: READY, RELOADING, STOPPING, WATCHDOG (sd_notify(3)).

The protocol is one datagram to the socket that NOTIFY_SOCKET names; without it nothing happens.
The variable is taken out of the environment at import, so that no child inherits it.
"""

import os
import socket
import time
from typing import Final

_ADDRESS: Final = os.environ.pop("NOTIFY_SOCKET", "")
_WATCHDOG_PID: Final = os.environ.pop("WATCHDOG_PID", "")
_WATCHDOG_USEC: Final = os.environ.pop("WATCHDOG_USEC", "")


def _send(*lines: str) -> None:
    if not _ADDRESS:
        return
    address = "\0" + _ADDRESS[1:] if _ADDRESS.startswith("@") else _ADDRESS
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
            channel.sendto("\n".join(lines).encode(), address)
    except OSError:
        # systemd is restarting or its queue is full: the next message will tell it.
        return


def ready(status: str) -> None:
    """The service is up, or its reload is over; `status` is shown by `systemctl status`."""
    _send("READY=1", f"STATUS={status}")


def status(text: str) -> None:
    """What `systemctl status` shows."""
    _send(f"STATUS={text}")


def reloading() -> None:
    """A reload has begun; `ready` ends it."""
    microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    _send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")


def stopping() -> None:
    """The service is ending."""
    _send("STOPPING=1")


def watchdog_interval() -> float | None:
    """Seconds between two `watchdog()` calls that systemd expects (half its limit), or None."""
    if not _WATCHDOG_USEC or (_WATCHDOG_PID and str(os.getpid()) != _WATCHDOG_PID):
        return None
    return int(_WATCHDOG_USEC) / 2e6


def watchdog() -> None:
    """The main loop is alive."""
    _send("WATCHDOG=1")
