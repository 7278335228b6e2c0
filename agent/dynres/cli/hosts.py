"""`dynres hosts` and `dynres explain`: who is here, and all about one value."""

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.options import (
    controller_option,
    host_names,
    hosts_argument,
    json_option,
    where_option,
)
from dynres.cli.pools import members_text
from dynres.cli.table import Cell, Row, Table, show
from dynres.cli.words import NONE, STATE_STYLES, age_text
from dynres.wire.views import HostDetail, HostsView, to_builtins

COLUMNS = ("HOST", "STATE", "AGENT", "UPTIME", "CONFIG")


def config_cell(detail: HostDetail) -> Cell:
    """How the agent's files compare with the controller's."""
    config = detail.config
    if config is None:
        return Cell(NONE)
    if config.refused is not None:
        return Cell(f"refused: {config.refused}", "red")
    if not config.same:
        return Cell(f"differs: {', '.join(config.differs) or 'elsewhere'}", "yellow")
    return Cell("same", "green")


def host_row(host: str, detail: HostDetail) -> Row:
    """The cells of one host."""
    state = f"{detail.state}, closed" if detail.closed else detail.state
    agent = detail.agent
    return (
        Cell(host, "bold"),
        Cell(state, STATE_STYLES[detail.state]),
        Cell(agent.version if agent else NONE),
        Cell(age_text(agent.uptime) if agent else NONE),
        config_cell(detail),
    )


def hosts_table(view: HostsView) -> Table:
    """The hosts that the view names, in its order."""
    rows = [host_row(host, view.details[host]) for host in view.hosts]
    return Table(COLUMNS, rows, frozenset({"UPTIME"}))


@click.command()
@where_option
@click.option("--all-hosts", is_flag=True, help="Also those that are not up, or closed.")
@hosts_argument
@controller_option
@json_option
def hosts(
    where: str | None,
    all_hosts: bool,
    hosts: tuple[str, ...],
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show hosts: state, agent, and how its files compare with the controller's.

    Without --all-hosts, those that are up; with --where also not closed. HOST takes host sets.

    With --where, those that satisfy a requirement; a line on stderr names those where it is
    unknown, because a value is stale or unavailable.

    \b
    Example:
      dynres hosts --all-hosts "node[001-064]"
      dynres hosts --where 'bigmem && scratch_free >= 20 GB && os == "el9"'
      dynres hosts --json | jq -r '.hosts[]'
    """
    names = host_names(hosts)
    with asking(controller) as client:
        view = client.hosts(where, hosts=names, all_hosts=all_hosts, details=True)
        others: tuple[str, ...] = ()
        if not (as_json or all_hosts or view.hosts):
            others = client.hosts(where, hosts=names, all_hosts=True, details=False).hosts
    if as_json:
        output.document(to_builtins(view))
        return
    show(hosts_table(view))
    if others:
        left_out = "not up, or closed" if where else "not up"
        output.tell(f"{left_out}: {members_text(others)}; --all-hosts shows them")
    if view.unknown:
        output.tell(
            f"unknown on {members_text(view.unknown)}: `dynres explain HOST R --where` says why"
        )


@click.command()
@click.argument("host")
@click.argument("resource")
@where_option
@controller_option
@json_option
def explain(
    host: str, resource: str, where: str | None, controller: tuple[str, ...], as_json: bool
) -> None:
    """Say in sentences what RESOURCE is on HOST, where it comes from, and why it is as it is.

    With --where, also why HOST satisfies that requirement or does not, condition by condition.

    \b
    Example:
      dynres explain host1 scratch_free
      dynres explain host1 scratch_free --where 'scratch_free >= 20 GB && bigmem'
    """
    with asking(controller) as client:
        view = client.explain(host, resource, where=where)
    if as_json:
        output.document(to_builtins(view))
        return
    for sentence in view.sentences:
        output.say(output.printable(sentence))
