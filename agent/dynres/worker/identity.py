"""Who this agent is beside its host's name: the machine, its boot, and this start of the agent."""

import os
from pathlib import Path
from typing import NamedTuple


class Identity(NamedTuple):
    """Ids as text; empty where the machine has none (a container without machine-id)."""

    machine_id: str
    boot_id: str
    session: str
    """Random, new at each start."""

    @staticmethod
    def read() -> "Identity":
        """Out of the system's files."""
        return Identity(
            machine_id=_first_line("/etc/machine-id"),
            boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
            session=os.urandom(8).hex(),
        )


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
