"""The few calls of the C library that we need and Python's light modules lack."""

from __future__ import annotations

import ctypes
import os

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
_ARENA_MAX = -8
_IGNORE = 1
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


def _if_there(function: str, *numbers: int) -> None:
    """Call what glibc has and other C libraries may lack."""
    call = getattr(_libc, function, None)
    if call is not None:
        call(*map(ctypes.c_int, numbers))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
