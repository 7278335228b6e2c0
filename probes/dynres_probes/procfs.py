"""Reads counters out of the text of files under /proc; pure, so that captured text tests it."""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

SECTOR: Final = 512
"""Bytes of a sector in /proc/diskstats, whatever the disk's own sector size is."""

_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)", re.ASCII)


class CpuTimes(NamedTuple):
    """Clock ticks since boot, over all CPUs."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int


class Memory(NamedTuple):
    """Bytes; `swap_total` is 0 on a machine without swap."""

    available: int
    swap_free: int
    swap_total: int


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


def cpu_times(stat: str) -> CpuTimes:
    """The `cpu` line of /proc/stat.

    Guest time stands in two further fields *and* in user and nice; it is left to the latter so
    that it counts once. Kernels older than 2.6.11 have no steal field: 0.
    """
    for line in stat.splitlines():
        name, *fields = line.split()
        if name == "cpu" and len(fields) >= 7:
            return CpuTimes(*map(int, [*fields[:8], "0"][:8]))
    raise ValueError("/proc/stat: no line 'cpu' with 7 fields or more")


def memory(meminfo: str) -> Memory:
    """What /proc/meminfo says about memory and swap."""
    sizes = {}
    for line in meminfo.splitlines():
        name, _, size = line.partition(":")
        sizes[name] = size
    wanted = [sizes.get(name) for name in ("MemAvailable", "SwapFree", "SwapTotal")]
    if None in wanted:
        raise ValueError("/proc/meminfo: no MemAvailable, SwapFree or SwapTotal")
    return Memory(*(int((size or "").split()[0]) * 1024 for size in wanted))


def swapped_pages(vmstat: str) -> int:
    """Pages swapped in plus pages swapped out since boot, from /proc/vmstat."""
    counts = dict(line.split(maxsplit=1) for line in vmstat.splitlines())
    if "pswpin" not in counts or "pswpout" not in counts:
        raise ValueError("/proc/vmstat: no pswpin or pswpout")
    return int(counts["pswpin"]) + int(counts["pswpout"])


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
        path = _NVME_PATH.fullmatch(fields[2])
        if path:
            disk = path[1] + path[2]
            paths[disk] = paths.get(disk, 0) + sectors
        else:
            own[fields[2]] = sectors
    return SECTOR * sum(max(own.get(d, 0), paths.get(d, 0)) for d in own.keys() | paths.keys())
