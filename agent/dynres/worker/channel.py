"""The launcher's end of its socket to the agent: frames in, frames out, never waiting."""

from __future__ import annotations

import os
import select

from dynres.worker.frames import Decoder, FrameError, encode
from dynres.worker.launch_bounds import TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER = float("inf")
_CHUNK = 65536
_READ = select.EPOLLIN | select.EPOLLRDHUP


class Channel:
    """Registered in `epoll`; call `receive` or `flush` when its descriptor is ready."""

    def __init__(self, fd: int, epoll: select.epoll) -> None:
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
        self.fd = fd
        self._epoll = epoll
        self._decoder = Decoder()
        self._out = bytearray()
        self._clogged = False
        self.due = NEVER
        """When `flush_soon` is to be called again (monotonic)."""
        epoll.register(fd, _READ)

    @property
    def backlog(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def receive(self) -> list[Any] | None:
        """The messages that have come; None when the agent is gone."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        try:
            return list(self._decoder.feed(data))
        except FrameError:
            return None

    def send(self, message: Any) -> None:
        """Send at the next `flush`, or as the socket drains."""
        self._out += encode(message)

    def flush_soon(self, now: float, wait: bool) -> None:
        """Write now, or, where it is better to wait, within TOGETHER seconds."""
        if self._clogged:
            return  # the epoll says when
        if wait and self.due == NEVER:
            self.due = now + TOGETHER
        if not wait or now >= self.due:
            self.due = NEVER
            self.flush()

    def flush(self) -> None:
        """Write what waits, as far as the socket takes it.

        That the agent is gone shows at the next `receive`.
        """
        if not self._out:
            return
        try:
            sent = os.write(self.fd, self._out)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._out)
        del self._out[:sent]
        if bool(self._out) != self._clogged:
            self._clogged = bool(self._out)
            self._epoll.modify(self.fd, _READ | (select.EPOLLOUT if self._clogged else 0))
