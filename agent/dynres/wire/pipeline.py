"""Many requests in flight on one connection: sent at once, answered as each is ready."""

import time
from collections.abc import Sequence
from typing import Final

import zmq

from dynres.wire.link import CONNECT_TIME, LinkError, open_requests

WINDOW: Final = 256
"""Requests in flight at most: their answers must find room on the way."""


class Pipeline:
    """A connection to the first endpoint that answers; unanswered requests are sent again to the
    next one, so each must be one that may be repeated. Not thread-safe.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._endpoints = list(endpoints)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._open: dict[str, bytes] = {}
        self._heard = time.monotonic()

    @property
    def open(self) -> int:
        """How many requests are in flight."""
        return len(self._open)

    def send(self, key: str, body: bytes) -> None:
        """Send a request; `settle` it when its answer has come. Raises LinkError."""
        if not self._open:
            self._heard = time.monotonic()
        self._open[key] = body
        if self._socket is None:
            self._connect()
        else:
            self._socket.send(body)

    def settle(self, key: str) -> None:
        """The request is answered."""
        self._open.pop(key, None)
        self._heard = time.monotonic()

    def _connect(self) -> None:
        """Reach one of the endpoints, and send all that is open."""
        for _ in range(len(self._endpoints)):
            socket = self._socket = open_requests(self._context, self._endpoints[0])
            if socket.poll(int(1000 * CONNECT_TIME / len(self._endpoints)), zmq.POLLOUT):
                self._heard = time.monotonic()
                for body in self._open.values():
                    socket.send(body)
                return
            self._drop()
        raise LinkError(f"no controller answers at {', '.join(sorted(self._endpoints))}")

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._endpoints.append(self._endpoints.pop(0))

    def receive(self, timeout: float, *, beside: int | None = None) -> bytes | None:
        """The next answer; None where the descriptor `beside` can be read instead.

        Raises LinkError when requests are open and no endpoint has answered for `timeout` seconds.
        """
        tries = len(self._endpoints)
        while True:
            if self._socket is None and self._open:
                self._connect()
            poller = zmq.Poller()
            if self._socket is not None:
                poller.register(self._socket, zmq.POLLIN)
            if beside is not None:
                poller.register(beside, zmq.POLLIN)
            left = None
            if self._open:
                left = max(0, int(1000 * (self._heard + timeout - time.monotonic())))
            elif beside is None:
                return None
            events = dict(poller.poll(left))
            if self._socket is not None and self._socket in events:
                return self._socket.recv_multipart()[0]
            if events:
                return None
            tries -= 1
            self._drop()
            if tries <= 0:
                where = ", ".join(sorted(self._endpoints))
                raise LinkError(f"no answer from {where} in {timeout:g} s")

    def heard(self) -> None:
        """The controller has said that an answer is still to come."""
        self._heard = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._context.destroy(linger=0)
