"""The second mark of a run, which survives a cleared environment: a number in a resource limit.

The soft RLIMIT_RTTIME (CPU time of real-time processes, in microseconds) is inherited by every
descendant, and as large as these numbers are (30,000 years) it limits nothing. The launcher sets
its own to a new number before each start. A process takes a copy of all limits in the instant of
its creation, so starts follow one another up to there: the next number waits for that, but not for
an execution that hangs.
"""

from __future__ import annotations

import _thread
import resource

from dynres.worker.proc import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dynres.worker.running import Run

PATIENCE = 0.02
"""Seconds after which a start that has not come back is looked at: is its process there?"""
_MOST_PATIENCE = 0.16
_BASE = 1 << 60
_NUMBERS = 1 << 32
_HOSTS = 1 << 61
_SESSION, _AGENT = 24, 40
"""Marks of plugin hosts: a number below 2^24, 16 bits of their session, 20 of their agent."""
_LINE = b"Max realtime timeout"


class Turn:
    """The time in which a start has this process marked for its own."""

    __slots__ = ("_marks", "number")

    def __init__(self, marks: RunMarks, number: int) -> None:
        self._marks = marks
        self.number = number

    def leave(self) -> None:
        """The process is there, or will not come: the next start can have its turn."""
        self._marks.after(self)


class RunMarks:
    """Numbers of one launcher: its agent's, and a counter below."""

    def __init__(self, agent: str) -> None:
        self._base = agent_number(agent)
        self._hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
        self._usable = self._hard == resource.RLIM_INFINITY
        """Where somebody limits it there is no room for numbers: runs have the first mark only."""
        self._gate = _thread.allocate_lock()
        """Locked as long as there is a holder."""
        self._holder: Turn | None = None
        self._state = _thread.allocate_lock()
        """Guards the holder and the numbers; never held for long."""
        self._last = 0

    def enter(self, run: Run) -> Turn:
        """Wait for a turn and mark this process, for the process of `run` that is created next."""
        patience = PATIENCE
        while self._usable and not self._gate.acquire(timeout=patience):
            turn = self._instead_of_a_hung_one(run)
            if turn is not None:
                return turn
            patience = min(2 * patience, _MOST_PATIENCE)
        with self._state:
            return self._begin(run)

    def after(self, turn: Turn) -> None:
        """It is over, where another has not taken it over."""
        with self._state:
            if self._holder is turn:
                self._holder = None
                self._gate.release()

    def _begin(self, run: Run) -> Turn:
        run.mark = self._last = (self._last + 1) % _NUMBERS
        turn = Turn(self, run.mark)
        if self._usable:
            self._holder = turn
            resource.setrlimit(resource.RLIMIT_RTTIME, (self._base + run.mark, self._hard))
        return turn

    def _instead_of_a_hung_one(self, run: Run) -> Turn | None:
        """A turn that is taken over where its process is there, with its number, but hangs."""
        holder = self._holder
        if holder is None:
            return None
        mark = self._base + holder.number
        if not any(mark_of(pid) == mark for pid in children()):
            return None
        with self._state:
            return self._begin(run) if self._holder is holder else None


def agent_number(agent: str) -> int:
    """What the numbers of this agent's runs begin with."""
    return _BASE + (_digest(agent) >> 4) * _NUMBERS


def _digest(text: str) -> int:
    """32 bits."""
    digest = 2166136261  # FNV-1a: no import
    for byte in text.encode("utf-8", "surrogateescape"):
        digest = (digest ^ byte) * 16777619 % 2**32
    return digest


def hosts_of(agent: str, session: str = "", number: str = "") -> range:
    """The numbers of one plugin host, or of all of a session, or of all of an agent."""
    first, count = _HOSTS + (_digest(agent) >> 12 << _AGENT), 1 << _AGENT
    if session:
        first, count = first + (_digest(session) >> 16 << _SESSION), 1 << _SESSION
    if number:
        first, count = first + int(number) % (1 << _SESSION), 1
    return range(first, first + count)


def mark_host(mark: str) -> None:
    """Give this process, a plugin host with the mark `AGENT#SESSION#NUMBER`, its number."""
    hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
    if hard == resource.RLIM_INFINITY:
        number = hosts_of(*mark.rsplit("#", 2)).start
        resource.setrlimit(resource.RLIMIT_RTTIME, (number, hard))


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
