"""Numbers that a report holds side by side are taken as each of them alone would be."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from handmade import Bench, configured, definitions, measured, run
from hypothesis import given, settings
from hypothesis import strategies as st

from dynres.controller.journal import Journal
from dynres.controller.orders import Orders, OrderStore
from dynres.controller.overriding import Laid
from dynres.wire.messages import MeasuredNumbers, Report, SendAll

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


def in_packed(given: MeasuredNumbers) -> MeasuredNumbers:
    """The same, as version 4 has it."""
    packed = struct.pack(f"<{len(given.values)}d", *given.values)
    return msgspec.structs.replace(given, values=[], packed=packed)


def side_by_side(report: Report, told: dict[int, tuple[str, ...]]) -> Report:
    """The same report with its numbers together, and with names only where they are not `told`.

    Every other one has them packed.
    """
    names = tuple(value.resource for value in report.values)
    numbers = [float(value.value or 0.0) for value in report.values]
    order = next((number for number, known in told.items() if known == names), 0)
    resources = None if order else names
    if not order:
        order = report.seq
        told.clear()
        told[order] = names
    together = MeasuredNumbers(
        probe="p", age=report.values[0].age, order=order, resources=resources, values=numbers
    )
    if report.seq % 2:
        together = in_packed(together)
    return msgspec.structs.replace(report, values=(), numbers=(together,))


given_numbers = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), min_size=1)
all_numbers = st.fixed_dictionaries({name: st.sampled_from(ODD) for name in NAMES})


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(given_numbers | all_numbers, st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["host1", "host2", "login1"]),
    st.booleans(),
)
def test_numbers_side_by_side_do_what_each_would_do_alone(
    reports: list[tuple[dict[str, float], bool]], host: str, disputed: bool
) -> None:
    alone, together = (bench(host, disputed=disputed) for _ in range(2))
    names: dict[int, tuple[str, ...]] = {}
    for seq, (numbers, again) in enumerate(reports, start=1):
        age = 3.0 if again else 1.0
        values = tuple(measured(name, x, age, probe="p") for name, x in numbers.items())
        runs = (run("p", age, missed={"c": "not there"} if again and "c" not in numbers else {}),)
        plain = Report(seq=seq, full=seq == 1, runs=runs, values=values)
        said = [
            made.core.receive(b"a", "", report, made.now)
            for made, report in ((alone, plain), (together, side_by_side(plain, names)))
        ]
        assert repr(said[0]) == repr(said[1])
        assert repr(told(alone)) == repr(told(together))
        alone.now = together.now = alone.now + 1.0


@pytest.mark.parametrize(("count", "age"), [(1, 0.0), (3, 0.0), (2, float("nan"))])
def test_numbers_without_a_resource_each_are_malformed(count: int, age: float) -> None:
    numbers = MeasuredNumbers(probe="p", age=age, resources=("a", "b"), values=[1.0] * count)
    for told_ in (numbers, in_packed(numbers)):
        made = bench("host1", disputed=False)
        made.core.receive(b"a", "", Report(seq=1, full=True, numbers=(told_,)), made.now)
        assert made.counts == ["malformed"]


def test_numbers_of_which_the_last_is_cut_off_are_malformed() -> None:
    made = bench("host1", disputed=False)
    given = MeasuredNumbers(probe="p", age=0.0, resources=("a", "b"), packed=bytes(15))
    made.core.receive(b"a", "", Report(seq=1, full=True, numbers=(given,)), made.now)
    assert made.counts == ["malformed"]


def numbers(order: int, names: tuple[str, ...] | None, *values: float) -> MeasuredNumbers:
    return MeasuredNumbers(
        probe="p", age=0.0, order=order, resources=names, values=list(values) or [1.0, 2.0]
    )


def after(*reports: MeasuredNumbers, full: int = 1) -> Bench:
    """An agent that has sent these, each as a report of its own; number `full` is a full one."""
    made = bench("host1", disputed=False)
    made.core.receive(b"a", "", Report(seq=1, full=True), made.now)
    for seq, together in enumerate(reports, start=2):
        report = Report(seq=seq, full=seq == full, runs=(run("p"),), numbers=(together,))
        made.said = made.core.receive(b"a", "", report, made.now)
    return made


def a_and_b(made: Bench) -> list[object]:
    row = made.core.table.row("host1", made.now)
    return [row[name].value for name in ("a", "b")]


def test_names_are_told_once() -> None:
    made = after(numbers(1, ("a", "b")), numbers(1, None, 3.0, 4.0))
    assert (a_and_b(made), made.counts) == ([3.0, 4.0], ["taken"] * 3)


@pytest.mark.parametrize(
    "reports",
    [
        [numbers(1, None)],
        [numbers(1, ("a", "b")), numbers(2, None)],
        [numbers(1, ("a", "b")), numbers(2, ("b", "a")), numbers(1, None)],
        [numbers(0, ("a", "b")), numbers(0, None)],
    ],
    ids=["never told", "another one was", "another one since", "told without a number"],
)
def test_numbers_whose_names_were_not_told_are_asked_for_anew(
    reports: list[MeasuredNumbers],
) -> None:
    made = after(*reports)
    assert made.counts[-1] == "gap"
    assert any(isinstance(getattr(said, "message", None), SendAll) for said in made.said)


def test_a_full_report_tells_all_names_anew() -> None:
    made = after(numbers(1, ("a", "b")), numbers(1, None), full=3)
    assert made.counts == ["taken", "taken", "gap"]


def test_names_for_another_count_of_numbers_are_malformed_and_change_nothing() -> None:
    made = after(numbers(1, ("a", "b"), 1.0, 2.0), numbers(1, None, 3.0))
    assert (a_and_b(made), made.counts[-1]) == ([1.0, 2.0], "malformed")


def test_agents_that_give_the_same_names_share_them() -> None:
    store = OrderStore()
    first, second = Orders(store), Orders(store)
    for orders in (first, second):
        told_ = orders.named([numbers(1, ("a", "b"))], full=True)
        orders.keep(told_, full=True, room=10)
    (one,), (other,) = (o.named([numbers(1, None)], full=False) for o in (first, second))
    assert one.order is other.order is not None


def test_a_session_can_have_only_so_many_names_remembered() -> None:
    orders = Orders(OrderStore())
    told_ = [
        MeasuredNumbers(probe=f"p{n}", age=0.0, order=1, resources=("a", "b"), values=[1.0, 2.0])
        for n in range(5)
    ]
    orders.keep(orders.named(told_, full=True), full=True, room=7)
    again = [msgspec.structs.replace(given, resources=None) for given in told_]
    known = [named.order is not None for named in orders.named(again, full=False)]
    assert known == [True, True, False, False, False]


def test_names_of_a_probe_that_the_controller_calls_otherwise_are_remembered_too() -> None:
    first = msgspec.structs.replace(numbers(1, ("a", "b")), probe="renamed")
    made = after(first, msgspec.structs.replace(first, resources=None))
    assert made.counts == ["taken"] * 3
