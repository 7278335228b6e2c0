"""How leases, shortages and what was answered read; and the exit codes that say the same."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dynres.cli.output import Exit
from dynres.cli.pools import amount_text, quantity_text
from dynres.cli.table import Cell, Row, Table
from dynres.cli.words import NONE
from dynres.wire.lease_views import (
    AcquireView,
    GrantedLease,
    HistoryView,
    LeasesView,
    LeaseView,
    OverrideView,
    ShortageView,
)

CODES: Final = {
    "granted": Exit.DONE,
    "wait": Exit.WAIT,
    "never": Exit.NEVER,
    "released": Exit.FAILED,
}
"""Exit code of what was answered to an acquire or resume."""

LEASE_COLUMNS = (
    *("LEASE", "OWNER", "JOB", "RESOURCE", "INSTANCE", "AMOUNT", "HOST"),
    *("SINCE", "EXPIRES", "STATE"),
)
HISTORY_COLUMNS = (
    *("TIME", "WHAT", "OWNER", "JOB", "RESOURCE", "INSTANCE", "AMOUNT", "HOST"),
    *("LEASE", "DETAIL", "BY"),
)


def shortage_text(lack: ShortageView) -> str:
    """`scratch: 20 GB asked, 10 of 100 GB free: exhausted`."""
    where = lack.resource
    if lack.instance is not None and lack.instance != lack.resource:
        where += f" of {lack.instance}"
    text = f"{where}: {quantity_text(lack.asked, lack.unit)} asked"
    if lack.free is not None:
        free = quantity_text(lack.free, lack.unit if lack.capacity is None else None)
        of = "" if lack.capacity is None else f" of {quantity_text(lack.capacity, lack.unit)}"
        text += f", {free}{of} free"
    return f"{text}: {lack.reason}"


def shortages_text(lacks: Iterable[ShortageView]) -> str:
    """All of them in one line."""
    return "; ".join(map(shortage_text, lacks))


def answer_lines(view: AcquireView) -> Iterator[str]:
    """What was answered to a request, in words."""
    if view.answer == "granted":
        yield f"granted to job {view.job}: {_count(len(view.leases))}"
        for lease in view.leases:
            ends = f", expires {lease.expires}" if lease.expires else ""
            yield f"  {_held(lease)}{ends}"
    elif view.answer == "released":
        yield f"released: this request of job {view.job} was granted, and has been released since"
    else:
        yield view.answer
        for lack in view.shortages:
            yield f"  {shortage_text(lack)}"


def released_lines(leases: Sequence[LeaseView]) -> Iterator[str]:
    """What was given back, and of which job."""
    yield f"released: {_count(len(leases))}"
    for lease in leases:
        state = _state(lease)
        yield f"  {_held(lease)} of job {lease.job}{f' ({state})' if state else ''}"


def _count(number: int) -> str:
    return f"{number} lease{'s' if number != 1 else ''}"


def _held(lease: LeaseView | GrantedLease) -> str:
    instance = "" if lease.instance in {lease.resource, lease.host} else f" {lease.instance}"
    amount = quantity_text(lease.amount, lease.unit)
    return f"{lease.lease}  {lease.resource}{instance} {amount} for {lease.host}"


def _state(lease: LeaseView) -> str:
    """What is to be said of it beside that it is held."""
    return ", ".join([*(["suspended"] if lease.suspended else []), *filter(None, [lease.note])])


def lease_row(lease: LeaseView) -> Row:
    """The cells of one lease."""
    state = _state(lease)
    return (
        Cell(lease.lease, "bold"),
        Cell(lease.owner),
        Cell(lease.job),
        Cell(lease.resource, "bold"),
        Cell(lease.instance),
        Cell(quantity_text(lease.amount, lease.unit)),
        Cell(lease.host),
        Cell(lease.since),
        Cell(lease.expires or NONE),
        Cell(state or "held", "yellow" if state else "green"),
    )


def leases_table(view: LeasesView) -> Table:
    """Every lease, oldest first."""
    return Table(LEASE_COLUMNS, list(map(lease_row, view.leases)), frozenset({"AMOUNT"}))


def history_table(view: HistoryView) -> Table:
    """What has happened, oldest first."""
    rows = [
        (
            Cell(entry.at, "dim"),
            Cell(entry.what, "bold"),
            Cell(entry.owner or NONE),
            Cell(entry.job or NONE),
            Cell(entry.resource or NONE),
            Cell(entry.instance or NONE),
            Cell(amount_text(entry.amount)),
            Cell(entry.host or NONE),
            Cell(entry.lease or NONE),
            Cell(entry.detail or NONE),
            Cell(entry.by or NONE),
        )
        for entry in view.entries
    ]
    return Table(HISTORY_COLUMNS, rows, frozenset({"AMOUNT"}))


def override_line(override: OverrideView) -> str:
    """`iris of pool iris is 3 until …`."""
    from dynres.cli.words import value_text

    where = f"on {override.host}" if override.host else f"of pool {override.instance}"
    value = "unavailable" if override.value is None else value_text(override.value)
    until = f" until {override.until}" if override.until else ""
    return f"{override.resource} {where} is {value}{until}"
