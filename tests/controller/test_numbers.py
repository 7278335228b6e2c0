"""Numbers that a report holds side by side are taken as each of them alone would be."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from handmade import Bench, configured, definitions, measured, run
from hypothesis import given, settings
from hypothesis import strategies as st

from dynres.controller.journal import Journal
from dynres.controller.overriding import Laid
from dynres.wire.messages import MeasuredNumbers, Report

RESOURCES = """
probes: [{name: p, command: [/bin/p]}]
resources:
  - {name: a, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: b, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: c, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: ruled, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: elsewhere, interval: 15, probe: p, resourcemap: [{location: [host2]}]}
  - {name: room, interval: 15, flags: [consumable], measures: total, probe: p,
     resourcemap: [{location: [default]}]}
  - {name: text, type: string, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: ok, type: boolean, interval: 15, probe: p, resourcemap: [{location: [default]}]}
  - {name: lic, interval: 15, flags: [shared], measures: total, probe: p,
     resourcemap: [{name: one, location: [host1, host2], reporter: [host1]}]}
  - {name: fixed, resourcemap: [{value: 1, location: [default]}]}
"""
HOSTS = "hosts: [{name: host1}, {name: host2}, {name: login1, worker: false}]"
NAMES = ["a", "b", "c", "ruled", "elsewhere", "room", "text", "ok", "lic", "fixed", "unknown"]
ODD = [0.0, -0.0, 1.5, -2.0, 1e300, float("nan"), float("inf")]

with TemporaryDirectory() as folder:
    CONFIGURATION = configured(Path(folder), RESOURCES, HOSTS)


def bench(host: str, *, disputed: bool) -> Bench:
    made = Bench(CONFIGURATION)
    declared = definitions(CONFIGURATION)
    made.hello(b"a", host, definitions={**declared, "b": "other"} if disputed else declared)
    table = made.core.table
    table.journal = Journal()
    table.overrule({("ruled", "host1"): Laid(7.0, "by hand")})
    return made


def told(made: Bench) -> tuple[Any, ...]:
    """All that the controller knows of its hosts, and what it noted as changed."""
    table = made.core.table
    rows = {host: table.row(host, made.now) for host in table.rows}
    below = table.below("host1", "ruled", made.now)
    shared = [(s.last, s.reason, s.measured, s.probe) for s in made.core.shared]
    noted = table.journal and (table.journal.rows, table.journal.cells)
    return rows, below, shared, noted, made.counts


def side_by_side(report: Report) -> Report:
    """The same report with its numbers together."""
    names = tuple(value.resource for value in report.values)
    numbers = [float(value.value or 0.0) for value in report.values]
    together = MeasuredNumbers(probe="p", age=report.values[0].age, resources=names, values=numbers)
    return msgspec.structs.replace(report, values=(), numbers=(together,))


given_numbers = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), min_size=1)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(given_numbers, st.booleans()), min_size=1, max_size=3),
    st.sampled_from(["host1", "host2", "login1"]),
    st.booleans(),
)
def test_numbers_side_by_side_do_what_each_would_do_alone(
    reports: list[tuple[dict[str, float], bool]], host: str, disputed: bool
) -> None:
    alone, together = (bench(host, disputed=disputed) for _ in range(2))
    for seq, (numbers, again) in enumerate(reports, start=1):
        age = 3.0 if again else 1.0
        values = tuple(measured(name, x, age, probe="p") for name, x in numbers.items())
        runs = (run("p", age, missed={"c": "not there"} if again and "c" not in numbers else {}),)
        plain = Report(seq=seq, full=seq == 1, runs=runs, values=values)
        said = [
            made.core.receive(b"a", "", report, made.now)
            for made, report in ((alone, plain), (together, side_by_side(plain)))
        ]
        assert repr(said[0]) == repr(said[1])
        assert repr(told(alone)) == repr(told(together))
        alone.now = together.now = alone.now + 1.0


@pytest.mark.parametrize(("count", "age"), [(1, 0.0), (3, 0.0), (2, float("nan"))])
def test_numbers_without_a_resource_each_are_malformed(count: int, age: float) -> None:
    made = bench("host1", disputed=False)
    numbers = MeasuredNumbers(probe="p", age=age, resources=("a", "b"), values=[1.0] * count)
    made.core.receive(b"a", "", Report(seq=1, full=True, numbers=(numbers,)), made.now)
    assert made.counts == ["malformed"]
