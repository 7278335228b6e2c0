"""The pipes of runs in the launcher's epoll, and what only streams need: stdin, and a slow stderr.

What a stream prints is the agent's to read (`stream_pipe`); its stderr is read here, like that of
any run, but not more often than a stream may keep us busy.
"""

from __future__ import annotations

import errno
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dynres.worker.running import Run

SETTLE = 0.02
"""Seconds between the first byte on a stream's stderr and the reading of it."""
PAUSE = 0.1
"""Seconds until more than one read takes is read on."""


class Feeds:
    """The pipes of the runs that go on."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll

    def hold(self, run: Run) -> None:
        """Do not look at its pipes until `watch`."""
        if run.watcher is not None:
            run.watcher = None
            for fd in run.pipes:
                self._epoll.unregister(fd)

    def watch(self, run: Run) -> None:
        """Look at its pipes from now on."""
        if run.watcher is None:
            run.watcher = self._epoll
            for fd in run.pipes:
                self._epoll.register(fd, select.EPOLLIN)


def read(run: Run) -> bool:
    """Read what a stream said on stderr; whether there may be more, to be read after PAUSE."""
    return any(run.read(fd) >= run.CHUNK for fd in list(run.pipes))


def tell(run: Run, text: bytes) -> None:
    """Write to the stdin of a stream; what does not fit is lost, as it does not read."""
    if run.child is None or run.child.stdin is None:
        return
    try:
        os.write(run.child.stdin, text)
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EPIPE}:
            raise


def hang_up(run: Run) -> None:
    """Close the stdin of a stream."""
    if run.child is not None and run.child.stdin is not None:
        os.close(run.child.stdin)
        run.child.stdin = None


def soon() -> float:
    """When what begins to come now is read."""
    return time.monotonic() + SETTLE
