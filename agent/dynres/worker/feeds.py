"""Reads what streams print, in batches and at a bounded rate, and hands it to the agent.

A stream's pipes are looked at a moment after they became readable, so that many records are one
batch; one that has filled the batch has to wait, and so does its writer, in its pipe. Nothing is
kept here: while the agent does not take what there is, nothing more is read.
"""

from __future__ import annotations

import errno
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dynres.worker.channel import Channel
    from dynres.worker.running import Run

SETTLE = 0.02
"""Seconds between the first byte and the reading of a batch."""
PAUSE = 0.1
"""Seconds until a stream that filled its batch (64 KiB) is read again."""
MOST = 1 << 20
"""Most bytes of all streams in PAUSE seconds."""
BACKLOG = 1 << 18
"""With so many bytes on their way to the agent, streams have to wait."""


class Feeds:
    """The pipes of the streams that run."""

    def __init__(self, epoll: select.epoll, channel: Channel) -> None:
        self._epoll = epoll
        self._channel = channel
        self._window = 0.0
        self._spent = 0

    def hold(self, run: Run) -> None:
        """Do not look at its pipes until `read` says so."""
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

    def read(self, run: Run, now: float) -> bool:
        """Read a batch and send it; whether there may be more, to be read after PAUSE."""
        if now >= self._window + PAUSE:
            self._window, self._spent = now, 0
        if self._spent >= MOST or self._channel.backlog >= BACKLOG:
            return True
        more = False
        for fd in list(run.pipes):
            more |= run.read(fd) >= run.CHUNK
        self._spent += len(run.fresh)
        self.send(run)
        return more

    def send(self, run: Run) -> None:
        """Hand over what was read."""
        if run.fresh:
            self._channel.send(("data", run.run, bytes(run.fresh)))
            run.fresh.clear()


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
    """When a batch that begins now is read."""
    return time.monotonic() + SETTLE
