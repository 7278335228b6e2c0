"""What a report changes: each value is judged alone, the good ones are taken."""

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from dynres.config.model import Resource
from dynres.controller.amounts import amount_fault
from dynres.controller.orders import Named, Order
from dynres.controller.resvals import ABSENT, Origin, Resvals
from dynres.controller.session import Session, measured_at
from dynres.controller.shared import SharedTable
from dynres.value import Value, read_string
from dynres.wire.messages import Measured, MeasuredNumbers, Report, Run
from dynres.wire.targets import target
from dynres.wire.views import SourceKind

ROOM: Final = 1000
"""Names that a session may tell beside twice as many as there are resources."""
NO_FAILURE: Final = frozenset({"ok", "skipped", "cancelled"})

Result = Literal["taken", "gap", "late", "partly", "undesignated", "malformed", "unregistered"]
"""What became of a report: `dynres_reports_total{result}`."""


class Outcome(NamedTuple):
    """What became of a report; `refused`: target -> why its value was not taken."""

    result: Result
    refused: dict[str, str]


class Intake:
    """Applies reports to the tables of one configuration."""

    def __init__(self, resources: dict[str, Resource], table: Resvals, shared: SharedTable) -> None:
        self._resources = resources
        self._table = table
        self._shared = shared
        fitting = (_plain(resources[column.name]) for column in table.columns)
        self._plain = np.array([*fitting, False], dtype=np.bool_)
        """By column, whether any finite number is a value of it; at -1 what is no column."""
        self._room = 2 * len(table.columns) + ROOM
        self._columns: WeakKeyDictionary[Order, npt.NDArray[np.intp]] = WeakKeyDictionary()
        self._probes = {probe for resource in resources.values() for probe in _probes(resource)}

    def report(self, session: Session, report: Report, now: float) -> Outcome:
        """Take a report of a registered session."""
        numbers = session.orders.named(report.numbers, full=report.full)
        if _times_fault(report) or not all(named.paired for named in numbers):
            return Outcome("malformed", {})
        number = session.take(report)
        if number == "late":
            return Outcome("late", {})
        session.orders.keep(numbers, full=report.full, room=self._room)
        if any(named.order is None for named in numbers):
            session.complete, number = False, "gap"
        host = session.host
        row = self._table.rows.get(host)

        def at(age: float) -> float:
            return measured_at(report.echo, age, now)

        if report.full:
            self.new_session(host)
        elif number == "taken":
            named = _named(report, numbers)
            for run in report.runs:
                self._run(host, row, run, at(run.age), named)
        last = {run.probe: run for run in report.runs}
        refused: dict[str, str] = {}
        odd = [each for given in numbers for each in self._take(session, row, given, at)]
        for value in (*report.values, *odd):
            why = self._value(session, row, value, at(value.age), last.get(value.probe))
            if why is not None:
                refused[target(value.resource, value.instance)] = why
        for run in report.runs:
            self._ran(session, run, again=report.full)
        return _outcome(session, number, refused)

    def _ran(self, session: Session, run: Run, *, again: bool) -> None:
        """Remember how a run went; `again`: it may have been told before."""
        if run.probe in self._probes:
            session.ran(run)
        if _failed(run) or run.outcome == "ok":
            self._shared.ran(session.host, run, failed=_failed(run), again=again)

    def new_session(self, host: str) -> None:
        """What the host reported before is not renewed by the runs that come now."""
        row = self._table.rows.get(host)
        if row is not None:
            self._table.new_session(row)
        self._shared.new_session(host)

    def _take(
        self,
        session: Session,
        row: int | None,
        named: Named,
        at: Callable[[float], float],
    ) -> list[Measured]:
        """Take numbers that lie side by side; those that are to be judged one by one."""
        given, order = named
        if order is None:
            return []
        columns = self._columns_of(order)
        numbers = _numbers_of(given)
        fine = self._plain[columns] & np.isfinite(numbers)
        if session.differs:
            differing = [self._table.index.get(name, -1) for name in session.differs]
            fine &= ~np.isin(columns, differing)
        if row is None:
            fine[:] = False
        else:
            fine &= self._table.mapped(columns, row)
            origin, measured = Origin("probe", given.probe), at(given.age)
            self._table.put_numbers(
                columns[fine], row, numbers[fine], origin=origin, measured=measured
            )
        return [
            Measured(
                resource=order.names[place],
                probe=given.probe,
                age=given.age,
                value=float(numbers[place]),
            )
            for place in np.flatnonzero(~fine).tolist()
        ]

    def _columns_of(self, order: Order) -> npt.NDArray[np.intp]:
        """The table's columns of these names; -1 for what is none."""
        columns = self._columns.get(order)
        if columns is None:
            index = self._table.index
            columns = np.array([index.get(name, -1) for name in order.names], dtype=np.intp)
            self._columns[order] = columns
        return columns

    def _run(
        self, host: str, row: int | None, run: Run, measured: float, named: dict[str, str]
    ) -> None:
        """Renew what the run measured again: values, or literals where it failed."""
        literal = _failed(run)
        if not literal and run.outcome != "ok":
            return
        missed = named | run.missed
        if row is not None:
            self._table.touch(row, run.probe, measured, missed=missed, literal=literal)
        self._shared.touch(host, run.probe, measured, missed=missed, literal=literal)

    def _value(
        self,
        session: Session,
        row: int | None,
        given: Measured,
        measured: float,
        run: Run | None,
    ) -> str | None:
        """Take one value of a run; why not, where it is not taken."""
        resource = self._resources.get(given.resource)
        if resource is None:
            return "unknown resource"
        if not resource.dynamic:
            return f"static: declared at {resource.place}"
        if given.resource in session.differs:
            return session.differs[given.resource]
        if resource.shared:
            return self._of_pool(session.host, resource, given, measured, run)
        return self._own(row, resource, given, measured)

    def _of_pool(
        self, host: str, resource: Resource, given: Measured, measured: float, run: Run | None
    ) -> str | None:
        """Take what was measured for a shared instance."""
        duty = self._shared.duty(host, given.resource, given.instance)
        if duty is None:
            return _UNDESIGNATED
        judged = _judged(resource, given)
        taken = self._shared.put(
            duty,
            judged.value,
            measured,
            probe=given.probe,
            reason=judged.reason,
            fallback=given.fallback,
            keep=judged.fault is None and run is not None and _could_not(run, resource),
        )
        return judged.fault if taken else _LATE

    def _own(
        self, row: int | None, resource: Resource, given: Measured, measured: float
    ) -> str | None:
        """Take what a host has measured for itself."""
        column = self._table.index[given.resource]
        if row is None or self._table.raw_state(column, row) == ABSENT:
            return "not mapped to this host"
        judged = _judged(resource, given)
        kind: SourceKind = "on_failure" if given.fallback else "probe"
        self._table.put(
            column,
            row,
            judged.value,
            origin=Origin(kind, given.probe),
            # The session's numbers say that this is the newest; two estimates of an instant
            # may still differ by what the stamps took on their way.
            measured=max(measured, self._table.measured(column, row)),
            reason=judged.reason,
        )
        return judged.fault


def _numbers_of(given: MeasuredNumbers) -> npt.NDArray[np.float64]:
    """Them, -0 as 0."""
    if given.packed is None:
        return np.array(given.values, dtype=np.float64) + 0.0
    return np.frombuffer(given.packed, dtype="<f8") + 0.0


def _plain(resource: Resource) -> bool:
    """Whether it takes any finite number that a host has measured for itself."""
    numeric = resource.type == "numeric" and not resource.leasable
    return resource.dynamic and numeric and not resource.shared


def _probes(resource: Resource) -> Iterator[str]:
    """The probes that measure it, here or there."""
    if resource.probe is not None:
        yield resource.probe
    yield from (entry.probe.name for entry in resource.entries if entry.probe is not None)


def _named(report: Report, numbers: list[Named]) -> dict[str, str]:
    """The targets of which a report gives a value itself, so that its runs renew none."""
    named = {target(value.resource, value.instance): "" for value in report.values}
    for _, order in numbers:
        if order is not None:
            named |= dict.fromkeys(order.names, "")
    return named


class _Judged(NamedTuple):
    """What of a value counts; `fault`: why it is none of its resource."""

    value: Value | None
    reason: str | None
    fault: str | None


def _judged(resource: Resource, given: Measured) -> _Judged:
    fault = value_fault(resource, given.value)
    if fault is not None:
        return _Judged(None, f"refused: {fault}", fault)
    return _Judged(_as_declared(resource, given.value), given.reason, None)


def _outcome(session: Session, number: Result, refused: dict[str, str]) -> Outcome:
    """What became of the report; of what another agent measures, nobody is told."""
    why = set(refused.values())
    if _LATE in why:
        session.complete = False  # the agent takes it for known: it is to send it again
    said = {name: text for name, text in refused.items() if text not in {_LATE, _UNDESIGNATED}}
    if said:
        return Outcome("partly", said)
    return Outcome("undesignated" if _UNDESIGNATED in why else "late" if why else number, {})


_UNDESIGNATED: Final = "another agent measures it"
_LATE: Final = "another agent has measured it since"


def _could_not(run: Run, resource: Resource) -> bool:
    """Whether the run could not measure, and what was measured before is to be kept."""
    failed = _failed(run) or resource.name in run.missed
    return run.not_here or (failed and resource.on_failure == "keep")


def _failed(run: Run) -> bool:
    """Whether `on_failure` applies to all that the run was to give."""
    return run.outcome not in NO_FAILURE


def _times_fault(report: Report) -> bool:
    """Whether a time in it is no number: then no age in it can be trusted."""
    echo = () if report.echo is None else (report.echo.stamp, report.echo.since)
    runs = (run.age for run in report.runs)
    values = (value.age for value in report.values)
    numbers = (numbers.age for numbers in report.numbers)
    return not all(map(isfinite, (*echo, *runs, *values, *numbers)))


def value_fault(resource: Resource, value: Value | None) -> str | None:
    """Why a value is not one of that resource; None where it is, or says unavailable."""
    if value is None:
        return None
    if resource.type == "numeric":
        return _number_fault(resource, value)
    if resource.type == "string":
        return _text_fault(value)
    return None if isinstance(value, bool) else "not a boolean"


def _number_fault(resource: Resource, value: Value) -> str | None:
    if isinstance(value, bool | str):
        return "not a number"
    if not isfinite(value):
        return "not a finite number"
    return amount_fault(value) if resource.leasable else None


def _text_fault(value: Value) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    try:
        read_string(value)
    except ValueError as error:
        return str(error)
    return None


def _as_declared(resource: Resource, value: Value | None) -> Value | None:
    """A number as a double, -0 as 0."""
    return float(value) + 0.0 if resource.type == "numeric" and value is not None else value
