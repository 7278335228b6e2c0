"""Room on a file system: free, used, total, or inodes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dynres.probe import ProbeError

What = Literal["free", "used", "total", "free_percent", "used_percent", "free_inodes"]
Unit = Literal["bytes", "KB", "MB", "GB", "TB"]

_SIZES: Final[dict[Unit, int]] = {
    "bytes": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and where."""

    path: str
    """Any folder or file on the file system; absolute."""
    what: What = "free"
    """`free` and `free_percent`: for ordinary users, without what is reserved for root."""
    unit: Unit = "GB"
    """Of free, used and total; powers of 1024."""
    mounted: bool = False
    """`path` must be a mount point: a disk that is not mounted fails, instead of telling of /."""

    def __post_init__(self) -> None:
        """Refuse a relative path: a probe's working folder is /."""
        if not self.path.startswith("/"):
            raise ValueError(f"path: expected an absolute path, got {self.path!r}")


@dataclass(frozen=True, slots=True)
class Room:
    """Counts of a file system as statvfs gives them, in bytes; `available` is without root's."""

    total: int
    free: int
    available: int
    free_inodes: int


class DiskFree:
    """One value about a file system, named after `what`."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float]:
        """One run, `{what: value}`. ProbeError when the path is missing or not mounted."""
        options = self._options
        if options.mounted and not Path(options.path).is_mount():
            raise ProbeError(f"{options.path}: not a mount point; is the disk mounted?")
        try:
            stat = os.statvfs(options.path)
        except OSError as error:
            raise ProbeError(f"{options.path}: {error.strerror}") from None
        size = stat.f_frsize
        room = Room(stat.f_blocks * size, stat.f_bfree * size, stat.f_bavail * size, stat.f_favail)
        return {options.what: measure(room, options.what, options.unit)}


def measure(room: Room, what: What, unit: Unit) -> float:
    """The number asked for; sizes in `unit`, rounded down so that nobody is promised too much.

    Percentages are of what ordinary users can ever have, as df computes them. ProbeError for a
    percentage of a file system that has no size (such as /proc).
    """
    used = room.total - room.free
    if what == "free_inodes":
        return float(room.free_inodes)
    if what in {"free_percent", "used_percent"}:
        usable = used + room.available
        if usable == 0:
            raise ProbeError("a file system without a size has no percentage")
        return round(100 * (room.available if what == "free_percent" else used) / usable, 2)
    size = {"free": room.available, "used": used, "total": room.total}[what]
    return size * 1000 // _SIZES[unit] / 1000
