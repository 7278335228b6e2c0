"""The 11 built-in load indices, read from /proc in one go."""

from __future__ import annotations

import os
import sys
import time

from dynres_probes import procfs
from dynres_probes.aside import Aside
from dynres_probes.averages import Average, Growth
from dynres_probes.local_fs import LocalFs
from dynres_probes.logins import Activity, Logins, last_uses

TYPE_CHECKING = False
# Every host runs this, and most run no other plugin: what is imported here is the size of a plugin
# host. So nothing that needs `typing`, `re`, `pathlib`, or `dynres.probe` before it is needed.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

PROC: str | os.PathLike[str] = "/proc"
SYS_BLOCK: str | os.PathLike[str] = "/sys/block"
TMP: Final = "/tmp"
MB: Final = 2**20
_CHUNK: Final = 65536
PATIENCE: Final = 1.0
"""Seconds that the file system of /tmp has to say what is free."""

FIRST: Final = "a rate needs a second sample"

_PERIODS: Final = {"r15s": 15.0, "r1m": 60.0, "r15m": 900.0}
_PLACES: Final = {
    **dict.fromkeys(_PERIODS, 3),
    **dict.fromkeys(("pg", "io", "it"), 2),
    **dict.fromkeys(("tmp", "swp", "mem"), 1),
    "ut": 4,
    "ls": 0,
}
"""Decimals that mean something; the rest would only make every report differ."""


class Load:
    """Run queue, CPU, paging, disk, logins, idle time and free memory of this host.

    Averages live from one read to the next; ut, pg and io are unavailable at the first.
    """

    def __init__(self) -> None:
        self._tasks = {name: Average(period) for name, period in _PERIODS.items()}
        self._tasks_at: float | None = None
        self._averages = {name: Average(60.0) for name in ("ut", "pg", "io")}
        self._growths = {name: Growth() for name in ("ut", "pg", "io")}
        self._logins, self._activity = Logins(), Activity()
        self._since = _agent_start()
        self._tmp_fs = LocalFs(TMP)
        self._room = Aside(lambda: os.statvfs(TMP), TMP, PATIENCE)
        self._failing: dict[str, str] = {}
        self._swap: int | None = None
        """Bytes of swap space, as of this read."""
        self._real: dict[str, bool] = {}
        """Block device, as diskstats names it -> whether it is a real disk."""

    def read(self) -> dict[str, float | tuple[None, str]]:
        """All 11 indices; None and why for those that are not there. ProbeError when none is."""
        parts: dict[Callable[[], dict[str, float | None]], tuple[str, ...]] = {
            self._run_queue: tuple(_PERIODS),
            self._cpu: ("ut",),
            self._memory: ("mem", "swp"),
            self._paging: ("pg",),
            self._disks: ("io",),
            self._people: ("ls", "it"),
            self._tmp: ("tmp",),
        }
        values: dict[str, float | None] = {}
        failing: dict[str, str] = {}
        for part, names in parts.items():
            try:
                values |= part()
            except (OSError, ValueError, LookupError) as error:
                values |= dict.fromkeys(names)
                failing |= dict.fromkeys(names, str(error) or type(error).__name__)
        self._tell(failing)
        if len(failing) == len(values):
            from dynres.probe import ProbeError

            raise ProbeError(f"no load index can be read: {next(iter(failing.values()))}")
        return {
            name: (None, failing.get(name, FIRST)) if value is None else round(value, _PLACES[name])
            for name, value in values.items()
        }

    def _tell(self, failing: dict[str, str]) -> None:
        """Say why an index has become unreadable, once: a plugin's stderr is kept and shown."""
        for name, why in failing.items():
            if self._failing.get(name) != why:
                sys.stderr.write(f"{name}: {why}\n")
        self._failing = failing

    def _run_queue(self) -> dict[str, float | None]:
        now = time.monotonic()
        tasks = float(max(0, procfs.runnable_tasks(_text("loadavg")) - _own_runnable()))
        elapsed = now - self._tasks_at if self._tasks_at is not None else 0.0
        self._tasks_at = now
        return {name: average.add(tasks, elapsed) for name, average in self._tasks.items()}

    def _cpu(self) -> dict[str, float | None]:
        times = procfs.cpu_times(_text("stat"))
        growth = self._growths["ut"].since_last(times, time.monotonic())
        if growth is not None and sum(growth[0]) > 0:
            gained = growth[0]
            idle = (gained[procfs.IDLE] + gained[procfs.IOWAIT]) / sum(gained)
            self._averages["ut"].add(1 - idle, growth[1])
        return {"ut": self._averages["ut"].value}

    def _memory(self) -> dict[str, float | None]:
        self._swap = None
        available, swap_free, self._swap = procfs.memory(_text("meminfo"))
        return {"mem": available / MB, "swp": swap_free / MB}

    def _paging(self) -> dict[str, float | None]:
        swap = self._swap
        if swap is None:  # asked again for the fault
            *_, swap = procfs.memory(_text("meminfo"))
        if swap == 0:
            return {"pg": 0.0}
        return {"pg": self._rate("pg", procfs.swapped_pages(_text("vmstat", at_once=False)))}

    def _disks(self) -> dict[str, float | None]:
        text = _text("diskstats", at_once=False)
        names = procfs.block_devices(text)
        self._real = {n: self._real[n] if n in self._real else _is_real_disk(n) for n in names}
        moved = procfs.disk_bytes(text, {n for n in names if self._real[n]})
        rate = self._rate("io", moved)
        return {"io": None if rate is None else rate / 1024}

    def _rate(self, name: str, counter: int) -> float | None:
        """The counter's average growth a second; None until two samples were taken."""
        growth = self._growths[name].since_last((counter,), time.monotonic())
        if growth is not None:
            self._averages[name].add(growth[0][0] / growth[1], growth[1])
        return self._averages[name].value

    def _people(self) -> dict[str, float | None]:
        logins = self._logins.read()
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        stamps = last_uses(terminal for login in logins for terminal in login.terminals)
        self._activity.look(stamps, time.time(), now)
        newest = self._activity.newest
        idle = now - (newest if newest is not None else self._since)
        return {"ls": float(len({login.user for login in logins})), "it": max(0.0, idle) / 60}

    def _tmp(self) -> dict[str, float | None]:
        room = os.statvfs(TMP) if self._tmp_fs.sure() else self._room.answer()
        return {"tmp": room.f_bavail * room.f_frsize / MB}


def _text(path: str, *, at_once: bool = True) -> str:
    """A file below /proc; `at_once`: the kernel writes all of it in one go. Raises OSError."""
    # Not by `open`, which makes twice as many system calls: with cold caches each one counts.
    file = os.open(f"{PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(file, _CHUNK)]
        while not at_once and parts[-1]:
            parts.append(os.read(file, _CHUNK))
    finally:
        os.close(file)
    return b"".join(parts).decode("ascii", "replace")


def _is_real_disk(name: str) -> bool:
    """Whether hardware or the hypervisor gives it: what lies on such disks counts only once."""
    return os.path.exists(f"{SYS_BLOCK}/{name.replace('/', '!')}/device")


def _own_runnable() -> int:
    """Runnable threads of this process: this one, and others that a plugin may have started."""
    if "threading" not in sys.modules:
        return 1  # no other plugin has run here, and the main thread waits
    runnable = 0
    for task in os.listdir(f"{PROC}/self/task"):
        try:
            runnable += procfs.task_state(_text(f"self/task/{task}/stat")) == "R"
        except OSError:
            continue  # the thread has ended
    return max(1, runnable)


def _agent_start() -> float:
    """Instant (CLOCK_BOOTTIME) when the agent started: it is the parent of the plugin host."""
    try:
        ticks = procfs.start_ticks(_text(f"{os.getppid()}/stat"))
    except (OSError, ValueError, LookupError):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return ticks / os.sysconf("SC_CLK_TCK")
