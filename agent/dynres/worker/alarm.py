"""Calls back at an instant of CLOCK_BOOTTIME, exactly, also after a suspend.

The event loop's own timers are late by up to 1 ms, since epoll_wait(2) counts in whole ones, and
stand still in suspend.
"""

import asyncio
import os
from collections.abc import Callable

from dynres.worker import native


class Alarm:
    """One timer; `ring` is called once for each time it was set. Must be made inside the loop.

    Raises OSError.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at: float | None = None
        self._fd = native.timer()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._due)

    def set(self, instant: float | None) -> None:
        """Ring at `instant` in place of what was set before; None: not at all."""
        if instant != self._at and self._fd >= 0:
            self._at = instant
            native.set_timer(self._fd, instant)

    def close(self) -> None:
        """Never ring again."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _due(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # it was set again meanwhile
        self._at = None
        self._ring()
