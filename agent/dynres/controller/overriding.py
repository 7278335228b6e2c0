"""The resvals table with operators' values laid over it: what is below goes on being written.

A cell that is overridden has the operator's value in the table itself, so that whoever reads a
cell, a row or a column sees it by the same path as any other value. What is below is kept beside
it, comes back into the table for each write to its row, and is put aside again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dynres.controller.resvals import ABSENT, ALWAYS, Cell, Column, Origin, Resvals, Rows
from dynres.value import Value

OPERATOR: Final = Origin("override")


class Laid(NamedTuple):
    """An operator's value for one cell; None: unavailable."""

    value: Value | None
    reason: str


class OverriddenResvals(Resvals):
    """Resvals in which some cells are an operator's."""

    def __init__(self, columns: Iterable[Column], hosts: Sequence[str] = ()) -> None:
        self._laid: dict[int, dict[int, Laid]] = {}
        """Row -> column -> what is laid over it."""
        self._below: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._bared: set[int] = set()
        super().__init__(columns, hosts)

    def overrule(self, laid: Mapping[tuple[str, str], Laid]) -> None:
        """Let exactly these values, by resource and host, count; where a resource is absent none
        can be.
        """
        before = {(c, r) for r, columns in self._laid.items() for c in columns}
        with self._bare(list(self._laid)):
            self._laid = {}
            for (resource, host), value in laid.items():
                column, row = self.index.get(resource), self.rows.get(host)
                if column is not None and row is not None and self._state[column, row] != ABSENT:
                    self._laid.setdefault(row, {})[column] = value
        for row in self._laid:
            self._lay(row)
        after = {(c, r) for r, columns in self._laid.items() for c in columns}
        if self.journal is not None:
            for column, row in before | after:
                self.journal.cell(column, row)

    def below(self, host: str, resource: str, now: float) -> Cell | None:
        """What a cell would be without the operator; None where none has laid anything over it."""
        row, column = self.rows.get(host), self.index.get(resource)
        if row is None or column is None or column not in self._laid.get(row, ()):
            return None
        with self._bare([row]):
            return super().cell(host, resource, now)

    @contextmanager
    def _bare(self, rows: Iterable[int]) -> Iterator[None]:
        """Without what is laid over these rows."""
        chosen = [row for row in rows if row in self._laid and row not in self._bared]
        for row in chosen:
            self._lift(row)
        self._bared.update(chosen)
        try:
            yield
        finally:
            self._bared.difference_update(chosen)
            for row in chosen:
                self._lay(row)

    def _matrices(self) -> tuple[Any, ...]:
        return (
            self._value,
            self._measured,
            self._state,
            self._origin,
            self._reason,
            self._current,
            self._disputed,
        )

    def _lift(self, row: int) -> None:
        for column in self._laid[row]:
            stored = self._below.pop((column, row), None)
            for matrix, thing in zip(self._matrices(), stored or (), strict=stored is not None):
                matrix[column, row] = thing

    def _lay(self, row: int) -> None:
        """Put aside what is there, and lay the operator's values over it."""
        for column, laid in self._laid.get(row, {}).items():
            if (column, row) in self._below:
                continue
            self._below[column, row] = tuple(m[column, row] for m in self._matrices())
            self._disputed[column, row] = False
            self._measured[column, row] = ALWAYS
            super().put(column, row, laid.value, origin=OPERATOR, reason=laid.reason)
            self._current[column, row] = False

    # every way in

    def put(
        self,
        column: int,
        rows: Rows,
        value: Value | None,
        *,
        origin: Origin,
        measured: float = ALWAYS,
        reason: str | None = None,
    ) -> bool:
        """See Resvals."""
        put = super().put
        if not self._laid:
            return put(column, rows, value, origin=origin, measured=measured, reason=reason)
        with self._bare([rows] if isinstance(rows, int) else rows.tolist()):
            return put(column, rows, value, origin=origin, measured=measured, reason=reason)

    def put_numbers(
        self,
        columns: npt.NDArray[np.intp],
        row: int,
        numbers: npt.NDArray[np.float64],
        *,
        origin: Origin,
        measured: float,
    ) -> None:
        """See Resvals."""
        with self._bare([row]):
            super().put_numbers(columns, row, numbers, origin=origin, measured=measured)

    def withdraw(self, column: int, row: int, reason: str) -> None:
        """See Resvals."""
        with self._bare([row]):
            super().withdraw(column, row, reason)

    def touch(
        self, row: int, probe: str, measured: float, *, missed: Mapping[str, str], literal: bool
    ) -> None:
        """See Resvals."""
        with self._bare([row]):
            super().touch(row, probe, measured, missed=missed, literal=literal)

    def new_session(self, row: int) -> None:
        """See Resvals."""
        with self._bare([row]):
            super().new_session(row)

    def dispute(self, row: int, columns: Iterable[int]) -> None:
        """See Resvals."""
        with self._bare([row]):
            super().dispute(row, columns)

    def remove_host(self, host: str) -> None:
        """See Resvals."""
        row = self.rows.get(host)
        if row is not None and row in self._laid:
            self._lift(row)
            del self._laid[row]
        super().remove_host(host)

    def carry(self, old: Resvals, names: Iterable[str]) -> None:
        """See Resvals. What is laid over `old` is not carried."""
        if isinstance(old, OverriddenResvals):
            old.overrule({})
        super().carry(old, names)

    def measured(self, column: int, row: int) -> float:
        """The instant of what was measured last, whatever is laid over it."""
        stored = self._below.get((column, row))
        return super().measured(column, row) if stored is None else float(stored[1])

    def raw_state(self, column: int, row: int) -> int:
        """See Resvals; what is below."""
        stored = self._below.get((column, row))
        return super().raw_state(column, row) if stored is None else int(stored[2])

    def _sweep(self) -> None:
        """See Resvals: codes that are put aside are in use too."""
        with self._bare(list(self._laid)):
            super()._sweep()
