"""The temporary folder of `dynres up`, and free ports; what a killed `up` left is swept."""

import errno
import fcntl
import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "dynres-up-"
_LOCK = "lock"
_FIRST = 10_000
"""Below it are ports that are somebody's by name, ours too."""


_TRIES = 2000
"""Ports that are tried; with nine of ten taken, four are found in some 40."""


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None while another process does."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def sweep(parent: Path) -> None:
    """Remove our own folders in `parent` that no running `up` holds."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = folder.lstat()
            young = time.time() - about.st_mtime < 60 and not (folder / _LOCK).exists()
            if about.st_uid != os.geteuid() or young:
                continue
            descriptor = _lock(folder / _LOCK)
            if descriptor is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    descriptor = _lock(folder / _LOCK)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses now, all different. OSError where there are too few.

    Not of those that the kernel gives to whoever names none: one of them could be given away
    before it is used.
    """
    end = max(_FIRST + 1000, _first_of_the_kernel())
    choose = random.SystemRandom().randrange
    ports: set[int] = set()
    for _ in range(_TRIES):
        port = choose(_FIRST, end)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.add(port)
        if len(ports) == count:
            return list(ports)
    raise OSError(errno.EADDRINUSE, f"fewer than {count} free ports in {_FIRST}-{end - 1}")


def _first_of_the_kernel() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768
