"""`dynres pools`: every instance that can be leased, and how much of it is free."""

from decimal import Decimal
from math import ceil

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.options import controller_option, json_option
from dynres.cli.table import Cell, Row, Table, show
from dynres.cli.words import NONE, STATE_STYLES, age_text, value_text
from dynres.wire.views import PoolsView, PoolView, to_builtins

COLUMNS = (
    *("RESOURCE", "INSTANCE", "MEMBERS", "CAPACITY", "REPORTED", "RESERVE", "LEASED", "FREE"),
    *("USE", "UNIT", "STATE", "AGE", "REPORTER", "SOURCE"),
)
_RIGHT = frozenset({"CAPACITY", "REPORTED", "RESERVE", "LEASED", "FREE", "AGE"})
BAR = 10
"""Width of the bar, in characters."""


def amount_text(amount: Decimal | None) -> str:
    """An amount without loss and without a tail of zeros; `-` for none."""
    if amount is None:
        return NONE
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity_text(amount: Decimal | None, unit: str | None) -> str:
    """An amount with its unit: `20 GB`."""
    text = amount_text(amount)
    return f"{text} {unit}" if unit and amount is not None else text


def bar(pool: PoolView) -> Cell:
    """`#` leased, `+` otherwise not free (reserve, others' use), `.` free; `-` when unknown."""
    if pool.overcommitted:
        return Cell("overcommitted", "red")
    if pool.capacity is None or pool.capacity <= 0 or pool.free is None:
        return Cell(NONE)
    free = int(BAR * pool.free / pool.capacity)
    leased = min(ceil(BAR * pool.leased / pool.capacity), BAR - free)
    return Cell("#" * leased + "+" * (BAR - free - leased) + "." * free)


def members_text(members: tuple[str, ...]) -> str:
    """The members as a folded host set."""
    from dynres.config.hosts import fold

    return fold(members) if members else NONE


def pool_row(pool: PoolView) -> Row:
    """The cells of one instance."""
    return (
        Cell(pool.resource, "bold"),
        Cell(pool.instance),
        Cell(members_text(pool.members)),
        Cell(amount_text(pool.capacity)),
        Cell(value_text(pool.reported)),
        Cell(amount_text(pool.reserve)),
        Cell(amount_text(pool.leased)),
        Cell(amount_text(pool.free), "bold"),
        bar(pool),
        Cell(pool.unit or NONE),
        Cell(pool.state, STATE_STYLES[pool.state]),
        Cell(age_text(pool.age)),
        Cell(pool.reporter or NONE),
        Cell(pool.source, "dim"),
    )


def pools_table(view: PoolsView) -> Table:
    """The whole view, in the order of the files."""
    return Table(COLUMNS, [pool_row(pool) for pool in view.pools], _RIGHT)


HOLDER_COLUMNS = ("RESOURCE", "INSTANCE", "JOB", "OWNER", "AMOUNT", "HOST", "SINCE", "STATE")


def holder_rows(view: PoolsView) -> Table:
    """Who holds of each pool, and who waits for it."""
    rows: list[Row] = []
    for pool in view.pools:
        named = (Cell(pool.resource, "bold"), Cell(pool.instance))
        for holder in pool.holders or ():
            ends = f"until {holder.expires}" if holder.expires else "held"
            who = (
                Cell(holder.job),
                Cell(holder.owner),
                Cell(quantity_text(holder.amount, pool.unit)),
            )
            rows.append((*named, *who, Cell(holder.host), Cell(holder.since), Cell(ends, "green")))
        for waiter in pool.waiting:
            who = (
                Cell(waiter.job),
                Cell(waiter.owner),
                Cell(quantity_text(waiter.amount, pool.unit)),
            )
            since = f"waits for {age_text(waiter.for_)}"
            rows.append((*named, *who, Cell(NONE), Cell(NONE), Cell(since, "yellow")))
    return Table(HOLDER_COLUMNS, rows, frozenset({"AMOUNT"}))


@click.command()
@click.option("--holders", is_flag=True, help="Also who holds of each, and who waits.")
@click.option("--watch", is_flag=True, help="Stay, and show changes.")
@controller_option
@json_option
def pools(holders: bool, watch: bool, controller: tuple[str, ...], as_json: bool) -> None:
    """Show every instance that can be leased: shared pools, and consumable per-host ones.

    USE shows leased as #, otherwise not free as +, free as a point.

    \b
    Example:
      dynres pools --holders
      dynres pools --watch
      dynres pools --json | jq '.pools[] | {resource, free}'
    """
    if watch and as_json:
        raise click.UsageError("--watch is for people; `dynres watch` gives JSON lines.")
    with asking(controller) as client:
        if watch:
            from dynres.cli.watching import watch_pools

            watch_pools(lambda timeout: client.pools(holders=holders, timeout=timeout))
        view = client.pools(holders=holders)
    if as_json:
        output.document(to_builtins(view))
        return
    show(pools_table(view))
    if holders and (held := holder_rows(view)).rows:
        output.say()
        show(held)
