"""Shared dynamic instances: which agent measures each of them, and what it has said.

One agent at a time: the first usable one of the instance's reporters. It stays until it is lost
(no flapping back), and a controller that has just started keeps the one that an agent names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from dynres.controller.distribution import Instance
from dynres.controller.resvals import NEVER, NO_REPORT
from dynres.value import Value

GRACE: Final = 5.0
"""Seconds after the start in which an agent that measures already is preferred: agents take up to
4 s to come back to a new controller, in any order."""
LONGEST_PAUSE: Final = 8.0
"""Seconds between two searches while no reporter is usable, at most."""
NO_REPORTER: Final = "no usable reporter"

Key = tuple[str, str]
Usable = Callable[[str, str], bool]
"""Whether that host can measure that resource now."""


class Reporters(Protocol):
    """What is asked of the distribution."""

    def pools(self) -> Iterator[Instance]:
        """Every shared instance."""
        ...

    def reporters(self, instance: Instance) -> tuple[str, ...]:
        """Who may measure it, most wanted first."""
        ...


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
    pause: float = 0.0
    again: float = NEVER
    """When to look for a reporter again."""


class SharedTable:
    """All shared dynamic instances of a configuration."""

    def __init__(self, distribution: Reporters, now: float) -> None:
        self._started = now
        self._table: dict[Key, Shared] = {}
        self._duties: dict[str, dict[str, Shared]] = {}
        self.changed: set[Key] = set()
        """Instances of which anything was said since whoever follows has emptied it."""
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
            host = shared.reporter
            if host is not None and host in distribution.reporters(instance):
                self._assign(shared, host)
            else:
                shared.reporter = None

    def __iter__(self) -> Iterator[Shared]:
        return iter(self._table.values())

    def get(self, instance: Instance) -> Shared:
        """The reading of a shared dynamic instance."""
        return self._table[instance.resource, instance.id]

    def duty(self, host: str, resource: str) -> Shared | None:
        """The instance of `resource` that `host` is to measure, or None."""
        return self._duties.get(host, {}).get(resource)

    def duties(self, host: str) -> tuple[str, ...]:
        """The shared resources that `host` is to measure."""
        return tuple(self._duties.get(host, ()))

    def elect(self, now: float, usable: Usable) -> set[str]:
        """Find a reporter where there is none or it is lost; the hosts whose duties changed."""
        changed: set[str] = set()
        for shared in self._table.values():
            host, resource = shared.reporter, shared.instance.resource
            if host is not None:
                if usable(host, resource):
                    continue
                self._relieve(shared)
                changed.add(host)
                shared.again = NEVER
            if now < shared.again:
                continue
            found = self._first(shared, usable)
            if found is None:
                shared.pause = min(max(1.0, 2 * shared.pause), LONGEST_PAUSE)
                shared.again = now + shared.pause
            else:
                shared.pause = 0.0
                self._assign(shared, found)
                changed.add(found)
        return changed

    def arrived(self, host: str, reporting: Iterable[str], now: float, usable: Usable) -> set[str]:
        """An agent has registered, and says what it measures; the hosts whose duties changed."""
        named = set(reporting)
        changed: set[str] = set()
        for shared in self._table.values():
            instance = shared.instance
            keeps = now - self._started <= GRACE and _names(instance) & named
            if not (shared.reporter is None or keeps) or shared.reporter == host:
                continue
            if not self._may(shared, host) or not usable(host, instance.resource):
                continue
            if shared.reporter is not None:
                changed.add(shared.reporter)
                self._relieve(shared)
            self._assign(shared, host)
            changed.add(host)
        return changed

    def new_session(self, host: str) -> None:
        """What the host's earlier session reported ages from now on."""
        for shared in self._duties.get(host, {}).values():
            shared.current = False

    def put(
        self,
        shared: Shared,
        value: Value | None,
        measured: float,
        *,
        probe: str,
        reason: str | None,
        fallback: bool,
    ) -> None:
        """The reporter's reading. Its runs began after it was designated, so it is the newest."""
        self._note(shared)
        if value is not None:
            shared.last = value
        shared.reason = None if value is not None else reason or "unavailable"
        shared.measured = max(measured, shared.measured)
        shared.probe, shared.fallback, shared.current = probe, fallback, True
        shared.measured_by = shared.reporter

    def touch(
        self, host: str, probe: str, measured: float, *, missed: Mapping[str, str], literal: bool
    ) -> None:
        """A run of `probe` on `host` has measured again what was reported of it before."""
        for resource, shared in self._duties.get(host, {}).items():
            if not shared.current or shared.probe != probe or resource in missed:
                continue
            if shared.fallback or not literal:
                shared.measured = max(measured, shared.measured)
                self._note(shared)

    def _note(self, shared: Shared) -> None:
        self.changed.add((shared.instance.resource, shared.instance.id))

    def _first(self, shared: Shared, usable: Usable) -> str | None:
        resource = shared.instance.resource
        for host in self._distribution.reporters(shared.instance):
            if usable(host, resource) and self.duty(host, resource) is None:
                return host
        return None

    def _may(self, shared: Shared, host: str) -> bool:
        free = self.duty(host, shared.instance.resource) is None
        return free and host in self._distribution.reporters(shared.instance)

    def _assign(self, shared: Shared, host: str) -> None:
        shared.reporter = host
        self._note(shared)
        self._duties.setdefault(host, {})[shared.instance.resource] = shared

    def _relieve(self, shared: Shared) -> None:
        if shared.reporter is not None:
            del self._duties[shared.reporter][shared.instance.resource]
        shared.reporter = None
        shared.current = False
        self._note(shared)


def _names(instance: Instance) -> set[str]:
    """How an agent may name an instance: its id, or the resource where that is its only one."""
    return {instance.id, f"{instance.resource}/{instance.id}", instance.resource}
