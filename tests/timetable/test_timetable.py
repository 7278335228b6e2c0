import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.worker.timetable import (
    Cadence,
    Start,
    Timetable,
    first_slot_after,
    fraction,
    phase_of,
)

T0 = 1_000_000.25


def names(starts: list[Start]) -> list[str]:
    return [start.probe for start in starts]


def started(cadences, *, host="h1", max_running=1000, now=T0):
    timetable = Timetable(host, max_running)
    timetable.plan(cadences, now, spread=True)
    return timetable


def run_until(timetable, now, end, *, duration=0.0, after="ok"):
    """Go from start to start like the daemon; returns [(instant, probe)]."""
    log = []
    running: list[tuple[float, str]] = []
    while True:
        for start in timetable.start_due(now):
            log.append((now, start.probe))
            running.append((now + duration, start.probe))
        running.sort()
        times = [t for t in (timetable.next_at(), running[0][0] if running else None) if t]
        if not times or min(times) > end:
            return log
        now = max(now, min(times))
        while running and running[0][0] <= now:
            timetable.ended(running.pop(0)[1], now, after)


def test_the_phase_is_the_same_on_every_machine_and_run():
    assert fraction("host1", "gpu") == pytest.approx(0.783457840683, abs=1e-9)
    assert fraction("host1", "gpu") != fraction("host2", "gpu")


def test_phases_spread_evenly_over_hosts_and_probes():
    hosts = sorted(fraction(f"node{i:05d}", "gpu") for i in range(10_000))
    probes = sorted(fraction("h1", f"p{i}") for i in range(10_000))
    for phases in (hosts, probes):
        for tenth in range(10):
            inside = sum(tenth / 10 <= phase < (tenth + 1) / 10 for phase in phases)
            assert 900 < inside < 1100


def test_runs_come_in_slots_of_phase_plus_n_times_interval():
    timetable = started({"p": Cadence(30.0)})
    log = run_until(timetable, T0, T0 + 600, duration=0.3)
    phase = phase_of("h1", "p", 30.0)
    for instant, _ in log[1:]:
        assert (instant - phase) / 30.0 == pytest.approx(round((instant - phase) / 30.0), abs=1e-6)
    assert len(log) in (21, 22)


@given(interval=st.floats(0.01, 30 * 86400.0), host=st.text(max_size=8), probe=st.text(max_size=8))
def test_a_phase_is_where_the_hash_says_within_one_group(interval, host, probe):
    phase = phase_of(host, probe, interval)
    assert 0 <= phase < interval * (1 + 1e-9)
    assert abs(phase - fraction(host, probe) * interval) <= max(0.042, interval / 24)


def test_probes_of_one_host_are_due_in_small_groups_and_not_when_those_of_another_are():
    mine = {round(phase_of("h1", f"p{i}", 1.0), 6) for i in range(1000)}
    yours = {round(phase_of("h2", f"p{i}", 1.0), 6) for i in range(1000)}
    assert len(mine) == len(yours) == 25
    assert not mine & yours


def test_slots_do_not_drift_in_a_year_of_runs():
    phase, interval = fraction("h1", "p") * 0.1, 0.1
    slot = first_slot_after(T0 + 365 * 86400, phase, interval)
    assert T0 + 365 * 86400 < slot <= T0 + 365 * 86400 + interval


@given(
    instant=st.floats(0, 1e9),
    share=st.floats(0, 1, exclude_max=True),
    interval=st.floats(0.001, 30 * 86400.0),
)
def test_the_first_slot_after_an_instant_is_later_by_at_most_one_interval(instant, share, interval):
    phase = share * interval
    slot = first_slot_after(instant, phase, interval)
    assert instant < slot <= instant + interval * (1 + 1e-6) + 1e-6


def test_first_runs_of_1000_probes_come_within_a_second_and_are_spread():
    timetable = started({f"p{i}": Cadence(3600.0) for i in range(1000)})
    log = run_until(timetable, T0, T0 + 10, duration=0.01)
    assert len(log) >= 1000
    firsts: dict[str, float] = {}
    for instant, probe in log:
        firsts.setdefault(probe, instant - T0)
    assert max(firsts.values()) <= 1.0
    for quarter in range(4):
        inside = sum(quarter * 0.25 <= at < (quarter + 1) * 0.25 for at in firsts.values())
        assert 190 < inside < 310


def test_a_short_interval_bounds_the_first_run():
    timetable = started({f"p{i}": Cadence(1.0) for i in range(100)})
    log = run_until(timetable, T0, T0 + 1.0)
    assert {probe for _, probe in log} == {f"p{i}" for i in range(100)}


def test_the_load_indices_run_at_once():
    timetable = started({"load": Cadence(5.0, at_once=True), "p": Cadence(3600.0)})
    assert names(timetable.start_due(T0)) == ["load"]


def test_a_probe_never_overlaps_itself_and_missed_slots_are_skipped_and_counted():
    timetable = started({"p": Cadence(10.0, at_once=True)})
    assert names(timetable.start_due(T0)) == ["p"]
    assert timetable.start_due(T0 + 45) == []
    timetable.ended("p", T0 + 45, "ok")
    assert timetable.line("p").missed in (4, 5)
    due = timetable.next_at()
    assert T0 + 45 < due <= T0 + 55
    assert names(timetable.start_due(due)) == ["p"]


def test_a_suspended_machine_runs_each_probe_once_on_waking():
    cadences = {f"p{i}": Cadence(30.0) for i in range(50)}
    timetable = started(cadences)
    run_until(timetable, T0, T0 + 300)
    waking = T0 + 300 + 8 * 3600
    assert sorted(names(timetable.start_due(waking))) == sorted(cadences)
    for name in cadences:
        timetable.ended(name, waking + 0.1, "ok")
        assert timetable.line(name).missed == pytest.approx(8 * 120, abs=1)
    assert timetable.next_at() > waking
    log = run_until(timetable, waking + 0.1, waking + 30.0)
    assert len(log) == len({probe for _, probe in log})


def test_steps_of_an_hour_run_each_probe_once_a_step():
    timetable = started({f"p{i}": Cadence(1.0 + i) for i in range(20)})
    now = T0
    for _ in range(24):
        now += 3600
        assert len(timetable.start_due(now)) == 20
        for i in range(20):
            timetable.ended(f"p{i}", now, "ok")


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_step_of_an_hour_either_way_costs_no_probe_more_than_an_interval(step):
    cadences = {f"p{i}": Cadence(float(1 + i % 60)) for i in range(1000)}
    timetable = started(cadences)
    now = T0
    for _ in range(4):
        run_until(timetable, now, now + 90.0)
        now += 90.0 + step
        log = run_until(timetable, now, now + 61.0)
        now += 61.0
        firsts = {}
        for instant, probe in log:
            firsts.setdefault(probe, instant)
        assert firsts.keys() == cadences.keys()
        for probe, cadence in cadences.items():
            assert firsts[probe] - (now - 61.0) <= cadence.interval + 0.1
            runs = sum(name == probe for _, name in log)
            assert runs <= 61.0 / cadence.interval + 2, "missed slots are never made up"


def test_a_step_back_leaves_what_was_not_here_to_its_recheck():
    timetable = started({"p": Cadence(10.0, recheck=600.0, at_once=True)})
    timetable.start_due(T0)
    timetable.ended("p", T0 + 1, "not_here")
    timetable.start_due(T0 - 3600)
    assert timetable.next_at() == pytest.approx(T0 - 3600 + 600)


def test_max_running_bounds_runs_at_once_and_waiting_counts_as_lateness():
    timetable = started({f"p{i}": Cadence(60.0, at_once=True) for i in range(10)}, max_running=4)
    first = timetable.start_due(T0)
    assert len(first) == 4
    assert timetable.running == 4
    assert timetable.start_due(T0 + 1) == []
    timetable.ended(first[0].probe, T0 + 2, "ok")
    (next_one,) = timetable.start_due(T0 + 2)
    assert next_one.lateness == pytest.approx(2.0)
    assert next_one.probe not in names(first)


def test_the_longest_waiting_probe_goes_first_so_that_busy_ones_starve_nobody():
    hogs = {f"hog{i}": Cadence(1.0, at_once=True) for i in range(6)}
    timetable = started({**hogs, "meek": Cadence(30.0)}, max_running=2)
    log = run_until(timetable, T0, T0 + 120, duration=1.5)
    meek = [instant for instant, probe in log if probe == "meek"]
    assert len(meek) in (4, 5)
    for earlier, later in itertools.pairwise(meek):
        assert later - earlier < 30 + 6


def test_a_failure_keeps_the_interval_and_never_disables_the_probe():
    timetable = started({"p": Cadence(10.0)})
    log = run_until(timetable, T0, T0 + 1000, after="failed")
    assert len(log) in (100, 101)


def test_retry_asks_for_an_earlier_next_try_after_a_failure():
    timetable = started({"p": Cadence(600.0, retry=5.0, at_once=True)})
    timetable.start_due(T0)
    timetable.ended("p", T0 + 1, "failed")
    assert timetable.next_at() == pytest.approx(min(T0 + 6, timetable.next_at()))
    assert timetable.next_at() <= T0 + 6
    at = timetable.next_at()
    timetable.start_due(at)
    timetable.ended("p", at, "ok")
    assert timetable.next_at() == first_slot_after(at, phase_of("h1", "p", 600.0), 600.0)


def test_a_retry_longer_than_the_interval_does_not_put_off_the_next_slot():
    timetable = started({"p": Cadence(10.0, retry=60.0, at_once=True)})
    timetable.start_due(T0)
    timetable.ended("p", T0, "failed")
    assert timetable.next_at() <= T0 + 10


def test_a_probe_that_is_not_here_is_asked_again_after_recheck_only():
    timetable = started({"p": Cadence(10.0, recheck=600.0, at_once=True)})
    timetable.start_due(T0)
    timetable.ended("p", T0, "not_here")
    assert timetable.next_at() == T0 + 600
    timetable.start_due(T0 + 600)
    assert timetable.line("p").missed <= 1


def test_a_probe_that_is_not_here_is_asked_again_after_a_reload():
    cadences = {"p": Cadence(10.0, at_once=True), "q": Cadence(3600.0, at_once=True)}
    timetable = started(cadences)
    for start in timetable.start_due(T0):
        timetable.ended(start.probe, T0, "not_here" if start.probe == "p" else "ok")
    timetable.plan(cadences, T0 + 1, spread=False, recheck=True)
    assert names(timetable.start_due(T0 + 1)) == ["p"]


def test_a_reload_keeps_phase_and_run_in_flight_of_unchanged_probes():
    cadences = {"p": Cadence(60.0, at_once=True), "q": Cadence(60.0, at_once=True)}
    timetable = started(cadences)
    timetable.start_due(T0)
    timetable.ended("q", T0 + 1, "ok")
    due = timetable.next_at()
    changes = timetable.plan(cadences, T0 + 2, spread=False)
    assert changes.new == changes.changed == changes.removed == changes.cancel == ()
    assert timetable.line("p").running
    assert timetable.next_at() == due
    assert timetable.start_due(T0 + 2) == []


def test_new_probes_run_at_once_after_a_reload_and_removed_ones_vanish():
    timetable = started({"old": Cadence(3600.0)})
    changes = timetable.plan({"new": Cadence(3600.0)}, T0 + 1, spread=False)
    assert changes.new == ("new",)
    assert changes.removed == ("old",)
    assert names(timetable.start_due(T0 + 1)) == ["new"]
    assert timetable.line("old") is None
    timetable.ended("new", T0 + 1, "ok")
    assert timetable.next_at() == first_slot_after(T0 + 1, phase_of("h1", "new", 3600.0), 3600.0)


def test_a_removed_probe_in_flight_is_cancelled_and_still_counts_as_running():
    timetable = started({"old": Cadence(10.0, at_once=True)}, max_running=1)
    timetable.start_due(T0)
    changes = timetable.plan({"new": Cadence(10.0)}, T0 + 1, spread=False)
    assert changes.cancel == ("old",)
    assert timetable.start_due(T0 + 1) == []
    timetable.ended("old", T0 + 2, "ok")
    assert names(timetable.start_due(T0 + 2)) == ["new"]


def test_a_changed_probe_runs_at_once_but_never_beside_its_old_run():
    timetable = started({"p": Cadence(60.0, at_once=True, definition=1)})
    timetable.start_due(T0)
    changes = timetable.plan({"p": Cadence(60.0, definition=2)}, T0 + 1, spread=False)
    assert (changes.changed, changes.cancel) == (("p",), ("p",))
    assert timetable.start_due(T0 + 1) == []
    timetable.ended("p", T0 + 1.5, "ok")
    assert names(timetable.start_due(T0 + 1.5)) == ["p"]


def test_a_probe_that_vanishes_and_comes_back_in_flight_does_not_overlap_itself():
    cadences = {"p": Cadence(60.0, at_once=True)}
    timetable = started(cadences)
    timetable.start_due(T0)
    timetable.plan({}, T0 + 1, spread=False)
    timetable.plan(cadences, T0 + 2, spread=False)
    assert timetable.start_due(T0 + 2) == []
    timetable.ended("p", T0 + 3, "ok")
    assert names(timetable.start_due(T0 + 3)) == ["p"]
    assert timetable.running == 1


def test_a_changed_interval_alone_keeps_the_run_in_flight_and_comes_no_later_than_before():
    timetable = started({"p": Cadence(5.0, at_once=True)})
    timetable.start_due(T0)
    timetable.ended("p", T0, "ok")
    due = timetable.next_at()
    changes = timetable.plan({"p": Cadence(3600.0)}, T0 + 1, spread=False)
    assert changes.changed == ()
    assert timetable.next_at() <= due
    timetable.plan({"p": Cadence(1.0)}, T0 + 2, spread=False)
    assert timetable.next_at() <= T0 + 3


def test_the_end_of_an_unknown_run_changes_nothing():
    timetable = started({"p": Cadence(5.0)})
    timetable.ended("q", T0, "ok")
    timetable.ended("p", T0, "ok")
    assert timetable.running == 0


def test_reloads_leave_nothing_behind_in_the_plan():
    timetable = started({})
    for n in range(1000):
        timetable.plan({"p": Cadence(3600.0, definition=n)}, T0 + n, spread=False)
    assert len(timetable._heap) <= 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("time"), st.floats(0.01, 4000)),
        st.tuples(st.just("end"), st.sampled_from(["ok", "failed", "not_here"])),
        st.tuples(st.just("plan"), st.sets(st.sampled_from("abcdefgh"))),
        st.tuples(st.just("change"), st.sampled_from("abcdefgh")),
    ),
    max_size=60,
)


@given(steps=STEPS, max_running=st.integers(1, 4))
def test_whatever_happens_no_probe_overlaps_itself_and_none_that_is_due_is_forgotten(
    steps, max_running
):
    now = T0
    definitions = dict.fromkeys("abcdefgh", 0)
    planned = set("abc")
    timetable = Timetable("h1", max_running)

    def plan():
        cadences = {
            n: Cadence(7.0 + ord(n), retry=2.0, recheck=50.0, definition=definitions[n])
            for n in planned
        }
        timetable.plan(cadences, now, spread=False)

    plan()
    in_flight: list[str] = []
    for kind, what in steps:
        if kind == "time":
            now += what
        elif kind == "end" and in_flight:
            timetable.ended(in_flight.pop(0), now, what)
        elif kind == "plan":
            planned = what
            plan()
        elif kind == "change":
            definitions[what] += 1
            plan()
        for start in timetable.start_due(now):
            assert start.probe not in in_flight
            assert start.probe in planned
            assert start.lateness >= 0
            in_flight.append(start.probe)
        assert timetable.running == len(in_flight) <= max_running
        for name in planned - set(in_flight):
            line = timetable.line(name)
            assert line.waiting or line.due > now or len(in_flight) == max_running
            assert line.due <= now + max(7.0 + ord(name), 50.0) + 1e-6
    while in_flight:
        timetable.ended(in_flight.pop(), now, "ok")
    for name in planned:
        assert timetable.line(name) is not None
