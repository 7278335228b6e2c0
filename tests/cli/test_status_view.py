"""What a person sees of a local agent, from documents made by hand."""

import pytest

from dynres.cli.status import controller_row, due_text, headlines, probe_row, problems, value_row

PROBE = {
    "probe": "gpu",
    "kind": "command",
    "resources": ["gpu_free", "gpu_mem"],
    "interval": 30.0,
    "outcome": "timeout",
    "reason": "no end within 5s",
    "duration": 5.0012,
    "age": 12.3,
    "next_due": 17.7,
    "failures": 3,
    "missed_slots": 1,
    "running": False,
    "waiting": False,
    "stderr": "",
    "refused": [{"name": "gpu_mem", "text": "1,5", "reason": "decimal comma?"}],
}


def texts(row):
    return [cell.text for cell in row]


def test_a_probe_shows_its_last_run_its_next_one_and_why_it_fails():
    assert texts(probe_row(PROBE)) == [
        *("gpu", "command", "30s", "timeout", "5s", "12s", "in 18s", "3", "1", "gpu_free gpu_mem"),
        "no end within 5s; gpu_mem='1,5': decimal comma?",
    ]


def test_a_refused_value_that_the_reason_names_is_said_once():
    reason = "gpu_mem: decimal comma? ('1,5')"
    shown = texts(probe_row(PROBE | {"outcome": "bad_output", "reason": reason}))
    assert shown[-1] == reason


@pytest.mark.parametrize("state", ["connecting", "greeting", "silent"])
def test_a_controller_that_has_not_registered_the_agent_shows_why(state):
    link = {"endpoint": "tcp://h:1", "state": state, "known_as": None, "software": None}
    assert len(texts(controller_row(link | {"refusal": None}))[-1]) > 20


def test_a_probe_that_has_not_run_yet_shows_nothing_that_it_does_not_know():
    never = PROBE | dict.fromkeys(("outcome", "reason", "duration", "age")) | {"refused": []}
    shown = texts(probe_row(never | {"failures": 0}))
    assert shown[3:6] == ["-", "-", "-"]
    assert shown[-1] == "-"


@pytest.mark.parametrize(
    ("seconds", "running", "waiting", "text"),
    [
        (3.0, False, False, "in 3s"),
        (3.0, True, False, "running"),
        (-1.0, False, True, "late"),
        (-1.0, False, False, "late"),
        (None, False, False, "-"),
    ],
)
def test_when_the_next_run_is_due(seconds, running, waiting, text):
    assert due_text(seconds, running=running, waiting=waiting) == text


def test_a_refused_configuration_is_shown_with_every_fault():
    fault = {"place": "resources.yaml:3:5", "what": "unknown key", "got": "typ"}
    document = {
        "host": "host1",
        "version": "0.1.0",
        "pid": 12,
        "uptime": 61.0,
        "config": {
            "folder": "/etc/dynres",
            "state": "refused",
            "reason": "unknown key",
            "faults": [fault | {"expected": "type", "hint": None}],
        },
    }
    assert list(headlines(document)) == [
        "agent of host host1, version 0.1.0, pid 12, up 1m1s",
        "configuration /etc/dynres is refused, the last good one is in force:",
        "  resources.yaml:3:5: unknown key: expected type, got typ",
    ]
    document["config"] |= {"state": "ok", "faults": [], "reason": None}
    assert list(headlines(document))[1:] == ["configuration /etc/dynres is in force"]


def test_a_controller_shows_why_it_refuses_and_what_it_did_not_take():
    link = {
        "endpoint": "tcp://head:5750",
        "state": "refused",
        "known_as": None,
        "software": None,
        "refusal": {"code": "not_listed", "reason": "host1 is not in hosts.yaml"},
        "problems": {"iris": "is static"},
        "differs": {"mem": "unit GB, here MB"},
    }
    shown = texts(controller_row(link))
    assert shown == ["tcp://head:5750", "refused", "-", "-", "host1 is not in hosts.yaml"]
    assert list(problems({"controllers": [link]})) == [
        "tcp://head:5750 refused iris: is static",
        "tcp://head:5750 differs mem: unit GB, here MB",
    ]


def test_only_a_fresh_value_of_the_agent_is_shown_as_a_value():
    shown = {
        "resource": "room",
        "instance": None,
        "value": None,
        "last": 7,
        "unit": "GB",
        "state": "stale",
        "reason": "older than 3s",
        "age": 4.2,
        "probe": "room",
        "on_failure": True,
    }
    assert texts(value_row(shown)) == [
        *("room", "-", "GB", "stale", "4.2s", "7", "on_failure room", "older than 3s")
    ]
