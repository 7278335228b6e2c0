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
    """Hosts in the order wanted, their rows in the table (-1: none), their places in the roll."""

    generation: int
    names: npt.NDArray[np.object_]
    rows: npt.NDArray[np.intp]
    places: npt.NDArray[np.intp]


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
        self._order = self._place((), -1)

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

        Only workers that are up and not closed, or all with `all_hosts`.
        """
        order = self._all() if names is None else self._place(names, -1)
        rows = order.rows
        satisfied, unknown = requirement.evaluate(self._core.columns.at(now))
        yes, maybe = satisfied[rows], unknown[rows]
        if len(rows) and rows.min() < 0:
            alone = requirement.evaluate(Nowhere())
            yes, maybe = (
                np.where(rows < 0, without, here)
                for without, here in zip(alone, (yes, maybe), strict=True)
            )
        if not all_hosts:
            up = self._core.registry.presence.up(order.places, now) & (rows >= 0)
            yes, maybe = yes & up, maybe & up
        return Found(
            self._open(order.names[yes].tolist(), all_hosts=all_hosts),
            self._open(order.names[maybe].tolist(), all_hosts=all_hosts),
        )

    def _open(self, hosts: list[str], *, all_hosts: bool) -> list[str]:
        closed = self._core.closed
        return [h for h in hosts if h not in closed] if closed and not all_hosts else hosts

    def place(self, host: str) -> bool:
        """Whether jobs may be placed on a host at all: it is no `worker: false`."""
        return host in self._core.table.rows

    def verdict(self, requirement: Requirement, host: str, now: float) -> int:
        """FALSE, UNKNOWN or TRUE on one host, whether or not it is up."""
        row = self._core.table.rows.get(host)
        if row is None:
            masks = requirement.evaluate(Nowhere())
        else:
            masks = requirement.evaluate(self._core.columns.at(now, np.array([row])))
        return TRUE * bool(masks.satisfied[0]) + UNKNOWN * bool(masks.unknown[0])

    def _all(self) -> _Order:
        """Every known host in NodeSet's order."""
        generation = self._core.registry.generation
        if self._order.generation != generation:
            known = sorted(self._core.registry.hosts(), key=host_key)
            self._order = self._place(known, generation)
        return self._order

    def _place(self, names: Sequence[str], generation: int) -> _Order:
        rows = self._core.table.rows
        hosts = np.empty(len(names), dtype=np.object_)
        hosts[:] = names
        found = np.array([rows.get(name, -1) for name in names], dtype=np.intp)
        return _Order(generation, hosts, found, self._core.registry.presence.places(names))
