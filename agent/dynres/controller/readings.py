"""What is known of instances at an instant, whoever says it, and in whose name."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from dynres.config.model import Resource
from dynres.controller.amounts import Amounts
from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.controller.operators import FOR_EVER, Standing
from dynres.controller.resvals import FRESH, STALE
from dynres.controller.shared import NO_REPORTER, Shared
from dynres.value import Value, format_duration
from dynres.wire.views import Source, ValueState

STATES: Final[dict[int, ValueState]] = {FRESH: "fresh", STALE: "stale"}


class Measured(NamedTuple):
    """What is known of a shared dynamic instance, or of a static one, at an instant."""

    state: ValueState
    value: Value | None
    last: Value | None
    reason: str | None
    age: float | None
    probe: str | None
    reporter: str | None


def timestamp(wall: float) -> str:
    """A wall-clock time as RFC 3339 in UTC."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def free_number(numbers: Amounts) -> float | None:
    """What is free, as a value."""
    return None if numbers.free is None else float(numbers.free)


def override_source(standing: Standing, now: float, wall: float) -> Source:
    """Who has set a value, when, why, and until when."""
    override = standing.override
    ends = standing.ends
    return Source(
        kind="override",
        who=override.who,
        since=timestamp(override.since),
        why=override.reason,
        until=None if ends == FOR_EVER else timestamp(wall + ends - now),
    )


def _set(standing: Standing) -> "Measured":
    value = standing.override.value
    state: ValueState = "unavailable" if value is None else "fresh"
    reason = standing.reason if value is None else None
    return Measured(state, value, value, reason, None, None, None)


class Readings:
    """What a core's tables say at `now`; `wall` is the same instant for people."""

    def __init__(self, core: Core, now: float, wall: float | None = None) -> None:
        self._core = core
        self.now = now
        self.wall = datetime.now(UTC).timestamp() if wall is None else wall

    def measured(self, resource: Resource, instance: Instance) -> Measured:
        """What is known of an instance, shared or of one host."""
        standing = self._core.operators.of(instance)
        if standing is not None:
            return _set(standing)
        if instance.host is not None:
            return self._own_measured(resource, instance.host)
        return self._shared_measured(resource, instance)

    def _shared_measured(self, resource: Resource, instance: Instance) -> Measured:
        if not instance.dynamic:
            return Measured("fresh", instance.value, instance.value, None, None, None, None)
        shared = self._core.shared.get(instance)
        age = self._age(shared.measured)
        last = shared.last
        probe, reporter = shared.probe or resource.probe, shared.reporter or shared.measured_by
        if shared.reason is not None:
            reason = self._no_value(shared)
            return Measured("unavailable", None, last, reason, age, probe, reporter)
        if age is not None and resource.ttl is not None and age > resource.ttl:
            reason = self.stale_reason(shared.reporter, resource)
            if shared.reporter is not None and shared.trouble is not None:
                reason = f"{reason}; {shared.reporter}: {shared.trouble}"
            return Measured("stale", None, last, reason, age, probe, reporter)
        return Measured("fresh", last, last, None, age, probe, reporter)

    def _own_measured(self, resource: Resource, host: str) -> Measured:
        cell = self._core.table.cell(host, resource.name, self.now)
        if cell is None:
            return Measured("unavailable", None, None, None, None, None, None)
        stale = cell.state == STALE
        return Measured(
            STATES.get(cell.state, "unavailable"),
            cell.value,
            cell.last,
            self.why_stale(host, resource, cell.origin.probe) if stale else cell.reason,
            self._age(cell.measured),
            cell.origin.probe,
            None if cell.origin.kind == "static" else host,
        )

    def _no_value(self, shared: Shared) -> str | None:
        if shared.reporter is None and shared.measured_by is None:
            return f"{NO_REPORTER} among {', '.join(self._few(shared.instance))}"
        return shared.reason

    def _few(self, instance: Instance) -> tuple[str, ...]:
        reporters = self._core.distribution.reporters(instance)
        return reporters if len(reporters) <= 3 else (*reporters[:3], "…")

    def stale_reason(self, host: str | None, resource: Resource) -> str:
        """Why a value is older than its ttl."""
        ttl = f"older than its ttl of {format_duration(resource.ttl or 0.0)}"
        if host is None:
            return f"{ttl}; {NO_REPORTER}"
        state = self._core.registry.state(host, self.now)
        return f"{ttl}; host {host} is unreachable" if state == "unreachable" else ttl

    def why_stale(self, host: str, resource: Resource, probe: str | None) -> str:
        """Why a host's own value is older than its ttl, and what its probe's last run said."""
        reason, trouble = self.stale_reason(host, resource), self.trouble(host, resource, probe)
        return reason if trouble is None else f"{reason}; probe {probe}: {trouble}"

    def trouble(self, host: str, resource: Resource, probe: str | None) -> str | None:
        """Why the last run of a probe on a host that is up gave the resource nothing."""
        session = self._core.registry.session(host)
        if session is None or probe is None or not session.up(self.now):
            return None
        return session.trouble(probe, resource.name)

    def _age(self, measured: float) -> float | None:
        age = self.now - measured
        return max(0.0, age) if abs(age) < float("inf") else None

    def reported(self, resource: Resource, instance: Instance) -> Value | None:
        """The newest value that was declared or measured, whatever an operator has set."""
        if instance.host is not None:
            return self.below(instance.host, resource)
        if not instance.dynamic:
            return instance.value
        return self._core.shared.get(instance).last

    def below(self, host: str, resource: Resource) -> Value | None:
        """The newest own value of a host on which an operator has set another."""
        cell = self._core.table.below(host, resource.name, self.now)
        return None if cell is None else cell.last
