"""What the tables look like to clients: the views of hosts, values and pools."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from dynres.config.model import Resource
from dynres.config.names import AmbiguousError, host_key
from dynres.config.near import nearest
from dynres.controller.amounts import Amounts
from dynres.controller.condition import RequirementError
from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.controller.placement import Placement
from dynres.controller.requirement import Requirement
from dynres.controller.resvals import DIFFERS, FRESH, STALE, Cell
from dynres.controller.session import Session
from dynres.controller.shared import NO_REPORTER, Shared
from dynres.value import Value, format_duration
from dynres.wire.requests import AskHosts, Failure
from dynres.wire.views import (
    AgentView,
    ConfigView,
    HostDetail,
    HostsView,
    HostView,
    PoolsView,
    PoolView,
    Source,
    ValueState,
    ValueView,
)

STATES: Final[dict[int, ValueState]] = {FRESH: "fresh", STALE: "stale"}


class RefusedError(Exception):
    """A request that cannot be answered; `failure` is what the client gets."""

    def __init__(self, code: str, message: str) -> None:
        self.failure = Failure(code=code, message=message)
        super().__init__(message)


class Measured(NamedTuple):
    """What is known of a shared dynamic instance, or of a static one, at an instant."""

    state: ValueState
    value: Value | None
    last: Value | None
    reason: str | None
    age: float | None
    probe: str | None
    reporter: str | None


class Answers:
    """Answers out of a core's tables, as they are at `now`."""

    def __init__(self, core: Core, now: float) -> None:
        self._core = core
        self.now = now

    # which hosts and resources are meant

    def hosts_named(self, names: Iterable[str]) -> list[str]:
        """Canonical names, in the order given; every host for none. Raises RefusedError."""
        registry = self._core.registry
        found: dict[str, None] = {}
        for name in names:
            members = self._group(name) if name.startswith("@") else (name,)
            for member in members:
                try:
                    host = registry.canonical(member)
                except AmbiguousError as error:
                    raise RefusedError("unknown_host", str(error)) from error
                if host is None:
                    hint = nearest(member, registry.hosts())
                    raise RefusedError("unknown_host", _unknown("host", member, hint))
                found[host] = None
        return list(found) if found else sorted(registry.hosts(), key=host_key)

    def _group(self, name: str) -> tuple[str, ...]:
        groups = self._core.configuration.groups
        members = groups.get(name[1:])
        if members is None:
            hint = nearest(name[1:], groups)
            raise RefusedError("unknown_host", _unknown("group", name, hint))
        return members

    def resource_named(self, name: str) -> Resource:
        """The declared resource of that name. Raises RefusedError."""
        resource = self._core.resources.get(name)
        if resource is None:
            hint = nearest(name, self._core.resources)
            raise RefusedError("unknown_resource", _unknown("resource", name, hint))
        return resource

    # hosts

    def detail(self, host: str) -> HostDetail:
        """One host, its agent and how its files compare."""
        session = self._core.registry.session(host)
        return HostDetail(
            state=self._core.registry.state(host, self.now),
            closed=host in self._core.closed,
            agent=_agent(session, self.now),
            config=_config(session),
        )

    def hosts(self, names: Iterable[str], *, all_hosts: bool) -> HostsView:
        """The hosts that are up (or all), and all about each one named. Raises RefusedError."""
        named = self.hosts_named(names)
        details = {host: self.detail(host) for host in named}
        shown = tuple(h for h, detail in details.items() if all_hosts or detail.state == "up")
        return HostsView(hosts=shown, unknown=(), details=details)

    def hosts_where(self, placement: Placement, request: AskHosts, where: str) -> HostsView:
        """The hosts that satisfy a requirement. Raises RefusedError."""
        requirement = self.requirement(placement, where)
        names = self.hosts_named(request.hosts) if request.hosts else None
        found = placement.find(requirement, self.now, names=names, all_hosts=request.all_hosts)
        shown = (*found.hosts, *found.unknown) if request.details else ()
        return HostsView(
            hosts=tuple(found.hosts),
            unknown=tuple(found.unknown),
            details={host: self.detail(host) for host in shown},
        )

    @staticmethod
    def requirement(placement: Placement, where: str) -> Requirement:
        """The requirement that a text means. Raises RefusedError with the column."""
        try:
            return placement.requirement(where)
        except RequirementError as error:
            raise RefusedError("requirement", f"the requirement is refused: {error}") from error

    # values

    def values_of(self, host: str, resources: Iterable[Resource]) -> HostView:
        """One host and its values, resources in the order given; absent ones are left out."""
        cells = self._core.table.row(host, self.now)
        values: dict[str, ValueView] = {}
        for resource in resources:
            cell = cells.get(resource.name)
            if cell is not None:
                values[resource.name] = self._own_value(host, resource, cell)
            elif resource.shared:
                shared = self._shared_value(host, resource)
                if shared is not None:
                    values[resource.name] = shared
        detail = self.detail(host)
        return HostView(
            state=detail.state,
            closed=detail.closed,
            agent=detail.agent,
            config=detail.config,
            values=values,
        )

    def value(self, host: str, resource: Resource) -> ValueView | None:
        """One value; None where the resource is absent on that host."""
        if resource.shared:
            return self._shared_value(host, resource)
        cell = self._core.table.cell(host, resource.name, self.now)
        return None if cell is None else self._own_value(host, resource, cell)

    def _own_value(self, host: str, resource: Resource, cell: Cell) -> ValueView:
        value, last = cell.value, cell.last
        if resource.leasable:
            instance = self._core.distribution.instance_for(resource.name, host)
            if instance is not None:
                value = _free(self._core.amounts(resource, instance, value))
                last = _free(self._core.amounts(resource, instance, last))
        origin = cell.origin
        static = origin.kind == "static"
        return ValueView(
            value=value if cell.state == FRESH else None,
            last=last,
            unit=resource.unit,
            state=STATES.get(cell.state, "unavailable"),
            reason=self.stale_reason(host, resource) if cell.state == STALE else cell.reason,
            age=self._age(cell.measured),
            source=Source(
                kind=origin.kind,
                probe=origin.probe,
                reporter=None if static else host,
                place=origin.place,
            ),
        )

    def _shared_value(self, host: str, resource: Resource) -> ValueView | None:
        instance = self._core.distribution.instance_for(resource.name, host)
        if instance is None:
            return None
        known = self.measured(resource, instance)
        value, last = known.value, known.last
        if resource.leasable:
            value = _free(self._core.amounts(resource, instance, value))
            last = _free(self._core.amounts(resource, instance, last))
        session = self._core.registry.session(host)
        clash = session is not None and session.differs.get(resource.name) == DIFFERS
        return ValueView(
            value=None if clash else value,
            last=last,
            unit=resource.unit,
            state="unavailable" if clash else known.state,
            reason=DIFFERS if clash else known.reason,
            age=known.age,
            source=Source(
                kind="pool",
                probe=known.probe,
                reporter=known.reporter,
                place=str(instance.place),
            ),
        )

    def measured(self, resource: Resource, instance: Instance) -> Measured:
        """What is known of an instance, shared or of one host."""
        if instance.host is not None:
            return self._own_measured(resource, instance.host)
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
            self.stale_reason(host, resource) if stale else cell.reason,
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

    def _age(self, measured: float) -> float | None:
        age = self.now - measured
        return max(0.0, age) if abs(age) < float("inf") else None

    # pools

    def pools(self) -> Iterator[PoolView]:
        """Every instance that can be leased, in file order."""
        for instance in self._core.distribution.leasable():
            yield self.pool(self._core.resources[instance.resource], instance)

    def pool(self, resource: Resource, instance: Instance) -> PoolView:
        """One instance that can be leased."""
        known = self.measured(resource, instance)
        numbers = self._core.amounts(resource, instance, known.value)
        return PoolView(
            resource=resource.name,
            unit=resource.unit,
            members=self._core.distribution.members(instance),
            capacity=numbers.capacity,
            reported=known.value if instance.dynamic else None,
            leased=numbers.leased,
            reserve=numbers.reserve,
            free=numbers.free if known.state == "fresh" else None,
            overcommitted=numbers.overcommitted,
            state=known.state,
            age=known.age,
            reporter=known.reporter if instance.dynamic else None,
            instance=instance.id,
            source=str(instance.place),
            holders=None,
            waiting=(),
        )

    def pools_view(self, *, holders: bool) -> PoolsView:
        """All pools; nobody can hold anything yet, so `holders` gives empty lists."""
        pools = self.pools()
        return PoolsView(
            pools=tuple(_with_holders(pool) for pool in pools) if holders else tuple(pools)
        )


def _with_holders(pool: PoolView) -> PoolView:
    return msgspec.structs.replace(pool, holders=())


def _free(numbers: Amounts) -> float | None:
    return None if numbers.free is None else float(numbers.free)


def _agent(session: Session | None, now: float) -> AgentView | None:
    if session is None:
        return None
    return AgentView(version=session.software, uptime=max(0.0, now - session.born))


def _config(session: Session | None) -> ConfigView | None:
    if session is None:
        return None
    return ConfigView(
        same=not session.differs, differs=tuple(sorted(session.differs)), refused=session.refused
    )


def _unknown(kind: str, name: str, hint: str | None) -> str:
    return f"no {kind} {name[:80]!r} is known" + (f" ({hint})" if hint else "")
