"""What of the tables is other than at the last look, by report and by the passing of time.

A look costs what has changed, not hosts times resources: the tables note which rows were written,
each row remembers when its first value goes stale, and only those rows are compared.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.controller.journal import Journal
from dynres.controller.resvals import ABSENT, ALWAYS, FRESH
from dynres.controller.shared import Key
from dynres.wire.views import HostState

LOOK_AT_HOSTS = 0.5
"""Seconds between two looks at which hosts are up: silence is not told by anybody."""

_Standing = tuple[HostState, bool]
"""State of a host, and whether it is closed."""


class Delta(NamedTuple):
    """What has changed: rows -> columns, rows of hosts with another state, hosts, instances."""

    cells: dict[int, set[int]]
    standing: set[int]
    joined: list[int]
    forgotten: list[tuple[int, str]]
    pools: list[Instance]

    @property
    def rows(self) -> set[int]:
        """Every row with anything new."""
        return {*self.cells, *self.standing, *self.joined}


class Tracker:
    """Follows the tables of a core as they are from now on; `close` when nobody asks any more."""

    def __init__(self, core: Core, now: float) -> None:
        self.core = core
        self.table = core.table
        self._journal = self.table.journal = Journal()
        core.shared.changed.clear()
        self._shown = np.zeros((len(self.table.columns), 0), dtype=np.int8)
        self._stale = np.zeros(0)
        self._standing: dict[int, _Standing] = {}
        self._pools_stale: dict[Key, float] = {}
        self._looked = now
        self._widen()
        rows = np.array(list(self.table.rows.values()), dtype=np.intp)
        self._compare(rows, now, {})
        for row in self.table.rows.values():
            self._standing[row] = self._stand(row, now)
        self._instances = {
            (instance.resource, instance.id): instance for instance in core.distribution.pools()
        }
        for instance in self._instances.values():
            self._watch(instance, now)
        self._overridden = {
            key for key, one in self._instances.items() if core.operators.of(one) is not None
        }

    @property
    def current(self) -> bool:
        """Whether the core still has the tables that are followed."""
        return self.core.table is self.table

    def close(self) -> None:
        """Note nothing any more."""
        if self.table.journal is self._journal:
            self.table.journal = None

    def standing(self, row: int) -> _Standing:
        """State of a host, and whether it is closed, as it was told."""
        return self._standing.get(row, ("never", False))

    def next_instant(self) -> float:
        """When the next value goes stale, if nothing else comes."""
        rows = float(self._stale.min(initial=ALWAYS))
        return min((rows, *self._pools_stale.values()))

    def collect(self, now: float) -> Delta:
        """All that is other than at the last look."""
        journal = self._journal
        self._journal = self.table.journal = Journal()
        cells, joined = journal.cells, []
        for row, _ in journal.forgotten:
            self._forget(row)
        self._widen()
        overdue = np.flatnonzero(self._stale < now)
        rows = journal.rows.union(overdue.tolist())
        rows = {row for row in rows if self.table.hosts[row] is not None}
        self._compare(np.array(sorted(rows), dtype=np.intp), now, cells)
        looked = rows
        if now - self._looked >= LOOK_AT_HOSTS:
            self._looked = now
            looked = set(self.table.rows.values())
        standing = set()
        for row in looked:
            stands = self._stand(row, now)
            if row not in self._standing:
                joined.append(row)
            elif self._standing[row] != stands:
                standing.add(row)
            self._standing[row] = stands
        pools = self._pools(now)
        self._overrides(pools, cells)
        return Delta(cells, standing, joined, journal.forgotten, pools)

    def _overrides(self, pools: list[Instance], cells: dict[int, set[int]]) -> None:
        """A host whose definition differs has what an operator sets, and nothing otherwise."""
        for instance in pools:
            key = (instance.resource, instance.id)
            if (self.core.operators.of(instance) is not None) == (key in self._overridden):
                continue
            self._overridden ^= {key}
            column = self.table.index[instance.resource]
            for row in np.flatnonzero(self.table.disputed(column)).tolist():
                cells.setdefault(row, set()).add(column)

    def _forget(self, row: int) -> None:
        self._standing.pop(row, None)
        self._shown[:, row] = ABSENT
        self._stale[row] = ALWAYS

    def _widen(self) -> None:
        more = self.table.width - self._shown.shape[1]
        if more > 0:
            self._shown = np.pad(self._shown, ((0, 0), (0, more)), constant_values=ABSENT)
            self._stale = np.pad(self._stale, (0, more), constant_values=ALWAYS)

    def _compare(self, rows: npt.NDArray[np.intp], now: float, cells: dict[int, set[int]]) -> None:
        """Add to `cells` those whose state is another than was told."""
        if not len(rows):
            return
        states = self.table.row_states(rows, now)
        columns, places = np.nonzero(states != self._shown[:, rows])
        for column, row in zip(columns.tolist(), rows[places].tolist(), strict=True):
            cells.setdefault(row, set()).add(column)
        self._shown[:, rows] = states
        self._stale[rows] = self.table.next_stale(rows, states)

    def _stand(self, row: int, now: float) -> _Standing:
        host = self.table.hosts[row]
        if host is None:
            return "never", False
        return self.core.registry.state(host, now), host in self.core.closed

    def _pools(self, now: float) -> list[Instance]:
        """Shared instances of which anything was said, or whose value has gone stale."""
        changed = self.core.shared.changed
        keys = {*changed, *(key for key, end in self._pools_stale.items() if end < now)}
        changed.clear()
        found = [self._instances[key] for key in keys if key in self._instances]
        for instance in found:
            self._watch(instance, now)
        return found

    def _watch(self, instance: Instance, now: float) -> None:
        """Remember when what is known of a shared instance goes stale."""
        resource = self.core.resources[instance.resource]
        key = (instance.resource, instance.id)
        self._pools_stale.pop(key, None)
        if not instance.dynamic or resource.ttl is None:
            return
        if self.core.columns.reading(resource, instance, now).state == FRESH:
            self._pools_stale[key] = self.core.shared.get(instance).measured + resource.ttl
