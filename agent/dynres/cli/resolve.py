"""`dynres resolve`: what the files declare, worked out for every host."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dynres.cli import output
from dynres.cli.options import config_option, json_option, read_folder
from dynres.cli.table import Cell, Row, Table, show
from dynres.value import Value, format_duration, format_value, plain_number

if TYPE_CHECKING:
    from dynres.config.model import Configuration, Entry, Resource
    from dynres.controller.distribution import Distribution, Instance

FLAGS: Final = ("shared", "global", "consumable", "release", "per_host")


@click.command()
@config_option
@json_option
def resolve(config: Path, as_json: bool) -> None:
    """Show what is declared: static values, pools and measured resources, for every host.

    Built-in load indices are left out. Nothing is measured and no controller is asked.

    \b
    Example:
      dynres resolve --config examples/quickstart
      dynres resolve --json | jq '.static.host1'
    """
    from dynres.config.load import default_role
    from dynres.controller.distribution import distribute

    loaded = read_folder(config, default_role(config))
    for warning in loaded.warnings:
        output.tell(f"warning: {warning}")
    distribution = distribute(loaded.configuration)
    if as_json:
        output.document(resolved(loaded.configuration, distribution))
        return
    for title, table in _tables(loaded.configuration, distribution):
        if table.rows:
            output.say(title)
            show(table)
            output.say()


def resolved(configuration: "Configuration", distribution: "Distribution") -> dict[str, Any]:
    """The document of `--json`."""
    declared = [resource for resource in configuration.resources if not resource.builtin]
    static: dict[str, dict[str, Any]] = {host: {} for host in _sorted(distribution.hosts)}
    for resource in declared:
        for assignment in distribution.static(resource.name):
            shown = _value(assignment.value)
            for host in assignment.hosts:
                static[host][resource.name] = shown
    pools = [_pool(distribution, i) for r in declared for i in distribution.pools(r.name)]
    dynamic = {
        resource.name: list(_sorted(distribution.measured(resource.name)))
        for resource in declared
        if resource.dynamic and not resource.shared
    }
    resources = {resource.name: _resource(distribution, resource) for resource in declared}
    return {"static": static, "pools": pools, "dynamic": dynamic, "resources": resources}


def _pool(distribution: "Distribution", instance: "Instance") -> dict[str, Any]:
    declared = instance.capacity if instance.capacity is not None else instance.value
    return {
        "resource": instance.resource,
        "capacity": _value(declared),
        "members": list(_sorted(distribution.members(instance))),
        "source": str(instance.place),
    }


def _resource(distribution: "Distribution", resource: "Resource") -> dict[str, Any]:
    rest = None
    if not resource.shared:
        rest = next((entry.value for entry in resource.entries if entry.location.rest), None)
    return {
        "valtype": resource.type,
        "ordtype": resource.order,
        "flags": [flag for flag in FLAGS if flag in resource.flags],
        "interval": None if resource.interval is None else plain_number(resource.interval),
        "hbased_defined": _value(rest),
        "distributions": [
            {"value": _value(entry.value), "hosts": hosts}
            for index, entry in enumerate(resource.entries)
            if (hosts := list(_named(distribution, resource, index, entry)))
        ],
    }


def _named(
    distribution: "Distribution", resource: "Resource", index: int, entry: "Entry"
) -> tuple[str, ...]:
    """The hosts that an entry names; `default` and `others` name none, `all` names every host."""
    if entry.location.rest:
        return entry.location.hosts
    return _sorted(distribution.covered(resource.name, index))


def _value(value: Value | Decimal | None) -> Value | int | None:
    if isinstance(value, float | Decimal):
        return plain_number(float(value))
    return value


@lru_cache(maxsize=64)
def _sorted(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """In NodeSet's own order, which for names with several numbers depends on the whole set."""
    from dynres.config.hosts import sort_hosts

    return tuple(sort_hosts(hosts))


def _tables(
    configuration: "Configuration", distribution: "Distribution"
) -> Iterator[tuple[str, Table]]:
    declared = [resource for resource in configuration.resources if not resource.builtin]
    columns = ("RESOURCE", "VALUE", "UNIT", "HOSTS", "SOURCE")
    yield "Static, each host its own:", Table(columns, list(_static_rows(distribution, declared)))
    columns = ("RESOURCE", "CAPACITY", "UNIT", "MEMBERS", "SOURCE")
    yield (
        "Pools, one amount for all members:",
        Table(columns, list(_pool_rows(distribution, declared))),
    )
    columns = ("RESOURCE", "INTERVAL", "UNIT", "HOSTS", "SOURCE")
    yield "Measured on each host:", Table(columns, list(_dynamic_rows(distribution, declared)))


def _row(resource: "Resource", shown: str, hosts: Iterable[str], source: object) -> Row:
    from dynres.config.hosts import fold

    folded = fold(hosts) or "none yet"
    unit = resource.unit or "-"
    return (
        Cell(resource.name, "bold"),
        Cell(shown),
        Cell(unit),
        Cell(folded),
        Cell(str(source), "dim"),
    )


def _static_rows(distribution: "Distribution", declared: list["Resource"]) -> Iterator[Row]:
    for resource in declared:
        shown = set()
        for value, place, hosts in distribution.static(resource.name):
            shown.add(place)
            yield _row(resource, format_value(value), hosts, place)
        if resource.dynamic or resource.shared:
            continue
        for entry in resource.entries:  # default and all may wait for their first host
            wide = entry.location.everyone or entry.location.rest
            if wide and entry.value is not None and entry.place not in shown:
                yield _row(resource, format_value(entry.value), (), entry.place)


def _pool_rows(distribution: "Distribution", declared: list["Resource"]) -> Iterator[Row]:
    for resource in declared:
        for instance in distribution.pools(resource.name):
            amount = instance.capacity if instance.capacity is not None else instance.value
            value = float(amount) if isinstance(amount, Decimal) else amount
            shown = "measured" if value is None else format_value(value)
            yield _row(resource, shown, distribution.members(instance), instance.place)


def _dynamic_rows(distribution: "Distribution", declared: list["Resource"]) -> Iterator[Row]:
    for resource in declared:
        if resource.interval is not None and not resource.shared:
            shown = f"every {format_duration(resource.interval)}"
            yield _row(resource, shown, distribution.measured(resource.name), resource.place)
