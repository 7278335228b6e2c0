"""Reads counters out of the text of files under /proc; pure, so that captured text tests it."""

from __future__ import annotations

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

SECTOR: Final = 512
"""Bytes of a sector in /proc/diskstats, whatever the disk's own sector size is."""


CPU_FIELDS: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""What the numbers of `cpu_times` are."""
IDLE: Final = 3
IOWAIT: Final = 4


def runnable_tasks(loadavg: str) -> int:
    """Tasks on a run queue now, the reader among them, from /proc/loadavg."""
    running, slash, _ = loadavg.split()[3].partition("/")
    if not slash:
        raise ValueError(f"/proc/loadavg: expected RUNNING/TASKS, got {running!r}")
    return int(running)


def task_state(stat: str) -> str:
    """The state letter in /proc/PID/stat, whose command name may hold blanks and brackets."""
    return stat.rpartition(")")[2].split()[0]


def start_ticks(stat: str) -> int:
    """When the process started, in clock ticks after boot, from /proc/PID/stat."""
    return int(stat.rpartition(")")[2].split()[19])


def cpu_times(stat: str) -> tuple[int, ...]:
    """Clock ticks since boot over all CPUs, as CPU_FIELDS says: the `cpu` line of /proc/stat.

    Guest time stands in two further fields *and* in user and nice; it is left to the latter so
    that it counts once. Kernels older than 2.6.11 have no steal field: 0.
    """
    name, *fields = stat.partition("\n")[0].split()
    if name == "cpu" and len(fields) >= 7:
        return tuple(map(int, [*fields[:8], "0"][:8]))
    raise ValueError("/proc/stat: it does not begin with 'cpu' and 7 fields or more")


def memory(meminfo: str) -> tuple[int, int, int]:
    """Bytes available, of free swap, and of swap (0 without), from /proc/meminfo."""
    lines = "\n" + meminfo
    sizes = []
    for name in ("MemAvailable", "SwapFree", "SwapTotal"):
        _, found, rest = lines.partition(f"\n{name}:")
        if not found:
            raise ValueError(f"/proc/meminfo: no {name}")
        sizes.append(int(rest.split(None, 1)[0]) * 1024)
    return sizes[0], sizes[1], sizes[2]


def swapped_pages(vmstat: str) -> int:
    """Pages swapped in plus pages swapped out since boot, from /proc/vmstat."""
    counts = dict(line.split(maxsplit=1) for line in vmstat.splitlines())
    if "pswpin" not in counts or "pswpout" not in counts:
        raise ValueError("/proc/vmstat: no pswpin or pswpout")
    return int(counts["pswpin"]) + int(counts["pswpout"])


def block_devices(diskstats: str) -> set[str]:
    """The names of all disks and partitions in /proc/diskstats."""
    return {fields[2] for line in diskstats.splitlines() if len(fields := line.split(None, 3)) > 3}


def disk_bytes(diskstats: str, disks: Collection[str]) -> int:
    """Bytes read plus written by `disks` (names of whole, real disks), from /proc/diskstats.

    A multipath NVMe disk stands there once as itself and once per path, and depending on the
    kernel one or both are counted: the larger of the two is taken.
    """
    own: dict[str, int] = {}
    paths: dict[str, int] = {}
    for line in diskstats.splitlines():
        fields = line.split()
        if len(fields) < 14 or fields[2] not in disks:
            continue
        sectors = int(fields[5]) + int(fields[9])
        disk = _multipath_disk(fields[2])
        if disk is not None:
            paths[disk] = paths.get(disk, 0) + sectors
        else:
            own[fields[2]] = sectors
    return SECTOR * sum(max(own.get(d, 0), paths.get(d, 0)) for d in own.keys() | paths.keys())


def _multipath_disk(name: str) -> str | None:
    """The disk `nvme0n1` that a path `nvme0c1n1` leads to; None where the name is no path's."""
    controller, _, rest = name.removeprefix("nvme").partition("c")
    path, _, number = rest.partition("n")
    digits = controller + path + number
    if name != f"nvme{controller}c{path}n{number}" or not (digits.isascii() and digits.isdigit()):
        return None
    return f"nvme{controller}n{number}" if controller and path and number else None
