"""Puts hosts, values and pools of the tables into the feed's words."""

from collections.abc import Iterable, Iterator
from typing import Final

from dynres.controller.answers import Answers
from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.controller.resvals import ABSENT, FRESH, STALE, UNAVAILABLE, Cell
from dynres.controller.tracker import Tracker
from dynres.wire.feed import (
    FeedState,
    Held,
    Told,
    host_record,
    pool_record,
    resource_record,
    value_record,
)

_STATES: Final[dict[int, FeedState]] = {
    ABSENT: "absent",
    FRESH: "fresh",
    STALE: "stale",
    UNAVAILABLE: "unavailable",
}


class Telling:
    """Records of one moment; each is made once, however many want it."""

    def __init__(self, core: Core, tracker: Tracker, now: float) -> None:
        self._core = core
        self._tracker = tracker
        self._now = now
        self._answers = Answers(core, now)
        self._moment = core.columns.at(now)
        self._resources = core.configuration.resources
        self._whole: dict[int, list[str]] = {}
        self._shared = [
            (index, resource.name)
            for index, resource in enumerate(self._resources)
            if resource.shared
        ]

    def resources(self) -> Iterator[str]:
        """Every resource and its index."""
        for index, resource in enumerate(self._resources):
            name, kind, order = resource.name, resource.type, resource.order
            yield resource_record(index, name, kind, order, resource.unit)

    def host(self, row: int) -> str:
        """A host, and the pools it draws on."""
        name = self._core.table.hosts[row] or ""
        state, closed = self._tracker.standing(row)
        found = (
            (index, self._core.distribution.instance_for(resource, name))
            for index, resource in self._shared
        )
        pools = ((index, instance.id) for index, instance in found if instance is not None)
        return host_record(name, state, closed=closed, satisfies=True, pools=pools)

    def gone(self, row: int) -> str:
        """A host that does not satisfy the requirement any more."""
        name = self._core.table.hosts[row] or ""
        state, closed = self._tracker.standing(row)
        return host_record(name, state, closed=closed, satisfies=False)

    def whole(self, row: int) -> list[str]:
        """A host and all its values."""
        known = self._whole.get(row)
        if known is None:
            name = self._core.table.hosts[row]
            cells = {} if name is None else self._core.table.row(name, self._now)
            index = self._core.table.index
            values = (self._value(row, index[n], n, cell) for n, cell in cells.items())
            known = self._whole[row] = [self.host(row), *values, *self._disputes(row)]
        return known

    def cells(self, row: int, columns: Iterable[int]) -> list[str]:
        """Some values of a host."""
        index = self._core.table.index
        cells = self._core.table.some(row, sorted(columns), self._now)
        return [self._value(row, index[name], name, cell) for name, cell in cells.items()]

    def _disputes(self, row: int) -> list[str]:
        """Shared resources whose definition differs on that host: it has not what its pool has."""
        table = self._core.table
        chosen = [i for i in table.clashes(row) if self._resources[i].shared]
        return self.cells(row, chosen) if chosen else []

    def _value(self, row: int, column: int, name: str, cell: Cell) -> str:
        host = self._core.table.hosts[row] or ""
        resource = self._core.resources[name]
        state, value, reason = cell.state, cell.value, cell.reason
        if resource.shared:
            # No value of its own: absent is what its pool says, but for a dispute.
            instance = self._core.distribution.instance_for(name, host)
            overridden = instance is not None and self._core.operators.of(instance) is not None
            disputed = column in self._core.table.clashes(row) and not overridden
            state, value = (UNAVAILABLE if disputed else ABSENT), None
        elif resource.leasable and state == FRESH:
            free = self._moment.column(name)
            state = int(free.states[row])
            value = float(free.numbers[row]) if state == FRESH else None
            reason = reason if state == FRESH else "what is free is not known"
        elif state == STALE:
            reason = self._answers.stale_reason(host, resource)
        told = Told(_STATES[state], value, reason if state != ABSENT else None)
        return value_record(host, column, name, told)

    def pool(self, instance: Instance) -> str:
        """A shared instance."""
        resource = self._core.resources[instance.resource]
        known = self._answers.measured(resource, instance)
        value, held = known.value, Held()
        if resource.leasable:
            amounts = self._core.amounts(instance, known.value)
            held = Held(
                amounts.capacity,
                amounts.leased,
                amounts.reserve,
                amounts.free if known.state == "fresh" else None,
                amounts.overcommitted,
            )
            value = None if held.free is None else float(held.free)
        told = Told(known.state, value, known.reason)
        index = self._core.table.index[resource.name]
        return pool_record(instance.id, index, resource.name, told, held)
