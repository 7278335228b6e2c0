"""Builds declarations without files: terms, known hosts, folded entries, resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynres.config.context import Context
from dynres.config.faults import Fault
from dynres.config.hostfile import Row, read_hosts
from dynres.config.locations import Scope, fold
from dynres.config.model import (
    Configuration,
    Entry,
    Host,
    HostValue,
    Location,
    Place,
    Resource,
)


@dataclass(frozen=True)
class Text:
    """A term as it stands in a file."""

    text: str
    line: int = 1
    column: int = 1
    plain: bool = True
    file: str = "resources.yaml"

    @property
    def place(self) -> Place:
        return Place(self.file, self.line, self.column)


def terms(*texts: str, line: int = 1) -> list[Text]:
    return [Text(text, line, column) for column, text in enumerate(texts, start=1)]


def listed(
    hosts: Sequence[str], groups: Mapping[str, Sequence[str]] | None = None, idle: str = ""
) -> Context:
    """What a hosts.yaml with these rows lets a location name; it has no faults."""
    rows = [Row(Text(name, line)) for line, name in enumerate(hosts, start=1)]
    rows += [Row(Text(name, 90), worker=False) for name in idle.split()]
    pairs = [(Text(name, 99), terms(*members, line=99)) for name, members in (groups or {}).items()]
    made = read_hosts(rows, pairs)
    assert made.faults == []
    return Context(made, "controller")


def location(context: Context, *texts: str, scope: Scope = "per-host") -> Location:
    """The location of terms that have no faults."""
    folded = fold(terms(*texts), context, scope=scope, place=Place("resources.yaml", 1, 1))
    assert folded.faults == []
    return folded.location


def entry(where: Location, value: Any = None, line: int = 1, **keys: Any) -> Entry:
    place = Place("resources.yaml", line, 9)
    return Entry(location=where, value=value, place=place, **keys)


def resource(name: str, *entries: Entry, **keys: Any) -> Resource:
    keys["flags"] = frozenset(keys.get("flags", ()))
    keys.setdefault("order", "decreasing")
    place = Place("resources.yaml", 1, 5)
    return Resource(name=name, entries=entries, place=place, **keys)


def configuration(
    hosts: Sequence[Host] | Context, *resources: Resource, listed: bool = True
) -> Configuration:
    known = hosts.hosts() if isinstance(hosts, Context) else tuple(hosts)
    return Configuration(resources=resources, probes=(), hosts=known, listed=listed)


def host(name: str, *, worker: bool = True, line: int = 1, **values: Any) -> Host:
    """A host of hosts.yaml with values of its own."""
    own = tuple(
        HostValue(resource=resource, value=value, place=Place("hosts.yaml", line, column))
        for column, (resource, value) in enumerate(values.items(), start=1)
    )
    return Host(name=name, worker=worker, values=own, place=Place("hosts.yaml", line, 5))


def words(faults: Sequence[Fault]) -> str:
    return "\n".join(map(str, faults))
