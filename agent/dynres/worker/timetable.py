"""When each probe is due: slots that neither drift nor overlap, and that nothing makes up.

due(n) = phase + n x interval, where the phase is a hash of host and probe, so that probes spread
evenly over time and over hosts: in small groups, because starting a few together costs less. All
instants are seconds of one clock that counts suspend too.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import floor
from typing import Final, Literal

SPREAD: Final = 1.0
"""First runs are spread over min(interval, SPREAD) seconds after the start."""

GROUP: Final = 0.04
"""Phases of one host lie this many seconds apart (a 25th of the interval where that is less)."""

After = Literal["ok", "failed", "not_here"]
"""What the timetable needs to know of a run that ended."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often one probe runs; times in seconds.

    `definition` is whatever makes it this probe: where it differs, the probe counts as changed.
    """

    interval: float
    retry: float | None = None
    recheck: float = 600.0
    at_once: bool = False
    """Whether the first run is not spread."""
    definition: object = None


@dataclass(frozen=True, slots=True)
class Start:
    """A run to start now; `lateness` in seconds since it was due."""

    probe: str
    due: float
    lateness: float


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new plan changed: names of probes. Runs of `cancel` are in flight and void."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    cancel: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One probe's line of the timetable."""

    interval: float
    due: float | None
    """The instant of its next run; None while it runs."""
    missed: int
    running: bool
    waiting: bool


@dataclass(slots=True)
class _Item:
    cadence: Cadence
    phase: float
    due: float
    missed: int = 0
    started: float | None = None
    waiting: bool = False
    gone: bool = False
    again: bool = False
    not_here: bool = False


def fraction(host: str, probe: str) -> float:
    """A number in [0, 1) that is the same for this host and probe on every machine and run."""
    digest = blake2b(f"{host}\0{probe}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56


def phase_of(host: str, probe: str, interval: float) -> float:
    """Where in its interval a probe runs, in [0, interval); groups of hosts do not coincide."""
    groups = max(10, floor(interval / GROUP))
    group = floor(fraction(host, probe) * groups)
    return (group + fraction(host, "")) * interval / groups


def first_slot_after(instant: float, phase: float, interval: float) -> float:
    """The first slot that is later than `instant`."""
    n = floor((instant - phase) / interval) + 1
    slot = phase + n * interval
    return slot if slot > instant else phase + (n + 1) * interval


class Timetable:
    """The plan of one host's probes; `max_running` bounds the runs at once."""

    def __init__(self, host: str, max_running: int) -> None:
        self.host = host
        self.max_running = max_running
        self._items: dict[str, _Item] = {}
        self._heap: list[tuple[float, str]] = []
        self._waiting: list[tuple[float, str]] = []
        self._running = 0
        self._seen = float("-inf")

    def plan(
        self, cadences: Mapping[str, Cadence], now: float, *, spread: bool, recheck: bool = False
    ) -> Changes:
        """Go by these probes from now on; what did not change keeps phase and run in flight.

        `spread`: this is the start, first runs spread out; else new and changed ones run at once.
        `recheck`: also ask at once those that were not applicable on this host.
        """
        new, changed, removed, cancel = [], [], [], []
        for name, item in self._items.items():
            if name not in cadences and not item.gone:
                item.gone, item.again = True, False
                removed.append(name)
                if item.started is not None:
                    cancel.append(name)
        for name, cadence in cadences.items():
            known = self._items.get(name)
            if known is None:
                self._add(name, cadence, now, spread=spread)
                new.append(name)
            elif known.gone:
                self._revive(name, known, cadence, now)
                new.append(name)
            elif known.cadence.definition != cadence.definition:
                if known.started is not None:
                    cancel.append(name)
                self._revive(name, known, cadence, now)
                changed.append(name)
            else:
                self._keep(name, known, cadence, now, recheck=recheck)
        self._items = {
            n: item for n, item in self._items.items() if not item.gone or item.started is not None
        }
        self._rebuild()
        return Changes(tuple(new), tuple(changed), tuple(removed), tuple(cancel))

    def start_due(self, now: float) -> list[Start]:
        """The runs to start now, the longest waiting first; they count as running at once."""
        if now < self._seen:
            self._step_back(now)
        self._seen = now
        while self._heap and self._heap[0][0] <= now:
            due, name = heapq.heappop(self._heap)
            item = self._items.get(name)
            if item is not None and self._is_current(item, due):
                item.waiting = True
                heapq.heappush(self._waiting, (due, name))
        starts = []
        while self._waiting and self._running < self.max_running:
            due, name = heapq.heappop(self._waiting)
            item = self._items.get(name)
            if item is None or item.gone or not item.waiting or item.due != due:
                continue
            item.waiting, item.started = False, now
            item.missed += self._slots_between(item, due, now)
            self._running += 1
            starts.append(Start(name, due, max(0.0, now - due)))
        return starts

    def ended(self, probe: str, now: float, after: After) -> None:
        """The run of `probe` is over: when is its next one?"""
        item = self._items.get(probe)
        if item is None or item.started is None:
            return
        self._running -= 1
        started, item.started = item.started, None
        if item.gone:
            del self._items[probe]
            return
        if item.again:
            item.again = False
            self._set_due(probe, item, now)
            return
        item.missed += self._slots_between(item, started, now)
        item.not_here = after == "not_here"
        due = first_slot_after(now, item.phase, item.cadence.interval)
        if after == "not_here":
            due = now + item.cadence.recheck
        elif after == "failed" and item.cadence.retry is not None:
            due = min(due, now + item.cadence.retry)
        self._set_due(probe, item, due)

    def next_at(self) -> float | None:
        """The instant of the next start that waits for nothing but time; None: there is none."""
        while self._heap:
            due, name = self._heap[0]
            item = self._items.get(name)
            if item is not None and self._is_current(item, due):
                return due
            heapq.heappop(self._heap)
        return None

    def line(self, probe: str) -> Line | None:
        """How one probe stands."""
        item = self._items.get(probe)
        if item is None or item.gone:
            return None
        running = item.started is not None
        due = None if running else item.due
        return Line(item.cadence.interval, due, item.missed, running, item.waiting)

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return self._running

    def _add(self, name: str, cadence: Cadence, now: float, *, spread: bool) -> None:
        phase = self._phase(name, cadence)
        due = now
        if spread and not cadence.at_once:
            window = min(cadence.interval, SPREAD)
            due = now + window * fraction(self.host, name)
            slot = first_slot_after(now, phase, cadence.interval)
            due = slot if slot <= now + window else due
        item = self._items[name] = _Item(cadence, phase, due)
        self._set_due(name, item, due)

    def _revive(self, name: str, item: _Item, cadence: Cadence, now: float) -> None:
        """A changed probe runs at once, or as soon as its old run has ended."""
        item.cadence, item.phase = cadence, self._phase(name, cadence)
        item.gone, item.not_here = False, False
        if item.started is not None:
            item.again = True
        else:
            self._set_due(name, item, now)

    def _keep(self, name: str, item: _Item, cadence: Cadence, now: float, *, recheck: bool) -> None:
        respaced = cadence.interval != item.cadence.interval
        item.cadence = cadence
        if respaced:
            item.phase = self._phase(name, cadence)
        if item.started is not None:
            return
        if recheck and item.not_here:
            self._set_due(name, item, now)
        elif respaced and not item.waiting:
            slot = first_slot_after(now, item.phase, cadence.interval)
            self._set_due(name, item, min(slot, item.due) if item.due > now else item.due)

    def _phase(self, name: str, cadence: Cadence) -> float:
        return phase_of(self.host, name, cadence.interval)

    def _set_due(self, name: str, item: _Item, due: float) -> None:
        item.due, item.waiting = due, False
        heapq.heappush(self._heap, (due, name))

    def _step_back(self, now: float) -> None:
        """The clock was set back: what was planned is not put off by more than an interval."""
        for item in self._items.values():
            if item.started is None and not item.waiting:
                slot = first_slot_after(now, item.phase, item.cadence.interval)
                latest = now + item.cadence.recheck if item.not_here else slot
                item.due = min(item.due, latest)
        self._rebuild()

    def _rebuild(self) -> None:
        """Both heaps from what is still planned, so that reloads leave nothing behind in them."""
        idle = [(n, i) for n, i in self._items.items() if not i.gone and i.started is None]
        self._heap = [(i.due, n) for n, i in idle if not i.waiting]
        self._waiting = [(i.due, n) for n, i in idle if i.waiting]
        heapq.heapify(self._heap)
        heapq.heapify(self._waiting)

    @staticmethod
    def _is_current(item: _Item, due: float) -> bool:
        return not item.gone and item.started is None and not item.waiting and item.due == due

    @staticmethod
    def _slots_between(item: _Item, since: float, now: float) -> int:
        """How many slots lie in (since, now]."""
        interval = item.cadence.interval
        first = first_slot_after(since, item.phase, interval)
        return floor((now - first) / interval) + 1 if first <= now else 0
