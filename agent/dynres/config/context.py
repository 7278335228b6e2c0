"""What a location may name: the hosts and groups of hosts.yaml, or whatever the files name."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from dynres.config.faults import Fault
from dynres.config.hostfile import HostFile
from dynres.config.hosts import sort_hosts
from dynres.config.model import Host, Location, Place
from dynres.config.names import KEYWORDS, AmbiguousError, Names
from dynres.config.terms import Expander, NearMisses, Term, listed


class Folded(NamedTuple):
    """A location (as good as it could be read where there are faults)."""

    location: Location
    faults: list[Fault]
    warnings: list[Fault]
    spelled: frozenset[str] = frozenset()
    """Hosts that a term of their own spells out (no range over several, no group, no keyword)."""


class Context:
    """The known hosts and groups of a folder.

    With hosts.yaml: those that it declares. Without: every host that any location or reporter
    names, so call `declare` for the terms of *every* location and reporter before the first fold.
    """

    def __init__(self, hostfile: HostFile | None, role: Literal["agent", "controller"]) -> None:
        """`hostfile` None: there is no hosts.yaml, and an agent cannot tell what a group is."""
        self.listed = hostfile is not None
        self.groups_known = self.listed or role == "controller"
        self.groups = hostfile.groups if hostfile else {}
        self.expander = Expander()
        self.near = NearMisses()
        self.folded: dict[tuple[str, ...], Folded] = {}
        """Locations without a complaint, by scope and texts: the same text folds once."""
        self._hosts = {host.name: host for host in hostfile.hosts} if hostfile else {}
        self._places: dict[str, Place] = {}
        self.names = Names(self._hosts)
        self.idle = frozenset(host.name for host in self._hosts.values() if not host.worker)
        """Hosts with `worker: false`."""

    def declare(self, terms: Iterable[Term] | None) -> None:
        """Without hosts.yaml make the hosts of these terms known; with it do nothing."""
        if self.listed:
            return
        for term in terms or ():
            body = term.text.removeprefix("~")
            if body in KEYWORDS or body.startswith("@"):
                continue
            names = self.expander.hosts(term, body)
            for name in () if isinstance(names, Fault) else names:
                first = self._places.get(name)
                if first is None:
                    self.names.add(name)
                if first is None or term.place < first:
                    self._places[name] = term.place

    def hosts(self) -> tuple[Host, ...]:
        """All known hosts in NodeSet's order (`Configuration.hosts`)."""
        if self.listed:
            return tuple(self._hosts.values())
        found: dict[str, Place] = {}
        for name, place in self._places.items():
            try:
                host = self.names.canonical(name)
            except AmbiguousError:
                continue
            if host is not None:
                found[host] = min(place, found.get(host, place))
        return tuple(Host(name=name, place=found[name]) for name in sort_hosts(found))


def describe_unknown(context: Context, term: Term, unknown: Sequence[str]) -> Fault:
    """The fault for a term with names, or one `@group`, that nothing declares."""
    first = unknown[0]
    if first.startswith("@"):
        return Fault(
            place=term.place,
            what=f"unknown group {first}",
            expected="a group of hosts.yaml" if context.listed else "no group: no hosts.yaml",
            got=first,
            hint=_group_hint(context, first[1:]),
        )
    return Fault(
        place=term.place,
        what="unknown host",
        expected="hosts that hosts.yaml declares",
        got=listed(unknown),
        hint=_host_hint(context, first),
    )


def _group_hint(context: Context, name: str) -> str | None:
    if not context.listed:
        return "groups are declared in hosts.yaml"
    if name in context.names:
        return f"{name} is a host: write it without the @"
    return context.near.hint(f"@{name}", [f"@{group}" for group in context.groups])


def _host_hint(context: Context, name: str) -> str | None:
    if name in context.groups:
        return f'{name} is a group: write "@{name}"'
    word = name.lower().removesuffix("s")
    meant = {"all": "all", "default": "default", "other": "others"}.get(word)
    if meant:
        return f"did you mean {meant}?"
    return context.near.hint(name, context.names)
