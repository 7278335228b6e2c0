"""Reads hosts.yaml: rows of hosts with their values, typed by the resources' declarations."""

from collections.abc import Mapping

from dynres.config import builtin, schema
from dynres.config.entries import read_typed
from dynres.config.findings import Findings
from dynres.config.hostfile import HostFile, Row, read_hosts
from dynres.config.model import HostValue, Place
from dynres.config.resources import DeclaredResource
from dynres.config.rules import leasable
from dynres.config.scalars import Document, Items, Map, Node, Scalar
from dynres.config.shape import mapping, validate
from dynres.config.types import short
from dynres.value import read_amount


def read_host_file(
    document: Document,
    declared: Mapping[str, DeclaredResource | None],
    findings: Findings,
    *,
    complete: bool,
) -> HostFile:
    """The hosts and groups of hosts.yaml. `declared`: None where a resource's shape is wrong.

    `complete`: every resource is in it; else one that it lacks may stand in a file with faults.
    """
    root = document.root
    if root is None:
        place = Place(document.file, 1, 1)
        findings.fault(place, "hosts.yaml: no hosts", "hosts: [{name: …}]", "comments only")
    node = mapping(root, "hosts.yaml", findings)
    if node is None:
        return HostFile((), {}, [])
    head = Map(node.place)
    head.update({key: Items(value.place) for key, value in node.items() if key == "hosts"})
    head.update({key: value for key, value in node.items() if key != "hosts"})
    shape = validate(schema.Hosts, head, "hosts.yaml", findings)
    hosts = node.get("hosts", head.get("hosts"))
    rows: list[Row] = []
    if isinstance(hosts, Items):
        for item in hosts:
            if findings.full:
                break
            rows += _row(item, declared, findings, complete=complete)
    elif hosts is not None:
        hint = "each host as an item: - name: host1"
        got = "a mapping" if isinstance(hosts, Map) else "text"
        findings.fault(hosts.place, "hosts.yaml: hosts", "a list", got, hint)
    groups = shape.groups if shape is not None else {}
    made = read_hosts(rows, [(key, terms) for key, terms in groups.items()])
    findings.add(made.faults)
    return made


def _row(
    item: Node,
    declared: Mapping[str, DeclaredResource | None],
    findings: Findings,
    *,
    complete: bool,
) -> list[Row]:
    if isinstance(item, Scalar):
        hint = f"write - name: {item.text}"
        findings.fault(item.place, "hosts.yaml: host", "a mapping", short(item.text), hint)
        return [Row(item)]
    shape = validate(schema.Host, item, "hosts.yaml: host", findings)
    if shape is None:
        # Its name still counts: a location that names it is no fault beside this one.
        name = item.get("name") if isinstance(item, Map) else None
        return [Row(name)] if isinstance(name, Scalar) and not name.missing else []
    values: list[HostValue] = []
    for given in shape.resource or ():
        values += _value(given, declared, findings, complete=complete)
    return [Row(shape.name, shape.worker, tuple(values))]


def _value(
    given: schema.HostValue,
    declared: Mapping[str, DeclaredResource | None],
    findings: Findings,
    *,
    complete: bool,
) -> list[HostValue]:
    name, place = given.name.text, given.name.place
    what = f"hosts.yaml: resource {name}"
    if name not in declared and name in builtin.NAMES:
        got = "a built-in load index, which a probe measures"
        findings.fault(place, what, "a static per-host resource", got, "delete it")
        return []
    if name not in declared:
        if not complete:
            return []
        hint = findings.near.hint(name, declared)
        findings.fault(place, what, "a resource of resources.yaml", "an unknown one", hint)
        return []
    resource = declared[name]
    if resource is None:
        return []
    kind = resource.shape.type
    what = f"hosts.yaml: value of {name}"
    value = read_typed(given.value, kind, what, findings, resource.shape.unit)  # type: ignore[arg-type]
    if value is None:
        return []
    if leasable(resource.shape):
        try:
            read_amount(given.value.text)
        except ValueError as error:
            expected = "an amount that jobs can hold: not negative, below 9e12, at most 6 places"
            findings.fault(given.value.place, what, expected, f"{short(given.value.text)}: {error}")
    return [HostValue(resource=name, value=value, place=place)]
