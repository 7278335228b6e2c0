"""Buries what the agent inherits where it is the first process of a container or a namespace."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

LOOK: Final = 1.0
"""Seconds between two looks; a dead child that is there at both is nobody's but ours."""


def is_first_process() -> bool:
    """Whether orphans come to this process."""
    return os.getpid() == 1


async def bury_orphans() -> NoReturn:
    """Reap dead children that this agent did not start.

    Those that it did start (launchers, plugin hosts, readers) are reaped by who started them as
    soon as the loop turns, so one that is still dead at the next look is an orphan.
    """
    before: set[int] = set()
    while True:
        dead = set(_dead_children())
        for pid in dead & before:
            _bury(pid)
        before = dead - before
        await asyncio.sleep(LOOK)


def _bury(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _dead_children() -> Iterator[int]:
    """By /proc; nothing where it does not tell."""
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            children = task.read_text("ascii").split()
        except OSError:
            continue  # that thread has ended
        for child in children:
            try:
                status = Path(f"/proc/{child}/stat").read_bytes()
            except OSError:
                continue
            if status.rpartition(b")")[2].split()[:1] == [b"Z"]:
                yield int(child)
