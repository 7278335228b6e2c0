from dynres.worker.failures import Failures
from dynres.worker.outcome import RunResult


def run(outcome="ok", reason=None, probe="p"):
    return RunResult(probe=probe, outcome=outcome, reason=reason, started=0.0, duration=0.1)


def test_the_same_failure_again_is_logged_at_most_once_a_minute():
    failures = Failures()
    lines = [failures.line(run("failed", "exit status 1"), float(t)) for t in range(0, 180, 5)]
    assert [i * 5 for i, line in enumerate(lines) if line] == [0, 60, 120]
    assert lines[0] == "probe p: failed: exit status 1"


def test_another_failure_is_logged_at_once():
    failures = Failures()
    assert failures.line(run("failed", "exit status 1"), 0.0)
    assert failures.line(run("timeout", "no end after 5 s"), 5.0)


def test_the_end_of_a_failure_is_logged_once():
    failures = Failures()
    assert failures.line(run(), 0.0) is None
    failures.line(run("failed", "exit status 1"), 10.0)
    failures.line(run("failed", "exit status 1"), 20.0)
    assert failures.line(run("skipped", "x"), 25.0) is None
    assert failures.line(run(), 100.0) == "probe p: works again after 1m30s"
    assert failures.line(run(), 110.0) is None


def test_a_removed_probe_is_forgotten():
    failures = Failures()
    failures.line(run("failed", "x"), 0.0)
    failures.keep_only(set())
    assert failures.line(run("failed", "x"), 1.0)


def test_the_same_failure_with_a_text_that_changes_is_still_the_same_failure():
    failures = Failures()
    assert failures.line(run("bad_output", "a: decimal comma? ('1,5')"), 0.0)
    assert failures.line(run("bad_output", "a: decimal comma? ('1,6')"), 5.0) is None
