"""What operators ask: values set and unset, hosts closed, opened and forgotten; all durable."""

from collections.abc import Callable, Iterable

from dynres.config.model import Resource
from dynres.config.near import nearest
from dynres.controller.amounts import amount_fault
from dynres.controller.answers import Answers, RefusedError
from dynres.controller.changes import (
    AnyChange,
    Closed,
    CloseHost,
    Event,
    OpenHost,
    Override,
    UnsetOverride,
)
from dynres.controller.changes import SetOverride as Set
from dynres.controller.core import Core, Output
from dynres.controller.distribution import Instance
from dynres.controller.intake import value_fault
from dynres.controller.lease_answers import override_view
from dynres.controller.ledger_base import LedgerError
from dynres.controller.operators import host_key, pool_key
from dynres.controller.parking import Reply
from dynres.controller.proposal import Instant
from dynres.controller.settling import Settling
from dynres.value import Value, convert, read_amount, read_value, split_quantity
from dynres.wire.lease_views import ChangedView, OverrideView
from dynres.wire.leasing import (
    Changed,
    CloseHosts,
    ForgetHosts,
    OpenHosts,
    OperatorRequest,
    SetOverride,
)
from dynres.wire.leasing import (
    UnsetOverride as Unset,
)
from dynres.wire.requests import Failure


class Operating:
    """Overrides, and hosts that get no work."""

    def __init__(
        self,
        core: Core,
        settling: Settling,
        instant: Callable[[], Instant],
        count: Callable[[str, str], None],
    ) -> None:
        self._core = core
        self._settling = settling
        self._instant = instant
        self._count = count
        self._ending: set[str] = set()
        self.carry_out: Callable[[list[Output]], None] = lambda _: None
        """What the core wants to be done after a host is forgotten."""

    def take(self, request: OperatorRequest, reply: Reply) -> None:
        """Answer a request once what it changes is durable. Raises RefusedError."""
        at = self._instant()
        answers = Answers(self._core, at.clock, at.wall)
        if isinstance(request, SetOverride):
            changes = self._set(request, answers, at)
        elif isinstance(request, Unset):
            changes = self._unset(request, answers)
        else:
            changes = self._hosts(request, answers, at)
        verb = str(request.__struct_config__.tag)

        def done(error: LedgerError | None) -> None:
            self._count(verb, "done" if error is None else "ledger")
            if error is not None:
                reply(Failure(code="ledger", message=str(error)))
                return
            self._apply(changes)
            reply(Changed(view=self._shown(changes)))

        self._settling.submit(changes, done)

    # overrides

    def _set(self, request: SetOverride, answers: Answers, at: Instant) -> list[AnyChange]:
        resource = answers.resource_named(request.resource)
        if not request.reason.strip():
            raise RefusedError("usage", "an override needs a reason, for those who meet it")
        value = None if request.value is None else read_override(resource, request.value)
        changes: list[AnyChange] = []
        for key, hosts, instance in self._targets(request, resource, answers):
            override = Override(
                resource.name,
                value,
                request.reason,
                request.who,
                at.wall,
                hosts,
                instance,
                request.lasts,
                resource.unit,
            )
            changes.append(Set(key, override))
        return changes

    def _unset(self, request: Unset, answers: Answers) -> list[AnyChange]:
        resource = answers.resource_named(request.resource)
        if not request.hosts and request.pool is None:
            known = [
                (key, s.override.hosts, s.override.instance)
                for key, s in self._core.operators.overrides.items()
                if s.override.resource == resource.name
            ]
        else:
            known = self._targets(request, resource, answers)
        return [
            UnsetOverride(key, resource.name, request.who, hosts, instance)
            for key, hosts, instance in known
            if key in self._core.operators.overrides
        ]

    def _targets(
        self, request: SetOverride | Unset, resource: Resource, answers: Answers
    ) -> list[tuple[str, tuple[str, ...], str | None]]:
        """Key, hosts and instance of each override that is meant. Raises RefusedError."""
        name = resource.name
        if resource.shared:
            if request.hosts:
                raise RefusedError(
                    "usage", f"{name} is shared: name the pool (--pool), not hosts of it"
                )
            instance = self._instance(resource, request.pool)
            return [(pool_key(name, instance.id), (), instance.id)]
        if request.pool is not None or not request.hosts:
            raise RefusedError("usage", f"{name} is per host: name the hosts (--host)")
        hosts = answers.hosts_named(request.hosts)
        if isinstance(request, SetOverride):
            absent = [h for h in hosts if self._core.table.cell(h, name, answers.now) is None]
            if absent:
                raise RefusedError("usage", f"{name} is absent on {', '.join(absent[:5])}")
        return [(host_key(name, host), (host,), None) for host in hosts]

    def _instance(self, resource: Resource, pool: str | None) -> Instance:
        found = list(self._core.distribution.pools(resource.name))
        wanted = (pool or "").removeprefix(f"{resource.name}/")
        if wanted in {"", resource.name} and len(found) == 1:
            return found[0]
        for instance in found:
            if instance.id == wanted:
                return instance
        names = [instance.id for instance in found]
        hint = nearest(wanted, names) or f"its pools: {', '.join(names[:8])}"
        got = f"no pool {wanted!r} of {resource.name} is known" if pool else "which pool is meant?"
        raise RefusedError("usage", f"{got} ({hint})")

    # hosts

    def _hosts(
        self, request: CloseHosts | OpenHosts | ForgetHosts, answers: Answers, at: Instant
    ) -> list[AnyChange]:
        if not request.hosts:
            raise RefusedError("usage", "no host is named")
        hosts = answers.hosts_named(request.hosts)
        if isinstance(request, CloseHosts):
            if not request.reason.strip():
                raise RefusedError("usage", "closing a host needs a reason")
            closed = Closed(request.reason, request.who, at.wall)
            return [CloseHost(host, closed) for host in hosts]
        if isinstance(request, OpenHosts):
            known = self._core.operators.closed
            return [OpenHost(h, request.who, request.reason) for h in hosts if h in known]
        for host in hosts:
            fault = self._core.registry.fault_of_forgetting(host, at.clock)
            if fault is not None:
                raise RefusedError("usage", fault)
        changes: list[AnyChange] = []
        for host in hosts:
            detail = request.who + (f": {request.reason}" if request.reason else "")
            changes.append(Event("forgotten", None, None, None, None, host, None, detail))
            if host in self._core.operators.closed:
                changes.append(OpenHost(host, request.who, "forgotten"))
        return changes

    # effects

    def tick(self, at: Instant) -> None:
        """Overrides whose time is over end."""
        over = [c for c in self._core.operators.over(at.clock) if c.key not in self._ending]
        if not over:
            return
        keys = {change.key for change in over}
        self._ending |= keys

        def done(error: LedgerError | None) -> None:
            self._ending.difference_update(keys)
            if error is None:
                self._apply(over)

        self._settling.submit(over, done)

    def _apply(self, changes: Iterable[AnyChange]) -> None:
        """What is durable takes effect."""
        at = self._instant()
        core = self._core
        overruled = False
        for change in changes:
            core.operators.apply(change, at)
            if isinstance(change, Set):
                overruled = True
                self._touch(change.override.resource, change.override.instance)
            elif isinstance(change, UnsetOverride):
                overruled = True
                self._touch(change.resource, change.instance)
            elif isinstance(change, Event) and change.host is not None:
                self.carry_out(core.forget(change.host, at.clock))
        if overruled:
            core.overrule()
        self._settling.follow(core.pools.gained(at))

    def _touch(self, resource: str, instance: str | None) -> None:
        """Followers of the feed are told of a pool."""
        if instance is not None:
            self._core.shared.changed.add((resource, instance))

    def _shown(self, changes: Iterable[AnyChange]) -> ChangedView:
        at = self._instant()
        overrides: list[OverrideView] = []
        hosts: dict[str, None] = {}
        pools: dict[str, None] = {}
        for change in changes:
            if isinstance(change, Set):
                standing = self._core.operators.overrides.get(change.key)
                if standing is not None:
                    own = change.override.hosts
                    overrides.append(override_view(standing, own[0] if own else None, at))
            elif isinstance(change, UnsetOverride):
                hosts.update(dict.fromkeys(change.hosts))
                if change.instance is not None:
                    pools[change.instance] = None
            elif isinstance(change, CloseHost | OpenHost | Event):
                hosts[change.host or ""] = None
        return ChangedView(overrides=tuple(overrides), hosts=tuple(hosts), pools=tuple(pools))


def read_override(resource: Resource, given: Value) -> Value:
    """A value as the resource declares it; a text is read, units convert. Raises RefusedError."""
    try:
        value = _read(resource, given)
        fault = value_fault(resource, value) or (amount_fault(value) if resource.leasable else None)
        if fault is not None:
            raise ValueError(fault)
    except ValueError as error:
        expected = f"a value of type {resource.type}"
        got = f"got {given!r}: {error}"
        raise RefusedError("usage", f"{resource.name}: expected {expected}, {got}") from error
    return value


def _read(resource: Resource, given: Value) -> Value:
    if not isinstance(given, str):
        return float(given) if resource.type == "numeric" else given
    if resource.type != "numeric":
        return read_value(given, resource.type)
    number, unit = split_quantity(given)
    if not unit or unit == resource.unit:
        return read_value(number, "numeric")
    if resource.unit is None:
        raise ValueError(f"unit {unit}, but {resource.name} has none")
    return float(convert(read_amount(number), unit, resource.unit, rounding="down"))
