"""What operators have decided: values that beat every other source, and hosts that are closed."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from dynres.config.model import Resource
from dynres.controller.changes import (
    AnyChange,
    Closed,
    CloseHost,
    LedgerState,
    OpenHost,
    Override,
    SetOverride,
    UnsetOverride,
)
from dynres.controller.distribution import Instance
from dynres.controller.proposal import Instant
from dynres.value import convert

FOR_EVER: Final = float("inf")


def host_key(resource: str, host: str) -> str:
    """The key of an override on one host."""
    return f"{resource}@{host}"


def pool_key(resource: str, instance: str) -> str:
    """The key of an override of a shared instance."""
    return f"{resource}/{instance}"


def _in_unit(value: float, unit: str | None, to: str | None) -> float | None:
    if unit == to:
        return value
    try:
        return float(convert(Decimal(repr(value)), unit or "", to or "", rounding="down"))
    except ValueError:
        return None


class Standing:
    """An override in force; its times are on the serving clock."""

    __slots__ = ("ends", "given", "override", "since")

    def __init__(self, override: Override, since: float, ends: float) -> None:
        self.given = override
        """As it was set."""
        self.override = override
        """As it counts by the declarations in force."""
        self.since = since
        self.ends = ends

    @property
    def reason(self) -> str:
        """Who and why, in a few words."""
        return f"set by {self.override.who}: {self.override.reason}"


class Operators:
    """Overrides by key, and closed hosts; `apply` what has become durable."""

    def __init__(self, state: LedgerState, at: Instant) -> None:
        self.overrides: dict[str, Standing] = {}
        self.closed: dict[str, Closed] = dict(state.closed)
        for key, override in state.overrides.items():
            self._set(key, override, at)

    def _set(self, key: str, override: Override, at: Instant) -> None:
        since = at.clock - max(0.0, at.wall - override.since)
        ends = FOR_EVER if override.lasts is None else since + override.lasts
        self.overrides[key] = Standing(override, since, ends)

    def apply(self, change: AnyChange, at: Instant) -> None:
        """A change takes effect; those of leases are none of ours."""
        if isinstance(change, SetOverride):
            self._set(change.key, change.override, at)
        elif isinstance(change, UnsetOverride):
            self.overrides.pop(change.key, None)
        elif isinstance(change, CloseHost):
            self.closed[change.host] = change.closed
        elif isinstance(change, OpenHost):
            self.closed.pop(change.host, None)

    def restate(self, resources: Mapping[str, Resource]) -> list[str]:
        """Units may be others now: numbers mean what they meant; what to say where that is lost."""
        said: list[str] = []
        for standing in self.overrides.values():
            given = standing.given
            resource = resources.get(given.resource)
            if resource is None or not isinstance(given.value, float):
                continue
            value = _in_unit(given.value, given.unit, resource.unit)
            if value is None and standing.override.value is not None:
                said.append(
                    f"{given.resource}: {given.value:g} {given.unit or ''}, {standing.reason}, "
                    f"means nothing in the unit {resource.unit or '(none)'}: it counts as "
                    "unavailable until it is set anew"
                )
            standing.override = msgspec.structs.replace(given, value=value)
        return said

    def on_host(self, resource: str, host: str) -> Standing | None:
        """The override of a per-host resource on a host."""
        return self.overrides.get(host_key(resource, host)) if self.overrides else None

    def of(self, instance: Instance) -> Standing | None:
        """The override of an instance, shared or of one host."""
        if not self.overrides:
            return None
        if instance.host is not None:
            return self.overrides.get(host_key(instance.resource, instance.host))
        return self.overrides.get(pool_key(instance.resource, instance.id))

    def of_hosts(self) -> Iterator[tuple[str, str, Standing]]:
        """Resource, host and override, of every override on a host."""
        for standing in self.overrides.values():
            override = standing.override
            for host in override.hosts:
                yield override.resource, host, standing

    def over(self, now: float) -> list[UnsetOverride]:
        """What ends by itself: the overrides whose time is over."""
        if not self.overrides:
            return []
        return [
            UnsetOverride(key, s.override.resource, None, s.override.hosts, s.override.instance)
            for key, s in self.overrides.items()
            if s.ends <= now
        ]
