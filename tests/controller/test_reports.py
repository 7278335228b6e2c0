"""What reports do to the table: each value judged alone, ages kept, nothing late believed."""

from pathlib import Path

import pytest
from handmade import Bench, configured, definitions, measured, run, sent

from dynres.controller.answers import Answers
from dynres.wire.messages import Assign, Echo, Problem, Run, SendAll, Welcome
from dynres.wire.views import ValueView

RESOURCES = """
resources:
  - {name: temp, interval: 15, probe: {command: [/bin/temp]}, resourcemap: [{location: [default]}]}
  - name: room
    interval: 15
    flags: [consumable]
    measures: total
    probe: {command: [/bin/room]}
    resourcemap: [{location: [default], reserve: 2}]
  - name: state
    type: string
    interval: 15
    probe: {command: [/bin/state]}
    resourcemap: [{location: [host1]}]
  - {name: ok, type: boolean, interval: 15, probe: {command: [/bin/ok]},
     resourcemap: [{location: [default]}]}
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
"""
HOSTS = "hosts: [{name: host1}, {name: host2}, {name: login1, worker: false}]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(configured(tmp_path, RESOURCES, HOSTS))
    made.hello(b"a", "host1")
    return made


def shown(bench: Bench, resource: str, host: str = "host1") -> ValueView:
    found = Answers(bench.core, bench.now).value(host, bench.core.resources[resource])
    assert found is not None
    return found


def test_the_welcome_says_what_to_measure(tmp_path: Path) -> None:
    bench = Bench(configured(tmp_path, RESOURCES, HOSTS))
    (one,) = sent(bench.hello(b"a", "host1"), Welcome)
    (two,) = sent(bench.hello(b"b", "host2"), Welcome)
    assert {"temp", "room", "state", "ok", "r15s"} <= set(one.measure)
    assert "os" not in one.measure
    assert set(one.measure) - set(two.measure) == {"state"}
    assert one.differs == {}
    assert one.stamp == bench.now


def test_a_host_that_is_no_worker_may_register_and_measures_nothing(tmp_path: Path) -> None:
    bench = Bench(configured(tmp_path, RESOURCES, HOSTS))
    (welcome,) = sent(bench.hello(b"l", "login1"), Welcome)
    assert welcome.measure == ()
    problems = sent(bench.report(b"l", 1, measured("temp", 1.0), full=True), Problem)
    assert problems[0].refused == {"temp": "not mapped to this host"}


def test_a_full_report_fills_the_table(bench: Bench) -> None:
    values = (measured("temp", 21.5, 2.0), measured("state", "ok"), measured("ok", True))
    assert sent(bench.report(b"a", 1, *values, full=True), Problem) == []
    view = shown(bench, "temp")
    assert (view.value, view.state, view.age) == (21.5, "fresh", 2.0)
    assert (view.source.kind, view.source.probe, view.source.reporter) == (
        "probe",
        "temp",
        "host1",
    )
    assert shown(bench, "ok").value is True
    assert shown(bench, "temp", "host2").reason == "no report yet"
    assert bench.counts == ["taken"]


def test_a_constant_value_stays_fresh_as_long_as_its_probe_runs(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    for seq in range(2, 20):
        bench.wait(15, b"a")
        bench.report(b"a", seq, runs=[run("temp", 1.0)])
    assert (shown(bench, "temp").value, shown(bench, "temp").age) == (1.0, 1.0)


def test_a_value_is_stale_after_its_ttl_and_says_why(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.wait(45, b"a")
    assert shown(bench, "temp").state == "fresh"
    bench.wait(1, b"a")
    view = shown(bench, "temp")
    assert (view.state, view.value, view.last) == ("stale", None, 1.0)
    assert view.reason == "older than its ttl of 45s"
    bench.wait(20)
    assert shown(bench, "temp").reason == "older than its ttl of 45s; host host1 is unreachable"


def test_a_stale_value_says_what_its_probes_last_run_said(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    failed = Run(probe="temp", outcome="timeout", age=0.1, duration=5.0, reason="too slow")
    bench.report(b"a", 2, runs=[failed])
    assert shown(bench, "temp").reason is None
    bench.wait(46, b"a")
    said = "older than its ttl of 45s; probe temp: timeout: too slow"
    assert shown(bench, "temp").reason == said
    bench.report(b"a", 3, measured("temp", 2.0), runs=[run("temp", 0.1)])
    bench.wait(46, b"a")
    assert shown(bench, "temp").reason == "older than its ttl of 45s"


def test_runs_of_probes_that_nothing_declares_are_not_remembered(bench: Bench) -> None:
    failed = Run(probe="other", outcome="failed", age=0.1, duration=5.0, reason="no")
    bench.report(b"a", 1, measured("temp", 1.0), runs=[failed], full=True)
    session = bench.core.registry.session("host1")
    assert session is not None
    assert session.bad == {}


def test_a_missed_value_ages_while_its_neighbours_are_renewed(bench: Bench) -> None:
    both = (measured("temp", 1.0, probe="p"), measured("ok", True, probe="p"))
    bench.report(b"a", 1, *both, full=True)
    bench.wait(40, b"a")
    bench.report(b"a", 2, runs=[run("p", missed={"ok": "no line"})])
    bench.wait(10, b"a")
    assert shown(bench, "temp").state == "fresh"
    assert shown(bench, "ok").state == "stale"


@pytest.mark.parametrize("outcome", ["failed", "timeout", "skipped", "cancelled"])
def test_a_run_that_gave_nothing_renews_nothing(bench: Bench, outcome: str) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.wait(30, b"a")
    bench.report(b"a", 2, runs=[run("temp", outcome=outcome)])
    assert shown(bench, "temp").age == 30.0


def test_unavailable_has_its_reason_and_the_older_value_as_last(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.report(b"a", 2, measured("temp", None, reason="sensor off"))
    view = shown(bench, "temp")
    assert (view.state, view.value, view.last, view.reason) == (
        "unavailable",
        None,
        1.0,
        "sensor off",
    )


def test_a_literal_of_on_failure_says_so(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 0.0, fallback=True), full=True)
    assert shown(bench, "temp").source.kind == "on_failure"


def test_what_is_refused_is_answered_with_the_reason_and_the_rest_is_taken(bench: Bench) -> None:
    values = (measured("os", "el7"), measured("nothing", 1.0), measured("temp", 3.0))
    (problem,) = sent(bench.report(b"a", 1, *values, full=True), Problem)
    assert set(problem.refused) == {"os", "nothing"}
    assert problem.refused["nothing"] == "unknown resource"
    assert "resources.yaml:" in problem.refused["os"]
    assert shown(bench, "temp").value == 3.0
    assert shown(bench, "os").value == "el9"
    assert bench.counts == ["partly"]


def test_a_resource_that_is_not_mapped_to_the_host_is_refused(bench: Bench) -> None:
    bench.hello(b"b", "host2")
    (problem,) = sent(bench.report(b"b", 1, measured("state", "ok"), full=True), Problem)
    assert problem.refused == {"state": "not mapped to this host"}


@pytest.mark.parametrize(
    ("resource", "value", "why"),
    [
        ("temp", "warm", "not a number"),
        ("temp", True, "not a number"),
        ("temp", float("nan"), "not a finite number"),
        ("temp", float("inf"), "not a finite number"),
        ("room", -1.0, "negative"),
        ("room", 1e13, "9e12 or more"),
        ("state", 1.0, "not a string"),
        ("state", "a\nb", "control character U+000A"),
        ("state", "x" * 1025, "longer than 1024 bytes"),
        ("ok", 1.0, "not a boolean"),
    ],
)
def test_a_value_that_is_none_of_its_type_makes_the_resource_unavailable(
    bench: Bench, resource: str, value: float | str, why: str
) -> None:
    good = {"temp": 1.0, "room": 5.0, "state": "ok", "ok": True}[resource]
    bench.report(b"a", 1, measured(resource, good), full=True)
    (problem,) = sent(bench.report(b"a", 2, measured(resource, value)), Problem)
    assert problem.refused == {resource: why}
    view = shown(bench, resource)
    assert (view.state, view.value, view.reason) == ("unavailable", None, f"refused: {why}")


def test_after_a_gap_no_run_renews_a_value_until_a_full_report_comes(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.wait(10, b"a")
    outputs = bench.report(b"a", 3, measured("ok", True), runs=[run("temp")])
    assert len(sent(outputs, SendAll)) == 1
    assert shown(bench, "ok").value is True
    assert shown(bench, "temp").age == 10.0
    assert sent(bench.report(b"a", 4, runs=[run("temp")]), SendAll) == []
    bench.report(b"a", 5, measured("temp", 2.0), full=True)
    bench.report(b"a", 6, runs=[run("temp")])
    assert (shown(bench, "temp").value, shown(bench, "temp").age) == (2.0, 0.0)
    assert bench.counts == ["taken", "gap", "gap", "taken", "taken"]


def test_a_late_report_changes_nothing_and_is_counted(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.report(b"a", 2, measured("temp", 2.0))
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    assert shown(bench, "temp").value == 2.0
    assert bench.counts[-1] == "late"


def test_a_later_run_counts_although_its_stamp_took_longer_on_its_way(bench: Bench) -> None:
    quick = Echo(stamp=bench.now, since=2.0)
    bench.now += 2.0
    bench.report(b"a", 1, measured("temp", 1.0, 1.0), full=True, echo=quick)
    slow = Echo(stamp=bench.now - 1.9, since=0.1)
    bench.now += 3.0
    bench.report(b"a", 2, measured("temp", 2.0, 0.5), echo=slow)
    assert shown(bench, "temp").value == 2.0


def test_a_report_that_waited_is_as_old_as_it_is(bench: Bench) -> None:
    echo = Echo(stamp=bench.now, since=1.0)
    bench.now += 60.0
    bench.report(b"a", 1, measured("temp", 1.0, 1.0), full=True, echo=echo)
    view = shown(bench, "temp")
    assert (view.state, view.age) == ("stale", 60.0)


@pytest.mark.parametrize("age", [float("nan"), float("inf")])
def test_a_report_with_impossible_times_is_counted_as_malformed(bench: Bench, age: float) -> None:
    bench.report(b"a", 1, measured("temp", 1.0, age), full=True)
    assert shown(bench, "temp").state == "unavailable"
    assert bench.counts == ["malformed"]


def test_a_report_without_a_session_is_ignored_and_counted(bench: Bench) -> None:
    bench.report(b"x", 1, measured("temp", 1.0), full=True)
    assert shown(bench, "temp").state == "unavailable"
    assert bench.counts == ["unregistered"]


def test_a_replaced_session_is_ignored_from_then_on(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.hello(b"b", "host1", "s2")
    bench.now += 1.0
    bench.core.tick(bench.now)
    bench.report(b"a", 2, measured("temp", 9.0))
    assert shown(bench, "temp").value == 1.0
    bench.report(b"b", 1, measured("temp", 5.0), full=True)
    assert shown(bench, "temp").value == 5.0
    assert bench.counts == ["taken", "unregistered", "taken"]


def test_the_runs_of_a_new_session_do_not_renew_what_the_old_one_said(bench: Bench) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    bench.bye(b"a")
    bench.hello(b"b", "host1", "s2")
    bench.wait(10, b"b")
    bench.report(b"b", 1, full=True)
    bench.report(b"b", 2, runs=[run("temp")])
    assert shown(bench, "temp").age == 10.0


def test_a_differing_definition_is_unavailable_and_the_rest_counts(tmp_path: Path) -> None:
    bench = Bench(configured(tmp_path, RESOURCES, HOSTS))
    theirs = definitions(bench.configuration) | {"temp": "0123", "theirs": "4567"}
    del theirs["ok"]
    (welcome,) = sent(bench.hello(b"a", "host1", definitions=theirs), Welcome)
    assert welcome.differs == {
        "temp": "definition differs",
        "theirs": "not declared by the controller",
        "ok": "not declared by the agent",
    }
    assert not {"temp", "ok"} & set(welcome.measure)
    values = (measured("temp", 1.0), measured("state", "ok"), measured("ok", True))
    (problem,) = sent(bench.report(b"a", 1, *values, full=True), Problem)
    assert set(problem.refused) == {"temp", "ok"}
    assert shown(bench, "temp").reason == "definition differs"
    assert shown(bench, "ok").reason == "not declared by the agent"
    assert shown(bench, "state").value == "ok"
    config = Answers(bench.core, bench.now).detail("host1").config
    assert config is not None
    assert (config.same, config.differs) == (False, ("ok", "temp", "theirs"))
    bench.hello(b"a", "host1")
    bench.report(b"a", 2, measured("temp", 1.0), full=True)
    assert shown(bench, "temp").value == 1.0


def test_after_a_restart_of_the_controller_no_old_value_is_served(tmp_path: Path) -> None:
    configuration = configured(tmp_path, RESOURCES, HOSTS)
    bench = Bench(configuration, now=1000.0)
    bench.hello(b"a", "host1")
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    again = Bench(configuration, now=1002.0)
    assert shown(again, "temp").state == "unavailable"
    assert shown(again, "os").value == "el9"
    again.hello(b"b", "host1")
    assert shown(again, "temp").state == "unavailable"
    again.report(b"b", 2, runs=[run("temp")])
    assert shown(again, "temp").state == "unavailable"
    again.report(b"b", 3, measured("temp", 4.0, 1.0), full=True)
    assert shown(again, "temp").value == 4.0


def test_after_a_reload_all_are_asked_for_everything_spread_over_a_heartbeat(
    bench: Bench, tmp_path: Path
) -> None:
    bench.hello(b"b", "host2")
    bench.report(b"a", 1, measured("temp", 1.0), measured("state", "ok"), full=True)
    fewer = RESOURCES.replace("location: [host1]", "location: [host2]")
    outputs = bench.core.reload(configured(tmp_path, fewer, HOSTS), "listed", bench.now)
    assert [m.within for m in sent(outputs, SendAll)] == [5.0, 5.0]
    (one,), (two,) = sent(outputs, Assign, b"a"), sent(outputs, Assign, b"b")
    assert "state" not in one.measure
    assert "state" in two.measure
    assert shown(bench, "temp").value == 1.0
    answers = Answers(bench.core, bench.now)
    assert answers.value("host1", bench.core.resources["state"]) is None


def test_a_resource_whose_meaning_a_reload_changes_starts_without_a_value(
    bench: Bench, tmp_path: Path
) -> None:
    bench.report(b"a", 1, measured("temp", 1.0), full=True)
    changed = RESOURCES.replace("{name: temp,", "{name: temp, unit: K,")
    bench.core.reload(configured(tmp_path, changed, HOSTS), "listed", bench.now)
    view = shown(bench, "temp")
    assert (view.state, view.last, view.reason) == ("unavailable", None, "definition differs")
