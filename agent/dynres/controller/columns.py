"""What requirements compare: any resource over many hosts, pools and free amounts included."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dynres.config.model import Resource
from dynres.controller.distribution import Distribution, Instance
from dynres.controller.operators import Standing
from dynres.controller.requirement import Column
from dynres.controller.resvals import (
    ABSENT,
    EVERY,
    FRESH,
    STALE,
    UNAVAILABLE,
    Resvals,
    Several,
)
from dynres.controller.shared import SharedTable
from dynres.value import Value

Free = Callable[[Instance, Value | None], Decimal | None]
"""What is free of an instance, by its fresh measured value."""

NOWHERE: Final = -1


class Reading(NamedTuple):
    """What the members of a shared instance have at an instant; `value` is None unless FRESH."""

    state: int
    value: Value | None


class _Layout(NamedTuple):
    """The instances of a shared resource, and by row which of them a host draws on."""

    hosts: tuple[str, ...]
    instances: list[Instance]
    of_row: npt.NDArray[np.intp]


class _Free:
    """What is free on each row of a consumable resource, worked out when its value changes."""

    def __init__(self, width: int) -> None:
        self.seen = np.full(width, np.nan)
        self.measured = np.full(width, np.nan)
        self.free = np.full(width, np.nan)

    def widen(self, width: int) -> None:
        more = width - len(self.seen)
        if more > 0:
            self.seen, self.measured, self.free = (
                np.pad(old, (0, more), constant_values=np.nan)
                for old in (self.seen, self.measured, self.free)
            )


class Columns:
    """The tables of one configuration as columns; remembers what is costly to find again."""

    def __init__(
        self,
        resources: Mapping[str, Resource],
        distribution: Distribution,
        table: Resvals,
        shared: SharedTable,
        *,
        free: Free,
        overridden: Callable[[Instance], Standing | None],
    ) -> None:
        self.resources = resources
        self.distribution = distribution
        self.table = table
        self._shared = shared
        self.overridden = overridden
        self._free = free
        self._layouts: dict[str, _Layout] = {}
        self._own_free: dict[str, _Free] = {}
        self._pool_free: dict[tuple[str, str], tuple[object, float]] = {}

    def at(self, now: float, rows: Several = EVERY) -> "Moment":
        """Every row of the table, or `rows`, as they are at `now`."""
        return Moment(self, now, rows)

    def held(self, instance: Instance) -> None:
        """What jobs hold of an instance has changed."""
        self._pool_free.pop((instance.resource, instance.id), None)
        row = None if instance.host is None else self.table.rows.get(instance.host)
        known = self._own_free.get(instance.resource)
        if row is not None and known is not None and row < len(known.seen):
            known.seen[row] = np.nan

    # resources whose hosts have each their own

    def free_of_rows(
        self, resource: Resource, column: int, rows: Several, states: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """What is free on `rows`, NaN where that is not known; only fresh ones are looked at."""
        known = self._own_free.get(resource.name)
        if known is None:
            known = self._own_free[resource.name] = _Free(self.table.width)
        known.widen(self.table.width)
        values = self.table.written(column, rows)
        again = known.seen[rows] != values
        if resource.measures == "free":  # what is leased counts until a measurement shows it
            measured = self.table.instants(column, rows)
            again |= known.measured[rows] != measured
        again &= states == FRESH
        if again.any():
            chosen = np.flatnonzero(again)
            where = chosen if isinstance(rows, slice) else rows[chosen]
            for row, value in zip(where.tolist(), values[chosen].tolist(), strict=True):
                known.free[row] = self._free_on(resource, row, value)
            known.seen[where] = values[chosen]
            known.measured[where] = self.table.instants(column, where)
        return known.free[rows]

    def _free_on(self, resource: Resource, row: int, value: float) -> float:
        host = self.table.hosts[row]
        instance = host and self.distribution.instance_for(resource.name, host)
        return _float(self._free(instance, value)) if instance else np.nan

    # shared resources

    def layout(self, resource: str) -> _Layout:
        """Which instance of a shared resource each row draws on."""
        known = self._layouts.get(resource)
        hosts = self.distribution.hosts
        if known is None or known.hosts is not hosts or len(known.of_row) != self.table.width:
            instances = list(self.distribution.pools(resource))
            of_row = np.full(self.table.width, NOWHERE, dtype=np.intp)
            rows = self.table.rows
            for number, instance in enumerate(instances):
                members = self.distribution.members(instance)
                of_row[[rows[host] for host in members if host in rows]] = number
            known = self._layouts[resource] = _Layout(hosts, instances, of_row)
        return known

    def reading(self, resource: Resource, instance: Instance, now: float) -> Reading:
        """What a shared instance has at `now`; not yet what is free of it."""
        standing = self.overridden(instance)
        if standing is not None:
            value = standing.override.value
            return Reading(UNAVAILABLE if value is None else FRESH, value)
        if not instance.dynamic:
            return Reading(FRESH, instance.value)
        shared = self._shared.get(instance)
        if shared.reason is not None or shared.last is None:
            return Reading(UNAVAILABLE, None)
        stale = resource.ttl is not None and now - shared.measured > resource.ttl
        return Reading(STALE, None) if stale else Reading(FRESH, shared.last)

    def free_of_pool(self, resource: Resource, instance: Instance, value: Value | None) -> float:
        """What is free of a shared instance whose fresh value this is; NaN where not known."""
        key = (instance.resource, instance.id)
        measured = self._shared.get(instance).measured if instance.dynamic else None
        seen = (value, measured if resource.measures == "free" else None)
        known = self._pool_free.get(key)
        if known is None or known[0] != seen:
            known = self._pool_free[key] = (seen, _float(self._free(instance, value)))
        return known[1]


class Moment:
    """Some rows at one instant: the source that a requirement is decided on."""

    def __init__(self, columns: Columns, now: float, rows: Several) -> None:
        self._columns = columns
        self._now = now
        self._rows = rows
        self._found: dict[str, Column] = {}
        self._texts: dict[str, float] = {}
        self.size = columns.table.width if isinstance(rows, slice) else len(rows)

    def column(self, resource: str) -> Column:
        """One resource on each row; what is free where it can be leased."""
        found = self._found.get(resource)
        if found is None:
            declared = self._columns.resources[resource]
            make = self._shared if declared.shared else self._own
            found = self._found[resource] = make(declared)
        return found

    def text_code(self, text: str) -> float:
        """The number that stands for a text here; a text that no row of the table has gets one
        of its own, because a pool may have it.
        """
        code = self._columns.table.text_code(text)
        if np.isnan(code):
            return self._texts.setdefault(text, -1.0 - len(self._texts))
        return code

    def _own(self, resource: Resource) -> Column:
        columns, table = self._columns, self._columns.table
        index = table.index[resource.name]
        states = table.states(index, self._now, self._rows)
        if not resource.leasable:
            return Column(states, table.written(index, self._rows))
        free = columns.free_of_rows(resource, index, self._rows, states)
        return Column(_without(states, np.isnan(free)), free)

    def _shared(self, resource: Resource) -> Column:
        columns = self._columns
        layout = columns.layout(resource.name)
        count = len(layout.instances)
        # One more, for the hosts of no instance: -1 is the last.
        states = np.full(count + 1, ABSENT, dtype=np.int8)
        numbers = np.full(count + 1, np.nan)
        for number, instance in enumerate(layout.instances):
            reading = columns.reading(resource, instance, self._now)
            states[number] = reading.state
            if reading.value is not None:
                numbers[number] = self._number(resource, instance, reading.value)
        of_row = layout.of_row[self._rows]
        states = _without(states, np.isnan(numbers))[of_row]
        disputed = columns.table.disputed(columns.table.index[resource.name], self._rows)
        if disputed.any():
            # An operator's value counts whatever a host's own files say.
            free = [columns.overridden(instance) is None for instance in layout.instances]
            disputed = disputed & np.array([*free, True])[of_row]
            states = np.where(disputed & (states != ABSENT), np.int8(UNAVAILABLE), states)
        return Column(states, numbers[of_row])

    def _number(self, resource: Resource, instance: Instance, value: Value) -> float:
        if resource.leasable:
            return self._columns.free_of_pool(resource, instance, value)
        return self.text_code(value) if isinstance(value, str) else float(value)


def _without(states: npt.NDArray[np.int8], unknown: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """Nothing is fresh of which it is not known how much is free."""
    return np.where((states == FRESH) & unknown, np.int8(UNAVAILABLE), states)


def _float(amount: Decimal | None) -> float:
    return np.nan if amount is None else float(amount)
