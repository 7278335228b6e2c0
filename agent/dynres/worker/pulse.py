"""Whether helper processes are alive, found out without waking those that only wait.

A helper that has answered waits for the agent, and goes on doing so until its main thread runs
again. So as long as the kernel says that this thread has not run since, nobody has to ask: to wake
a process that then does nothing costs more than all else about it. One that has run is asked.
"""

import asyncio
import math
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from dynres.worker import proc

LOOK: Final = 1.1
"""Seconds between two looks."""
PATIENCE: Final = 0.8
"""Seconds that a helper has to answer; so one that hangs is noticed within 2 s."""
HELD_UP: Final = 0.25
"""Seconds by which we look later than planned when we were held up ourselves."""
_SETTLE: Final = 10_000_000
"""Nanoseconds of CPU that a thread may need from its answer until it waits."""


class _Ran(NamedTuple):
    """How often, and for how many ns, the main thread of a process has been on a CPU."""

    times: int
    ns: int


class Pulse:
    """The signs of life of the helper `pid`.

    `ask` asks for one; `silent` is called, once, when that is not answered in time. `only_told`: it
    does nothing of its own, so that all that it can do after an answer is to go back to waiting.
    """

    def __init__(
        self,
        pid: int,
        ask: Callable[[], None],
        silent: Callable[[], None],
        *,
        only_told: bool = False,
    ) -> None:
        self.trusted = True
        """Whether it can answer when its main thread waits: no other may hold a lock for ever."""
        self.on_answer: Callable[[], None] | None = None
        """Called when it has answered what it was asked."""
        self._pid = pid
        self._only_told = only_told
        self._ask = ask
        self._silent = silent
        self._asked_at: float | None = None
        self._halves = 0
        """Halves of PATIENCE that have passed since."""
        self._ran: _Ran | None = None
        """As it was when it answered; None: it has been given something to do since."""
        self._waiting: bytes | None = None
        """As it was when it was seen to wait after its answer, and not stopped on its way there."""
        try:
            self._stat = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel without it: then each look asks
            self._stat = -1

    def heard(self) -> None:
        """Its main thread has answered, and waits now."""
        asked, self._asked_at = self.asked, None
        self._ran = _ran(self._counts())
        self._waiting = None
        if asked and self.on_answer is not None:
            self.on_answer()

    @property
    def asked(self) -> bool:
        """Whether an answer is awaited."""
        return self._asked_at is not None

    def unsure(self) -> None:
        """It was given something to do: what it answered before says nothing any more."""
        self._ran = self._waiting = None

    def look(self, now: float, *, late: bool) -> float:
        """See whether it is alive, and when to look again; `late`: we were held up ourselves."""
        if self._asked_at is None:
            if self.trusted and self._waits():
                return now + LOOK
            self._ask()
        elif not late and now < self._next():
            return self._next()
        elif not late and self._halves:
            self._silent()
            return math.inf
        elif not late:
            self._halves = 1
            return self._next()
        # Where we were held up, even while asking, the answer may lie there unread.
        self._asked_at, self._halves = now, 0
        return self._next()

    def close(self) -> None:
        """Let go of it."""
        if self._stat >= 0:
            os.close(self._stat)
            self._stat = -1

    def _next(self) -> float:
        return (self._asked_at or 0.0) + (self._halves + 1) * PATIENCE / 2

    def _waits(self) -> bool:
        """Whether its main thread has done nothing since it answered."""
        counts = self._counts()
        if counts is not None and counts == self._waiting:
            return True
        before, now = self._ran, _ran(counts)
        if before is None or now is None:
            return False
        # On its way back it may have been held up, by ourselves, whom its answer woke.
        ran = now.times != before.times and not self._only_told
        if ran or now.ns - before.ns >= _SETTLE or proc.state(self._pid) != "S":
            return False
        self._waiting = counts
        return True

    def _counts(self) -> bytes | None:
        """/proc/PID/schedstat; None: it cannot be read."""
        try:
            return os.pread(self._stat, 128, 0)
        except OSError:
            return None


def _ran(counts: bytes | None) -> _Ran | None:
    """What schedstat says (sched-stats.rst of the kernel); None: nothing that counts."""
    try:
        ns, _, times = (counts or b"").split()
        return _Ran(int(times), int(ns)) if int(times) else None
    except ValueError:
        return None


class Watch:
    """Looks at all pulses together, since each time that the agent wakes up costs as well."""

    def __init__(self) -> None:
        self._pulses: set[Pulse] = set()
        self._looked_at = 0.0
        self._due = 0.0
        self._awake_at = 0.0
        """When the agent was awake for something else last."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, pulse: Pulse) -> None:
        """Look at this one as well; nothing happens where it is looked at."""
        if pulse not in self._pulses:
            self._pulses.add(pulse)
            pulse.on_answer = self._answered
            self._plan(asyncio.get_running_loop().time() + LOOK)

    def remove(self, pulse: Pulse) -> None:
        """Look at this one no more."""
        self._pulses.discard(pulse)
        pulse.on_answer = None
        if not self._pulses and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def glance(self) -> None:
        """The agent is awake for something that repeats itself.

        It looks now, if it would have to wake up for that before it is awake again.
        """
        now = asyncio.get_running_loop().time()
        apart, self._awake_at = now - self._awake_at, now
        if self._timer is not None and self._due <= now + min(apart, LOOK):
            self._timer.cancel()
            self._look()

    def _answered(self) -> None:
        """Of the looks that are planned, one was for an answer that is here."""
        if self._timer is not None and not any(pulse.asked for pulse in self._pulses):
            self._timer.cancel()
            self._timer = None
            self._plan(self._looked_at + LOOK)

    def _look(self) -> None:
        self._timer = None
        now = self._looked_at = asyncio.get_running_loop().time()
        late = now >= self._due + HELD_UP
        for pulse in list(self._pulses):
            if pulse in self._pulses:
                when = pulse.look(now, late=late)
                if when == math.inf:
                    self.remove(pulse)
                else:
                    self._plan(when)

    def _plan(self, when: float) -> None:
        """Look at `when`, or earlier."""
        if self._timer is not None:
            if self._due <= when:
                return
            self._timer.cancel()
        self._due = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)
