"""Many numbers of one run side by side mean what they would mean one by one."""

import struct
from array import array

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynres.wire.codec import encode, from_agent
from dynres.wire.messages import Measured
from dynres.worker.latest import Latest, Rule
from dynres.worker.numbers import Names, Numbers
from dynres.worker.outcome import RunResult
from dynres.worker.reporter import Reporter

RULES = {
    "a": Rule("p", "numeric", None, 30.0, "keep", None),
    "b": Rule("p", "numeric", None, 30.0, "unavailable", None),
    "c": Rule("p", "numeric", None, 30.0, "literal", 5.0),
    "d": Rule("q", "numeric", None, 30.0, "keep", None),
    "e/one": Rule("r", "numeric", None, 30.0, "keep", None),
    "e/two": Rule("r", "numeric", None, 30.0, "keep", None),
}
OTHER_RULES = {  # `c` goes over to another probe, and `b` is another thing now
    **RULES,
    "b": Rule("p", "numeric", "GB", 30.0, "keep", None),
    "c": Rule("q", "numeric", None, 30.0, "keep", None),
}
GIVEN = {"p": ("a", "b", "c"), "q": ("d",), "r": ("e",)}
OTHERWISE = {"p": ("b", "a"), "q": ("d", "c"), "r": ("e",)}
ORDERS = [Names(order) for which in (GIVEN, OTHERWISE) for order in which.values()]


class Agent:
    """A table and a reporter."""

    def __init__(self, *, in_blocks):
        self.latest = Latest()
        self.latest.define(RULES)
        self.reporter = Reporter(self.latest)
        self.reporter.in_blocks = in_blocks

    def run(self, result, asked):
        ended = self.latest.apply(result, asked)
        if ended is not None:
            self.reporter.ended(ended)

    def report(self, now, *, taken):
        report = self.reporter.report(now)
        if report is not None:
            assert from_agent(encode(report)) == report
            if taken:
                self.reporter.taken()
        return report


def one_by_one(report):
    """The same report without numbers side by side; the order of values means nothing."""
    if report is None:
        return None
    values = [
        Measured(resource=resource, probe=n.probe, age=n.age, value=value)
        for n in report.numbers
        for resource, value in zip(n.resources, n.values, strict=True)
    ]
    values += report.values
    values.sort(key=lambda value: (value.resource, value.instance or ""))
    runs = tuple(sorted(report.runs, key=lambda run: (run.probe, -run.age)))
    return msgspec.structs.replace(report, values=tuple(values), numbers=(), runs=runs)


numbers = st.lists(st.sampled_from([1.0, 2.0]), min_size=3, max_size=3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("numbers"), st.tuples(st.sampled_from(ORDERS), numbers)),
        st.tuples(st.just("numbers"), st.tuples(st.just(ORDERS[0]), numbers)),
        st.tuples(
            st.sampled_from(["p", "q", "r"]),
            st.sampled_from(["failed", "skipped", "cancelled", "not here", "nothing"]),
        ),
        st.tuples(st.just("report"), st.booleans()),
        st.tuples(st.just("all"), st.just(None)),
        st.tuples(st.just("want"), st.sets(st.sampled_from([*RULES]))),
        st.tuples(st.just("rules"), st.sampled_from([RULES, OTHER_RULES])),
    ),
    max_size=40,
)
ONES, TWOS = (ORDERS[0], [1.0] * 3), (ORDERS[0], [2.0] * 3)


def probe_of(names):
    return next(p for n in (GIVEN, OTHERWISE) for p, o in n.items() if o == names.order)


def happen(kind, what, now, plain, blocks):
    """One event, for both agents."""
    if kind == "numbers":
        names, given = what
        values = Numbers(names, given[: len(names)])
        result = RunResult(
            probe=probe_of(names), outcome="ok", started=now, duration=0.1, values=values
        )
        blocks.run(result, values)
        plain.run(msgspec.structs.replace(result, values=dict(values)), set(values))
    elif kind in GIVEN:
        outcome = "ok" if what in {"not here", "nothing"} else what
        result = RunResult(
            probe=kind,
            outcome=outcome,
            started=now,
            duration=0.1,
            reason=None if outcome == "ok" else what,
            not_here=what == "not here",
        )
        for agent in (plain, blocks):
            agent.run(result, GIVEN[kind])
    for agent in (plain, blocks):
        if kind == "all":
            agent.reporter.send_all()
        elif kind == "want":
            agent.reporter.measure(what)
        elif kind == "rules":
            agent.latest.define(what)


@settings(deadline=None)
@given(EVENTS)
@example([("numbers", ONES), ("report", True), ("numbers", ONES), ("report", True)])
@example([("numbers", ONES), ("numbers", TWOS), ("report", False), ("numbers", ONES)])
@example([("numbers", ONES), ("report", True), ("p", "failed"), ("report", True)])
@example([("numbers", ONES), ("report", True), ("want", {"a"}), ("numbers", TWOS)])
@example([("report", True), ("numbers", ONES), ("p", "skipped"), ("report", True)])
def test_tables_and_reports_are_the_same_side_by_side_and_one_by_one(events):
    plain, blocks, now = Agent(in_blocks=False), Agent(in_blocks=True), 1000.0
    for kind, what in [*events, ("report", True)]:
        now += 1.0
        happen(kind, what, now, plain, blocks)
        assert blocks.latest.readings() == plain.latest.readings()
        if kind == "report":
            expected = plain.report(now, taken=what)
            assert one_by_one(blocks.report(now, taken=what)) == one_by_one(expected)


def settled():
    """An agent that has reported `a`, `b` and `c` as one block."""
    agent = Agent(in_blocks=True)
    agent.report(99.0, taken=True)
    for at in (100.0, 101.0):
        give(agent, at, [1.0, 1.0, 1.0])
        agent.report(at, taken=True)
    return agent


def give(agent, at, given):
    values = Numbers(ORDERS[0], given)
    result = RunResult(probe="p", outcome="ok", started=at, duration=0.1, values=values)
    agent.run(result, values)


def test_numbers_that_all_changed_are_sent_side_by_side():
    agent = settled()
    give(agent, 102.0, [2.0, 3.0, 4.0])
    report = agent.report(102.5, taken=True)
    (given_,) = report.numbers
    assert (given_.probe, given_.age) == ("p", 0.5)
    assert (given_.resources, given_.values) == (("a", "b", "c"), [2.0, 3.0, 4.0])
    assert report.values == ()


def test_of_numbers_side_by_side_only_those_that_changed_are_sent():
    agent = settled()
    give(agent, 102.0, [1.0, 3.0, 1.0])
    (given_,) = agent.report(102.5, taken=True).numbers
    assert (given_.resources, given_.values) == (("b",), [3.0])
    give(agent, 103.0, [1.0, 3.0, 1.0])
    report = agent.report(103.5, taken=True)
    assert (report.numbers, [run.probe for run in report.runs]) == ((), ["p"])


def test_a_controller_of_an_older_version_gets_one_value_each():
    agent = settled()
    agent.reporter.in_blocks = False
    give(agent, 102.0, [2.0, 3.0, 4.0])
    report = agent.report(102.5, taken=True)
    assert report.numbers == ()
    assert {m.resource: m.value for m in report.values} == {"a": 2.0, "b": 3.0, "c": 4.0}


def many(agent, at, given):
    values = Numbers(MANY_NAMES, given)
    result = RunResult(probe="p", outcome="ok", started=at, duration=0.1, values=values)
    agent.run(result, values)
    (numbers,) = agent.report(at, taken=True).numbers
    return numbers


MANY_NAMES = Names(tuple(f"n{n}" for n in range(100)))


def agent_of_many(*, names_once=True):
    agent = Agent(in_blocks=True)
    agent.reporter.names_once = names_once
    agent.latest.define(
        {n: Rule("p", "numeric", None, 30.0, "keep", None) for n in MANY_NAMES.order}
    )
    return agent


def test_a_controller_that_knows_whose_numbers_they_are_is_not_told_again():
    agent = agent_of_many()
    first, second = (many(agent, 100.0 + n, [float(n)] * 100) for n in range(2))
    assert (first.order, first.resources) == (1, MANY_NAMES.order)
    assert (second.order, second.resources, second.values) == (1, None, [1.0] * 100)


def test_one_that_is_told_all_anew_is_told_the_names_too():
    agent = agent_of_many()
    many(agent, 100.0, [0.0] * 100)
    agent.reporter.send_all()
    again = many(agent, 101.0, [0.0] * 100)
    assert (again.order, again.resources) == (2, MANY_NAMES.order)


def test_names_of_a_report_that_the_link_did_not_take_are_told_with_the_next():
    agent = agent_of_many()
    many(agent, 100.0, [0.0] * 100)
    agent.reporter.send_all()
    agent.report(100.5, taken=False)
    assert many(agent, 101.0, [1.0] * 100).resources == MANY_NAMES.order


def test_a_controller_that_takes_them_packed_gets_eight_bytes_for_each():
    agent = agent_of_many()
    agent.reporter.packed = True
    for said in ([0.5] * 100, array("d", range(100)), array("d", [-2.0, *range(1, 100)])):
        numbers = many(agent, 100.0, said)
        assert numbers.values == []
        unpacked = struct.unpack(f"<{int(numbers.count)}d", numbers.packed)
        assert unpacked == tuple(said[:1] if numbers.count == 1 else said)


def test_one_of_an_older_version_is_told_the_names_each_time():
    agent = agent_of_many(names_once=False)
    told = [many(agent, 100.0 + n, [float(n)] * 100) for n in range(2)]
    assert [(n.order, n.resources) for n in told] == [(0, MANY_NAMES.order)] * 2


@pytest.mark.parametrize(
    ("changed", "sent"),
    [(1, 1), (49, 49), (50, 100), (100, 100)],
    ids=["one", "less than half", "half", "all"],
)
def test_where_half_of_many_have_changed_all_are_sent_without_their_names(changed, sent):
    agent = agent_of_many()
    many(agent, 100.0, [0.0] * 100)
    given = many(agent, 101.0, [0.0] * (100 - changed) + [1.0] * changed)
    assert len(given.values) == sent
    assert (given.resources is None) == (sent == 100)
    after = many(agent, 102.0, [2.0] * 100)
    assert (after.order, after.resources) == (1, None)
