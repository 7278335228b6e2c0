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


@click.command()
@controller_option
@json_option
def pools(controller: tuple[str, ...], as_json: bool) -> None:
    """Show every instance that can be leased: shared pools, and consumable per-host ones.

    USE shows leased as #, otherwise not free as +, free as a point.

    \b
    Example:
      dynres pools
      dynres pools --json | jq '.pools[] | {resource, free}'
    """
    with asking(controller) as client:
        view = client.pools()
    if as_json:
        output.document(to_builtins(view))
    else:
        show(pools_table(view))
