"""A control group for each probe of root that asks for `processes`: its bound on tasks.

The system does not count what root has, so RLIMIT_NPROC bounds nothing there. The groups lie beside
the one in which the agent has put this launcher, within the bound for all probes (`confinement`).
One for each probe, not for each run; its process is moved there before it executes.
"""

from __future__ import annotations

import os

MOUNT = "/sys/fs/cgroup"
PROBES = "probes"
"""The group of all probes, which has the bound (as in `confinement`)."""
ALL = "all"
"""In cgroup v2 the group in it that has the members: one with members cannot be divided."""


class TaskGroups:
    """Finds or makes the groups; `own` stands for /proc/self/cgroup."""

    def __init__(self, mount: str = MOUNT, own: str = "/proc/self/cgroup") -> None:
        self._mount = mount
        self._own = own
        self._parent: str | None = None

    def of(self, probe: str, most: int) -> str | None:
        """The group of that probe, which may have `most` tasks; None where there can be none.

        Raises OSError.
        """
        parent = self._parent = self._parent or self._found()
        if parent is None:
            return None
        folder = f"{parent}/{_as_name(probe)}"
        if not os.path.isdir(folder):  # noqa: PTH112
            os.mkdir(folder)  # noqa: PTH102
        _write(f"{folder}/pids.max", most)
        return folder

    def _found(self) -> str | None:
        """The group of all probes, where this process is in it and tasks can be bounded there."""
        with open(self._own, "rb", buffering=0) as file:
            lines = os.fsdecode(file.read(65536)).splitlines()
        unified = os.path.exists(f"{self._mount}/cgroup.controllers")  # noqa: PTH110
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if unified and not controllers and path.endswith(f"/{PROBES}/{ALL}"):
                parent = self._mount + path.removesuffix(f"/{ALL}")
                return parent if _is_divided(parent) else None
            if "pids" in controllers.split(",") and path.endswith(f"/{PROBES}"):
                return f"{self._mount}/{controllers}{path}"
        return None


def move(pid: int, folder: str) -> None:
    """Put a process there. Raises OSError."""
    _write(f"{folder}/cgroup.procs", pid)


def _is_divided(parent: str) -> bool:
    with open(f"{parent}/cgroup.subtree_control", "rb", buffering=0) as file:
        return b"pids" in file.read(4096).split()


def _as_name(probe: str) -> str:
    """A name for its folder, and for nobody else's."""
    return "probe-" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in probe)


def _write(path: str, number: int) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(b"%d" % number)
