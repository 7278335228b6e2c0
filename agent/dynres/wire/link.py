"""The only module that knows ZeroMQ: bytes between agent, controller and clients.

Sockets are plain (not `zmq.asyncio`) and driven by callbacks, which costs a third per message.
libzmq signals its descriptor once per change, not once per message, so EVENTS is looked at again
after every send and after every bounded drain. All of it belongs to the loop's own thread.
"""

import asyncio
import errno
import math
import random
import re
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

import zmq

HEARTBEAT_MS: Final = 3000
HEARTBEAT_TIMEOUT_MS: Final = 9000
LARGEST_MESSAGE: Final = 16 * 2**20
"""Bytes; a full report of 10,000 resources has about 1 MB."""
DRAIN: Final = 64
"""Messages taken in one go, so that timers and other sockets get their turn."""
CONNECT_TIME: Final = 2.5
"""Seconds for the connections of one request to all its endpoints, however long it may take."""


_EVENT = struct.Struct("=hi")
"""An event of a monitor, and its value."""
_MAPPED = re.compile(r"\[::ffff:([0-9.]+)\]")
"""An IPv4 address as a socket for both kinds shows it."""


class LinkError(Exception):
    """The other side cannot be reached, or an endpoint cannot be used; the text says why."""


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine can reach `endpoint` (`tcp://HOST:PORT`, `ipc://…`)."""
    import ipaddress  # here and below, not above: 0.8 MB, and an agent never asks
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    if parts.scheme in {"ipc", "inproc"}:
        return True
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def beside(endpoint: str, other: str) -> str:
    """Where `other`, which a controller has bound, is for who has reached it at `endpoint`."""
    from urllib.parse import urlsplit

    reached, bound = urlsplit(endpoint), urlsplit(other)
    if bound.scheme != "tcp":
        return other
    host = reached.netloc.rpartition(":")[0] if reached.scheme == "tcp" else "127.0.0.1"
    return f"tcp://{host}:{bound.port}"


def prepare_socket(socket: "zmq.Socket[bytes]") -> None:
    """What all our sockets have in common: heartbeats, no lingering, a largest message."""
    socket.linger = 0
    socket.ipv6 = True
    socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)


class _Pump:
    """Calls `take` for a socket as long as it has something, in bounded turns."""

    def __init__(self, socket: "zmq.Socket[bytes]", take: Callable[[], None]) -> None:
        self._socket = socket
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._loop.add_reader(socket.FD, self._turn)
        self.look()

    def look(self) -> None:
        """Look at EVENTS again: a send may have eaten the signal of a message."""
        if not self._scheduled and self._has_something():
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        try:
            for _ in range(DRAIN):
                if not self._has_something():
                    return
                self._take()
        finally:  # also where taking one fails: there may be more, and nothing tells of it again
            self.look()

    def _has_something(self) -> bool:
        closed = self._socket.closed
        return not closed and bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove_reader(self._socket.FD)
            self._socket.close()


class Listener:
    """The controller's side: many peers, each known by an id that lives as long as its connection.

    `on_message(peer, address, body)` gets each message; `address` is the peer's IP address.
    Raises LinkError when the endpoint cannot be bound. Must be made inside the running loop.
    """

    def __init__(
        self,
        endpoint: str,
        on_message: Callable[[bytes, str, bytes], None],
        *,
        send_queue: int = 1000,
    ) -> None:
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        prepare_socket(self._socket)
        # A dead peer is told at once, instead of the message vanishing.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.SNDHWM, send_queue)
        self._socket.setsockopt(zmq.BACKLOG, 4096)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._socket.close()
            self._context.term()
            raise LinkError(_bind_fault(endpoint, error)) from error
        bound = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.endpoint: str = _MAPPED.sub(r"\1", bound)
        self._on_message = on_message
        self._pump = _Pump(self._socket, self._take)

    def _take(self) -> None:
        try:
            peer = self._socket.recv(zmq.NOBLOCK)
            frame = self._socket.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        parts = 1
        while frame.more:  # not ours: a message has one part; the next call needs a clean start
            frame = self._socket.recv(zmq.NOBLOCK, copy=False)
            parts += 1
        body = frame.bytes if parts == 1 else b""
        self._on_message(peer, str(frame.get("Peer-Address")).removeprefix("::ffff:"), body)

    def send(self, peer: bytes, body: bytes) -> bool:
        """Send now; False where the peer is gone or takes nothing more."""
        try:
            self._socket.send_multipart((peer, body), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno in {zmq.EHOSTUNREACH, zmq.EAGAIN}:
                return False
            raise
        finally:
            self._pump.look()
        return True

    def close(self) -> None:
        """Stop listening; what was not sent yet is dropped."""
        self._pump.close()
        self._context.term()


def _bind_fault(endpoint: str, error: zmq.ZMQError) -> str:
    if error.errno == zmq.EADDRINUSE:
        return f"{endpoint}: port in use by another program (see `ss -ltnp`)"
    if error.errno in {errno.ENODEV, errno.EADDRNOTAVAIL}:
        return f"{endpoint}: this machine has no such address"
    if error.errno == zmq.EINVAL:
        return f"{endpoint}: not an endpoint such as tcp://127.0.0.1:5750"
    return f"{endpoint}: cannot listen: {error.strerror}"


class Dealer:
    """An agent's side: one connection that comes back by itself.

    `on_state(True)` after each connection, `on_state(False)` when it is lost. A message is taken
    only while connected. Raises LinkError for an endpoint that is none. Must be made inside the
    running loop.
    """

    def __init__(
        self,
        endpoint: str,
        on_message: Callable[[bytes], None],
        on_state: Callable[[bool], None],
    ) -> None:
        self.endpoint = endpoint
        self._on_message = on_message
        self._on_state = on_state
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        prepare_socket(self._socket)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.SNDHWM, 16)
        # Delays are jittered by libzmq only without a maximum; and each agent draws its own, so
        # that thousands do not come back in step. On this machine there is nobody to spare.
        low, high = (0.05, 0.25) if is_loopback(endpoint) else (0.5, 4.0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, int(1000 * random.uniform(low, high)))
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 0)
        self._monitor: zmq.Socket[bytes] = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._shut()
            raise LinkError(f"{endpoint}: not an endpoint such as tcp://HOST:5750") from error
        self._pump = _Pump(self._socket, self._take)
        self._states = _Pump(self._monitor, self._take_state)

    def _take(self) -> None:
        try:
            frames = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        self._on_message(frames[0] if len(frames) == 1 else b"")

    def _take_state(self) -> None:
        # Not by `zmq.utils.monitor`, which brings `zmq.asyncio`.
        event, _ = _EVENT.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
        self._on_state(event == zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def send(self, body: bytes) -> bool:
        """Send now; False where there is no connection or it takes nothing more."""
        try:
            self._socket.send(body, zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            self._pump.look()
        return True

    def _shut(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def close(self, flush: float = 0.0) -> None:
        """Close the connection; a last message gets up to `flush` seconds to leave."""
        self._socket.linger = int(flush * 1000)
        self._states.close()
        self._socket.disable_monitor()
        self._pump.close()
        self._context.term()


def open_requests(context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str) -> "zmq.Socket[bytes]":
    """A client's connection. Raises LinkError for what is no endpoint."""
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    prepare_socket(socket)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    # The table of a large cluster; it comes from the controller that the user named.
    socket.setsockopt(zmq.MAXMSGSIZE, -1)
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise LinkError(f"{endpoint}: not an endpoint such as tcp://HOST:5751") from error
    return socket


class Requester:
    """A client's side, blocking: one request, one answer; the next endpoint when one is silent.

    Not thread-safe: one caller at a time.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        if not endpoints:
            raise LinkError("no controller endpoint given")
        self._endpoints = list(endpoints)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None

    def request(
        self,
        body: bytes,
        timeout: float,
        *,
        interim: Callable[[bytes], bool] | None = None,
        silence: float = math.inf,
    ) -> bytes:
        """Ask and return the answer. Raises LinkError when no endpoint answered in `timeout` s.

        A controller that is not there is found out in CONNECT_TIME, whatever the timeout. Answers
        for which `interim` is true say that the answer is still to come, and do so at least every
        `silence` seconds.
        """
        began = time.monotonic()
        deadline = began + timeout
        connect = CONNECT_TIME / len(self._endpoints)
        for attempt in range(len(self._endpoints)):
            left = (deadline - time.monotonic()) / (len(self._endpoints) - attempt)
            answer = self._ask(body, max(0.0, left), connect, interim, silence)
            if answer is not None:
                return answer
            # A late answer must never be taken for the next one: the connection goes with it.
            self._drop()
            self._endpoints.append(self._endpoints.pop(0))
        waited = time.monotonic() - began
        raise LinkError(f"no answer from {', '.join(sorted(self._endpoints))} in {waited:.1f} s")

    def _ask(
        self,
        body: bytes,
        left: float,
        connect: float,
        interim: Callable[[bytes], bool] | None,
        silence: float,
    ) -> bytes | None:
        if self._socket is None:
            self._socket = open_requests(self._context, self._endpoints[0])
        deadline = time.monotonic() + left
        if not self._socket.poll(int(min(left, connect) * 1000), zmq.POLLOUT):
            return None
        self._socket.send(body)
        while True:
            patience = min(deadline - time.monotonic(), silence)
            if not self._socket.poll(max(0, int(patience * 1000)), zmq.POLLIN):
                return None
            answer = self._socket.recv_multipart()[0]
            if interim is None or not interim(answer):
                return answer

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        # Whatever an interrupt has left open is closed too: term() would wait for it for ever.
        self._context.destroy(linger=0)
