"""An external probe's environment, and what its end means."""

import os

import pytest

from dynres.config.model import Place, Probe
from dynres.worker.accounts import Account
from dynres.worker.command import environment, request, verdict
from dynres.worker.launch import LaunchResult
from dynres.worker.outcome import RunSpec

PLACE = Place("resources.yaml", 1, 1)
ACCOUNT = Account("dynres", 991, "/var/lib/dynres")


def spec(**changes):
    given = {"name": "p", "command": ("/bin/p",), "timeout": 2.5, "place": PLACE} | changes
    return RunSpec(
        probe=Probe(**given), resources={"a": "numeric", "s": "string"}, host="h1", path="/bin"
    )


def ended(**changes):
    given = {"run": "p-1", "status": "exited", "exit": 0, "started": 5.0, "duration": 0.5}
    return LaunchResult(**given | changes)


def test_the_environment_is_built_and_holds_what_the_run_is_for(monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("LD_PRELOAD", "")
    assert environment(spec(), ACCOUNT) == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "HOME": "/var/lib/dynres",
        "USER": "dynres",
        "DYNRES_HOST": "h1",
        "DYNRES_PROBE": "p",
        "DYNRES_RESOURCES": "a s",
        "DYNRES_TIMEOUT": "2.5",
    }


def test_env_adds_to_the_environment_but_never_changes_what_the_run_is_for():
    env = environment(spec(env={"HOME": "/srv", "X": "1", "DYNRES_HOST": "other"}), ACCOUNT)
    assert (env["HOME"], env["X"], env["DYNRES_HOST"]) == ("/srv", "1", "h1")


def test_a_request_carries_every_limit_of_the_probe():
    probe = {
        "cwd": "/srv", "output_limit": 99, "nice": 5, "memory": 1 << 20, "cpu": 1.5,
        "allow_unsafe": True,
    }  # fmt: skip
    asked = request(spec(**probe), "p-1", "nobody", ACCOUNT, [17])
    assert {key: getattr(asked, key) for key in probe} == probe
    assert (asked.argv, asked.user, asked.timeout) == (("/bin/p",), "nobody", 2.5)
    assert asked.trusted == (17,)


def test_exit_status_0_makes_the_output_count():
    result = verdict(ended(stdout=b"a=1\ns=x\n", stderr=b"note\n"), spec())
    assert (result.outcome, result.reason, result.exit) == ("ok", None, 0)
    assert result.values == {"a": 1.0, "s": "x"}
    assert (result.started, result.duration, result.stderr) == (5.0, 0.5, "note\n")


def test_another_exit_status_is_a_failure_whatever_the_output_says():
    result = verdict(ended(exit=2, stdout=b"a=1\ns=x\n", stderr=b"oops\n\nno server\n"), spec())
    assert (result.outcome, result.exit, result.values) == ("failed", 2, {})
    assert result.reason == "exit status 2: no server"


def test_a_run_with_one_good_value_is_ok_and_says_what_it_missed():
    result = verdict(ended(stdout=b"a=1,5\ns=x\n"), spec())
    assert result.outcome == "ok"
    assert result.values == {"s": "x"}
    assert result.missed == {"a": "decimal comma? use a point"}
    assert [r.text for r in result.refused] == ["1,5"]


def test_a_run_without_a_good_value_is_bad_output():
    result = verdict(ended(stdout=b"a=1,5\ns=\x07\n"), spec())
    assert result.outcome == "bad_output"
    assert result.reason is not None
    assert result.reason.startswith("a: decimal comma? use a point ('1,5'); s: ")
    assert (result.values, result.missed) == ({}, {})


def test_an_output_that_is_empty_is_no_data():
    result = verdict(ended(), spec())
    assert (result.outcome, result.reason) == ("bad_output", "no data: the output is empty")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("signalled", "killed"),
        ("timeout", "timeout"),
        ("stuck", "stuck"),
        ("too_large", "output_too_large"),
        ("start_error", "start_error"),
        ("refused", "refused"),
        ("cancelled", "cancelled"),
    ],
)
def test_an_output_never_counts_when_the_probe_did_not_exit(status, outcome):
    result = verdict(ended(status=status, exit=None, reason="why", stdout=b"a=1\n"), spec())
    assert (result.outcome, result.reason, result.values) == (outcome, "why", {})


def test_a_stderr_that_is_no_utf8_is_shown_readably():
    assert verdict(ended(exit=1, stderr=b"caf\xe9"), spec()).reason == "exit status 1: caf\\xe9"


def test_the_agents_own_environment_is_left_alone():
    before = dict(os.environ)
    environment(spec(), ACCOUNT)
    assert dict(os.environ) == before
