"""What jobs can hold is never measured as less than nothing."""

import pytest

from dynres.config.model import Place, Probe
from dynres.worker.holdable import NEGATIVE, TOO_MUCH, held_to_amounts
from dynres.worker.outcome import Refused, RunResult, RunSpec

PROBE = Probe(name="p", command=("/bin/x",), timeout=5.0, place=Place("resources.yaml", 1, 1))


def judged(values, *amounts):
    resources = dict.fromkeys(values, "numeric")
    spec = RunSpec(
        probe=PROBE, resources=resources, amounts=frozenset(amounts), host="h", path="/bin"
    )
    result = RunResult(probe="p", outcome="ok", started=1.0, duration=0.1, values=values)
    return held_to_amounts(result, spec)


def test_a_negative_measurement_of_what_jobs_can_hold_is_bad_output():
    result = judged({"lic": -1.0}, "lic")
    assert (result.outcome, result.values) == ("bad_output", {})
    assert result.reason == f"lic: {NEGATIVE} (-1)"
    assert result.refused == (Refused("lic", "-1", NEGATIVE),)
    assert result.failure


def test_the_other_values_of_the_run_count():
    result = judged({"lic": -1.0, "temp": -5.0, "room": 1e13, "free": 3.0}, "lic", "room", "free")
    assert (result.outcome, result.values) == ("ok", {"temp": -5.0, "free": 3.0})
    assert result.missed == {"lic": NEGATIVE, "room": TOO_MUCH}


@pytest.mark.parametrize("value", [0.0, 5.0, None])
def test_nothing_and_unavailable_are_fine(value):
    assert judged({"lic": value}, "lic").values == {"lic": value}


def test_what_nobody_can_hold_may_be_negative():
    assert judged({"temp": -5.0}).outcome == "ok"
