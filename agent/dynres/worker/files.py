"""Reads the agent's configuration through a short-lived child process, within bounds.

The child holds what the long-lived agent must not: the YAML parser, the schema, the host sets. A
file on a dead file system holds up the child, never the agent.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dynres.worker.spawn import spawn

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from dynres.config.result import LoadResult

READING_TIME: Final = 60.0
"""Seconds that reading the folder may take."""
ENDING_TIME: Final = 1.0
RESULT_LIMIT: Final = 256 * 2**20
_KEPT_OUT: Final = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


class Reader:
    """A child that reads `folder`; it begins at once, before any event loop is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pipe, writing = os.pipe()
        null, errors = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), os.dup(2)
        argv = (sys.executable, "-I", "-m", "dynres.config", os.fspath(folder), "--role", "agent")
        env = {name: value for name, value in os.environ.items() if name not in _KEPT_OUT}
        try:
            self._pid = spawn(sys.executable, argv, env, (null, writing, errors))
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            for fd in (null, writing, errors):
                os.close(fd)
        self._pidfd = os.pidfd_open(self._pid)
        os.set_blocking(self._pipe, False)

    async def result(self, within: float = READING_TIME) -> "LoadResult":
        """What the folder holds: a configuration or its faults. To be awaited once."""
        import asyncio

        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within):
                data = await _read_all(loop, self._pipe)
        except TimeoutError:
            return self._fault(f"could not be read within {within:g} s")
        except asyncio.CancelledError:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            raise
        finally:
            os.close(self._pipe)
            status = await self._end(loop)
        if data is None:
            return self._fault("gives a configuration that is too large")
        return self._decode(data, status)

    def _decode(self, data: bytes, status: int | None) -> "LoadResult":
        import msgspec

        from dynres.config.result import read_result

        try:
            return read_result(data)
        except msgspec.MsgspecError:
            how = "it hangs" if status is None else f"exit status {status}"
            return self._fault(f"could not be read: its reader did not do its job ({how})")

    def _fault(self, what: str) -> "LoadResult":
        from dynres.config.faults import Fault
        from dynres.config.result import LoadResult

        return LoadResult(faults=(Fault(place=None, what=f"{self._folder} {what}"),))

    async def _end(self, loop: "AbstractEventLoop") -> int | None:
        """See it end, by force after a second; its exit status, negative for a signal."""
        import asyncio

        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING_TIME):
                    await _readable(loop, self._pidfd)
                return self._reap()
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

        def reap_late() -> None:
            loop.remove_reader(self._pidfd)
            self._reap()

        # It hangs in the kernel (a dead file system): nobody waits for that.
        loop.add_reader(self._pidfd, reap_late)
        return None

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        return os.waitstatus_to_exitcode(status)


async def _read_all(loop: "AbstractEventLoop", pipe: int) -> bytes | None:
    """Everything up to the end of the pipe; None where it is too much."""
    data = bytearray()
    while True:
        await _readable(loop, pipe)
        chunk = os.read(pipe, 1 << 20)
        if not chunk:
            return bytes(data)
        data += chunk
        if len(data) > RESULT_LIMIT:
            return None


async def _readable(loop: "AbstractEventLoop", fd: int) -> None:
    """Wait until `fd` can be read (of a pidfd: until its process has ended)."""
    ready: Future[None] = loop.create_future()

    def arrived() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, arrived)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
