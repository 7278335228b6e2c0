"""Folds the terms of a `location:` into the hosts it covers, whatever the order of its terms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from dynres.config.faults import Fault
from dynres.config.hostfile import HostFile, Term
from dynres.config.model import Entry, Host, Location, Place, Resource

Scope = Literal["per-host", "shared", "global"]


class Context:
    """What a location may name.

    With hosts.yaml: its hosts and groups. Without: every host that any location or reporter names,
    so call `declare` for the terms of *every* location and reporter before the first `fold`.
    """

    def __init__(self, hostfile: HostFile | None, role: Literal["agent", "controller"]) -> None:
        """`hostfile` None: there is no hosts.yaml."""
        raise NotImplementedError

    def declare(self, terms: Iterable[Term] | None) -> None:
        """Without hosts.yaml make the hosts of these terms known; with it do nothing."""
        raise NotImplementedError

    def hosts(self) -> tuple[Host, ...]:
        """All known hosts in NodeSet's order (`Configuration.hosts`)."""
        raise NotImplementedError


class Folded(NamedTuple):
    """A location (as good as it could be read where there are faults)."""

    location: Location
    faults: list[Fault]
    warnings: list[Fault]
    spelled: frozenset[str]
    """Hosts that a term of their own spells out (no range over several, no group, no keyword)."""


def fold(terms: Sequence[Term] | None, context: Context, *, scope: Scope, place: Place) -> Folded:
    """Fold the terms of one entry. `terms` None: there is no `location:`; `place`: of the entry.

    A term that is no text in YAML (`[node[1-4,9]]` is a list in a list) is not a term: report it
    with `unquoted` and fold the others. Never raises.
    """
    raise NotImplementedError


def fold_reporters(
    terms: Sequence[Term], context: Context
) -> tuple[tuple[str, ...], list[Fault], list[Fault]]:
    """The hosts of `reporter:`, each once, *in the order given*, with faults and warnings.

    Host names, ranges and groups; `worker: false` hosts too. Keywords and exclusions are faults.
    """
    raise NotImplementedError


def unquoted(place: Place, got: str) -> Fault:
    """The fault for a term that YAML reads as a list or a mapping (`got`): quote it."""
    raise NotImplementedError


def check_overlaps(name: str, entries: Sequence[Entry]) -> list[Fault]:
    """Faults of one resource whose entries put a host into two instances, each with both places.

    Also two entries with `all`, two with `default`/`others`, and two instances of one name.
    """
    raise NotImplementedError


def check_host_values(
    resources: Iterable[Resource],
    hosts: Iterable[Host],
    spelled: Mapping[Place, frozenset[str]],
) -> list[Fault]:
    """Faults of values in hosts.yaml against the resources that they are for.

    A value for a dynamic or a shared resource; a value that differs from that of an entry which
    spells out that very host (`spelled`: `Folded.spelled` by `Entry.place`). Values for resources
    that are not among `resources` are passed over: the reader of the values reports those.
    """
    raise NotImplementedError
