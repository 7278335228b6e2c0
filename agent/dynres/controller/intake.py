"""What a report changes: each value is judged alone, the good ones are taken."""

from math import isfinite
from typing import Final, Literal, NamedTuple

from dynres.config.model import Resource
from dynres.controller.amounts import amount_fault
from dynres.controller.resvals import ABSENT, Origin, Resvals
from dynres.controller.session import Session, measured_at
from dynres.controller.shared import Shared, SharedTable
from dynres.value import Value, read_string
from dynres.wire.messages import Measured, Report, Run
from dynres.wire.views import SourceKind

NO_FAILURE: Final = frozenset({"ok", "skipped", "cancelled"})

Result = Literal["taken", "gap", "late", "partly", "undesignated", "malformed", "unregistered"]
"""What became of a report: `dynres_reports_total{result}`."""


class Outcome(NamedTuple):
    """What became of a report; `refused`: resource -> why its value was not taken."""

    result: Result
    refused: dict[str, str]


class Intake:
    """Applies reports to the tables of one configuration."""

    def __init__(self, resources: dict[str, Resource], table: Resvals, shared: SharedTable) -> None:
        self._resources = resources
        self._table = table
        self._shared = shared

    def report(self, session: Session, report: Report, now: float) -> Outcome:
        """Take a report of a registered session."""
        if _times_fault(report):
            return Outcome("malformed", {})
        number = session.take(report)
        if number == "late":
            return Outcome("late", {})
        host = session.host
        row = self._table.rows.get(host)

        def at(age: float) -> float:
            return measured_at(report.echo, age, now)

        if report.full:
            self.new_session(host)
        elif number == "taken":
            named = {value.resource: "" for value in report.values}
            for run in report.runs:
                self._run(host, row, run, at(run.age), named)
        refused: dict[str, str] = {}
        strangers = False
        for value in report.values:
            why = self._value(session, row, value, at(value.age))
            if why is not None and why is not _UNDESIGNATED:
                refused[value.resource] = why
            strangers |= why is _UNDESIGNATED
        if refused:
            return Outcome("partly", refused)
        return Outcome("undesignated" if strangers else number, {})

    def new_session(self, host: str) -> None:
        """What the host reported before is not renewed by the runs that come now."""
        row = self._table.rows.get(host)
        if row is not None:
            self._table.new_session(row)
        self._shared.new_session(host)

    def _run(
        self, host: str, row: int | None, run: Run, measured: float, named: dict[str, str]
    ) -> None:
        """Renew what the run measured again: values, or literals where it failed."""
        if run.outcome != "ok" and run.outcome in NO_FAILURE:
            return
        literal = run.outcome != "ok"
        missed = named | run.missed
        if row is not None:
            self._table.touch(row, run.probe, measured, missed=missed, literal=literal)
        self._shared.touch(host, run.probe, measured, missed=missed, literal=literal)

    def _value(
        self, session: Session, row: int | None, given: Measured, measured: float
    ) -> str | None:
        """Take one value; why not, where it is not taken."""
        resource = self._resources.get(given.resource)
        if resource is None:
            return "unknown resource"
        if not resource.dynamic:
            return f"static: declared at {resource.place}"
        if given.resource in session.differs:
            return session.differs[given.resource]
        fault = value_fault(resource, given.value)
        value = None if fault else _as_declared(resource, given.value)
        reason = f"refused: {fault}" if fault else given.reason
        if resource.shared:
            duty = self._shared.duty(session.host, given.resource)
            if duty is None:
                return _UNDESIGNATED
            self._put_shared(duty, given, value, measured, reason)
            return fault
        column = self._table.index[given.resource]
        if row is None or self._table.raw_state(column, row) == ABSENT:
            return "not mapped to this host"
        kind: SourceKind = "on_failure" if given.fallback else "probe"
        self._table.put(
            column,
            row,
            value,
            origin=Origin(kind, given.probe),
            # The session's numbers say that this is the newest; two estimates of an instant
            # may still differ by what the stamps took on their way.
            measured=max(measured, self._table.measured(column, row)),
            reason=reason,
        )
        return fault

    def _put_shared(
        self,
        duty: Shared,
        given: Measured,
        value: Value | None,
        measured: float,
        reason: str | None,
    ) -> None:
        self._shared.put(
            duty,
            value,
            measured,
            probe=given.probe,
            reason=reason,
            fallback=given.fallback,
        )


_UNDESIGNATED: Final = "another agent measures it"


def _times_fault(report: Report) -> bool:
    """Whether a time in it is no number: then no age in it can be trusted."""
    echo = () if report.echo is None else (report.echo.stamp, report.echo.since)
    runs = (run.age for run in report.runs)
    return not all(map(isfinite, (*echo, *runs, *(value.age for value in report.values))))


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
