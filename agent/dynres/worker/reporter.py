"""What one controller is to be told now: everything at first, then only what has changed.

It keeps a copy of what that controller believes. A report names the runs that ended; what those
runs do not make the controller believe by themselves is sent as a value. So whatever is left out,
lost or late, the next report makes the belief true again, and nothing ever queues up.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from dynres.wire.messages import Echo, Measured, Report, Run
from dynres.wire.targets import resource_of
from dynres.worker.latest import Ended, Latest, Reading

T = TypeVar("T")

PENDING: Final = 8
"""Runs of one probe that are kept while the link takes no report; older ones are dropped."""


class Reporter:
    """The numbered reports to one controller, out of the agent's table."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest
        self._told: dict[str, Reading] = {}
        self._pending: dict[str, deque[Ended]] = {}
        self._dirty: set[str] = set()
        self._measure: frozenset[str] | None = None
        self._full = True
        self._seq = 0
        self._draft: dict[str, Reading] = {}
        self._stamp: tuple[float, float] | None = None
        self._wanted_at: tuple[int, frozenset[str] | None] | None = None
        self._wanted_names: dict[str, list[str]] = {}
        """Probe -> what `_names` says, as long as neither rules nor wishes change."""

    def measure(self, names: Iterable[str]) -> None:
        """Report these targets only: what this controller wants of this host."""
        wanted = frozenset(names)
        self._dirty |= wanted - (self._measure or frozenset())
        self._measure = wanted
        self._told = {name: told for name, told in self._told.items() if name in wanted}

    def send_all(self) -> None:
        """The next report is a full one: the controller is new, or missed something."""
        self._full = True

    def ended(self, ended: Ended) -> None:
        """A run ended: the next report names it."""
        self._pending.setdefault(ended.probe, deque(maxlen=PENDING)).append(ended)

    @property
    def wanting(self) -> bool:
        """Whether there is something to report."""
        return self._full or bool(self._pending) or bool(self._dirty)

    def stamped(self, stamp: float, now: float) -> None:
        """The controller's stamp came at `now`."""
        self._stamp = (stamp, now)

    def unstamped(self) -> None:
        """Forget the stamp: it belongs to a connection that is gone."""
        self._stamp = None

    def echo(self, now: float) -> Echo | None:
        """The controller's last stamp and how long it has been here."""
        if self._stamp is None:
            return None
        return Echo(stamp=self._stamp[0], since=max(0.0, now - self._stamp[1]))

    def report(self, now: float) -> Report | None:
        """The report to send at `now`; None where there is nothing to say.

        Nothing is taken as told before `taken()`: a report that the link did not take is covered
        by the next one.
        """
        if self._full:
            self._draft = dict(self._wanted(self._latest.readings()))
            runs = self._last_runs()
            values = [_measured(name, reading, now) for name, reading in self._draft.items()]
        else:
            self._draft = {}
            runs = [e for p, ended in self._pending.items() if self._names(p) for e in ended]
            values = [_measured(name, reading, now) for name, reading in self._changed()]
            if not runs and not values:
                self._pending.clear()
                self._dirty.clear()
                return None
        return Report(
            seq=self._seq + 1,
            full=self._full,
            runs=tuple(_run(ended, now) for ended in runs),
            values=tuple(values),
            echo=self.echo(now),
        )

    def taken(self) -> None:
        """The link took the last report."""
        if self._full:
            self._told = {}
        self._told.update(self._draft)
        self._seq += 1
        self._full = False
        self._pending.clear()
        self._dirty.clear()

    def _changed(self) -> list[tuple[str, Reading]]:
        """The readings that the runs alone do not tell; the draft becomes the new belief."""
        changed: list[tuple[str, Reading]] = []
        readings, told = self._latest.readings(), self._told
        seen: set[str] = set()
        for probe, pending in self._pending.items():
            good = [ended for ended in pending if ended.outcome == "ok"]
            names = self._names(probe)
            seen.update(names)
            for name in names:
                reading, known = readings.get(name), told.get(name)
                if reading is None or reading is known:
                    continue
                if known is None or not _follows(known, probe, good, name, reading):
                    changed.append((name, reading))
                self._draft[name] = reading
        for name, _ in self._wanted(dict.fromkeys(sorted(self._dirty - seen))):
            reading = readings.get(name)
            if reading is not None and not _same(told.get(name), reading):
                self._draft[name] = reading
                changed.append((name, reading))
        return changed

    def _names(self, probe: str) -> list[str]:
        """The targets of `probe` that this controller wants."""
        at = (self._latest.generation, self._measure)
        if self._wanted_at != at:
            self._wanted_at = at
            self._wanted_names.clear()
        names = self._wanted_names.get(probe)
        if names is None:
            wanted = self._measure
            names = sorted(
                name for name in self._latest.targets_of(probe) if wanted is None or name in wanted
            )
            self._wanted_names[probe] = names
        return names

    def _wanted(self, readings: Mapping[str, T]) -> list[tuple[str, T]]:
        return [
            (name, reading)
            for name, reading in readings.items()
            if self._measure is None or name in self._measure
        ]

    def _last_runs(self) -> list[Ended]:
        probes = dict.fromkeys(reading.probe for reading in self._draft.values())
        states = (self._latest.probe(probe) for probe in probes)
        return [state.last for state in states if state is not None]


def _follows(known: Reading, probe: str, good: list[Ended], name: str, reading: Reading) -> bool:
    """Whether the controller knows `reading` out of what it was told and the runs that were ok."""
    if known.probe == probe:
        for ended in reversed(good):
            if not ended.missed or resource_of(name) not in ended.missed:
                if known[1] != reading[1]:  # most often: the value is another
                    return False
                known = known._replace(measured=ended.started)
                break
    return _same(known, reading)


def _same(believed: Reading | None, reading: Reading) -> bool:
    """Whether the controller knows it; of an unavailable value the instant does not matter."""
    if believed is None or reading.value is not None:
        return believed == reading
    return believed._replace(measured=reading.measured) == reading


def _measured(name: str, reading: Reading, now: float) -> Measured:
    resource, _, instance = name.partition("/")
    return Measured(
        resource=resource,
        instance=instance or None,
        probe=reading.probe,
        age=max(0.0, now - reading.measured),
        value=reading.value,
        reason=reading.reason,
        fallback=reading.fallback,
    )


def _run(ended: Ended, now: float) -> Run:
    return Run(
        probe=ended.probe,
        outcome=ended.outcome,
        age=max(0.0, now - ended.started),
        duration=ended.duration,
        reason=ended.reason,
        missed=dict(ended.missed),
        not_here=ended.not_here,
    )
