import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.wire.codec import encode, from_agent
from dynres.wire.targets import resource_of, target
from dynres.worker.latest import Latest, Rule
from dynres.worker.outcome import RunResult
from dynres.worker.reporter import PENDING, Reporter

RULES = {
    "a": Rule("p", "numeric", None, 30.0, "keep", None),
    "b": Rule("p", "numeric", None, 30.0, "unavailable", None),
    "c": Rule("p", "numeric", None, 30.0, "literal", 5.0),
    "d": Rule("q", "string", None, 30.0, "keep", None),
    "e/one": Rule("r", "numeric", None, 30.0, "keep", None),
    "e/two": Rule("r", "numeric", None, 30.0, "keep", None),
    "e/odd": Rule("e/odd", "numeric", None, 30.0, "unavailable", None),
}
ASKED = {"p": ("a", "b", "c"), "q": ("d",), "r": ("e",), "e/odd": ("e",)}


class Agent:
    """A table and one reporter, joined as in the daemon."""

    def __init__(self):
        self.latest = Latest()
        self.latest.define(RULES)
        self.reporter = Reporter(self.latest)

    def run(self, at, probe="p", outcome="ok", **fields):
        reason = fields.pop("reason", None if outcome == "ok" else f"{outcome} happened")
        result = RunResult(
            probe=probe, outcome=outcome, started=at, duration=0.1, reason=reason, **fields
        )
        ended = self.latest.apply(result, ASKED[probe])
        if ended is not None:
            self.reporter.ended(ended)

    def report(self, now, *, taken=True):
        report = self.reporter.report(now)
        if report is not None:
            assert from_agent(encode(report)) == report
            if taken:
                self.reporter.taken()
        return report


class Controller:
    """What the rules of `messages.Run` make a controller believe."""

    def __init__(self):
        self.values = {}
        self.seq = 0

    def take(self, report, now):
        assert report.full or report.seq == self.seq + 1
        self.seq = report.seq
        if report.full:
            self.values = {}
        named = {target(m.resource, m.instance) for m in report.values}
        for run in report.runs:
            if run.outcome == "ok":
                for name, (probe, value, _, reason, fallback) in self.values.items():
                    missed = resource_of(name) in run.missed
                    if probe == run.probe and not missed and name not in named:
                        self.values[name] = (probe, value, now - run.age, reason, fallback)
        for m in report.values:
            name = target(m.resource, m.instance)
            self.values[name] = (m.probe, m.value, now - m.age, m.reason, m.fallback)


def value_of(report):
    return {m.resource: m.value for m in report.values}


GOOD = {"a": 1.0, "b": 2.0, "c": 3.0}


@pytest.fixture
def agent():
    return Agent()


def test_the_first_report_is_full(agent):
    agent.run(100.0, values=GOOD)
    agent.run(100.5, "q", values={"d": "ok"})
    report = agent.report(101.0)
    assert report.full
    assert report.seq == 1
    assert value_of(report) == {**GOOD, "d": "ok"}
    assert [(r.probe, r.age) for r in report.runs] == [("p", 1.0), ("q", 0.5)]


def test_the_first_report_is_sent_even_before_any_run(agent):
    report = agent.report(100.0)
    assert report.full
    assert report.values == report.runs == ()


def test_a_constant_value_is_named_by_its_run_and_not_repeated(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.run(110.0, values=GOOD)
    report = agent.report(110.2)
    assert (report.seq, report.full, report.values) == (2, False, ())
    assert report.runs[0].age == pytest.approx(0.2)


def test_only_what_changed_is_sent(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.run(110.0, values={**GOOD, "b": 7.0})
    assert value_of(agent.report(110.1)) == {"b": 7.0}


def test_without_news_there_is_nothing_to_report(agent):
    agent.report(100.0)
    assert not agent.reporter.wanting
    assert agent.report(101.0) is None


def test_ages_are_those_of_the_moment_of_sending(agent):
    agent.run(100.0, values=GOOD)
    report = agent.report(107.0)
    assert {m.age for m in report.values} == {7.0}


def test_a_full_report_comes_on_request_with_the_ages_of_now(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.reporter.send_all()
    report = agent.report(105.0)
    assert report.full
    assert report.seq == 2
    assert value_of(report) == GOOD
    assert {m.age for m in report.values} == {5.0}


def test_a_report_that_the_link_did_not_take_is_covered_by_the_next_one(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.run(110.0, values={**GOOD, "a": 9.0})
    lost = agent.report(110.1, taken=False)
    agent.run(120.0, values={**GOOD, "a": 9.0, "b": 8.0})
    report = agent.report(120.1)
    assert report.seq == lost.seq == 2
    assert value_of(report) == {"a": 9.0, "b": 8.0}
    assert [m.age for m in report.values] == [pytest.approx(0.1)] * 2
    assert [r.age for r in report.runs] == [pytest.approx(10.1), pytest.approx(0.1)]


def test_nothing_queues_however_long_the_link_takes_nothing(agent):
    agent.report(99.0)
    for n in range(1000):
        agent.run(100.0 + n, values={**GOOD, "a": float(n)})
        agent.report(100.0 + n, taken=False)
    report = agent.report(2000.0)
    assert len(report.runs) == PENDING
    assert value_of(report) == {**GOOD, "a": 999.0}


def test_a_failed_run_is_named_and_sends_what_on_failure_changes(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.run(110.0, outcome="failed", reason="exit status 3")
    report = agent.report(110.1)
    assert (report.runs[0].outcome, report.runs[0].reason) == ("failed", "exit status 3")
    assert value_of(report) == {"b": None, "c": 5.0}
    by_name = {m.resource: m for m in report.values}
    assert by_name["c"].fallback
    assert by_name["b"].reason == "exit status 3"


def test_a_literal_is_sent_again_at_each_failure_since_it_counts_as_measured_again(agent):
    agent.run(100.0, outcome="failed")
    agent.report(100.1)
    agent.run(110.0, outcome="failed")
    report = agent.report(110.1)
    assert value_of(report) == {"c": 5.0}
    assert report.values[0].age == pytest.approx(0.1)


def test_a_missed_value_is_named_in_its_run_so_that_it_does_not_count_as_measured_again(agent):
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.run(110.0, values={"b": 2.0, "c": 3.0}, missed={"a": "not a number"})
    report = agent.report(110.1)
    assert report.values == ()
    assert report.runs[0].missed == {"a": "not a number"}


def test_a_skipped_run_is_named_and_a_cancelled_one_is_not(agent):
    agent.report(99.0)
    agent.run(100.0, outcome="cancelled")
    assert agent.report(100.1) is None
    agent.run(101.0, outcome="skipped")
    assert [r.outcome for r in agent.report(101.1).runs] == ["skipped"]


def test_each_report_echoes_the_stamp_with_the_time_since_it_came(agent):
    agent.run(100.0, values=GOOD)
    assert agent.report(100.0).echo is None
    agent.reporter.stamped(777.0, 101.0)
    agent.run(103.0, values=GOOD)
    echo = agent.report(103.5).echo
    assert (echo.stamp, echo.since) == (777.0, 2.5)
    agent.reporter.unstamped()
    assert agent.reporter.echo(104.0) is None


def test_only_what_this_controller_wants_is_reported(agent):
    agent.reporter.measure({"a"})
    agent.run(100.0, values=GOOD)
    agent.run(100.0, "q", values={"d": "ok"})
    report = agent.report(100.1)
    assert value_of(report) == {"a": 1.0}
    assert [r.probe for r in report.runs] == ["p"]
    agent.run(110.0, "q", values={"d": "no"})
    assert agent.report(110.1) is None


def test_what_a_controller_newly_wants_is_sent_although_it_did_not_change(agent):
    agent.reporter.measure({"a"})
    agent.run(100.0, values=GOOD)
    agent.report(100.1)
    agent.reporter.measure({"a", "b"})
    assert value_of(agent.report(105.0)) == {"b": 2.0}
    agent.reporter.measure({"a"})
    agent.reporter.measure({"a", "b"})
    assert value_of(agent.report(106.0)) == {"b": 2.0}


def test_one_run_tells_of_every_instance_that_its_probe_serves(agent):
    agent.run(100.0, "r", values={"e": 4.0})
    report = agent.report(101.0)
    told = {(m.resource, m.instance, m.value) for m in report.values}
    assert told == {("e", "one", 4.0), ("e", "two", 4.0)}
    agent.run(110.0, "r", values={"e": 4.0})
    again = agent.report(111.0)
    assert (again.values, [run.probe for run in again.runs]) == ((), ["r"])


def test_two_instances_have_values_of_their_own_where_their_probes_differ(agent):
    agent.run(100.0, "r", values={"e": 4.0})
    agent.run(100.0, "e/odd", values={"e": 9.0})
    agent.reporter.measure({"e/one", "e/odd"})
    report = agent.report(101.0)
    told = {(m.instance, m.probe, m.value) for m in report.values}
    assert told == {("one", "r", 4.0), ("odd", "e/odd", 9.0)}


def test_a_run_says_that_its_probe_does_not_apply_here(agent):
    agent.run(100.0, "r", not_here=True, values={"e": None})
    report = agent.report(101.0)
    assert [run.not_here for run in report.runs] == [True]
    assert {m.value for m in report.values} == {None}


EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("p"),
            st.dictionaries(
                st.sampled_from(["a", "b", "c"]), st.sampled_from([1.0, 2.0, None]), max_size=3
            ),
        ),
        st.tuples(st.just("q"), st.dictionaries(st.just("d"), st.sampled_from(["x", "y", None]))),
        st.tuples(
            st.sampled_from(["r", "e/odd"]),
            st.dictionaries(st.just("e"), st.sampled_from([1.0, 2.0, None])),
        ),
        st.tuples(
            st.sampled_from(["fail p", "fail q", "fail r"]),
            st.sampled_from(["failed", "timeout", "skipped", "cancelled"]),
        ),
        st.tuples(st.just("not here"), st.just(None)),
        st.tuples(st.just("report"), st.booleans()),
        st.tuples(st.just("all"), st.just(None)),
        st.tuples(st.just("want"), st.sets(st.sampled_from([*RULES]))),
    ),
    max_size=50,
)


@given(EVENTS)
def test_after_every_report_the_controller_believes_exactly_what_the_agent_knows(events):
    agent, controller, now = Agent(), Controller(), 1000.0
    wanted = set(RULES)
    agent.reporter.measure(wanted)
    for kind, what in [*events, ("report", True)]:
        now += 1.0
        if kind in ASKED:
            agent.run(now, kind, values=what)
        elif kind.startswith("fail"):
            agent.run(now, kind[-1], outcome=what)
        elif kind == "not here":
            agent.run(now, "p", not_here=True)
        elif kind == "all":
            agent.reporter.send_all()
        elif kind == "want":
            wanted = what
            agent.reporter.measure(wanted)
        elif (report := agent.report(now, taken=what)) is not None and what:
            controller.take(report, now)
        if kind == "report" and what:
            believed = {n: v for n, v in controller.values.items() if n in wanted}
            known = {n: r for n, r in agent.latest.readings().items() if n in wanted}
            assert believed.keys() == known.keys()
            for name, reading in known.items():
                probe, value, measured, reason, fallback = believed[name]
                assert (probe, value, reason, fallback) == (
                    reading.probe,
                    reading.value,
                    reading.reason,
                    reading.fallback,
                )
                if value is not None:
                    assert measured == pytest.approx(reading.measured)
