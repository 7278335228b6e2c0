"""One launcher process as the agent sees it: started, watched, and replaced when it fails."""

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from dynres.worker import proc
from dynres.worker.frames import Decoder, FrameError, encode
from dynres.worker.launch import LaunchRequest
from dynres.worker.launch_bounds import MOST_SHAPES
from dynres.worker.pulse import PATIENCE, Pulse, Watch
from dynres.worker.spawn import spawn

READY: Final = 10.0
"""Longest wait for a new launcher to be ready."""
FAREWELL: Final = 1.5
"""Longest wait for a launcher to end by itself with all it runs."""
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


class LauncherFault(Exception):  # noqa: N818  (says why in words; caught and told as a reason)
    """Why there is no launcher."""


class LauncherProcess(asyncio.Protocol):
    """One launcher, from its start to its end; `on_result` gets the fields of each result.

    `on_start` gets the run, pid and pipe (-1: none) of each stream that has started.
    """

    def __init__(
        self,
        on_result: Callable[[dict[str, Any]], None],
        on_start: Callable[[str, int, int], None],
    ) -> None:
        self.pid = 0
        self._on_result = on_result
        self._on_start = on_start
        self._decoder = Decoder()
        self._pidfd = -1
        self._transport: asyncio.WriteTransport | None = None
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[str] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._side: socket.socket | None = None
        self._pulse: Pulse | None = None
        self._pipes: dict[str, int] = {}
        """Pipes of streams of whose start we were not told yet."""
        self._unsent: list[bytes] = []
        self._shapes: dict[int, tuple[int, tuple[Any, ...]]] = {}
        """Requests that the launcher knows by a number, but for the run's name; by their `env`."""
        self._number = 0

    async def start(
        self,
        key: str,
        session: str,
        user: str | None,
        joins: Callable[[int], None] | None = None,
    ) -> None:
        """Start it and wait until it takes requests. Raises LauncherFault, having ended it."""
        ours, theirs = socket.socketpair()
        self._side, their_side = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = _spawn((theirs.fileno(), their_side.fileno()), key, session, user)
        except OSError as error:
            ours.close()
            self._close_side()
            raise LauncherFault(f"the launcher does not start: {error.strerror}") from None
        finally:
            theirs.close()
            their_side.close()
        if joins is not None:
            joins(self.pid)
        self._pidfd = os.pidfd_open(self.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pidfd, self._reap)
        ours.setblocking(False)
        await loop.create_connection(lambda: self, sock=ours)
        either: set[asyncio.Future[Any]] = {self._ready, self._over}
        await asyncio.wait(either, timeout=READY, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done() or self._over.done():
            silent = f"the launcher was not ready within {READY:g} s"
            reason = self._over.result() if self._over.done() else silent
            await self.end(at_once=True)
            raise LauncherFault(reason)

    async def watch(self, watch: Watch) -> str:
        """Wait until it is over, silent or has no thread left; why it is replaced."""
        self._pulse = pulse = Pulse(self.pid, self._ping, self._silent)
        watch.add(pulse)
        try:
            await asyncio.wait({self._over})
        finally:
            watch.remove(pulse)
            pulse.close()
        return self._over.result()

    def _silent(self) -> None:
        who = f"the launcher ({proc.described(self.pid)})"
        self._is_over(f"{who} was silent: no answer within {PATIENCE:g} s")

    def _ping(self) -> None:
        self.send(("ping",))

    def _look_aside(self) -> None:
        """Take what has come on the second socket, of which nothing wakes us."""
        while self._side is not None:
            try:
                text, rights, _, _ = self._side.recvmsg(256, socket.CMSG_SPACE(4), _FLAGS)
            except OSError:
                return
            if rights:
                self._pipes[text.decode()] = int.from_bytes(rights[0][2], sys.byteorder)
            else:
                return

    def _close_side(self) -> None:
        """The second socket, and the pipes that nobody has taken."""
        self._look_aside()
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        if self._side is not None:
            self._side.close()
            self._side = None

    async def end(self, *, at_once: bool) -> None:
        """End it: by closing its socket, which ends all it runs first, or at once by SIGKILL."""
        self._flush()
        if self._transport is not None:
            self._transport.abort()
        self._close_side()
        if self.pid == 0:
            return
        if at_once:
            self._kill()
        done, _ = await asyncio.wait({self._gone}, timeout=FAREWELL)
        if not done:
            self._kill()
            await asyncio.wait({self._gone}, timeout=FAREWELL)

    def send(self, message: Any) -> None:
        """Send one message, with those that follow at once; nothing happens when it is over."""
        if self._pulse is not None:
            self._pulse.unsure()
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(encode(message))

    def run(self, request: LaunchRequest) -> None:
        """Ask for a run; what repeats an earlier request (its very `env`) is not sent again."""
        known = self._shapes.get(id(request.env))
        if known is not None and known[1] == request[1:]:
            self.send(("again", known[0], request.run))
            return
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
        self._number += 1
        self._shapes[id(request.env)] = self._number, request[1:]
        self.send(("run", self._number, request._asdict()))

    def _flush(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio: the socket is ours."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Asyncio: bytes have come."""
        try:
            for message in self._decoder.feed(data):
                self._take(message)
        except FrameError as error:
            self._is_over(f"the launcher sent {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio: the launcher has ended."""
        self._is_over("the launcher ended")

    def _take(self, message: Any) -> None:
        match message:
            case ("result", dict() as fields):
                self._on_result(fields)
            case ("started", str() as run, int() as pid):
                self._look_aside()
                self._on_start(run, pid, self._pipes.pop(run, -1))
            case ("ready", _) if not self._ready.done():
                self._ready.set_result(None)
            case ("pong",) if self._pulse is not None:
                self._pulse.heard()
            case ("failed" | "full", str() as reason):
                self._is_over(reason)

    def _is_over(self, reason: str) -> None:
        if not self._over.done():
            self._over.set_result(reason)

    def _kill(self) -> None:
        if self._pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except OSError:
            return  # it has ended, or is another user's: then its closed socket ends it

    def _reap(self) -> None:
        if os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG) is None:
            return
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._is_over("the launcher ended")
        self._gone.set_result(None)


def _spawn(socks: tuple[int, int], key: str, session: str, user: str | None) -> int:
    """Start a launcher that finds `socks` as descriptors 3 and 4; its pid. Raises OSError."""
    argv = [sys.executable, "-I", "-m", "dynres.worker.launcher", key, session, str(os.geteuid())]
    env = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "DYNRES_AGENT": key,
        "DYNRES_LAUNCHER": "1",
    }
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    # Above the child's own numbers, so that none takes the place of another before its turn.
    high = [_duplicate(fd, null) for fd in (null, null, 2, *socks)]
    try:
        return spawn(sys.executable, argv + ([user] if user else []), env, high)
    finally:
        for fd in (null, *high):
            os.close(fd)


def _duplicate(fd: int, instead: int) -> int:
    """A copy of `fd` (of `instead` where it is closed) above any number a child starts with."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    except OSError:
        return fcntl.fcntl(instead, fcntl.F_DUPFD_CLOEXEC, 10)
