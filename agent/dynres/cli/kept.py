"""Capabilities that survive becoming another user, as a service manager hands them to a service."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PR_SET_KEEPCAPS: Final = 8
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_RAISE: Final = 2
_VERSION_3: Final = 0x20080522


@contextmanager
def keeping(bits: int) -> Iterator[None]:
    """Around a change of user: have these capabilities (a mask of their numbers) after it too.

    They are inherited by all that is started afterwards. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if bits:
        _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    yield
    if not bits:
        return
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted, inheritable; the lower 32 capabilities, then the upper.
    sets = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    _check(libc.capset(ctypes.byref(header), ctypes.byref(sets)))
    for number in range(32):
        if bits >> number & 1:
            _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
