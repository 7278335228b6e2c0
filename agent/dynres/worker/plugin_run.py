"""One run inside a plugin host: a thread of its own, whatever it raises, what it printed."""

from __future__ import annotations

import _thread
import io
import os
import stat
import sys
import time

from dynres.worker.plugin_find import PluginError

TYPE_CHECKING = False
# Every machine has a host of the load indices, and that needs none of `threading`, `typing`,
# `traceback`, `dynres.probe`: half of its memory. They come with the plugin that needs them.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, Final, TypeGuard

    Answer = tuple[str, str | None, Any]
    """Status (`ok`, `failed`, `start_error`), reason, payload."""

SAID_LIMIT: Final = 4096
"""How much of the end of what a run printed is kept, in bytes."""
ITEMS_LIMIT: Final = 1000
TEXT_LIMIT: Final = 2048

_current: dict[int, RunThread] = {}
"""The runs under way, by the number of their thread."""


class RunThread:
    """Runs `work` and hands its answer on, whatever leaves it: an exception, SystemExit too."""

    def __init__(self, work: Callable[[], Any], done: Callable[[RunThread], None]) -> None:
        self._work = work
        self._done = done
        self.said = b""
        self.answer: Answer = ("failed", "it ended without an answer", None)

    def start(self) -> None:
        """Begin; where `threading` is in use it shall know the thread as one of its own."""
        threading = sys.modules.get("threading")
        if threading is None:
            _thread.start_new_thread(self.work, ())
        else:
            threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        """All of it, in the calling thread."""
        me = _thread.get_ident()
        _current[me] = self
        try:
            with _Caught(self):
                self.answer = ("ok", None, self._work())
            self._done(self)
        finally:
            del _current[me]

    def say(self, data: bytes) -> None:
        """Keep the end of what this run prints."""
        self.said = (self.said + data)[-SAID_LIMIT:]


class _Caught:
    """Turns whatever leaves its block into the run's answer; nothing goes further."""

    def __init__(self, thread: RunThread) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if kind is None:
            return False
        if isinstance(error, PluginError):
            self._thread.answer = ("start_error", str(error), None)
            return True
        from dynres.probe import ProbeError

        if isinstance(error, ProbeError):
            self._thread.answer = ("failed", str(error) or "ProbeError without a text", None)
        else:
            import traceback

            text = f"{kind.__name__}: {error}".rstrip(": ")
            self._thread.answer = ("failed", text[:TEXT_LIMIT], None)
            lines = traceback.format_exception(kind, error, trace, limit=-8)
            self._thread.say("".join(lines).encode("utf-8", "backslashreplace"))
        return True


class RunOutput(io.BufferedIOBase):
    """What stands behind sys.stdout and sys.stderr: each run's prints go to that run."""

    name = "<run>"

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """Descriptor for a child process: the host's own log."""
        return 2

    def write(self, data: Any, /) -> int:
        """Keep it with the thread's run; other threads write to the host's log."""
        raw = bytes(data)
        run = _current.get(_thread.get_ident())
        if run is not None:
            run.say(raw)
        else:
            os.write(2, raw[-SAID_LIMIT:])
        return len(raw)


def items(reading: object) -> list[tuple[str, str, Any]]:
    """A reading as (name, kind, value) of built-in types; kinds other than these have no value.

    Raises ProbeError where it is no mapping, or has too many items.
    """
    if not _is_mapping(reading):
        kind = type(reading).__name__
        raise _probe_error(f"read() returned {kind}, expected a mapping of names to values")
    if len(reading) > ITEMS_LIMIT:
        raise _probe_error(f"read() returned {len(reading)} values; at most {ITEMS_LIMIT}")
    return [_item(name, value) for name, value in reading.items()]


def _is_mapping(reading: Any) -> TypeGuard[Mapping[object, object]]:
    if isinstance(reading, dict):
        return True
    from collections.abc import Mapping

    return isinstance(reading, Mapping)


def _probe_error(why: str) -> Exception:
    from dynres.probe import ProbeError

    return ProbeError(why)


def _item(name: object, value: object) -> tuple[str, str, Any]:
    text = str.__str__(name)[:TEXT_LIMIT] if isinstance(name, str) else repr(name)[:TEXT_LIMIT]
    if value is None:
        return text, "none", None
    if isinstance(value, tuple) and _says_why(value):
        return text, "none", str.__str__(value[1])[:TEXT_LIMIT]
    if isinstance(value, bool):
        return text, "boolean", bool(value)
    if hasattr(type(value), "__float__") or hasattr(type(value), "__index__"):
        return _number(text, value)
    if isinstance(value, str):
        return text, "string", str.__str__(value)[:TEXT_LIMIT]
    from dynres.probe import NOT_HERE

    if value is NOT_HERE:
        return text, "not_here", None
    return text, type(value).__name__[:TEXT_LIMIT], None


def _says_why(value: tuple[Any, ...]) -> bool:
    return len(value) == 2 and value[0] is None and isinstance(value[1], str)


def _number(name: str, value: Any) -> tuple[str, str, Any]:
    """Any kind of number (int, Decimal, numpy's) as a float: infinite where it is too large."""
    try:
        return name, "number", float(value)
    except OverflowError:
        return name, "number", float("inf")
    except (TypeError, ValueError):
        return name, type(value).__name__[:TEXT_LIMIT], None


def read_file(path: str, limit: int) -> tuple[bytes, float]:
    """A regular file's content (one byte more than `limit` at most) and seconds since its change.

    Raises ProbeError. May hang, as every file may: that is why it is read here.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _probe_error(f"{path}: {error.strerror}") from None
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _probe_error(f"{path}: not a regular file")
        age = time.time() - status.st_mtime
        parts, room = [], limit + 1
        while room and (part := file.read(room)):
            parts.append(part)
            room -= len(part)
    return b"".join(parts), age
