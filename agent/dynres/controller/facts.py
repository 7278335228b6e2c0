"""What the pools ask of the tables: readings, closed hosts and boot ids, from one place."""

from collections.abc import Iterable, Mapping
from typing import Final

from dynres.config.model import Resource
from dynres.controller.distribution import Instance
from dynres.controller.operators import Operators
from dynres.controller.overriding import OverriddenResvals
from dynres.controller.pool import Reading
from dynres.controller.registry import Registry
from dynres.controller.resvals import FRESH, NEVER, STALE
from dynres.controller.shared import SharedTable
from dynres.value import Value
from dynres.wire.views import ValueState

_STATES: Final[dict[int, ValueState]] = {FRESH: "fresh", STALE: "stale"}
_UNKNOWN: Final = Reading("unavailable", None, NEVER)


class TableFacts:
    """The facts of one controller; `install` when the tables are new."""

    def __init__(self, registry: Registry, operators: Operators) -> None:
        self._registry = registry
        self._operators = operators
        self.disputes: dict[str, frozenset[str]] = {}
        """See Facts."""

    def install(
        self, resources: Mapping[str, Resource], table: OverriddenResvals, shared: SharedTable
    ) -> None:
        """Go by these tables."""
        self._resources = resources
        self._table = table
        self._shared = shared

    def compared(self, host: str, differing: Iterable[str]) -> None:
        """A host's files define these resources otherwise; replaces what was known of it."""
        names = frozenset(differing)
        if names:
            self.disputes[host] = names
        else:
            self.disputes.pop(host, None)

    def reading(self, instance: Instance, now: float) -> Reading | None:
        """See Facts."""
        standing = self._operators.of(instance)
        if standing is not None:
            value = standing.override.value
            state: ValueState = "unavailable" if value is None else "fresh"
            return Reading(state, value, standing.since, overridden=True)
        if instance.host is not None and self._differs(instance.resource, instance.host):
            return _UNKNOWN
        if not instance.dynamic:
            return None
        if instance.host is not None:
            cell = self._table.cell(instance.host, instance.resource, now)
            if cell is None:
                return _UNKNOWN
            return Reading(_STATES.get(cell.state, "unavailable"), cell.value, cell.measured)
        return self._of_shared(instance, now)

    def _of_shared(self, instance: Instance, now: float) -> Reading:
        shared = self._shared.get(instance)
        if shared.reason is not None or shared.last is None:
            return _UNKNOWN
        ttl = self._resources[instance.resource].ttl
        if ttl is not None and now - shared.measured > ttl:
            return Reading("stale", None, shared.measured)
        return Reading("fresh", shared.last, shared.measured)

    def assumed(self, instance: Instance, value: Value | None) -> Reading | None:
        """The reading if `value` were what the instance has now, None: nothing fresh."""
        overridden = self._operators.of(instance) is not None
        if not (instance.dynamic or overridden):
            return None
        state: ValueState = "unavailable" if value is None else "fresh"
        return Reading(state, value, self._measured(instance), overridden)

    def _measured(self, instance: Instance) -> float:
        if not instance.dynamic:
            return NEVER
        if instance.host is None:
            return self._shared.get(instance).measured
        row = self._table.rows.get(instance.host)
        if row is None:
            return NEVER
        return self._table.measured(self._table.index[instance.resource], row)

    def _differs(self, resource: str, host: str) -> bool:
        return resource in self.disputes.get(host, ())

    def closed(self, host: str) -> bool:
        """See Facts."""
        return host in self._operators.closed

    def boot_id(self, host: str) -> str | None:
        """See Facts."""
        session = self._registry.session(host)
        return None if session is None else session.boot_id or None
