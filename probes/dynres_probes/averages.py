"""Exponential averages and the growth of counters over measured time; pure."""

from __future__ import annotations

import math

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from collections.abc import Sequence


class Average:
    """An exponentially weighted average over `period` seconds; it starts at its first sample."""

    def __init__(self, period: float) -> None:
        self._period = period
        self.value: float | None = None
        """The average; None before the first sample."""

    def add(self, sample: float, elapsed: float) -> float:
        """Take in a sample that stands for the last `elapsed` seconds; returns the average."""
        if self.value is None:
            self.value = sample
        else:
            keep = math.exp(-elapsed / self._period)
            self.value = self.value * keep + sample * (1 - keep)
        return self.value


class Growth:
    """What counters that only ever grow gained since they were last looked at."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[int], float] | None = None

    def since_last(self, counts: Sequence[int], now: float) -> tuple[list[int], float] | None:
        """The gain of each counter and the seconds that it took.

        None at the first look, when no time has passed, and when one of the counters went
        backwards (a device left, a counter wrapped): then there is no sample, and the next one
        counts from here.
        """
        last, self._last = self._last, (counts, now)
        if last is None or now <= last[1]:
            return None
        gains = [new - old for new, old in zip(counts, last[0], strict=True)]
        return None if min(gains) < 0 else (gains, now - last[1])
