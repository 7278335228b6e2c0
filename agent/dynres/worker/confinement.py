"""One control group for all that probes start, inside the one that systemd has delegated to us.

It bounds tasks and memory to a share of what the unit may have, so that whatever probes do, the
agent itself still has room. The launchers and plugin hosts are put into it as they start; all that
they start is born there. Without delegation there is none, and nothing changes.
"""

import errno
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dynres.worker.task_groups import ALL, PROBES

MOUNT: Final = Path("/sys/fs/cgroup")
SHARE: Final = 0.75
"""Of the unit's own limits."""
TASKS: Final = 2048
"""Where the unit has no limit of its own."""
MEMORY_SHARE: Final = 0.5
"""Of the machine's memory, where the unit has no limit of its own."""
AGENT: Final = "agent"

log = logging.getLogger(__name__)


class Confinement:
    """The group of helpers, as its folders: one in cgroup v2, one for each controller in v1."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders

    def take(self, pid: int) -> None:
        """Put a process into it: a helper that has not started anything yet."""
        for folder in self.folders:
            try:
                (folder / "cgroup.procs").write_text(str(pid))
            except OSError as error:
                if error.errno != errno.ESRCH:
                    log.warning("%s: probes are not bounded: %s", folder, error.strerror)


def confine(
    mount: Path = MOUNT, own: str | None = None, environ: Mapping[str, str] = os.environ
) -> Confinement:
    """Make the group below our own, where systemd has delegated that; else one without folders.

    `own`: the content of /proc/self/cgroup.
    """
    if "INVOCATION_ID" not in environ:
        return Confinement(())
    paths = _paths(Path("/proc/self/cgroup").read_text() if own is None else own)
    try:
        if (mount / "cgroup.controllers").exists():
            return Confinement(_unified(mount / paths.get("", "").lstrip("/")))
        folders = [_legacy(mount / c / paths[c].lstrip("/"), c) for c in _LIMITS if c in paths]
    except OSError as error:
        log.info("no control group for probes: %s: %s", error.filename, error.strerror)
        return Confinement(())
    return Confinement(tuple(folder for folder in folders if folder is not None))


_LIMITS: Final = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}
"""Controllers, and where cgroup v1 keeps their limits."""


def _paths(text: str) -> dict[str, str]:
    """Controller -> path of our own group; "" is cgroup v2."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _unified(unit: Path) -> tuple[Path, ...]:
    """cgroup v2: a group with members cannot bound groups below it, so we move to one as well.

    For the same reason helpers are not in the group of all probes itself: it is divided further
    for probes that need a bound of their own (`task_groups`).
    """
    if not _is_delegated(unit):
        return ()
    agent, probes = unit / AGENT, unit / PROBES
    for folder in (agent, probes):
        folder.mkdir(exist_ok=True)
    (agent / "cgroup.procs").write_text(str(os.getpid()))
    there = (unit / "cgroup.controllers").read_text().split()
    wanted = [controller for controller in _LIMITS if controller in there]
    if wanted:
        (unit / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
    for controller in wanted:
        file = f"{controller}.max"
        (probes / file).write_text(str(_bound(controller, unit / file)))
    members = probes / ALL
    members.mkdir(exist_ok=True)
    if "pids" in wanted:
        (probes / "cgroup.subtree_control").write_text("+pids")
    return (members,)


def _legacy(unit: Path, controller: str) -> Path | None:
    """cgroup v1: one controller's own hierarchy."""
    if not _is_delegated(unit):
        return None
    probes = unit / PROBES
    probes.mkdir(exist_ok=True)
    file = _LIMITS[controller]
    (probes / file).write_text(str(_bound(controller, unit / file)))
    return probes


def _is_delegated(unit: Path) -> bool:
    """Whether this group is ours to divide: systemd has given it to our user, or marked it."""
    if unit.is_symlink() or not unit.is_dir() or unit.name in {"", unit.anchor}:
        return False
    if os.geteuid() != 0:
        return unit.stat().st_uid == os.geteuid()
    for name in ("trusted.delegate", "user.delegate"):
        try:
            if os.getxattr(unit, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _bound(controller: str, limit: Path) -> int:
    """The share of the unit's own limit, or of the machine where it has none."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = limit.read_text().strip() if limit.exists() else "max"
    most = TASKS if controller == "pids" else int(machine * MEMORY_SHARE)
    if text.isdigit() and (controller == "pids" or int(text) < machine):
        return max(1, int(int(text) * SHARE))
    return most
