"""Makes the entries of a resource's `resourcemap`: value, capacity, reserve, reporters, place."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dynres.config import locations, schema
from dynres.config.findings import Findings
from dynres.config.model import Entry, Location, Place, Probe
from dynres.config.rules import leasable
from dynres.config.scalars import Map, Scalar
from dynres.config.types import short
from dynres.config.words import join
from dynres.value import Value, ValueType, read_amount, read_value

EXPECTED = {
    "numeric": "a plain decimal number",
    "boolean": "true/false, yes/no or on/off",
    "string": "text on one line, at most 1 KiB",
}


@dataclass
class Scope:
    """What the entries of all resources are read with; `spelled` gathers by entry's place."""

    context: locations.Context
    findings: Findings
    given: frozenset[str] = frozenset()
    """Resources that hosts.yaml gives values of."""
    spelled: dict[Place, frozenset[str]] = field(default_factory=dict)


def read_typed(
    scalar: Scalar, kind: ValueType, what: str, findings: Findings, unit: str | None = None
) -> Value | None:
    """A value of the declared type; None and a fault where the text is none."""
    try:
        return read_value(scalar.text, kind)
    except ValueError as error:
        hint = None
        if kind == "numeric" and scalar[:1].isdigit() and scalar[-1:].isalpha():
            hint = f"without a unit: in {unit}" if unit else "without a unit"
        findings.fault(scalar.place, what, EXPECTED[kind], f"{short(scalar.text)}: {error}", hint)
        return None


def build_entry(
    shape: schema.Entry,
    node: Map,
    resource: schema.Resource,
    probe: Probe | None,
    scope: Scope,
) -> Entry:
    """One entry; what is wrong with it is noted in the scope's findings."""
    owner = f"resource {resource.name}"
    value, capacity = _amounts(shape, node, resource, owner, scope.findings)
    location = _location(shape, node, resource, scope)
    reserve, percent = _reserve(shape, node, resource, capacity=capacity, findings=scope.findings)
    made = Entry(
        name=schema.text(shape.name),
        location=location,
        value=value,
        capacity=capacity,
        reserve=None if percent else reserve,
        reserve_percent=reserve if percent else None,
        reporters=_reporters(shape, node, resource, location, scope),
        probe=probe,
        place=node.place,
    )
    _warn_each(made, resource, owner, scope.findings)
    _warn_nameless(made, shape, resource, scope.findings)
    return made


def _amounts(
    shape: schema.Entry, node: Map, resource: schema.Resource, owner: str, findings: Findings
) -> tuple[Value | None, Decimal | None]:
    if resource.interval is not None:
        return None, _dynamic_capacity(shape, node, resource, owner, findings)
    if shape.capacity is not None:
        place = node.place_of("capacity")
        hint = "write value: for a static resource"
        findings.fault(place, f"{owner}: capacity", "a dynamic resource", "a static one", hint)
    if shape.value is None:
        if shape.capacity is None:
            hint = "or make it dynamic: interval: and probe:"
            findings.fault(node.place, f"{owner}: value is missing", "value: …", None, hint)
        return None, None
    kind: Any = resource.type
    if leasable(resource):
        return _amount(shape.value, owner, findings)
    return read_typed(shape.value, kind, f"{owner}: value", findings, resource.unit), None


def _amount(scalar: Scalar, owner: str, findings: Findings) -> tuple[Value | None, Decimal | None]:
    number = read_typed(scalar, "numeric", f"{owner}: value", findings)
    if number is None:
        return None, None
    try:
        return number, read_amount(scalar.text)
    except ValueError as error:
        got = f"{short(scalar.text)}: {error}"
        expected = "an amount that jobs can hold: not negative, below 9e12, at most 6 places"
        findings.fault(scalar.place, f"{owner}: value", expected, got)
        return None, None


def _dynamic_capacity(
    shape: schema.Entry, node: Map, resource: schema.Resource, owner: str, findings: Findings
) -> Decimal | None:
    if shape.value is not None:
        place = node.place_of("value")
        hint = "the probe measures it; an upper bound is capacity:"
        findings.fault(place, f"{owner}: value", "none: it is dynamic", shape.value.text, hint)
    if shape.capacity is not None and not leasable(resource):
        findings.fault(
            node.place_of("capacity"),
            f"{owner}: capacity",
            "a resource that jobs can hold (numeric, decreasing, shared or consumable)",
            "one that they cannot",
            "leave it out",
        )
    elif shape.capacity is None and resource.measures == "external":
        what = f"{owner}: capacity is missing"
        hint = "measures: external counts what others use of it"
        findings.fault(node.place, what, "capacity: …", None, hint)
    return shape.capacity


def _reserve(
    shape: schema.Entry,
    node: Map,
    resource: schema.Resource,
    *,
    capacity: Decimal | None,
    findings: Findings,
) -> tuple[Decimal | None, bool]:
    if shape.reserve is None:
        return None, False
    owner = f"resource {resource.name}"
    amount, percent = shape.reserve
    place = node.place_of("reserve")
    if not leasable(resource):
        findings.fault(
            place,
            f"{owner}: reserve",
            "a resource that jobs can hold (numeric, decreasing, shared or consumable)",
            "one that they cannot",
            "leave it out",
        )
    elif capacity is not None and not percent and amount > capacity:
        findings.fault(place, f"{owner}: reserve", f"at most {capacity}, all there is", str(amount))
    return amount, percent


def _location(shape: schema.Entry, node: Map, resource: schema.Resource, scope: Scope) -> Location:
    flags = set(resource.flags)
    kind: Any = "global" if "global" in flags else "shared" if "shared" in flags else "per-host"
    folded = locations.fold(
        shape.location, scope.context, scope=kind, place=node.place_of("location")
    )
    scope.findings.add(folded.faults, folded.warnings)
    scope.spelled[node.place] = folded.spelled
    return folded.location


def _reporters(
    shape: schema.Entry,
    node: Map,
    resource: schema.Resource,
    location: Location,
    scope: Scope,
) -> tuple[str, ...]:
    shared = bool({"shared", "global"} & set(resource.flags))
    owner = f"resource {resource.name}"
    if shape.reporter is None:
        if shared and resource.interval is not None and (location.everyone or location.rest):
            scope.findings.warn(
                node.place,
                f"{owner}: any host may be the one that measures it",
                "name those that can: reporter: [HOST, …]",
            )
        return ()
    if not shared or resource.interval is None:
        got = "a static one" if resource.interval is None else "one that every host measures"
        scope.findings.fault(
            node.place_of("reporter"),
            f"{owner}: reporter",
            "a shared dynamic resource",
            got,
            "leave it out",
        )
        return ()
    hosts, faults, warnings = locations.fold_reporters(shape.reporter, scope.context)
    scope.findings.add(faults, warnings)
    return hosts


def _warn_nameless(
    entry: Entry, shape: schema.Entry, resource: schema.Resource, findings: Findings
) -> None:
    """Agents without hosts.yaml cannot tell an entry over a group by its hosts."""
    if (
        entry.probe is not None
        and entry.name is None
        and {"shared", "global"} & set(resource.flags)
        and len(resource.resourcemap or ()) > 1
        and any("@" in str(term) for term in shape.location or ())
    ):
        what = f"resource {resource.name}: an agent without hosts.yaml cannot tell this entry"
        findings.warn(entry.place, what, "name: tells it, so that its probe can be found there")


def _warn_each(entry: Entry, resource: schema.Resource, owner: str, findings: Findings) -> None:
    """Other systems read one entry over several hosts as one amount; say how it is read here."""
    hosts = entry.location.hosts
    if (
        resource.type != "numeric"
        or resource.interval is not None
        or entry.value is None
        or len(hosts) < 2
        or {"shared", "global", "consumable", "per_host"} & set(resource.flags)
    ):
        return
    shown = join(hosts)
    value = entry.value if not isinstance(entry.value, float) else f"{entry.value:.15g}"
    findings.warn(
        entry.place,
        f"{owner}: {shown} get {value} EACH; if they share it: flags: [shared]",
        "flags: [per_host] says that each is meant",
    )
