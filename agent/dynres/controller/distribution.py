"""Declarations + hosts -> instances: which host has which value, pool and measurement.

Nothing is laid out host by resource: each resource keeps an index of its entries, and columns,
members and a host's own list are derived from it when they are asked for. So a host that joins
late costs nothing, and gets what it would have had from the start.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from dynres.config.covers import Cover
from dynres.config.instances import shared_id
from dynres.config.model import Configuration, Entry, HostValue, Place, Resource
from dynres.config.names import AmbiguousError, Names, host_key
from dynres.value import Value, format_number


class Assignment(NamedTuple):
    """One declared value, replicated: each of `hosts` has an instance of its own with it."""

    value: Value
    place: Place
    hosts: tuple[str, ...]


class Declared(NamedTuple):
    """The static value of one host, and where it is written."""

    value: Value
    place: Place


class Instance(NamedTuple):
    """A shared instance (one an entry), or a consumable instance of one host.

    It is the same before and after a host joins: ask the distribution for members and reporters.
    """

    resource: str
    id: str
    """Unique within the resource; keeps across reloads whatever keeps its name or location."""
    place: Place
    dynamic: bool
    value: Value | None
    """The declared value; None when it is measured."""
    capacity: Decimal | None
    """The declared amount (static value, or `capacity:`); None when nothing declares one."""
    reserve: Decimal | None
    reserve_percent: Decimal | None
    entry: int | None
    """Index in the resource's entries; None where only hosts.yaml gives the host its value."""
    host: str | None
    """The only member of a per-host instance; None for a shared one."""


class _Column:
    """One resource and what finds its values: the index of its entries, values of hosts.yaml."""

    __slots__ = ("cover", "instances", "members", "own", "resource")

    def __init__(self, resource: Resource, own: dict[str, HostValue]) -> None:
        self.resource = resource
        self.cover = Cover(resource)
        self.own = own
        self.members: dict[int, tuple[str, ...]] = {}  # by entry; emptied when a host joins
        self.instances = _shared_instances(resource) if resource.shared else []


class Distribution:
    """Who has what, for one configuration and the hosts that are known so far."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.names = Names(host.name for host in configuration.hosts)
        """Every known host, under its canonical name; joined ones too."""
        self._hosts = sorted((h.name for h in configuration.hosts if h.worker), key=host_key)
        self._all: tuple[str, ...] | None = None
        self._workers = set(self._hosts)
        own: dict[str, dict[str, HostValue]] = {}
        for host in configuration.hosts:
            for value in host.values if host.worker else ():
                own.setdefault(value.resource, {})[host.name] = value
        self._columns = {r.name: _Column(r, own.get(r.name, {})) for r in configuration.resources}
        self._measured = [
            column
            for column in self._columns.values()
            if column.resource.dynamic and not column.resource.shared
        ]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every worker host, declared or joined, in NodeSet's order."""
        if self._all is None:
            self._all = tuple(self._hosts)
        return self._all

    def canonical(self, host: str) -> str | None:
        """The known host that a name means; None for an unknown or an ambiguous one."""
        try:
            return self.names.canonical(host)
        except AmbiguousError:
            return None

    def join(self, host: str) -> bool:
        """Let a registered host join `all`, `others` and `default`; whether anything is new.

        False for a host that is known already, `worker: false` included.
        """
        if self.canonical(host) is not None:
            return False
        self.names.add(host)
        insort(self._hosts, host, key=host_key)
        self._workers.add(host)
        self._all = None
        for column in self._columns.values():
            column.members.clear()
        return True

    # Static values, each host its own

    def static(self, resource: str) -> Iterator[Assignment]:
        """A static per-host resource's values with their hosts; none for any other resource.

        Each host is in at most one assignment. O(hosts), a tuple of hosts may be shared.
        """
        column = self._columns[resource]
        if column.resource.dynamic or column.resource.shared:
            return
        for index, entry in enumerate(column.resource.entries):
            hosts = self._members(column, index)
            if column.own:
                hosts = tuple(host for host in hosts if host not in column.own)
            if hosts and entry.value is not None:
                yield Assignment(entry.value, entry.place, hosts)
        rows: dict[Place, list[str]] = {}
        for host, value in column.own.items():
            rows.setdefault(value.place, []).append(host)
        for place, named in rows.items():
            yield Assignment(column.own[named[0]].value, place, tuple(named))

    def value_for(self, resource: str, host: str) -> Declared | None:
        """The static value of a per-host resource on `host`, None where it is absent there."""
        column = self._columns[resource]
        if column.resource.dynamic or column.resource.shared or host not in self._workers:
            return None
        own = column.own.get(host)
        if own is not None:
            return Declared(own.value, own.place)
        entry = column.cover.entry_for(host)
        if entry is None or entry.value is None:
            return None
        return Declared(entry.value, entry.place)

    # Dynamic values, each host its own

    def measured(self, resource: str) -> tuple[str, ...]:
        """The hosts that measure a dynamic per-host resource, in NodeSet's order."""
        column = self._columns[resource]
        if not column.resource.dynamic or column.resource.shared:
            return ()
        index_for = column.cover.index_for
        return tuple(host for host in self.hosts if index_for(host) is not None)

    def measured_by(self, host: str) -> tuple[str, ...]:
        """The dynamic per-host resources that `host` measures, in file order."""
        if host not in self._workers:
            return ()
        return tuple(
            column.resource.name
            for column in self._measured
            if column.cover.index_for(host) is not None
        )

    def covered(self, resource: str, entry: int) -> tuple[str, ...]:
        """The hosts that an entry (by index) covers now, in NodeSet's order."""
        return self._members(self._columns[resource], entry)

    # Instances: pools and what one host can lease

    def pools(self, resource: str | None = None) -> Iterator[Instance]:
        """Every shared instance, or those of one resource, in file order."""
        for column in self._chosen(resource):
            yield from column.instances

    def leasable(self, resource: str | None = None) -> Iterator[Instance]:
        """Every instance that jobs can hold amounts of, in file order, then in NodeSet's."""
        for column in self._chosen(resource):
            if not column.resource.leasable:
                continue
            yield from column.instances
            if not column.resource.shared:
                found = (self._own_instance(column, host) for host in self.hosts)
                yield from (instance for instance in found if instance is not None)

    def instance_for(self, resource: str, host: str) -> Instance | None:
        """The shared or consumable instance that `host` draws on; None where it is in none."""
        column = self._columns[resource]
        if host not in self._workers:
            return None
        if column.resource.shared:
            index = column.cover.index_for(host)
            return None if index is None else column.instances[index]
        return self._own_instance(column, host) if column.resource.leasable else None

    def members(self, instance: Instance) -> tuple[str, ...]:
        """The hosts that an instance serves now, in NodeSet's order."""
        if instance.host is not None:
            return (instance.host,)
        if instance.entry is None:
            return ()
        return self._members(self._columns[instance.resource], instance.entry)

    def reporters(self, instance: Instance) -> tuple[str, ...]:
        """Who may measure a shared dynamic instance, most wanted first; none for a static one."""
        if not instance.dynamic or instance.entry is None:
            return ()
        entry = self._columns[instance.resource].resource.entries[instance.entry]
        return entry.reporters or self.members(instance)

    def _chosen(self, resource: str | None) -> Iterable[_Column]:
        return self._columns.values() if resource is None else (self._columns[resource],)

    def _members(self, column: _Column, index: int) -> tuple[str, ...]:
        """The hosts of one entry; the same tuple until a host joins."""
        known = column.members.get(index)
        if known is not None:
            return known
        location = column.resource.entries[index].location
        if location.everyone and not location.minus:
            found = self.hosts
        elif not (location.everyone or location.rest or location.minus or location.unresolved):
            found = location.hosts
        else:
            index_for = column.cover.index_for
            found = tuple(host for host in self.hosts if index_for(host) == index)
        column.members[index] = found
        return found

    def _own_instance(self, column: _Column, host: str) -> Instance | None:
        """The instance of a consumable per-host resource on one host."""
        resource, index = column.resource, column.cover.index_for(host)
        entry = None if index is None else resource.entries[index]
        own = column.own.get(host)
        place = own.place if own is not None else entry.place if entry is not None else None
        if place is None:
            return None
        value = own.value if own is not None else entry.value if entry is not None else None
        return Instance(
            resource=resource.name,
            id=host if entry is None else _own_id(entry, host),
            place=place,
            dynamic=resource.dynamic,
            value=value,
            capacity=_amount(own, entry),
            reserve=entry.reserve if entry is not None else None,
            reserve_percent=entry.reserve_percent if entry is not None else None,
            entry=index,
            host=host,
        )


def distribute(configuration: Configuration, registered: Iterable[str] = ()) -> Distribution:
    """Distribute a configuration over its own hosts and those that have registered unlisted."""
    distribution = Distribution(configuration)
    for host in sorted(registered, key=lambda name: ("." not in name, name)):
        distribution.join(host)
    return distribution


def _shared_instances(resource: Resource) -> list[Instance]:
    """One instance an entry, in file order."""
    return [
        Instance(
            resource=resource.name,
            id=shared_id(resource.name, entry, alone=len(resource.entries) == 1),
            place=entry.place,
            dynamic=resource.dynamic,
            value=entry.value,
            capacity=_amount(None, entry),
            reserve=entry.reserve,
            reserve_percent=entry.reserve_percent,
            entry=index,
            host=None,
        )
        for index, entry in enumerate(resource.entries)
    ]


def _own_id(entry: Entry, host: str) -> str:
    """A name can only tell one host's instance; an entry over several is told by its hosts."""
    location = entry.location
    alone = not (location.everyone or location.rest) and location.hosts == (host,)
    return entry.name if entry.name is not None and alone else host


def _amount(own: HostValue | None, entry: Entry | None) -> Decimal | None:
    """The declared amount, exactly as it is written where the reader kept it so."""
    if own is None and entry is not None and entry.capacity is not None:
        return entry.capacity
    value = own.value if own is not None else entry.value if entry is not None else None
    return Decimal(format_number(value)) if isinstance(value, float) else None
