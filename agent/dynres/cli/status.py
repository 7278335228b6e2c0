"""`dynres status`: the local agent, its controllers, its values and each of its probes."""

from collections.abc import Iterator
from typing import Any

import click

from dynres.cli import output
from dynres.cli.local import ask_agent
from dynres.cli.options import host_option, json_option
from dynres.cli.output import fault_line, printable
from dynres.cli.table import Cell, Row, Table, show
from dynres.cli.words import NONE, STATE_STYLES, age_text, run_time_text, value_text
from dynres.wire.targets import target

CONTROLLER_COLUMNS = ("CONTROLLER", "STATE", "KNOWN AS", "VERSION", "WHY")
VALUE_COLUMNS = ("RESOURCE", "VALUE", "UNIT", "STATE", "AGE", "LAST", "PROBE", "REASON")
PROBE_COLUMNS = (
    *("PROBE", "KIND", "INTERVAL", "OUTCOME", "DURATION", "AGE", "NEXT", "FAILURES"),
    *("MISSED", "FEEDS", "WHY"),
)

Document = dict[str, Any]


_TROUBLES = {
    "connecting": "no controller answers there: is it running, and is its port open from here?",
    "greeting": "connected, but the hello has not been answered yet",
    "silent": "nothing has been heard for three heartbeats",
}


def link_trouble(link: Document) -> str | None:
    """Why a controller does not have this agent registered; None where it does."""
    if link["refusal"]:
        return str(link["refusal"]["reason"])
    return _TROUBLES.get(link["state"])


def controller_row(link: Document) -> Row:
    """The cells of one link to a controller."""
    good = link["state"] == "registered"
    return (
        Cell(link["endpoint"], "bold"),
        Cell(link["state"], "green" if good else "yellow"),
        Cell(link["known_as"] or NONE),
        Cell(link["software"] or NONE),
        Cell(link_trouble(link) or NONE, "red"),
    )


def value_row(shown: Document) -> Row:
    """The cells of one resource, as the agent knows it."""
    style = STATE_STYLES[shown["state"]]
    fallback = "on_failure " if shown["on_failure"] else ""
    return (
        Cell(target(shown["resource"], shown["instance"]), "bold"),
        Cell(value_text(shown["value"]), "bold"),
        Cell(shown["unit"] or NONE),
        Cell(shown["state"], style),
        Cell(age_text(shown["age"])),
        Cell(NONE if shown["state"] == "fresh" else value_text(shown["last"])),
        Cell(f"{fallback}{shown['probe']}", "dim"),
        Cell(shown["reason"] or NONE, style),
    )


def due_text(seconds: float | None, *, running: bool, waiting: bool) -> str:
    """When the next run is due: `now` while one runs, `late` where one waits for its turn."""
    if running:
        return "running"
    if waiting or (seconds is not None and seconds < 0):
        return "late"
    return NONE if seconds is None else f"in {age_text(seconds)}"


def why(probe: Document) -> str:
    """The last run's reason and the values that it refused, each said once."""
    reason = probe["reason"] or ""
    refused = [
        f"{r['name']}={r['text']!r}: {r['reason']}"
        for r in probe["refused"]
        if f"{r['name']}: {r['reason']} ({r['text']!r})" not in reason
    ]
    return "; ".join(filter(None, (reason, *refused))) or NONE


def probe_row(probe: Document) -> Row:
    """The cells of one probe and its last run."""
    outcome = probe["outcome"]
    style = "green" if outcome == "ok" else "" if outcome is None else "red"
    interval = probe["interval"]
    due = due_text(probe["next_due"], running=probe["running"], waiting=probe["waiting"])
    return (
        Cell(probe["probe"], "bold"),
        Cell(probe["kind"]),
        Cell(NONE if interval is None else age_text(interval)),
        Cell(outcome or NONE, style),
        Cell(run_time_text(probe["duration"])),
        Cell(age_text(probe["age"])),
        Cell(due),
        Cell(str(probe["failures"]), "red" if probe["failures"] else ""),
        Cell(str(probe["missed_slots"])),
        Cell(" ".join(probe["resources"]), "dim"),
        Cell(why(probe), style),
    )


def headlines(document: Document) -> Iterator[str]:
    """The agent and its files in words; every fault for which the newest are not in force."""
    uptime = age_text(document["uptime"])
    yield (
        f"agent of host {document['host']}, version {document['version']}, "
        f"pid {document['pid']}, up {uptime}"
    )
    config = document["config"]
    if config["state"] == "ok":
        yield f"configuration {config['folder']} is in force"
        return
    yield f"configuration {config['folder']} is refused, the last good one is in force:"
    faults = [fault_line(fault) for fault in config["faults"]] or [config["reason"]]
    yield from (f"  {line}" for line in faults)


def problems(document: Document) -> Iterator[str]:
    """What a controller did not take, or has defined otherwise."""
    for link in document["controllers"]:
        for said, found in (("refused", link["problems"]), ("differs", link["differs"])):
            for resource, reason in found.items():
                yield f"{link['endpoint']} {said} {resource}: {reason}"


def _show(document: Document) -> None:
    for line in headlines(document):
        output.say(printable(line))
    for line in problems(document):
        output.say(printable(line))
    output.say()
    show(Table(CONTROLLER_COLUMNS, [controller_row(link) for link in document["controllers"]]))
    output.say()
    rows = [value_row(resource) for resource in document["resources"]]
    show(Table(VALUE_COLUMNS, rows, frozenset({"VALUE", "AGE", "LAST"})))
    output.say()
    right = frozenset({"INTERVAL", "DURATION", "AGE", "FAILURES", "MISSED"})
    show(Table(PROBE_COLUMNS, [probe_row(probe) for probe in document["probes"]], right))


@click.command()
@host_option
@json_option
def status(host: str | None, as_json: bool) -> None:
    """Show the local agent: its controllers, its values, and each probe's last run.

    It is asked over its socket, so this works without a controller. WHY says why the last run
    of a probe failed, and what it printed that is no value.

    \b
    Example:
      dynres status
      dynres status --host host1 --json
    """
    document = ask_agent(host, "status")
    if as_json:
        output.document(document)
    else:
        _show(document)
