"""Starts a process through libc's `posix_spawn`, without holding the interpreter lock.

`os.posix_spawn` holds the lock until the child has executed, so one hung `execve` would stop
every thread; a call through ctypes does not. The child is a session of its own with an empty
signal mask, default dispositions and no descriptors but those given here.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import byref, c_char_p, c_int, c_short, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SETSIGDEF = 0x04
_SETSIGMASK = 0x08
_SETSID = 0x80
_FLAGS = _SETSIGDEF | _SETSIGMASK | _SETSID

_libc = ctypes.PyDLL(None)  # keeps the lock: these calls are short
_closefrom = getattr(_libc, "posix_spawn_file_actions_addclosefrom_np", None)
_addchdir = getattr(_libc, "posix_spawn_file_actions_addchdir_np", None)
# One variable per function keeps attribute look-ups and argument conversion out of each start.
_posix_spawn = ctypes.CDLL(None).posix_spawn  # releases it: this one may hang
_posix_spawn.argtypes = [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_void_p]
_adddup2 = _libc.posix_spawn_file_actions_adddup2
_adddup2.argtypes = [c_void_p, c_int, c_int]
_addopen = _libc.posix_spawn_file_actions_addopen
_addopen.argtypes = [c_void_p, c_int, c_char_p, c_int, ctypes.c_uint]

_Actions = ctypes.c_uint64 * 32
"""Room for a `posix_spawn_file_actions_t` of any libc (80 bytes in glibc)."""


def _attributes() -> ctypes.Array[ctypes.c_uint64]:
    """Attributes that every start shares: own session, empty mask, default dispositions."""
    attributes = (ctypes.c_uint64 * 64)()  # a `posix_spawnattr_t`: 336 bytes in glibc
    signals = (ctypes.c_uint64 * 16)()  # a `sigset_t`: 128 bytes
    _libc.posix_spawnattr_init(byref(attributes))
    _libc.sigemptyset(byref(signals))
    _libc.posix_spawnattr_setsigmask(byref(attributes), byref(signals))
    for number in _ignored():
        _libc.sigaddset(byref(signals), c_int(number))
    _libc.posix_spawnattr_setsigdefault(byref(attributes), byref(signals))
    _libc.posix_spawnattr_setflags(byref(attributes), c_short(_FLAGS))
    return attributes


def _ignored() -> list[int]:
    """The signals that this process ignores: those that it handles are reset by the system.

    Naming the others would cost each start a system call for each.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            mask = int(file.read().partition(b"\nSigIgn:")[2].split(None, 1)[0], 16)
    except (OSError, ValueError, IndexError):
        return list(range(1, 65))
    return [number for number in range(1, 65) if mask >> (number - 1) & 1]


class _Shared:
    """The attributes, made at the first start: what is ignored has been decided by then."""

    made: ctypes.Array[ctypes.c_uint64] | None = None


def spawn(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    fds: Sequence[int],
    *,
    cwd: str | None = None,
    opens: Sequence[tuple[str, int]] = (),
) -> int:
    """Start `path` and return its pid once it has executed.

    `fds[n]` becomes the child's descriptor n; it has no others, and they must not be numbers
    below `len(fds)` themselves. `cwd`: the child's working folder (else the caller's). `opens`:
    files (path, flags) that the child opens as 0, 1, … before anything else, in order, and that
    `fds` (as many at least) take the places of.
    Raises OSError with the errno of what failed, ValueError for a NUL in a string.
    """
    shared = _Shared.made = _Shared.made or _attributes()
    arguments = _strings(argv)
    environment = _strings([f"{name}={value}" for name, value in env.items()])
    actions = _Actions()
    where = byref(actions)
    _check(_libc.posix_spawn_file_actions_init(where), path)
    try:
        for number, (file, flags) in enumerate(opens):
            _check(_addopen(where, number, os.fsencode(file), flags, 0), path)
        for number, fd in enumerate(fds):
            _check(_adddup2(where, fd, number), path)
        if _closefrom is not None:
            _check(_closefrom(where, len(fds)), path)
        if cwd is not None:
            _check(_addchdir(where, os.fsencode(cwd)) if _addchdir else errno.ENOSYS, cwd)
        pid = c_int()
        program = os.fsencode(path)
        code = _posix_spawn(byref(pid), program, where, byref(shared), arguments, environment)
        _check(code, path)
        return pid.value
    finally:
        _libc.posix_spawn_file_actions_destroy(where)


def _strings(texts: Sequence[str]) -> ctypes.Array[c_char_p]:
    """A NULL-terminated array of C strings."""
    encoded = [os.fsencode(text) for text in texts]
    for text in encoded:
        if b"\0" in text:
            raise ValueError(f"a NUL character in {text!r}")
    return (c_char_p * (len(encoded) + 1))(*encoded)


def _check(code: int, path: str) -> None:
    if code:
        raise OSError(code, os.strerror(code), path)
