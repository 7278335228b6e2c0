"""Holds a ledger's folder for one controller, and refuses file systems that cannot do so."""

import ctypes
import fcntl
import os
import socket
from pathlib import Path
from typing import Final

from dynres.controller.ledger_base import (
    LedgerError,
    LedgerHeldError,
    LedgerUnwritableError,
)

NETWORK: Final = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x564C: "NCP",
    0x7461636F: "OCFS2",
    0x01161970: "GFS2",
    0xAAD7AAEA: "PanFS",
    0x01021997: "9P",
}
"""File systems of which several machines may have one, by the number that statfs gives."""
FUSE: Final = 0x65735546
LOCAL_FUSE: Final = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.bindfs"})


def network_file_system(number: int, kind: str | None) -> str | None:
    """The name of a network file system; None for a local one.

    `number` is what statfs gives, `kind` the type in mountinfo, which tells FUSE's kinds apart:
    those that are not known to be local count as network file systems.
    """
    if number == FUSE:
        return None if kind in LOCAL_FUSE else kind or "FUSE"
    return NETWORK.get(number)


def mounted_as(device: int, mountinfo: str) -> str | None:
    """The type that mountinfo gives for a device (st_dev); None where it is not in there."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == wanted and after:
            return after.split()[0]
    return None


def _statfs_type(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_long * 64)()  # larger than any struct statfs; the type comes first
    if libc.statfs(os.fsencode(path), buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return int(buffer[0]) & 0xFFFFFFFF


def refuse_network(folder: Path) -> None:
    """Raise LedgerError where `folder` is on a network file system."""
    number = _statfs_type(folder)
    kind = None
    if number == FUSE:
        kind = mounted_as(folder.stat().st_dev, Path("/proc/self/mountinfo").read_text())
    name = network_file_system(number, kind)
    if name is not None:
        raise LedgerError(
            f"{folder}: the ledger cannot be on a network file system ({name}): its lock and its "
            "order of writes do not hold there; set state: (or --state) to a folder on a local disk"
        )


class Lock:
    """The exclusive lock on a ledger, held until `close` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take it. Raises LedgerHeldError, naming the holder, or LedgerUnwritableError."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerUnwritableError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 400, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise LedgerHeldError(
                f"{path.parent}: another controller is active on this ledger "
                f"({holder or 'it does not say which'}); stop it first, or use another state folder"
            ) from None
        self._name_holder()

    def _name_holder(self) -> None:
        """For people only: a full disk does not keep anyone from holding the lock."""
        text = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
        try:
            os.pwrite(self._fd, text.ljust(200), 0)
        except OSError:
            return

    def close(self) -> None:
        """Let go."""
        os.close(self._fd)
