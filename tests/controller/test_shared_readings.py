"""Shared dynamic resources: one agent measures for all, and a late one never wins."""

from pathlib import Path
from typing import Any

import pytest
from handmade import Bench, configured, measured, run, sent

from dynres.controller.answers import Answers
from dynres.controller.changes import Closed, CloseHost, OpenHost
from dynres.controller.core import Note
from dynres.controller.proposal import Instant
from dynres.wire.messages import Assign, Measured, Problem, Run, SendAll, Welcome
from dynres.wire.views import PoolView, ValueView

RESOURCES = """
resources:
  - name: lic
    flags: [shared]
    interval: 15
    measures: total
    probe: {command: [/bin/lic]}
    resourcemap: [{location: [host1, host2, host3], reporter: [host2, login1, host1], reserve: 5}]
  - name: fs
    type: string
    flags: [shared]
    interval: 15
    probe: {command: [/bin/fs]}
    resourcemap: [{location: [host1, host2]}, {location: [host3]}]
"""
HOSTS = "hosts: [{name: 'host[1-4]'}, {name: login1, worker: false}]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A controller that has run for a while."""
    made = Bench(configured(tmp_path, RESOURCES, HOSTS))
    made.wait(20)
    return made


def lic(value: float | None, age: float = 0.0, **keys: Any) -> Measured:
    """A measurement of the pool."""
    return measured("lic", value, age, instance="lic", **keys)


def pool(bench: Bench) -> PoolView:
    (found,) = Answers(bench.core, bench.now).pools()
    return found


def shown(bench: Bench, resource: str, host: str) -> ValueView | None:
    return Answers(bench.core, bench.now).value(host, bench.core.resources[resource])


def measuring(outputs: list[object], peer: bytes) -> bool:
    """Whether the newest word to that agent is that it measures `lic`."""
    said = [*sent(outputs, Welcome, peer), *sent(outputs, Assign, peer)]
    return "lic/lic" in said[-1].measure


def test_nobody_measures_until_a_reporter_is_here(bench: Bench) -> None:
    assert (pool(bench).state, pool(bench).free, pool(bench).reporter) == (
        "unavailable",
        None,
        None,
    )
    bench.hello(b"3", "host3")
    assert pool(bench).reporter is None


def test_the_first_usable_reporter_is_designated(bench: Bench) -> None:
    assert measuring(bench.hello(b"1", "host1"), b"1")
    assert not measuring(bench.hello(b"2", "host2"), b"2")
    assert pool(bench).reporter == "host1"


def test_a_host_that_is_no_worker_may_be_a_reporter(bench: Bench) -> None:
    assert measuring(bench.hello(b"l", "login1"), b"l")
    bench.report(b"l", 1, lic(100.0, 1.0), full=True)
    found = pool(bench)
    assert (found.capacity, found.reported, found.reserve, found.free) == (100, 100.0, 5, 95)
    assert (found.state, found.age, found.reporter) == ("fresh", 1.0, "login1")
    assert found.members == ("host1", "host2", "host3")


def test_every_member_shows_what_is_free_and_nobody_else_does(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.report(b"2", 1, lic(100.0), full=True)
    for host in ("host1", "host2", "host3"):
        view = shown(bench, "lic", host)
        assert view is not None
        assert (view.value, view.source.kind, view.source.reporter) == (95.0, "pool", "host2")
    assert shown(bench, "lic", "host4") is None
    assert shown(bench, "lic", "login1") is None


def test_a_report_of_another_agent_is_ignored_and_counted(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    outputs = bench.report(b"1", 1, lic(7.0), full=True)
    assert sent(outputs, Problem) == []
    assert pool(bench).reported == 100.0
    assert bench.counts == ["taken", "undesignated"]


def test_the_runs_of_the_reporter_keep_the_value_fresh(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.report(b"2", 1, lic(100.0), full=True)
    for seq in range(2, 8):
        bench.wait(15, b"2")
        bench.report(b"2", seq, runs=[run("lic")])
    assert (pool(bench).state, pool(bench).age) == ("fresh", 0.0)
    bench.wait(46, b"2")
    assert (pool(bench).state, pool(bench).free) == ("stale", None)


def test_it_moves_on_within_ten_seconds_when_the_reporter_falls_silent(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    outputs = bench.wait(10, b"1")
    assert measuring(outputs, b"1")
    assert not measuring(outputs, b"2")
    assert pool(bench).reporter == "host1"
    assert pool(bench).reported == 100.0


@pytest.mark.parametrize("how", ["gone", "bye"])
def test_it_moves_on_at_the_next_tick_when_the_connection_is_lost(bench: Bench, how: str) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    if how == "gone":
        bench.core.lost(b"2", bench.now)
    else:
        bench.bye(b"2")
    assert measuring(bench.wait(1, b"1"), b"1")


def test_it_does_not_flap_back(bench: Bench) -> None:
    bench.hello(b"1", "host1")
    bench.report(b"1", 1, lic(100.0), full=True)
    bench.wait(10, b"1")
    bench.hello(b"2", "host2")
    bench.wait(30, b"1", b"2")
    assert pool(bench).reporter == "host1"


def test_a_late_report_of_the_former_reporter_never_wins(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    bench.wait(10, b"1")
    bench.report(b"1", 1, lic(50.0), full=True)
    bench.report(b"2", 2, lic(99.0))
    assert pool(bench).reported == 50.0


@pytest.fixture
def young(tmp_path: Path) -> Bench:
    """A controller that has just started."""
    return Bench(configured(tmp_path, RESOURCES, HOSTS))


def test_a_new_controller_keeps_the_reporter_that_an_agents_hello_names(young: Bench) -> None:
    bench = young
    bench.hello(b"2", "host2")
    bench.report(b"2", 1, lic(100.0), full=True)
    bench.wait(3, b"2")
    outputs = bench.hello(b"1", "host1", reporting=("lic/lic",))
    assert measuring(outputs, b"1")
    assert not measuring(outputs, b"2")
    assert pool(bench).reporter == "host1"


def test_later_on_a_hello_takes_the_duty_from_nobody(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.wait(10, b"2")
    bench.hello(b"1", "host1", reporting=("lic/lic",))
    assert pool(bench).reporter == "host2"


def test_an_agent_whose_definition_differs_is_no_reporter(bench: Bench) -> None:
    bench.hello(b"2", "host2", definitions={"lic": "0123"})
    bench.hello(b"1", "host1")
    assert pool(bench).reporter == "host1"
    view = shown(bench, "lic", "host2")
    assert view is not None
    assert view.reason == "definition differs"


def test_without_a_list_the_hosts_of_the_location_measure_in_order(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"3", "host3")
    bench.report(b"2", 1, measured("fs", "rw", instance="host[1-2]"), full=True)
    bench.report(b"3", 1, measured("fs", "ro", instance="host3"), full=True)
    values = [shown(bench, "fs", host) for host in ("host1", "host2", "host3")]
    assert [v.value for v in values if v] == ["rw", "rw", "ro"]


def test_after_a_reload_reporter_and_reading_stay(bench: Bench, tmp_path: Path) -> None:
    bench.hello(b"1", "host1")
    bench.report(b"1", 1, lic(100.0), full=True)
    bench.hello(b"2", "host2")
    more = RESOURCES.replace("reserve: 5", "reserve: 6")
    bench.core.reload(configured(tmp_path, more, HOSTS), "listed", bench.now)
    assert (pool(bench).reporter, pool(bench).free) == ("host1", 94)
    bench.report(b"1", 2, runs=[run("lic")])
    assert pool(bench).age == 0.0


def test_a_reporter_that_a_reload_takes_from_the_list_is_relieved(
    bench: Bench, tmp_path: Path
) -> None:
    bench.hello(b"1", "host1")
    bench.hello(b"2", "host2")
    fewer = RESOURCES.replace("[host2, login1, host1]", "[host2]")
    outputs = bench.core.reload(configured(tmp_path, fewer, HOSTS), "listed", bench.now)
    assert measuring(outputs, b"2")
    assert not measuring(outputs, b"1")


def test_a_stall_of_the_controller_itself_is_not_held_against_the_reporter(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.wait(1, b"1", b"2")
    bench.now += 60.0
    assert bench.core.tick(bench.now) == []
    bench.beat(b"1")
    bench.beat(b"2")
    bench.wait(1, b"1", b"2")
    assert pool(bench).reporter == "host2"


def test_when_no_reporter_is_usable_it_is_looked_for_again(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.wait(20)
    assert pool(bench).reporter is None
    bench.wait(10, b"2")
    assert pool(bench).reporter == "host2"


def failed(**keys: Any) -> Run:
    return run("lic", outcome="failed", reason="server down", **keys)


def test_two_failed_runs_hand_it_over_and_the_value_counts_until_its_ttl(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    bench.report(b"2", 2, runs=[failed()])
    assert not measuring([*bench.wait(1, b"1", b"2"), *bench.hello(b"1", "host1")], b"1")
    bench.report(b"2", 3, runs=[failed()])
    assert measuring(bench.wait(1, b"1", b"2"), b"1")
    bench.report(b"1", 1, lic(None, reason="server down"), runs=[failed()], full=True)
    assert (pool(bench).state, pool(bench).free, pool(bench).reporter) == ("fresh", 95, "host1")
    bench.wait(50, b"1", b"2")
    view = shown(bench, "lic", "host3")
    assert view is not None
    assert view.reason == "older than its ttl of 45s; host1: server down"


def test_a_run_that_is_told_twice_counts_once(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    bench.report(b"2", 2, runs=[failed()])
    bench.report(b"2", 3, lic(100.0), runs=[failed()], full=True)
    bench.wait(1, b"1", b"2")
    assert pool(bench).reporter == "host2"


def test_a_probe_that_is_not_here_hands_it_over_at_once(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    not_here = run("lic", not_here=True)
    bench.report(b"2", 1, lic(None, reason="not here"), runs=[not_here], full=True)
    assert measuring(bench.wait(1, b"1", b"2"), b"1")


def test_a_value_that_the_probe_calls_unavailable_is_so_at_once_and_no_failure(
    bench: Bench,
) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    for seq in range(2, 6):
        bench.report(b"2", seq, lic(None, reason="said so"), runs=[run("lic")])
    bench.wait(1, b"1", b"2")
    assert (pool(bench).state, pool(bench).free, pool(bench).reporter) == (
        "unavailable",
        None,
        "host2",
    )


def test_a_negative_measurement_that_comes_anyway_is_refused_and_grants_nothing(
    bench: Bench,
) -> None:
    bench.hello(b"2", "host2")
    bench.report(b"2", 1, lic(100.0), full=True)
    (problem,) = sent(bench.report(b"2", 2, lic(-1.0)), Problem)
    assert problem.refused == {"lic/lic": "negative"}
    assert (pool(bench).state, pool(bench).free) == ("unavailable", None)


def test_a_closed_host_is_no_reporter(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    closed = CloseHost("host2", Closed("new disk", "root", 0.0))
    bench.core.operators.apply(closed, Instant(bench.now, 0.0))
    assert measuring(bench.wait(1, b"1", b"2"), b"1")
    bench.core.operators.apply(OpenHost("host2", "root"), Instant(bench.now, 0.0))
    bench.wait(30, b"1", b"2")
    assert pool(bench).reporter == "host1"


def test_a_report_of_an_earlier_turn_never_wins_and_all_is_asked_for_again(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.report(b"2", 1, lic(100.0), full=True)
    bench.core.lost(b"2", bench.now)
    bench.wait(20, b"1")
    bench.report(b"1", 1, lic(50.0), full=True)
    bench.bye(b"1")
    bench.beat(b"2")
    bench.wait(10, b"2")
    assert pool(bench).reporter == "host2"
    outputs = bench.report(b"2", 2, lic(100.0, 25.0))
    assert pool(bench).reported == 50.0
    assert bench.counts[-1] == "late"
    assert len(sent(outputs, SendAll)) == 1
    bench.report(b"2", 3, lic(60.0, 1.0), full=True)
    assert pool(bench).reported == 60.0


def test_changes_of_reporter_go_into_the_log_and_the_history(bench: Bench) -> None:
    bench.hello(b"2", "host2")
    bench.hello(b"1", "host1")
    bench.bye(b"2")
    outputs = bench.wait(1, b"1")
    said = "lic/lic is measured by host1 now, instead of host2: its agent is lost"
    assert said in [output.text for output in outputs if isinstance(output, Note)]
    (event,) = [e for e in bench.core.events if e.resource == "lic"]
    assert (event.what, event.instance, event.host) == ("reporter", "lic", "host1")


def test_one_agent_measures_several_instances_of_a_resource(bench: Bench) -> None:
    (welcome,) = sent(bench.hello(b"1", "host1"), Welcome)
    assert {"lic/lic", "fs/host[1-2]"} <= set(welcome.measure)
    (login,) = sent(bench.hello(b"l", "login1"), Welcome)
    assert login.measure == ()
