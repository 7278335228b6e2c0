"""What the tables look like to clients: the views of hosts, values and pools."""

from collections.abc import Iterable

from dynres.config.model import Resource
from dynres.config.names import AmbiguousError, host_key
from dynres.config.near import nearest
from dynres.controller.changes import Closed
from dynres.controller.condition import RequirementError
from dynres.controller.placement import Placement
from dynres.controller.pool_answers import PoolAnswers
from dynres.controller.readings import STATES, free_number, override_source, timestamp
from dynres.controller.requirement import Requirement
from dynres.controller.resvals import DIFFERS, FRESH, STALE, Cell, Origin
from dynres.controller.session import Session
from dynres.wire.requests import AskHosts, Failure
from dynres.wire.views import (
    AgentView,
    ConfigView,
    HostDetail,
    HostsView,
    HostView,
    Source,
    ValueView,
)


class RefusedError(Exception):
    """A request that cannot be answered; `failure` is what the client gets."""

    def __init__(self, code: str, message: str) -> None:
        self.failure = Failure(code=code, message=message)
        super().__init__(message)


class Answers(PoolAnswers):
    """Answers out of a core's tables, as they are at `now`."""

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
        state = self._core.registry.state(host, self.now)
        return HostDetail(
            state=state,
            closed=host in self._core.closed,
            agent=_agent(session, self.now, up=state == "up"),
            config=_config(session),
            why_closed=_why_closed(self._core.operators.closed.get(host)),
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
            why_closed=detail.why_closed,
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
                value = free_number(self._core.amounts(instance, value))
                last = free_number(self._core.amounts(instance, last))
        origin = cell.origin
        standing = None
        if origin.kind == "override":
            standing = self._core.operators.on_host(resource.name, host)
        return ValueView(
            value=value if cell.state == FRESH else None,
            last=last,
            unit=resource.unit,
            state=STATES.get(cell.state, "unavailable"),
            reason=self.why_stale(host, resource, origin.probe)
            if cell.state == STALE
            else cell.reason,
            age=self._age(cell.measured),
            source=_source(origin, host)
            if standing is None
            else override_source(standing, self.now, self.wall),
            reported=None if standing is None else self.below(host, resource),
        )

    def _shared_value(self, host: str, resource: Resource) -> ValueView | None:
        instance = self._core.distribution.instance_for(resource.name, host)
        if instance is None:
            return None
        known = self.measured(resource, instance)
        value, last = known.value, known.last
        if resource.leasable:
            value = free_number(self._core.amounts(instance, value))
            last = free_number(self._core.amounts(instance, last))
        session = self._core.registry.session(host)
        standing = self._core.operators.of(instance)
        differs = session is not None and session.differs.get(resource.name) == DIFFERS
        clash = differs and standing is None
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
            )
            if standing is None
            else override_source(standing, self.now, self.wall),
            reported=None if standing is None else self.reported(resource, instance),
        )


def _source(origin: Origin, host: str) -> Source:
    reporter = None if origin.kind == "static" else host
    return Source(kind=origin.kind, probe=origin.probe, reporter=reporter, place=origin.place)


def _agent(session: Session | None, now: float, *, up: bool) -> AgentView | None:
    if session is None:
        return None
    seen = now if up else session.heard  # an agent that is gone grows no older
    return AgentView(version=session.software, uptime=max(0.0, seen - session.born))


def _why_closed(closed: Closed | None) -> str | None:
    return None if closed is None else f"{closed.reason} ({closed.who}, {timestamp(closed.since)})"


def _config(session: Session | None) -> ConfigView | None:
    if session is None:
        return None
    return ConfigView(
        same=not session.differs, differs=tuple(sorted(session.differs)), refused=session.refused
    )


def _unknown(kind: str, name: str, hint: str | None) -> str:
    return f"no {kind} {name[:80]!r} is known" + (f" ({hint})" if hint else "")
