"""The second mark of a run, which survives a cleared environment: a number in a resource limit.

The soft RLIMIT_RTTIME (CPU time of real-time processes, in microseconds) is inherited by every
descendant, and as large as these numbers are (30,000 years) it limits nothing. The launcher sets
its own to a new number before each start. Another thread may do so between that and the creation
of the process; then the process is looked at, and given its own number for what it starts later.
"""

from __future__ import annotations

import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dynres.worker.running import Run

_BASE = 1 << 60
_NUMBERS = 1 << 32
_LINE = b"Max realtime timeout"


class RunMarks:
    """Numbers of one launcher: its agent's, and a counter below."""

    def __init__(self, agent: str) -> None:
        self._base = agent_number(agent)
        self._hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
        self._usable = self._hard == resource.RLIM_INFINITY
        """Where somebody limits it there is no room for numbers: runs have the first mark only."""
        self._last = 0

    def before(self, run: Run) -> None:
        """Mark this process with a new number, for the process of `run` that it creates next."""
        run.mark = self._last = (self._last + 1) % _NUMBERS
        if self._usable:
            resource.setrlimit(resource.RLIMIT_RTTIME, (self._base + run.mark, self._hard))

    def after(self, run: Run, pid: int) -> None:
        """The process of `run` has been created: which numbers what it starts can have."""
        last = self._last
        if not self._usable or last == run.mark:
            run.marks = (run.mark, run.mark)
            return
        own = (self._base + run.mark, self._hard)
        try:
            had = resource.prlimit(pid, resource.RLIMIT_RTTIME, own)[0] - self._base
        except (OSError, ValueError):
            had = last  # it is another user's by now
        run.marks = (run.mark, had)


def agent_number(agent: str) -> int:
    """What the numbers of this agent's runs begin with."""
    digest = 2166136261  # FNV-1a: no import
    for byte in agent.encode("utf-8", "surrogateescape"):
        digest = (digest ^ byte) * 16777619 % 2**32
    return _BASE + (digest >> 4) * _NUMBERS


def mark_of(pid: int) -> int | None:
    """The number that a process has inherited; None where it has none, or is gone."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
            limits = file.read(4096)
    except OSError:
        return None
    line = limits[limits.find(_LINE) :].split(b"\n", 1)[0] if _LINE in limits else b""
    soft = line[len(_LINE) :].split(None, 1)[:1]
    return int(soft[0]) if soft and soft[0].isdigit() and int(soft[0]) >= _BASE else None


def number_in(mark: int, agent: str) -> int | None:
    """The number of the run, where the mark is of this agent."""
    number = mark - agent_number(agent)
    return number if 0 <= number < _NUMBERS else None
