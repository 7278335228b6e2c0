"""Follows the feed: connects, takes snapshot and changes, and begins anew whatever happens."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Self

import zmq

from dynres.wire.codec import WireError
from dynres.wire.feed import FEED_BEAT, FEED_SILENCE, beat_text, subscribe_text
from dynres.wire.lines import AnyLine, FeedRefusedError, Lines
from dynres.wire.link import LinkError, prepare_socket

LOOK: Final = 0.2
"""Seconds in which `stop` is noticed."""
QUEUE: Final = 64
"""Messages that wait here; beyond that the controller is told that we are slow."""
LONGEST_PAUSE: Final = 4.0
"""Seconds between two tries to come back, at most."""


class Follow:
    """An iterator of lines, without end: after `Lost` comes a new `Snapshot`, whatever went wrong.

    `find` gives the feed's endpoint, and raises `missing` where no controller says it. Only the
    first connection may fail: with that error, with LinkError after `patience` seconds, and with
    FeedRefusedError. One thread iterates; `stop` may be called by any other.
    """

    def __init__(
        self,
        find: Callable[[], str],
        where: str | None,
        *,
        patience: float,
        missing: type[Exception],
    ) -> None:
        self._find = find
        self._missing = missing
        self._where = where
        self._patience = patience
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._ends: zmq.Socket[bytes] | None = None
        """Tells when the connection is lost."""
        self._stopped = threading.Event()
        self._lines = Lines()
        self._ready: deque[AnyLine] = deque()
        self._begun = False
        self._pause = 0.0
        self._heard = self._beaten = 0.0

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """Let the iteration end soon."""
        self._stopped.set()

    def close(self) -> None:
        """Free the connection; only once nobody iterates."""
        self._stopped.set()
        self._shut()
        self._context.destroy(linger=0)

    def __next__(self) -> AnyLine:
        while not self._ready:
            if self._stopped.is_set():
                raise StopIteration
            if self._socket is None:
                self._connect()
            else:
                self._listen(self._socket)
        return self._ready.popleft()

    def _connect(self) -> None:
        if self._pause:
            self._stopped.wait(self._pause * random.uniform(0.5, 1.0))
        try:
            endpoint = self._find()
        except self._missing:
            if not self._begun:
                raise
            self._slower()
            return
        socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        prepare_socket(socket)
        socket.setsockopt(zmq.RCVHWM, QUEUE)
        self._socket, self._ends = socket, socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._shut()
            raise LinkError(f"{endpoint}: not an endpoint such as tcp://HOST:5752") from error
        socket.send(subscribe_text(self._where))
        self._lines.start()
        self._heard = self._beaten = time.monotonic()

    def _listen(self, socket: "zmq.Socket[bytes]") -> None:
        now = time.monotonic()
        if now - self._beaten >= FEED_BEAT and socket.poll(0, zmq.POLLOUT):
            socket.send(beat_text())
            self._beaten = now
        if socket.poll(int(LOOK * 1000)):
            self._heard = time.monotonic()
            self._take(socket.recv_multipart()[0])
            return
        if self._ends is not None and self._ends.poll(0):
            self._drop("the connection was lost")
            return
        silence = time.monotonic() - self._heard
        if not self._begun and silence >= self._patience:
            raise LinkError(f"the feed has said nothing for {silence:.1f} s")
        if silence >= FEED_SILENCE:
            self._drop(f"nothing was heard for {silence:.0f} s")

    def _take(self, body: bytes) -> None:
        try:
            lines = self._lines.take(body)
        except WireError as error:
            self._drop(str(error))
            return
        except FeedRefusedError as error:
            if not self._begun or error.code == "requirement":
                raise
            self._drop(error.message)
            return
        self._begun = True
        self._pause = 0.0
        self._ready.extend(lines)
        if self._lines.broken:
            self._drop(None)

    def _drop(self, reason: str | None) -> None:
        """Begin anew on another connection; what still comes on this one belongs to nothing."""
        self._shut()
        if reason is not None and self._begun:
            self._ready.append(self._lines.lost(reason))
        self._slower()

    def _shut(self) -> None:
        if self._socket is not None and self._ends is not None:
            self._socket.disable_monitor()
            self._ends.close()
            self._socket.close()
        self._socket = self._ends = None

    def _slower(self) -> None:
        self._pause = min(LONGEST_PAUSE, max(0.1, 2 * self._pause))
