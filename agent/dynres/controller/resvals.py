"""The resvals table: host x resource -> value, source, measured instant and state, by columns.

One float64 matrix holds every value: numbers as they are, booleans as 0 and 1, strings as codes;
NaN where there never was one. A column is contiguous, so that a requirement over 10,000 hosts is
a few vector operations; a row is a strided gather. 27 bytes a cell.

Instants are seconds of the controller's clock. What a file declares counts as measured `ALWAYS`,
so a static value is never older than any ttl, and nothing downstream needs to know that it is one.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dynres.controller.cells import ABSENT, FRESH, STALE, UNAVAILABLE, Cell, Column, Origin
from dynres.controller.interned import Interned
from dynres.controller.journal import Journal
from dynres.value import Value
from dynres.wire.views import SourceKind

__all__ = ["ABSENT", "FRESH", "STALE", "UNAVAILABLE", "Cell", "Column", "Origin", "Resvals"]

Rows = int | npt.NDArray[np.intp]
Several = slice | npt.NDArray[np.intp]
EVERY: Final = slice(None)

ALWAYS: Final = np.inf
NEVER: Final = -np.inf

DIFFERS: Final = "definition differs"
NO_REPORT: Final = "no report yet"


class Resvals:
    """The table. Rows are hosts, columns resources; both are known by name and by index."""

    def __init__(self, columns: Iterable[Column], hosts: Sequence[str] = ()) -> None:
        self.columns: tuple[Column, ...] = tuple(columns)
        self.index: dict[str, int] = {c.name: i for i, c in enumerate(self.columns)}
        self.rows: dict[str, int] = {}
        self.hosts: list[str | None] = []
        """The host of each row; None for a row that nobody has now."""
        self._unused: list[int] = []
        self._ttl = np.array([c.ttl for c in self.columns], dtype=np.float64)
        self._string = np.array([c.type == "string" for c in self.columns], dtype=np.bool_)
        self._texts: Interned[str] = Interned()
        self._reasons: Interned[str] = Interned()
        self._origins: Interned[Origin] = Interned()
        shape = (len(self.columns), max(len(hosts), 1))
        self._value = np.full(shape, np.nan)
        self._measured = np.full(shape, NEVER)
        self._state = np.zeros(shape, dtype=np.int8)
        self._origin = np.zeros(shape, dtype=np.int32)
        self._reason = np.full(shape, -1, dtype=np.int32)
        self._current = np.zeros(shape, dtype=np.bool_)
        self._disputed = np.zeros(shape, dtype=np.bool_)
        self.journal: Journal | None = None
        """What changes is noted here, while somebody follows."""
        for host in hosts:
            self.add_host(host)

    # rows

    def add_host(self, host: str) -> int:
        """The row of `host`, a new one where it has none; every cell of a new row is absent."""
        row = self.rows.get(host)
        if row is None:
            row = self._unused.pop() if self._unused else len(self.rows)
            if row >= self._value.shape[1]:
                self._grow(row + max(64, row // 2))
            self.rows[host] = row
            self.hosts += [None] * (row + 1 - len(self.hosts))
            self.hosts[row] = host
            if self.journal is not None:
                self.journal.rows.add(row)
        return row

    def remove_host(self, host: str) -> None:
        """The host's row vanishes with everything in it."""
        row = self.rows.pop(host, None)
        if row is not None:
            self.hosts[row] = None
            if self.journal is not None:
                self.journal.gone(row, host)
            self._value[:, row] = np.nan
            self._measured[:, row] = NEVER
            self._state[:, row] = ABSENT
            self._reason[:, row] = -1
            self._current[:, row] = False
            self._disputed[:, row] = False
            self._unused.append(row)

    def _grow(self, size: int) -> None:
        more = size - self._value.shape[1]

        def wider(matrix: npt.NDArray[Any], filler: float) -> npt.NDArray[Any]:
            return np.pad(matrix, ((0, 0), (0, more)), constant_values=filler)

        self._value = wider(self._value, np.nan)
        self._measured = wider(self._measured, NEVER)
        self._state = wider(self._state, ABSENT)
        self._origin = wider(self._origin, 0)
        self._reason = wider(self._reason, -1)
        self._current = wider(self._current, 0)
        self._disputed = wider(self._disputed, 0)

    # writing

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
        """The one way in: a declared value, hosts.yaml's own, a measured one.

        `value` None: known to be unavailable, for `reason`; what was known before stays as
        `last`. False where a cell of `rows` knows something newer: then nothing is written.
        """
        newer = self._measured[column, rows] > measured
        if newer if isinstance(rows, int) else newer.any():
            return False
        if value is None:
            why = self._reasons.code(reason or "unavailable")
            self._note(column, rows, UNAVAILABLE, self._reason, why)
            self._state[column, rows] = UNAVAILABLE
            self._reason[column, rows] = why
        else:
            number = self._texts.code(value) if isinstance(value, str) else float(value)
            self._note(column, rows, FRESH, self._value, number)
            self._value[column, rows] = number
            self._state[column, rows] = FRESH
            self._reason[column, rows] = -1
        self._measured[column, rows] = measured
        self._origin[column, rows] = self._origins.code(origin)
        self._current[column, rows] = True
        if self._texts.crowded or self._reasons.crowded or self._origins.crowded:
            self._sweep()
        return True

    def put_numbers(
        self,
        columns: npt.NDArray[np.intp],
        row: int,
        numbers: npt.NDArray[np.float64],
        *,
        origin: Origin,
        measured: float,
    ) -> None:
        """What one run has measured of many numeric resources, each newer than what is known."""
        if self.journal is not None and columns.size:
            self.journal.rows.add(row)
            same = (self._state[columns, row] == FRESH) & (self._value[columns, row] == numbers)
            for column in columns[~same].tolist():
                self.journal.cell(column, row)
        self._value[columns, row] = numbers
        self._state[columns, row] = FRESH
        self._reason[columns, row] = -1
        self._measured[columns, row] = np.maximum(self._measured[columns, row], measured)
        self._origin[columns, row] = self._origins.code(origin)
        self._current[columns, row] = True
        if self._origins.crowded:
            self._sweep()

    def mapped(self, columns: npt.NDArray[np.intp], row: int) -> npt.NDArray[np.bool_]:
        """Which of these resources that host has at all."""
        there: npt.NDArray[np.bool_] = self._state[columns, row] != ABSENT
        return there

    def _note(
        self, column: int, rows: Rows, state: int, matrix: npt.NDArray[Any], number: float
    ) -> None:
        """Note for the journal what is about to be written, where it is anything else."""
        if self.journal is None:
            return
        if not isinstance(rows, int):
            self.journal.rows.update(rows.tolist())
            return
        self.journal.rows.add(rows)
        if self._state[column, rows] != state or matrix[column, rows] != number:
            self.journal.cell(column, rows)

    def expect(self, column: int, rows: Rows, origin: Origin) -> None:
        """A probe measures it on these hosts: until a report comes, unavailable."""
        self.put(column, rows, None, origin=origin, measured=NEVER, reason=NO_REPORT)
        self._current[column, rows] = False

    def withdraw(self, column: int, row: int, reason: str) -> None:
        """What was measured no longer counts, whatever its age."""
        if self.journal is not None:
            self.journal.cell(column, row)
        self._state[column, row] = UNAVAILABLE
        self._reason[column, row] = self._reasons.code(reason)
        self._current[column, row] = False

    def touch(
        self, row: int, probe: str, measured: float, *, missed: Mapping[str, str], literal: bool
    ) -> None:
        """A run of `probe` has measured again what this session reported of it before.

        `missed` resources were not; with `literal` only values that `on_failure` gave count.
        """
        kinds: tuple[SourceKind, ...] = ("on_failure",) if literal else ("probe", "on_failure")
        codes = [self._origins.find(Origin(kind, probe)) for kind in kinds]
        origins = self._origin[:, row]
        hit = np.zeros(len(self.columns), dtype=np.bool_)
        for code in codes:
            if code is not None:
                hit |= origins == code
        hit &= self._current[:, row]
        for name in missed:
            column = self.index.get(name)
            if column is not None:
                hit[column] = False
        self._measured[hit, row] = np.maximum(self._measured[hit, row], measured)
        if self.journal is not None:
            self.journal.rows.add(row)

    def new_session(self, row: int) -> None:
        """What an earlier session reported ages from now on; no run of the new one renews it."""
        self._current[:, row] = False

    def dispute(self, row: int, columns: Iterable[int]) -> None:
        """Exactly these columns are unavailable on that host: their definitions differ."""
        before = self._disputed[:, row].copy()
        self._disputed[:, row] = False
        self._disputed[list(columns), row] = True
        if self.journal is not None:
            self.journal.rows.add(row)  # an agent has registered
            for column in np.flatnonzero(before != self._disputed[:, row]).tolist():
                self.journal.cell(column, row)

    def carry(self, old: "Resvals", names: Iterable[str]) -> None:
        """Take over what `old` has measured of the resources `names`, where it still belongs."""
        hosts = [host for host in self.rows if host in old.rows]
        to = np.array([self.rows[h] for h in hosts], dtype=np.intp)
        of = np.array([old.rows[h] for h in hosts], dtype=np.intp)
        for name in names:
            new, was = self.index[name], old.index[name]
            moved = (self._state[new, to] != ABSENT) & np.isfinite(old._measured[was, of])
            mine, theirs = (new, to[moved]), (was, of[moved])
            self._measured[mine] = old._measured[theirs]
            self._state[mine] = old._state[theirs]
            self._current[mine] = old._current[theirs]
            self._origin[mine] = self._origins.adopt(old._origins, old._origin[theirs])
            self._reason[mine] = self._reasons.adopt(old._reasons, old._reason[theirs])
            values = old._value[theirs]
            if self.columns[new].type == "string":
                known = ~np.isnan(values)
                values[known] = self._texts.adopt(old._texts, values[known].astype(np.int32))
            self._value[mine] = values

    def _sweep(self) -> None:
        texts = self._value[self._string]
        self._texts.sweep(texts[~np.isnan(texts)].astype(np.intp))
        self._reasons.sweep(self._reason[self._reason >= 0].astype(np.intp))
        self._origins.sweep(self._origin[self._state != ABSENT].astype(np.intp))

    # reading

    def row_states(self, rows: npt.NDArray[np.intp], now: float) -> npt.NDArray[np.int8]:
        """The states of every resource (first axis) on some rows."""
        oldest = (now - self._ttl)[:, np.newaxis]
        state, measured = self._state[:, rows], self._measured[:, rows]
        return self._effective(state, measured, self._disputed[:, rows], oldest)

    def next_stale(
        self, rows: npt.NDArray[np.intp], states: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """When the first value of each row goes stale, if nothing comes; `states` as of now."""
        ends = np.full(states.shape, ALWAYS)
        ttl = np.broadcast_to(self._ttl[:, np.newaxis], states.shape)
        np.add(self._measured[:, rows], ttl, out=ends, where=states == FRESH)
        found: npt.NDArray[np.float64] = ends.min(axis=0, initial=ALWAYS)
        return found

    def raw_state(self, column: int, row: int) -> int:
        """ABSENT, FRESH (whatever its age) or UNAVAILABLE, as it was written."""
        return int(self._state[column, row])

    def measured(self, column: int, row: int) -> float:
        """The instant of what a cell holds."""
        return float(self._measured[column, row])

    @property
    def width(self) -> int:
        """How many rows the columns have, those included that nobody has yet."""
        return self._value.shape[1]

    def states(self, column: int, now: float, rows: Several = EVERY) -> npt.NDArray[np.int8]:
        """ABSENT, FRESH, STALE or UNAVAILABLE of one resource, for every row or for `rows`."""
        return self._effective(
            self._state[column][rows],
            self._measured[column][rows],
            self._disputed[column][rows],
            now - self._ttl[column],
        )

    def written(self, column: int, rows: Several = EVERY) -> npt.NDArray[np.float64]:
        """What was last known of one resource (strings as codes), whatever its state; else NaN."""
        chosen: npt.NDArray[np.float64] = self._value[column][rows]
        return chosen

    def instants(self, column: int, rows: Several = EVERY) -> npt.NDArray[np.float64]:
        """When what is known of one resource was measured."""
        chosen: npt.NDArray[np.float64] = self._measured[column][rows]
        return chosen

    def disputed(self, column: int, rows: Several = EVERY) -> npt.NDArray[np.bool_]:
        """On which rows the definition of one resource differs."""
        chosen: npt.NDArray[np.bool_] = self._disputed[column][rows]
        return chosen

    def clashes(self, row: int) -> list[int]:
        """The columns whose definitions differ on that row."""
        return np.flatnonzero(self._disputed[:, row]).tolist()

    def numbers(self, column: int, now: float) -> npt.NDArray[np.float64]:
        """The fresh values of one resource for every row (strings as codes); NaN elsewhere."""
        return np.where(self.states(column, now) == FRESH, self._value[column], np.nan)

    def text_code(self, text: str) -> float:
        """The number that stands for `text` in `numbers`; NaN, which equals nothing, for none."""
        code = self._texts.find(text)
        return np.nan if code is None else float(code)

    @staticmethod
    def _effective(
        state: npt.NDArray[np.int8],
        measured: npt.NDArray[np.float64],
        disputed: npt.NDArray[np.bool_],
        oldest: npt.NDArray[np.float64] | float,
    ) -> npt.NDArray[np.int8]:
        aged = np.where((state == FRESH) & (measured < oldest), np.int8(STALE), state)
        return np.where(disputed & (state != ABSENT), np.int8(UNAVAILABLE), aged)

    def row(self, host: str, now: float) -> dict[str, Cell]:
        """Every cell of a host that is not absent, in the order of the columns."""
        row = self.rows.get(host)
        if row is None:
            return {}
        here = np.flatnonzero(self._state[:, row])
        return self._cells(here, row, now)

    def cell(self, host: str, resource: str, now: float) -> Cell | None:
        """One cell; None where the resource is absent there."""
        row, column = self.rows.get(host), self.index.get(resource)
        if row is None or column is None or self._state[column, row] == ABSENT:
            return None
        return self._cells(np.array([column], dtype=np.intp), row, now)[resource]

    def some(self, row: int, columns: Iterable[int], now: float) -> dict[str, Cell]:
        """Cells of one row, absent ones too."""
        return self._cells(np.array(list(columns), dtype=np.intp), row, now)

    def _cells(self, here: npt.NDArray[np.intp], row: int, now: float) -> dict[str, Cell]:
        measured = self._measured[here, row]
        disputed = self._disputed[here, row]
        states = self._effective(self._state[here, row], measured, disputed, now - self._ttl[here])
        cells = {}
        for column, state, number, at, origin, reason, clash in zip(
            here.tolist(),
            states.tolist(),
            self._value[here, row].tolist(),
            measured.tolist(),
            self._origin[here, row].tolist(),
            self._reason[here, row].tolist(),
            disputed.tolist(),
            strict=True,
        ):
            last = self._read(column, number)
            value = last if state == FRESH else None
            why = self._why(reason, clash)
            name = self.columns[column].name
            cells[name] = Cell(state, value, last, why, at, self._origins.thing(origin))
        return cells

    def _read(self, column: int, number: float) -> Value | None:
        if isnan(number):
            return None
        kind = self.columns[column].type
        if kind == "string":
            return self._texts.thing(int(number))
        return number if kind == "numeric" else number != 0

    def _why(self, code: int, clash: bool) -> str | None:
        if clash:
            return DIFFERS
        return self._reasons.thing(code) if code >= 0 else None
