"""The eleven load indices that every host has (docs/probes.md)."""

from typing import Final

from dynres.config.model import Entry, Location, Place, Probe, Resource
from dynres.value import Order

PLACE: Final = Place("built-in", 1, 1)
PROBE: Final = "load-indices"
"""Its name: with a hyphen, so that it is never the name of anything in the files."""
PLUGIN: Final = "load"
INTERVAL: Final = 5.0
TIMEOUT: Final = 5.0

_INDICES: Final[tuple[tuple[str, str, Order, str], ...]] = (
    ("r15s", "tasks", "increasing", "run queue, averaged over 15 s"),
    ("r1m", "tasks", "increasing", "run queue, averaged over 1 min"),
    ("r15m", "tasks", "increasing", "run queue, averaged over 15 min"),
    ("ut", "0..1", "increasing", "busy share of all CPU time, averaged over 1 min"),
    ("pg", "pages/s", "increasing", "swap-in plus swap-out, averaged over 1 min"),
    ("io", "KB/s", "increasing", "disk bytes read plus written, averaged over 1 min"),
    ("ls", "users", "increasing", "distinct user names logged in"),
    ("it", "min", "decreasing", "since the newest activity on any login terminal"),
    ("tmp", "MB", "decreasing", "free for ordinary users in /tmp"),
    ("swp", "MB", "decreasing", "free swap"),
    ("mem", "MB", "decreasing", "available memory"),
)

NAMES: Final = frozenset(name for name, *_ in _INDICES)


def probe() -> Probe:
    """The probe that feeds them all."""
    return Probe(name=PROBE, plugin=PLUGIN, timeout=TIMEOUT, place=PLACE)


def resources() -> tuple[Resource, ...]:
    """The eleven indices, on every host, measured every 5 s."""
    everywhere = Entry(location=Location(rest=True), place=PLACE)
    return tuple(
        Resource(
            name=name,
            description=description,
            unit=unit,
            order=order,
            interval=INTERVAL,
            ttl=max(3 * INTERVAL, INTERVAL + TIMEOUT),
            probe=PROBE,
            entries=(everywhere,),
            builtin=True,
            place=PLACE,
        )
        for name, unit, order, description in _INDICES
    )
