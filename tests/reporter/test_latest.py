import pytest

from dynres.worker.latest import NO_RUN_YET, NOT_HERE, SAID_SO, Latest, Rule
from dynres.worker.outcome import OUTCOMES, Refused, RunResult

FAILURES = [o for o in OUTCOMES if o not in {"ok", "skipped", "cancelled"}]


def rule(on_failure="keep", fallback=None, *, probe="p", ttl=30.0, kind="numeric", unit=None):
    return Rule(probe, kind, unit, ttl, on_failure, fallback)


def run(outcome="ok", at=100.0, *, probe="p", **fields):
    reason = None if outcome == "ok" else f"{outcome} happened"
    return RunResult(
        probe=probe, outcome=outcome, started=at, duration=0.1, **{"reason": reason, **fields}
    )


@pytest.fixture
def table():
    table = Latest()
    table.define(
        {
            "kept": rule(),
            "dropped": rule("unavailable"),
            "literal": rule("literal", 5.0),
            "other": rule(probe="q"),
        }
    )
    return table


ASKED = ("kept", "dropped", "literal")
GOOD = {"kept": 1.0, "dropped": 2.0, "literal": 3.0}


def shown(table, now=101.0):
    return {name: (s.state, s.value) for name, s in table.standings(now) if name != "other"}


def test_a_value_is_fresh_until_its_ttl_and_stale_after_it(table):
    table.apply(run(values=GOOD), ASKED)
    fresh = table.standing("kept", 130.0)
    assert (fresh.state, fresh.value, fresh.last, fresh.age) == ("fresh", 1.0, 1.0, 30.0)
    stale = table.standing("kept", 130.5)
    assert (stale.state, stale.value, stale.last, stale.age) == ("stale", None, 1.0, 30.5)
    assert "not measured for 30.5s" in stale.reason


def test_a_value_counts_from_the_start_of_its_run(table):
    table.apply(run(values=GOOD, at=100.0), ASKED)
    assert table.reading("kept").measured == 100.0


def test_before_its_first_run_a_resource_is_unavailable(table):
    standing = table.standing("kept", 1.0)
    assert (standing.state, standing.value, standing.reason) == ("unavailable", None, NO_RUN_YET)


@pytest.mark.parametrize("outcome", FAILURES)
def test_every_outcome_but_ok_skipped_and_cancelled_applies_on_failure(table, outcome):
    table.apply(run(values=GOOD), ASKED)
    table.apply(run(outcome, at=110.0), ASKED)
    assert shown(table, 111.0) == {
        "kept": ("fresh", 1.0),
        "dropped": ("unavailable", None),
        "literal": ("fresh", 5.0),
    }
    assert table.reading("kept").measured == 100.0
    assert table.reading("dropped").reason == f"{outcome} happened"


@pytest.mark.parametrize("outcome", ["skipped", "cancelled"])
def test_a_run_that_was_cut_short_or_skipped_changes_nothing(table, outcome):
    table.apply(run(values=GOOD), ASKED)
    before = dict(table.readings())
    table.apply(run(outcome, at=110.0), ASKED)
    assert table.readings() == before


def test_a_literal_counts_as_measured_at_that_runs_start_and_says_on_failure(table):
    table.apply(run("failed", at=110.0), ASKED)
    reading = table.reading("literal")
    assert (reading.value, reading.measured, reading.fallback) == (5.0, 110.0, True)
    table.apply(run(values=GOOD, at=120.0), ASKED)
    assert not table.reading("literal").fallback


def test_in_an_ok_run_a_refused_or_missing_value_applies_on_failure_to_itself_only(table):
    table.apply(run(values=GOOD), ASKED)
    refused = (Refused("dropped", "nan", "not a finite number"),)
    ended = table.apply(run(values={"kept": 9.0}, at=110.0, refused=refused), ASKED)
    assert shown(table, 111.0) == {
        "kept": ("fresh", 9.0),
        "dropped": ("unavailable", None),
        "literal": ("fresh", 5.0),
    }
    assert ended.missed["dropped"] == "not a finite number"
    assert table.reading("dropped").reason == "not a finite number"
    assert table.probe("p").failures == 0
    assert table.probe("p").refused == (("dropped", "nan", "not a finite number"),)


def test_the_runs_own_reason_for_a_missing_value_is_the_one_told(table):
    ended = table.apply(run(values={"kept": 1.0}, missed={"dropped": "bad byte"}), ASKED)
    assert ended.missed == {"dropped": "bad byte", "literal": "the output does not give it"}


def test_what_the_probe_calls_unavailable_is_so_at_once_whatever_on_failure_says(table):
    table.apply(run(values=GOOD), ASKED)
    ended = table.apply(run(values=dict.fromkeys(GOOD), at=110.0), ASKED)
    assert ended.missed == {}
    assert shown(table, 111.0) == dict.fromkeys(GOOD, ("unavailable", None))
    assert table.reading("literal").reason == SAID_SO
    why = {"literal": "a rate needs a second sample"}
    table.apply(run(values=dict.fromkeys(GOOD), why=why, at=120.0), ASKED)
    assert table.reading("literal").reason == "a rate needs a second sample"
    assert table.reading("kept").reason == SAID_SO


def test_not_here_makes_every_resource_unavailable(table):
    table.apply(run(values=GOOD), ASKED)
    table.apply(run(not_here=True, at=110.0), ASKED)
    assert shown(table, 111.0) == dict.fromkeys(GOOD, ("unavailable", None))
    assert table.reading("kept").reason == NOT_HERE


def test_unavailable_is_never_zero_empty_or_the_old_value(table):
    table.apply(run(values=GOOD), ASKED)
    table.apply(run("failed", at=110.0), ASKED)
    standing = table.standing("dropped", 111.0)
    assert standing.value is None
    assert standing.last is None


def test_a_failure_after_unavailable_tells_its_own_reason(table):
    table.apply(run("failed", reason="exit status 1"), ASKED)
    table.apply(run("timeout", at=110.0, reason="no end after 5s"), ASKED)
    assert table.reading("kept").reason == "no end after 5s"


def test_a_probe_changes_no_value_that_it_was_not_asked_for(table):
    table.apply(run(values={**GOOD, "other": 9.0, "kept_not": 1.0}), ASKED)
    assert table.reading("other") is None
    assert table.reading("kept_not") is None
    ended = table.apply(run(values=GOOD, at=110.0), ("kept",))
    assert table.reading("dropped").measured == 100.0
    assert set(ended.missed) == {"dropped", "literal"}


def test_removed_resources_vanish_and_their_late_results_change_nothing(table):
    table.apply(run(values=GOOD), ASKED)
    table.define({"kept": rule(), "other": rule(probe="q")})
    assert table.standing("dropped", 101.0) is None
    assert dict(table.standings(101.0)).keys() == {"kept", "other"}
    table.define({"other": rule(probe="q")})
    assert table.apply(run(values=GOOD), ASKED) is None
    assert table.readings() == {}
    assert table.probe("p") is None


def test_a_reload_keeps_values_of_unchanged_resources_but_not_of_another_type_or_unit(table):
    table.apply(run(values=GOOD), ASKED)
    table.define(
        {"kept": rule(ttl=60.0), "dropped": rule(kind="string"), "literal": rule(unit="GB")}
    )
    assert table.reading("kept").value == 1.0
    assert table.reading("dropped") is None
    assert table.reading("literal") is None


def test_failures_in_a_row_are_counted_and_end_with_success(table):
    for n in range(1, 4):
        table.apply(run("failed", at=100.0 + n, stderr="boom"), ASKED)
        assert table.probe("p").failures == n
    table.apply(run("skipped", at=105.0), ASKED)
    assert table.probe("p").failures == 3
    assert table.probe("p").stderr == "boom"
    table.apply(run(values=GOOD, at=106.0), ASKED)
    assert table.probe("p").failures == 0


def test_a_stale_value_says_why_its_probe_fails(table):
    table.apply(run(values=GOOD), ASKED)
    table.apply(run("timeout", at=200.0, reason="no end after 5s"), ASKED)
    assert table.standing("kept", 201.0).reason == "timeout: no end after 5s"


def test_a_value_whose_resource_goes_over_to_another_probe_is_renewed_by_that_one_only(table):
    table.apply(run(values=GOOD), ASKED)
    rules = {"kept": rule(probe="q"), "dropped": rule("unavailable")}
    table.define(rules)
    reading = table.reading("kept")
    assert (reading.probe, reading.value, reading.measured) == ("q", 1.0, 100.0)
    table.apply(run(values={"dropped": 3.0}, at=110.0), ("dropped",))
    assert table.reading("kept") == reading
