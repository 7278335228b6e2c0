"""Which hosts satisfy a requirement: the question that a batch scheduler asks all day."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dynres.config.model import Resource
from dynres.config.names import host_key
from dynres.controller.core import Core
from dynres.controller.requirement import TRUE, UNKNOWN, Column, Requirement, compile_requirement
from dynres.controller.resvals import ABSENT

REMEMBERED: Final = 256
"""Requirements that are kept ready."""


class Found(NamedTuple):
    """The hosts that satisfy a requirement, and those where it is unknown whether they do."""

    hosts: list[str]
    unknown: list[str]


class _Order(NamedTuple):
    """Every known host in NodeSet's order, and its row in the table; -1 for one without."""

    generation: int
    names: npt.NDArray[np.object_]
    rows: npt.NDArray[np.intp]


class Nowhere:
    """The source of a host that is in no mapping: everything is absent."""

    size = 1

    def column(self, resource: str) -> Column:
        """Absent."""
        return Column(np.full(1, ABSENT, dtype=np.int8), np.full(1, np.nan))

    def text_code(self, text: str) -> float:
        """A code that nothing has."""
        return -1.0


class Placement:
    """Answers requirements out of a core's tables."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._schema: Mapping[str, Resource] = core.resources
        self._requirements: dict[str, Requirement] = {}
        self._order = _Order(-1, np.empty(0, dtype=np.object_), np.empty(0, dtype=np.intp))

    def requirement(self, text: str) -> Requirement:
        """The requirement that a text means now. Raises RequirementError."""
        if self._schema is not self._core.resources or len(self._requirements) >= REMEMBERED:
            self._schema = self._core.resources
            self._requirements = {}
        known = self._requirements.get(text)
        if known is None:
            known = self._requirements[text] = compile_requirement(text, self._schema)
        return known

    def find(
        self,
        requirement: Requirement,
        now: float,
        *,
        names: Sequence[str] | None = None,
        all_hosts: bool = False,
    ) -> Found:
        """The hosts (of `names`, in their order; None: of all) that satisfy it now.

        Only those that are up and not closed, or all with `all_hosts`.
        """
        hosts, rows = self._rows(names)
        source = self._core.columns.at(now)
        satisfied, unknown = requirement.evaluate(source)
        if not len(rows) or rows.min() >= 0:
            yes, maybe = satisfied[rows], unknown[rows]
        else:
            alone = requirement.evaluate(Nowhere())
            without = rows < 0
            yes = np.where(without, alone.satisfied, satisfied[rows])
            maybe = np.where(without, alone.unknown, unknown[rows])
        return Found(
            self._usable(hosts[yes].tolist(), now, all_hosts=all_hosts),
            self._usable(hosts[maybe].tolist(), now, all_hosts=all_hosts),
        )

    def _usable(self, hosts: list[str], now: float, *, all_hosts: bool) -> list[str]:
        if all_hosts:
            return hosts
        up = self._core.registry.up(hosts, now)
        closed = self._core.closed
        return [host for host in up if host not in closed] if closed else up

    def verdict(self, requirement: Requirement, host: str, now: float) -> int:
        """FALSE, UNKNOWN or TRUE on one host, whether or not it is up."""
        row = self._core.table.rows.get(host)
        if row is None:
            masks = requirement.evaluate(Nowhere())
        else:
            masks = requirement.evaluate(self._core.columns.at(now, np.array([row])))
        return TRUE * bool(masks.satisfied[0]) + UNKNOWN * bool(masks.unknown[0])

    def _rows(
        self, names: Sequence[str] | None
    ) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.intp]]:
        if names is not None:
            return self._with_rows(names)
        generation = self._core.registry.generation
        if self._order.generation != generation:
            known = sorted(self._core.registry.hosts(), key=host_key)
            self._order = _Order(generation, *self._with_rows(known))
        return self._order.names, self._order.rows

    def _with_rows(
        self, names: Sequence[str]
    ) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.intp]]:
        rows = self._core.table.rows
        hosts = np.empty(len(names), dtype=np.object_)
        hosts[:] = names
        return hosts, np.array([rows.get(name, -1) for name in names], dtype=np.intp)
