"""One plugin host seen from the agent: started, spoken to over a socket, killed, reaped."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynres.worker import frames, proc

TAIL_LIMIT: Final = 4096
_SOCKET_FD: Final = 3
_FIRST_FREE: Final = 10
"""Our ends get descriptors from here on, so that moving them to 1-3 overwrites none of them."""


class HostProcess(asyncio.Protocol):
    """A running plugin host.

    `path` is its PATH, `extra_path` comes at the end of its sys.path.
    `on_message` is called for each message, `on_end` once, when the host or its end of the socket
    is gone. Raises OSError where it cannot be started.
    """

    def __init__(
        self,
        path: str,
        extra_path: Sequence[str],
        on_message: Callable[[tuple[Any, ...]], None],
        on_end: Callable[[str], None],
        *,
        user: str | None = None,
        mark: str = "",
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._decoder = frames.Decoder()
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._unsent: list[bytes] = []
        self.log = _Log()
        self.gone = asyncio.Event()
        """Set when the process is reaped."""
        self.status: int | None = None
        """Exit status, or minus the signal that ended it, when it is gone."""
        ours, log = self._spawn(extra_path, user or "-", environment(path, mark))
        loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(self.pid)
        loop.add_reader(self._pidfd, self._reap)
        self._connecting = loop.create_task(self._connect(ours, log))

    def _spawn(
        self, extra_path: Sequence[str], user: str, env: dict[str, str]
    ) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        log, their_log = os.pipe2(os.O_CLOEXEC)
        raised = [
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
            for fd in (theirs.fileno(), their_log)
        ]
        command = [sys.executable, "-I", "-m", "dynres.worker.plugin_host"]
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [*command, str(_SOCKET_FD), user, *extra_path],
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, raised[1], 1),
                    (os.POSIX_SPAWN_DUP2, raised[1], 2),
                    (os.POSIX_SPAWN_DUP2, raised[0], _SOCKET_FD),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except OSError:
            ours.close()
            os.close(log)
            raise
        finally:
            theirs.close()
            for fd in (their_log, *raised):
                os.close(fd)
        ours.setblocking(False)
        return ours, log

    async def _connect(self, ours: socket.socket, log: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self.log, os.fdopen(log, "rb", 0))
        await loop.connect_accepted_socket(lambda: self, ours)

    def send(self, message: tuple[Any, ...]) -> None:
        """Send one message. Raises frames.FrameError where it holds other than built-in types."""
        frame = frames.encode(message)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)

    @property
    def stopped(self) -> bool:
        """Whether a signal holds it: then it is not a run that keeps it from answering."""
        return proc.state(self.pid) in {"T", "t"}

    def kill(self) -> None:
        """SIGKILL to the host and to all in its process group; `gone` is set when it is reaped."""
        if not self.gone.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill, and let go of every descriptor; a process that cannot end is not waited for."""
        self.kill()
        await self._connecting
        if self._transport is not None:
            self._transport.abort()
        self.log.close()
        if not self.gone.is_set():
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the socket is ready."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        try:
            for message in self._decoder.feed(data):
                self._on_message(message)
        except (frames.FrameError, LookupError, TypeError, ValueError) as error:
            self._end(f"the plugin host sent what cannot be read: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the host closed its end."""
        self._end("the plugin host ended")

    def _end(self, why: str) -> None:
        self.kill()
        if not self._ended:
            self._ended = True
            self._on_end(why)

    def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        self.kill()  # it is still a zombie, so its number cannot be another's
        with contextlib.suppress(ChildProcessError):
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._pidfd)
        self.gone.set()
        self._end("the plugin host ended")


class _Log(asyncio.Protocol):
    """The end of what a host's descriptors 1 and 2 printed."""

    def __init__(self) -> None:
        self.tail = b""
        self.ended = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-TAIL_LIMIT:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def environment(path: str, mark: str = "") -> dict[str, str]:
    """A built environment; HOME and USER as the agent has them: asking for them might block.

    A host of another user sets those two itself.
    """
    return {
        "PATH": path,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "HOME": os.environ.get("HOME", "/"),
        "USER": os.environ.get("USER", str(os.geteuid())),
        **({"DYNRES_PLUGIN_HOST": mark} if mark else {}),
    }
