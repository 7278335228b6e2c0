"""Says in words what a configuration means: what each host gets, shares or measures."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

from dynres.config.covers import Cover
from dynres.config.hosts import fold
from dynres.config.model import Configuration, Entry, HostValue, Resource
from dynres.value import Value, format_duration, format_value

FOLDED = 10_000
"""Most hosts that are folded: it takes a second."""
SPELLED = 3
"""Most hosts that are named one by one; more are folded, as in `node[1-9]`."""


def readings(configuration: Configuration) -> Iterator[tuple[Resource, str]]:
    """What each declared resource means, in one or two sentences without its name."""
    given: dict[str, list[tuple[str, HostValue]]] = {}
    for host in configuration.hosts:
        for value in host.values:
            given.setdefault(value.resource, []).append((host.name, value))
    for resource in configuration.resources:
        if not resource.builtin:
            yield resource, reading(resource, given.get(resource.name, ()))


def reading(resource: Resource, given: Sequence[tuple[str, HostValue]] = ()) -> str:
    """What one resource means; `given`: the values that hosts.yaml gives to hosts."""
    entries = "; ".join(_entry(resource, entry) for entry in resource.entries)
    if not entries and not given:
        return "no host has it"
    if resource.dynamic:
        entries = f"{_measured(resource)}: {entries}" if not resource.shared else entries
    own = _given(resource, given)
    return ". ".join(filter(None, (entries, own)))


@lru_cache(64)
def _fold(hosts: tuple[str, ...]) -> str:
    return fold(hosts)


def join(hosts: Sequence[str]) -> str:
    """`host1 and host2`; more than three folded: `node[1-9]`."""
    if len(hosts) > FOLDED:
        return f"{_fold(tuple(hosts[:SPELLED]))} and {len(hosts) - SPELLED} more hosts"
    if len(hosts) > SPELLED:
        return _fold(tuple(hosts))
    return f"{', '.join(hosts[:-1])} and {hosts[-1]}" if len(hosts) > 1 else "".join(hosts)


def _entry(resource: Resource, entry: Entry) -> str:
    if resource.shared:
        return _pool(resource, entry)
    where, several = _where(resource, entry)
    what = "" if entry.value is None else f"{_amount(entry.value, resource)} "
    on = "on each of " if several else "on "
    return f"{what}{on}{where}{_kept(entry)}"


def _pool(resource: Resource, entry: Entry) -> str:
    where, several = _where(resource, entry)
    thing = "one amount" if resource.leasable else "one value"
    verb = f"share {thing}" if several or where.startswith("every") else f"alone has {thing}"
    if where.startswith("every"):
        where = "all hosts" + where.removeprefix("every host")
    if entry.value is not None:
        verb += f" of {_amount(entry.value, resource)}"
    elif entry.capacity is not None:
        verb += f" of at most {_decimal(entry.capacity, resource)}"
    if resource.dynamic:
        by = f" on {' or else '.join(entry.reporters)}" if entry.reporters else ""
        verb += f", {_measured(resource)}{by}"
    called = f" as {entry.name}" if entry.name else ""
    return f"{where} {verb}{called}{_kept(entry)} ({entry.place})"


def _where(resource: Resource, entry: Entry) -> tuple[str, bool]:
    """Which hosts an entry is for, and whether these are several that are named."""
    location = entry.location
    if location.everyone or location.rest:
        text = "every host"
        if location.rest and len(resource.entries) > 1:
            text += " that no other entry covers"
        if location.minus:
            text += f" except {join(location.minus)}"
        return text, False
    text = join(location.hosts)
    if location.unresolved:
        groups = f"the hosts of {' and '.join(location.unresolved)} (the controller knows them)"
        return (f"{text} and {groups}" if text else groups), True
    return text, len(location.hosts) > 1


def _kept(entry: Entry) -> str:
    if entry.reserve is not None:
        return f", {format(entry.reserve.normalize(), 'f')} of it never leased"
    if entry.reserve_percent is not None:
        return f", {format(entry.reserve_percent.normalize(), 'f')}% of it never leased"
    return ""


def _measured(resource: Resource) -> str:
    every = format_duration(resource.interval or 0.0)
    return f"measured every {every} by probe {resource.probe}"


def _amount(value: Value, resource: Resource) -> str:
    text = f'"{value}"' if value == "" else format_value(value)
    return f"{text} {resource.unit}" if resource.unit else text


def _decimal(amount: Decimal, resource: Resource) -> str:
    text = format(amount.normalize(), "f")
    return f"{text} {resource.unit}" if resource.unit else text


def _given(resource: Resource, given: Sequence[tuple[str, HostValue]]) -> str:
    """What hosts.yaml gives instead, hosts of one value and one overridden value together."""
    cover = Cover(resource)
    groups: dict[tuple[str, str], list[str]] = {}
    for host, value in given:
        entry = cover.entry_for(host)
        instead = "" if entry is None or entry.value is None else _amount(entry.value, resource)
        groups.setdefault((_amount(value.value, resource), instead), []).append(host)
    said = []
    for (value_text, instead), hosts in groups.items():
        over = f" instead of {instead}" if instead and instead != value_text else ""
        said.append(f"{value_text} to {join(hosts)}{over}")
    return f"hosts.yaml gives {'; '.join(said)}" if said else ""
