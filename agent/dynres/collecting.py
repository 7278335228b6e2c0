"""Lets the collector of cycles run rarely, in a process that lives long and makes few of them."""

import gc
from typing import Final

YOUNG: Final = 20_000
"""New objects after which the youngest are looked through for cycles."""


def collect_rarely() -> None:
    """What is there by now stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
