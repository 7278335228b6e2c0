"""The few calls of the C library that we need and Python's light modules lack."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
_ARENA_MAX = -8
_IGNORE = 1
_CLOCK_BOOTTIME = 7
_ABSTIME = 1
_TIMES = ctypes.c_long * 4
"""An itimerspec: interval and instant, each in seconds and nanoseconds."""
_NO_SIGNALS = (1, 2, 15)
"""SIGHUP, SIGINT, SIGTERM: a terminal's or a service manager's, meant for the agent."""

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt every descendant whose parent ends. Raises OSError."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def stay_readable() -> None:
    """After a change of user: let this process read its own /proc again. Raises OSError."""
    _prctl(_SET_DUMPABLE, 1)


def ignore_stop_signals() -> None:
    """Leave it to the agent to end this process: it ends when the agent does."""
    # Not through `signal`: that module alone costs 0.7 MB.
    for number in _NO_SIGNALS:
        _libc.signal(ctypes.c_int(number), ctypes.c_void_p(_IGNORE))


def one_heap() -> None:
    """Let all threads share one heap; to be called before there are any.

    With the interpreter's lock hardly two threads ever allocate at once, and a heap each is memory.
    """
    _if_there("mallopt", _ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return to the system what is not in use now: what a start leaves behind."""
    _if_there("malloc_trim", 0)


def timer() -> int:
    """A timerfd(2) of CLOCK_BOOTTIME that is not set. Raises OSError."""
    fd: int = _libc.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        _fail()
    return fd


def set_timer(fd: int, instant: float | None) -> None:
    """Let `fd` be readable from `instant` on (CLOCK_BOOTTIME, s); None: never. Raises OSError."""
    # At 0 it would be never, too.
    ns = 0 if instant is None else max(1, int(instant * 1e9))
    wanted = _TIMES(0, 0, *divmod(ns, 10**9))
    if _libc.timerfd_settime(fd, _ABSTIME, wanted, None):
        _fail()


def _if_there(function: str, *numbers: int) -> None:
    """Call what glibc has and other C libraries may lack."""
    call = getattr(_libc, function, None)
    if call is not None:
        call(*map(ctypes.c_int, numbers))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        _fail()


def _fail() -> NoReturn:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))
