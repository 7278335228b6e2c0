"""Keeps the threads that take turns on one CPU: the loop and the writer of the ledger.

They hold one interpreter lock, so two CPUs make neither faster; but to wake a thread on another
CPU takes an interrupt there, which in a virtual machine makes a hand-over and back five times as
dear (decision 0161). Once a minute the scheduler may choose where they are.
"""

import os
from pathlib import Path
from typing import Final

EVERY: Final = 60.0
"""Seconds after which both may move."""
_PROCESSOR: Final = 36
"""Where /proc/PID/task/TID/stat names the CPU of a thread, behind its name (proc(5))."""


class OneCpu:
    """Threads of this process, by native id; the first says where. None: does nothing."""

    def __init__(self, *threads: int) -> None:
        self._threads = threads
        self._allowed = os.sched_getaffinity(0) if threads else set()
        self._bound = False
        self._until = 0.0

    def tick(self, now: float) -> None:
        """Bind them to the CPU of the first, or, once a minute, to none until the next call."""
        if len(self._allowed) < 2 or (self._bound and now < self._until):
            return
        if self._bound:
            self.free()
            return
        self._bound, self._until = True, now + EVERY
        self._set({_cpu_of(self._threads[0])})

    def free(self) -> None:
        """Let them be anywhere, until the next `tick`: what is started now is bound to nothing."""
        if self._bound:
            self._bound = False
            self._set(self._allowed)

    def _set(self, cpus: set[int]) -> None:
        for thread in self._threads:
            try:
                os.sched_setaffinity(thread, cpus)
            except OSError:
                continue  # that CPU is no longer ours, or the thread has ended: it is as it was


def _cpu_of(thread: int) -> int:
    stat = Path(f"/proc/self/task/{thread}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[_PROCESSOR])
