"""Shared dynamic instances: which agent measures each of them, and what it has said.

One agent at a time: the first usable one of the instance's reporters. It stays until it is lost,
does not apply there or fails twice in a row; then the next one has its turn, and nobody gets the
duty back only because it is there again. A controller that has just started keeps the one that an
agent names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from dynres.controller.distribution import Instance
from dynres.controller.resvals import NEVER, NO_REPORT
from dynres.value import Value
from dynres.wire.messages import Run
from dynres.wire.targets import target

GRACE: Final = 5.0
"""Seconds after the start in which an agent that measures already is preferred, then the order of
the reporters: agents take up to 4 s to come back to a new controller, in any order."""
ORDERED: Final = 100
"""Reporters beyond which their order is not worth looking at while a controller starts."""
LONGEST_PAUSE: Final = 8.0
"""Seconds between two searches while no reporter is usable, at most."""
FAILURES: Final = 2
"""Failed runs in a row after which another agent has its turn."""
SHORTEST_ROUND: Final = 5.0
LONGEST_ROUND: Final = 300.0
"""Seconds after all have failed before the first one has its turn again."""
NO_REPORTER: Final = "no usable reporter"
NO_MORE: Final = "it is no longer among the reporters"

Key = tuple[str, str]
Obstacle = Callable[[str, str], str | None]
"""Why that host cannot measure that resource now; None where it can."""


class Reporters(Protocol):
    """What is asked of the distribution."""

    def pools(self) -> Iterator[Instance]:
        """Every shared instance."""
        ...

    def reporters(self, instance: Instance) -> tuple[str, ...]:
        """Who may measure it, most wanted first."""
        ...


class Moved(NamedTuple):
    """Another host measures an instance now; `why` it is no longer `before`."""

    instance: Instance
    before: str | None
    after: str
    why: str | None


class Shared(msgspec.Struct):
    """One shared dynamic instance: its reporter, and the newest reading."""

    instance: Instance
    reporter: str | None = None
    last: Value | None = None
    reason: str | None = NO_REPORT
    """Why it is unavailable; None: it has a value, fresh or stale by its age."""
    measured: float = NEVER
    probe: str | None = None
    measured_by: str | None = None
    fallback: bool = False
    current: bool = False
    """Whether the reporter's running session has reported it."""
    failures: int = 0
    """Failed runs of the reporter in a row."""
    trouble: str | None = None
    """Why the reporter's last run gave nothing."""
    failing: bool = False
    """The reporter had its turn: another one may have it."""
    tried: set[str] = set()
    """Who had its turn since a run was good."""
    settled: bool = False
    """Its reporter is not only the first that came."""
    last_reporter: str | None = None
    left_because: str | None = None
    pause: float = 0.0
    again: float = NEVER
    """When to look for a reporter again."""
    round: float = 0.0
    over: float | None = None
    """When to start over, once all have had their turn."""


class SharedTable:
    """All shared dynamic instances of a configuration."""

    def __init__(self, distribution: Reporters, now: float) -> None:
        self._started = now
        self._table: dict[Key, Shared] = {}
        self._duties: dict[str, dict[Key, Shared]] = {}
        self.changed: set[Key] = set()
        """Instances of which anything was said since whoever follows has emptied it."""
        self.moves: list[Moved] = []
        """Changes of reporter since whoever writes them down has emptied it."""
        self.configure(distribution, ())

    def configure(self, distribution: Reporters, kept: Iterable[str]) -> None:
        """Go by this distribution; readings and reporters of the resources `kept` stay."""
        keep = set(kept)
        self._distribution = distribution
        old, self._table, self._duties = self._table, {}, {}
        for instance in distribution.pools():
            if not instance.dynamic:
                continue
            key = (instance.resource, instance.id)
            known = old.get(key) if instance.resource in keep else None
            shared = self._table[key] = known or Shared(instance)
            shared.instance = instance
            shared.tried.clear()
            shared.again, shared.over = NEVER, None
            host = shared.reporter
            if host is None:
                continue
            if host in distribution.reporters(instance):
                self._duties.setdefault(host, {})[key] = shared
            else:
                shared.reporter = None
                self._left(shared, host, NO_MORE)

    def __iter__(self) -> Iterator[Shared]:
        return iter(self._table.values())

    def get(self, instance: Instance) -> Shared:
        """The reading of a shared dynamic instance."""
        return self._table[instance.resource, instance.id]

    def duty(self, host: str, resource: str, instance: str | None) -> Shared | None:
        """The instance where `host` is to measure it, or None."""
        return self._duties.get(host, {}).get((resource, instance or ""))

    def duties(self, host: str) -> tuple[str, ...]:
        """The shared instances that `host` is to measure, as targets."""
        return tuple(target(*key) for key in self._duties.get(host, ()))

    # who measures

    def elect(self, now: float, obstacle: Obstacle) -> set[str]:
        """Find a reporter where there is none, it is lost or failing; whose duties changed."""
        changed: set[str] = set()
        for shared in self._table.values():
            host = shared.reporter
            if host is not None:
                why = obstacle(host, shared.instance.resource)
                if why is not None:
                    changed.add(host)
                    self._relieve(shared, why)
                    shared.settled = True
                    shared.again = NEVER
                elif not shared.failing:
                    continue
                elif host not in shared.tried:
                    shared.tried.add(host)
                    shared.again = NEVER
            if now >= shared.again:
                changed |= self._search(shared, now, obstacle)
        return changed

    def _search(self, shared: Shared, now: float, obstacle: Obstacle) -> set[str]:
        """Give the duty to the first who can have it and had no turn yet."""
        found = self._first(shared, obstacle)
        if found is None and shared.tried and (shared.reporter is None or _due(shared, now)):
            shared.tried.clear()
            shared.over = None
            found = self._first(shared, obstacle)
        if found is None:
            shared.pause = min(max(1.0, 2 * shared.pause), LONGEST_PAUSE)
            shared.again = now + shared.pause
            if shared.reporter is not None and shared.over is None:
                shared.round = min(max(SHORTEST_ROUND, 2 * shared.round), LONGEST_ROUND)
                shared.over = now + shared.round
            if shared.over is not None:
                shared.again = min(shared.again, shared.over)
            return set()
        return self._give(shared, found, f"{found} has its turn")

    def _give(self, shared: Shared, host: str, why: str) -> set[str]:
        """Let `host` measure, because of `why` or another's trouble; whose duties changed."""
        before = shared.reporter
        shared.pause, shared.again, shared.over = 0.0, NEVER, None
        if before == host:  # it starts over with itself
            shared.failures, shared.failing = 0, False
            return set()
        if before is not None:
            shared.settled = True
            self._relieve(shared, shared.trouble or why)
        self._assign(shared, host)
        return {host} if before is None else {before, host}

    def arrived(
        self, host: str, reporting: Iterable[str], now: float, obstacle: Obstacle
    ) -> set[str]:
        """An agent has registered, and says what it measures; the hosts whose duties changed."""
        named = set(reporting)
        early = now - self._started <= GRACE
        changed: set[str] = set()
        for shared in self._table.values():
            instance = shared.instance
            shared.tried.discard(host)
            named_it = early and target(instance.resource, instance.id) in named
            if shared.reporter == host:
                shared.settled |= named_it
                continue
            wanted = shared.reporter is None or named_it
            if not wanted and (shared.settled or not early):
                continue
            reporters = self._distribution.reporters(instance)
            if not wanted and not _before(host, shared.reporter, reporters):
                continue
            if host in reporters and obstacle(host, instance.resource) is None:
                settled = shared.settled or named_it
                why = f"{host} measured it before" if named_it else f"{host} comes first"
                changed |= self._give(shared, host, why)
                shared.settled = settled
        return changed

    def new_session(self, host: str) -> None:
        """What the host's earlier session reported ages from now on."""
        for shared in self._duties.get(host, {}).values():
            shared.current = False

    # what was measured

    def put(
        self,
        shared: Shared,
        value: Value | None,
        measured: float,
        *,
        probe: str,
        reason: str | None,
        fallback: bool = False,
        keep: bool = False,
    ) -> bool:
        """Take the reporter's reading; whether it was taken, for a late one never is.

        Among the readings of one host the numbers of its reports say what is newer. One that is
        older than what another host has measured comes from an earlier turn of the reporter.
        `keep`: the reporter has no value because it could not measure one, which says nothing
        against what another one has measured before, and which counts until its ttl.
        """
        by = shared.measured_by
        if by is not None and by != shared.reporter and measured < shared.measured:
            return False
        self._note(shared)
        shared.probe, shared.current = probe, True
        if value is None and keep and by != shared.reporter and shared.reason is None:
            return True
        if value is not None:
            shared.last = value
        shared.reason = None if value is not None else reason or "unavailable"
        shared.measured = max(measured, shared.measured)
        shared.fallback = fallback
        shared.measured_by = shared.reporter
        return True

    def touch(
        self, host: str, probe: str, measured: float, *, missed: Mapping[str, str], literal: bool
    ) -> None:
        """A run of `probe` on `host` has measured again what was reported of it before.

        `missed`: the targets of which it says something else, or nothing.
        """
        for key, shared in self._duties.get(host, {}).items():
            if not shared.current or shared.probe != probe or shared.measured_by != host:
                continue
            if key[0] in missed or target(*key) in missed:
                continue
            if shared.fallback or not literal:
                shared.measured = max(measured, shared.measured)
                self._note(shared)

    def ran(self, host: str, run: Run, *, failed: bool, again: bool) -> None:
        """A run has ended on `host`; `failed`: as a whole. `again`: it may be known already."""
        for (resource, _), shared in self._duties.get(host, {}).items():
            if not shared.current or shared.probe != run.probe:
                continue
            bad = failed or run.not_here or resource in run.missed
            if not bad:
                shared.failures, shared.failing, shared.trouble = 0, False, None
                shared.tried.clear()
                shared.round = 0.0
                continue
            why = "the probe does not apply there" if run.not_here else run.reason or run.outcome
            shared.trouble = run.missed.get(resource, why)
            shared.failures = max(1, shared.failures) if again else shared.failures + 1
            shared.failing |= run.not_here or shared.failures >= FAILURES

    # changes

    def _note(self, shared: Shared) -> None:
        self.changed.add((shared.instance.resource, shared.instance.id))

    def _first(self, shared: Shared, obstacle: Obstacle) -> str | None:
        resource = shared.instance.resource
        for host in self._distribution.reporters(shared.instance):
            if host not in shared.tried and obstacle(host, resource) is None:
                return host
        return None

    def _assign(self, shared: Shared, host: str) -> None:
        key = (shared.instance.resource, shared.instance.id)
        self._duties.setdefault(host, {})[key] = shared
        shared.reporter = host
        shared.failures, shared.failing, shared.trouble = 0, False, None
        self._note(shared)
        if shared.last_reporter != host:
            self.moves.append(
                Moved(shared.instance, shared.last_reporter, host, shared.left_because)
            )
        shared.last_reporter, shared.left_because = host, None

    def _relieve(self, shared: Shared, why: str) -> None:
        host = shared.reporter
        if host is not None:
            del self._duties[host][shared.instance.resource, shared.instance.id]
            shared.reporter = None
            self._left(shared, host, why)

    def _left(self, shared: Shared, host: str, why: str) -> None:
        shared.last_reporter, shared.left_because = host, why
        shared.current = shared.failing = False
        self._note(shared)


def _due(shared: Shared, now: float) -> bool:
    return shared.over is not None and now >= shared.over


def _before(host: str, reporter: str | None, reporters: tuple[str, ...]) -> bool:
    """Whether `host` stands before the reporter in a list that is short enough to have an order."""
    if len(reporters) > ORDERED or reporter not in reporters or host not in reporters:
        return False
    return reporters.index(host) < reporters.index(reporter)
