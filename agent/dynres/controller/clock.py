"""The controller's two clocks: one that only goes forward, and one for people."""

import time

from dynres.controller.proposal import Instant


def clock() -> float:
    """The serving clock: forward only, suspend included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def instant() -> Instant:
    """Now, on both clocks."""
    return Instant(clock(), time.time())
