"""What /proc says of processes: which there are, whose children, whose, with which environment."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def pids() -> list[int]:
    """Every process."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def children() -> Iterator[int]:
    """Our own children, by their parent in /proc/PID/stat."""
    ours = b"%d" % os.getpid()
    for pid in pids():
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                stat = file.read(512)
        except OSError:
            continue
        # pid (name) state ppid …; the name may hold anything, blanks and parentheses too
        if stat[stat.rfind(b")") + 2 :].split(b" ", 2)[1:2] == [ours]:
            yield pid


_STATES = {
    "R": "running", "S": "sleeping", "D": "in uninterruptible sleep", "T": "stopped",
    "t": "traced", "Z": "ended", "I": "idle", "": "gone",
}  # fmt: skip


def state(pid: int) -> str:
    """The letter of its main thread's state in /proc/PID/stat (proc(5)); empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read(512).rpartition(b") ")[2][:1].decode("ascii", "replace")
    except OSError:
        return ""


def described(pid: int) -> str:
    """A process that is in trouble, as a person looks for it: `pid 4711, stopped`."""
    letter = state(pid)
    return f"pid {pid}, {_STATES.get(letter, letter)}"


def owner(pid: int) -> int | None:
    """Its user; None where it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return None


def environ(pid: int) -> bytes:
    """The environment a process started with, after a NUL; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read()
    except OSError:
        return b""


def variable(environment: bytes, name: bytes) -> str | None:
    """What follows `name` (which ends in `=`) in an environment as `environ` gives it."""
    start = environment.find(b"\0" + name)
    if start < 0:
        return None
    start += 1 + len(name)
    end = environment.find(b"\0", start)
    return os.fsdecode(environment[start : end if end >= 0 else None])
