"""Whether a path lies on a file system that answers by itself: on a local disk, or in memory.

Any other may wait for a server or a process, for ever; asking it for its size needs a thread.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from typing import Final

MOUNTINFO = "/proc/self/mountinfo"
KINDS: Final = (b"ext2", b"ext3", b"ext4", b"xfs", b"tmpfs")
"""Those that keep their size in memory; of others it is not known to us."""
_CHUNK: Final = 65536


class LocalFs:
    """The file system of `path`, an absolute path; the table of mounts is read when it changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._table = -1
        self._poll = select.poll()
        self._is_local = False

    def sure(self) -> bool:
        """Whether it answers by itself; False also where that cannot be found out."""
        try:
            if self._table < 0:
                self._table = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
                # proc(5): a change of the mounts shows as an exceptional condition.
                self._poll.register(self._table, select.POLLPRI)
            elif not self._poll.poll(0):
                return self._is_local
            self._is_local = kind_of(self._path, self._mounts()) in KINDS
            # A link may lead anywhere. It is looked at only where that cannot hang.
            self._is_local = self._is_local and not os.path.islink(self._path)
        except OSError:
            return False
        return self._is_local

    def _mounts(self) -> bytes:
        os.lseek(self._table, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self._table, _CHUNK):
            parts.append(part)
        return b"".join(parts)

    def __del__(self) -> None:
        """Let go of the table."""
        if self._table >= 0:
            os.close(self._table)


def kind_of(path: str, mountinfo: bytes) -> bytes:
    """The type of the file system that `path` lies on, by a mountinfo text; empty: none is told."""
    wanted, best, kind = os.fsencode(path), b"", b""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        if len(fields) < 5:
            continue
        point = fields[4]
        covers = point in {b"/", wanted} or wanted.startswith(point + b"/")
        if covers and len(point) >= len(best):  # the last of several on one point is on top
            best, kind = point, right.partition(b" ")[0]
    return kind
