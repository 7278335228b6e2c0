"""A file system that never answers, as a dead file server: a FUSE mount without a server."""

import ctypes
import os
import struct
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

_libc = ctypes.CDLL(None, use_errno=True)
_DETACH = 2


class HungFiles:
    """Mounted on `folder`; `let_go` makes every wait in it end with an error."""

    def __init__(self, folder: Path, fd: int) -> None:
        self.folder = folder
        self._fd = fd

    def let_go(self) -> None:
        if self._fd >= 0:
            _libc.umount2(os.fsencode(self.folder), _DETACH | 1)
            os.close(self._fd)
            self._fd = -1


@contextmanager
def hung_files(folder: Path, *, unkillable: bool = False):
    """Where this needs root or a kernel with FUSE and there is none, the test is skipped.

    `unkillable`: what waits there cannot be ended even by SIGKILL (the server has taken the
    request and keeps silent); else only its own wait for the server to come up hangs.
    """
    try:
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("no /dev/fuse")
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"
    folder.mkdir()
    if _libc.mount(b"hung", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(fd)
        pytest.skip(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    files = HungFiles(folder, fd)
    if unkillable:
        threading.Thread(target=_take_and_keep, args=(fd,), daemon=True).start()
    try:
        yield files
    finally:
        files.let_go()


def _take_and_keep(fd: int) -> None:
    """Answer the first request (INIT), and take all others without a word."""
    try:
        unique = struct.unpack_from("<IIQ", os.read(fd, 1 << 17))[2]
        body = struct.pack("<IIIIHHII", 7, 31, 4096, 0, 16, 12, 4096, 1).ljust(64, b"\0")
        os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
        while os.read(fd, 1 << 17):
            pass
    except OSError:
        return
