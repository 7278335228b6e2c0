"""`dynres values`: the resvals table, one line a host and resource."""

from collections.abc import Iterator

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.options import controller_option, host_names, hosts_argument, json_option
from dynres.cli.table import Cell, Row, Table, show
from dynres.cli.words import (
    NONE,
    STATE_STYLES,
    age_text,
    reason_text,
    source_text,
    value_text,
)
from dynres.wire.views import PoolsView, ValuesView, ValueView, to_builtins

COLUMNS = ("HOST", "RESOURCE", "VALUE", "UNIT", "STATE", "AGE", "LAST", "SOURCE", "REASON")


def value_row(host: str, resource: str, view: ValueView) -> Row:
    """The cells of one value; LAST is the older value where there is no fresh one."""
    style = STATE_STYLES[view.state]
    return (
        Cell(host),
        Cell(resource, "bold"),
        Cell(value_text(view.value), "bold" if view.value is not None else style),
        Cell(view.unit or NONE),
        Cell(view.state, style),
        Cell(age_text(view.age)),
        Cell(NONE if view.state == "fresh" else value_text(view.last)),
        Cell(source_text(view.source), "dim"),
        Cell(reason_text(view), style),
    )


def value_rows(view: ValuesView) -> Iterator[Row]:
    """A row for each value, hosts and resources in the controller's order."""
    for host, shown in view.hosts.items():
        for resource, value in shown.values.items():
            yield value_row(host, resource, value)


def values_table(view: ValuesView) -> Table:
    """The whole view."""
    return Table(COLUMNS, list(value_rows(view)), frozenset({"VALUE", "AGE", "LAST"}))


@click.command()
@click.option("--resource", metavar="R", multiple=True, help="Only this resource; repeatable.")
@click.option("--watch", is_flag=True, help="Stay, and show changes; pools with bars below.")
@hosts_argument
@controller_option
@json_option
def values(
    resource: tuple[str, ...],
    watch: bool,
    hosts: tuple[str, ...],
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the table: every resource of every HOST (host sets; default: all hosts).

    STATE is fresh, stale or unavailable. Only a fresh value is a VALUE; the older one stands under
    LAST, and REASON says why.

    \b
    Example:
      dynres values "node[001-004]" --resource scratch_free
      dynres values --json | jq .hosts.host1.values
    """
    if watch and as_json:
        raise click.UsageError("--watch is for people; `dynres watch` gives JSON lines.")
    names = host_names(hosts)
    with asking(controller) as client:
        if watch:
            from dynres.cli.watching import watch_values

            def look(timeout: float | None) -> tuple[ValuesView, PoolsView]:
                table = client.values(names, resource, timeout=timeout)
                return table, client.pools(timeout=timeout)

            watch_values(look)
        view = client.values(names, resource)
    if as_json:
        output.document(to_builtins(view))
    else:
        show(values_table(view))
