"""Reads what a stream prints, in batches and at a bounded rate.

A pipe is read a moment after it became readable, so that many records are one batch; at once,
where that gives one that ends as the last batch did. One that filled its batch has to wait, and so
does its writer.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

CHUNK: Final = 65536
SETTLE: Final = 0.02
"""Seconds between the first byte and the reading of a batch."""
PAUSE: Final = 0.1
"""Seconds until a stream that filled its batch is read again."""
MOST: Final = 1 << 20
"""Most bytes of all streams in PAUSE seconds."""


class Allowance:
    """What all streams of an agent together may still be read."""

    def __init__(self) -> None:
        self._window = 0.0
        self._spent = 0

    def left(self, now: float) -> bool:
        """Whether anything may be read now."""
        if now >= self._window + PAUSE:
            self._window, self._spent = now, 0
        return self._spent < MOST

    def spend(self, size: int) -> None:
        """So many bytes were read."""
        self._spent += size


class StreamPipe:
    """The pipe `fd` of one stream, which is ours from now on; `hear` gets what it prints.

    Must be made inside the running loop.
    """

    def __init__(self, fd: int, allowance: Allowance, hear: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._allowance = allowance
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._begun = b""
        """What was read of a batch that is not complete, as it seems."""
        self._end: bytes | int = 0
        """How the last batch ended: the name in its last line, or how many lines it had."""
        self._ended_at = float("-inf")
        """When the last batch was complete."""
        self._loop.add_reader(fd, self._readable)

    def finish(self) -> None:
        """The process is gone: take what it left in the pipe, and close it."""
        data = self._begun
        while self._fd >= 0 and (more := self._read()):
            data += more
        self.close()
        if data:
            self._hear(data)

    def close(self) -> None:
        """Read no further."""
        if self._fd >= 0:
            self._pause(None)
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        """A batch begins, and may be there as a whole already."""
        now = self._loop.time()
        if now >= self._ended_at + PAUSE and self._end and self._allowance.left(now):
            data = self._begun = self._read()
            if _ends_so(data, self._end):
                self._begun, self._ended_at = b"", now
                self._hear(data)
                return
        if self._fd >= 0:
            self._pause(SETTLE)

    def _pause(self, seconds: float | None) -> None:
        """Do not look at it for so long; None: no more."""
        self._loop.remove_reader(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._take)

    def _take(self) -> None:
        """A batch has had the time to become complete."""
        self._timer = None
        if not self._allowance.left(self._loop.time()):
            self._pause(PAUSE)
            return
        self._begun += self._read(CHUNK - len(self._begun))
        if self._fd >= 0 and len(self._begun) < CHUNK:
            self._loop.add_reader(self._fd, self._readable)
        elif self._fd >= 0:
            self._pause(PAUSE)
        self._say()

    def _say(self) -> None:
        """Let what has been read be heard."""
        data, self._begun = self._begun, b""
        self._ended_at = self._loop.time()
        self._end = _end_of(data)
        if data:
            self._hear(data)

    def _read(self, most: int = CHUNK) -> bytes:
        """Read once; closed at its end."""
        try:
            data = os.read(self._fd, most) if most else None
        except BlockingIOError:
            data = None
        if data is None:
            return b""
        if not data:
            self.close()
        self._allowance.spend(len(data))
        return data


def _end_of(batch: bytes) -> bytes | int:
    """How it ends: with `NAME=` in its last line, which is in no other, or after so many lines."""
    begin = batch.rfind(b"\n", 0, -1)
    name, equals, _ = batch[begin:].partition(b"=")
    if begin >= 0 and equals and batch.count(name + equals) == 1:
        return name + equals
    return batch.count(b"\n")


def _ends_so(data: bytes, end: bytes | int) -> bool:
    if not data.endswith(b"\n"):
        return False
    if isinstance(end, int):
        return data.count(b"\n") == end
    return data.startswith(end, data.rfind(b"\n", 0, -1))
