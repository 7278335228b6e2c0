"""Turns the rows of hosts.yaml into hosts and flat groups, or says what is wrong with them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dynres.config.faults import Fault
from dynres.config.hosts import sort_hosts
from dynres.config.model import Host, HostValue, Place
from dynres.config.names import KEYWORDS, AmbiguousError, Names, is_host_name
from dynres.config.terms import (
    Expander,
    NearMisses,
    Term,
    group_of,
    keyword_fault,
    listed,
    shown,
)

__all__ = ["HostFile", "Row", "Term", "read_hosts"]


@dataclass(frozen=True)
class Row:
    """One item of `hosts:`; `name` may hold ranges, each host then has the values."""

    name: Term
    worker: bool = True
    values: tuple[HostValue, ...] = ()


class HostFile(NamedTuple):
    """What hosts.yaml declares; hosts and members under canonical names, in NodeSet's order."""

    hosts: tuple[Host, ...]
    groups: dict[str, tuple[str, ...]]
    faults: list[Fault]


def read_hosts(rows: Sequence[Row], groups: Iterable[tuple[Term, Sequence[Term]]]) -> HostFile:
    """Expand rows and groups (each group's key with the terms of its list).

    Never raises: what cannot be used is left out and has a fault. Faults: a host twice, a keyword
    as a name, a resource twice for one host, values for a `worker: false` host, an unknown host or
    group in a group, groups in a cycle (each cycle is named once).
    """
    expander, faults = Expander(), list[Fault]()
    hosts = _Hosts(expander, faults)
    for row in rows:
        hosts.add(row)
    hosts.check_names()
    reader = _Groups(expander, hosts.names, faults)
    for key, terms in groups:
        reader.add(key, terms)
    flat = reader.resolve()
    ordered = tuple(hosts.by_name[name] for name in sort_hosts(hosts.by_name))
    return HostFile(ordered, flat, faults)


class _Hosts:
    """Collects the hosts of the rows."""

    def __init__(self, expander: Expander, faults: list[Fault]) -> None:
        self.expander = expander
        self.faults = faults
        self.by_name: dict[str, Host] = {}
        self.names = Names()

    def add(self, row: Row) -> None:
        place = row.name.place
        names = self.expander.hosts(row.name, row.name.text)
        if isinstance(names, Fault):
            expected = "a host name, or names with ranges such as node[001-128]"
            self.faults.append(
                Fault(
                    place=place,
                    what=names.what.replace("host term", "host name"),
                    expected=expected,
                    got=names.got,
                    hint=names.hint,
                )
            )
            return
        if row.name.text in KEYWORDS:
            self.faults.append(keyword_fault(place, row.name.text, "a host's name"))
            return
        self._check_values(row)
        again = [name for name in names if name in self.by_name]
        if again:
            first = self.by_name[again[0]].place
            self._twice(place, f"host {listed(again)}", f"a second one; the first is at {first}")
        values = row.values if row.worker else ()
        for name in names:
            if name not in self.by_name:
                host = Host(name=name, worker=row.worker, values=values, place=place)
                self.by_name[name] = host
                self.names.add(name)

    def _check_values(self, row: Row) -> None:
        first: dict[str, Place] = {}
        for value in row.values:
            if value.resource in first:
                got = f"a second one; the first is at {first[value.resource]}"
                self._twice(value.place, f"resource {value.resource} of {row.name.text}", got)
            first.setdefault(value.resource, value.place)
        if row.values and not row.worker:
            self.faults.append(
                Fault(
                    place=row.values[0].place,
                    what=f"a value for {row.name.text}, which has worker: false",
                    expected="no resources: it is member of no mapping",
                    hint="delete the resource: or the worker: false",
                )
            )

    def _twice(self, place: Place, what: str, got: str) -> None:
        self.faults.append(
            Fault(
                place=place,
                what=f"{what} is declared twice",
                expected="each once",
                got=got,
                hint="delete one of them",
            )
        )

    def check_names(self) -> None:
        """`h1` beside `h1.x` is one host twice; beside two such names it is neither."""
        for name, host in list(self.by_name.items()):
            try:
                meant = self.names.canonical(name)
            except AmbiguousError as error:
                self.faults.append(
                    Fault(place=host.place, what=f"ambiguous host name {name}", got=str(error))
                )
                continue
            if meant is not None and meant != name:
                first = self.by_name[meant].place
                got = f"{name} here and {meant} at {first}: they are one host"
                self._twice(host.place, f"host {meant}", got)
                del self.by_name[name]


class _Groups:
    """Collects the groups, and flattens those that may be."""

    def __init__(self, expander: Expander, names: Names, faults: list[Fault]) -> None:
        self.expander = expander
        self.names = names
        self.faults = faults
        self.near = NearMisses()
        self.rows: dict[str, tuple[Term, Sequence[Term]]] = {}
        self.members: dict[str, set[str]] = {}
        self.nested: dict[str, dict[str, Place]] = {}

    def add(self, key: Term, terms: Sequence[Term]) -> None:
        name = key.text
        if name in KEYWORDS:
            self.faults.append(keyword_fault(key.place, name, "a group's name"))
        elif not is_host_name(name):
            self.faults.append(
                Fault(
                    place=key.place,
                    what="not the name of a group",
                    expected="letters, digits, '.', '-', '_'",
                    got=shown(name),
                    hint=f"write {name[1:]}: without the @" if name[:1] == "@" else None,
                )
            )
        else:
            self.rows[name] = (key, terms)

    def resolve(self) -> dict[str, tuple[str, ...]]:
        """Every group with all its members; those in or above a cycle without what is unknown."""
        for name, (_, terms) in self.rows.items():
            self.members[name], self.nested[name] = set(), {}
            for term in terms:
                self._term(name, term)
        waiting = {name: set(inner) for name, inner in self.nested.items() if inner}
        above: dict[str, list[str]] = {}
        for name, inner in self.nested.items():
            for nested in inner:
                above.setdefault(nested, []).append(name)
        ready = [name for name in self.rows if name not in waiting]
        while ready:
            done = ready.pop()
            for name in above.get(done, ()):
                self.members[name] |= self.members[done]
                waiting[name].discard(done)
                if not waiting[name]:
                    del waiting[name]
                    ready.append(name)
        for cycle in _cycles(waiting):
            self._cycle(cycle)
        return {name: tuple(sort_hosts(hosts)) for name, hosts in self.members.items()}

    def _term(self, name: str, term: Term) -> None:
        text = term.text
        if text in KEYWORDS or text.startswith("~"):
            self.faults.append(
                Fault(
                    place=term.place,
                    what=f"{text!r} in group {name}",
                    expected="host names, ranges and @groups",
                    got=shown(text),
                    hint="exclusions and all, default, others belong into a location",
                )
            )
        elif text.startswith("@"):
            self._nest(name, term)
        else:
            found = self.expander.hosts(term, text)
            if isinstance(found, Fault):
                self.faults.append(found)
            else:
                self._hosts(name, term, found)

    def _nest(self, name: str, term: Term) -> None:
        group = group_of(term, term.text)
        if isinstance(group, Fault):
            self.faults.append(group)
        elif group in self.rows:
            self.nested[name][group] = term.place
        else:
            self.faults.append(
                Fault(
                    place=term.place,
                    what=f"unknown group @{group} in group {name}",
                    expected="a group of hosts.yaml",
                    got=f"@{group}",
                    hint=self.near.hint(f"@{group}", [f"@{known}" for known in self.rows]),
                )
            )

    def _hosts(self, name: str, term: Term, hosts: tuple[str, ...]) -> None:
        unknown = []
        for host in hosts:
            try:
                meant = self.names.canonical(host)
            except AmbiguousError as error:
                self.faults.append(
                    Fault(place=term.place, what=f"ambiguous host name {host}", got=str(error))
                )
                continue
            if meant is None:
                unknown.append(host)
            else:
                self.members[name].add(meant)
        if unknown:
            self.faults.append(
                Fault(
                    place=term.place,
                    what=f"unknown host in group {name}",
                    expected="hosts that hosts: declares",
                    got=listed(unknown),
                    hint=self.near.hint(unknown[0], self.names),
                )
            )

    def _cycle(self, cycle: list[str]) -> None:
        first = cycle[0]
        around = " -> ".join(f"@{name}" for name in [*cycle, first])
        self.faults.append(
            Fault(
                place=self.nested[first][cycle[1 % len(cycle)]],
                what="groups in a cycle",
                expected="groups that do not contain themselves",
                got=around,
                hint="take one of them out of the other",
            )
        )


def _cycles(waiting: dict[str, set[str]]) -> Iterator[list[str]]:
    """Cycles among groups that wait for each other, each once, from its first name on."""
    seen: set[str] = set()
    for start in sorted(waiting):
        path: list[str] = []
        on_path: dict[str, int] = {}
        name = start
        while name not in seen:
            seen.add(name)
            on_path[name] = len(path)
            path.append(name)
            name = min(waiting[name])
        if name in on_path:
            cycle = path[on_path[name] :]
            at = cycle.index(min(cycle))
            yield cycle[at:] + cycle[:at]
