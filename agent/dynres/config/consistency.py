"""Checks that no host gets two instances of a resource, and no value stands against another."""

from collections.abc import Container, Iterable, Mapping, Sequence

from dynres.config.faults import Fault
from dynres.config.hosts import sort_hosts
from dynres.config.model import Entry, Host, HostValue, Place, Resource
from dynres.config.terms import listed
from dynres.value import format_value


def check_overlaps(name: str, entries: Sequence[Entry], known: Container[str] = ()) -> list[Fault]:
    """Faults of one resource whose entries put a host into two instances, each with both places.

    Also two entries with `all`, two with `default`/`others`, two entries of one name, and an entry
    named like one of the `known` hosts: another instance may be told by that host.
    """
    if len(entries) < 2:
        return []
    ordered = sorted(entries, key=lambda entry: entry.place)
    faults = _same_words(name, ordered) + _same_names(name, ordered, known)
    wide = next((entry for entry in ordered if entry.location.everyone), None)
    if _disjoint(ordered, wide):
        return faults
    first: dict[str, Entry] = {}
    both: dict[tuple[Place, Place], list[str]] = {}
    spared = set(wide.location.minus) if wide is not None else ()
    for entry in ordered:
        for host in entry.location.hosts:
            other = first.setdefault(host, entry)
            if other is not entry:
                both.setdefault((other.place, entry.place), []).append(host)
            elif wide is not None and host not in spared:
                pair = sorted((wide.place, entry.place))
                both.setdefault((pair[0], pair[1]), []).append(host)
    for (one, two), hosts in both.items():
        what = f"{listed(sort_hosts(hosts))} in two instances of {name}"
        faults.append(_twice(what, one, two, "take the host out of one of them"))
    return sorted(faults, key=lambda fault: (fault.place or ordered[0].place, fault.what))


def _disjoint(entries: Sequence[Entry], wide: Entry | None) -> bool:
    """Whether no host is in two entries: told by counting, as it nearly always is so."""
    named = [entry.location.hosts for entry in entries if entry.location.hosts]
    if len(named) < 2 and wide is None:
        return True
    together = set[str]().union(*named)
    once = len(together) == sum(map(len, named))
    return once and (wide is None or together.issubset(wide.location.minus))


def _twice(what: str, one: Place, two: Place, hint: str) -> Fault:
    return Fault(place=two, what=what, expected="one", got=f"the other is at {one}", hint=hint)


def _same_words(name: str, ordered: Sequence[Entry]) -> list[Fault]:
    """`all` twice, or the rest twice: which host would be whose?"""
    faults = []
    for word, hint in (("all", "merge them"), ("default or others", "merge them, or name hosts")):
        found = [e for e in ordered if (e.location.everyone if word == "all" else e.location.rest)]
        faults += [
            _twice(f"two entries of {name} for {word}", found[0].place, entry.place, hint)
            for entry in found[1:]
        ]
    return faults


def _same_names(name: str, ordered: Sequence[Entry], known: Container[str]) -> list[Fault]:
    """Names that do not tell one instance from another."""
    first: dict[str, Entry] = {}
    faults = []
    for entry in ordered:
        if entry.name is None:
            continue
        other = first.setdefault(entry.name, entry)
        if other is not entry:
            what = f"two entries of {name} named {entry.name}"
            faults.append(_twice(what, other.place, entry.place, "give each its own name"))
        if entry.name in known and entry.location.hosts != (entry.name,):
            faults.append(
                Fault(
                    place=entry.place,
                    what=f"an entry of {name} named like a host",
                    expected="a name that is no host's: it tells instances apart",
                    got=entry.name,
                )
            )
    return faults


def check_host_values(
    resources: Iterable[Resource],
    hosts: Iterable[Host],
    spelled: Mapping[Place, frozenset[str]],
) -> list[Fault]:
    """Faults of values in hosts.yaml against the resources that they are for.

    A value for a dynamic or a shared resource (once a place); a value that differs from that of an
    entry which spells out that very host (`spelled`: `Folded.spelled` by `Entry.place`). Values
    for resources not among `resources` are passed over: whoever read the values reports those.
    """
    declared = {resource.name: resource for resource in resources}
    by_host: dict[str, dict[str, Entry]] = {}
    for resource in declared.values():
        for entry in resource.entries:
            for name in spelled.get(entry.place, ()):
                by_host.setdefault(resource.name, {})[name] = entry
    faults: dict[tuple[Place, str], Fault] = {}
    for host in hosts:
        for value in host.values:
            found = declared.get(value.resource)
            if found is None:
                continue
            beside = by_host.get(found.name, {}).get(host.name)
            fault = _against(found, host.name, value, beside)
            if fault is not None:
                faults.setdefault((value.place, fault.what), fault)
    return list(faults.values())


def _against(resource: Resource, host: str, value: HostValue, entry: Entry | None) -> Fault | None:
    name = resource.name
    if resource.dynamic or resource.shared:
        kind = "shared" if resource.shared else "dynamic"
        why = "it belongs to several hosts" if resource.shared else "a probe measures it"
        return Fault(
            place=value.place,
            what=f"a value of one host for {name}, which is {kind} (at {resource.place})",
            expected=f"no value: {why}",
            got=format_value(value.value),
            hint=f"delete it, or give it in the resourcemap of {name}",
        )
    if entry is None or entry.value is None or entry.value == value.value:
        return None
    return Fault(
        place=value.place,
        what=f"{host} has two values of {name}",
        expected=f"{format_value(entry.value)}, as at {entry.place}, which names {host} too",
        got=format_value(value.value),
        hint="delete one of them",
    )
