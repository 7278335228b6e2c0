"""`dynres doctor`: what it finds on this machine, and what it says to do about it."""

import json
import os
import pwd
import socket
import threading

import pytest
from click.testing import CliRunner

from dynres.cli import machine, reach
from dynres.cli.doctor import doctor
from dynres.cli.findings import Finding
from dynres.cli.machine import Process
from dynres.config.model import AgentSettings, Configuration, Place, Probe

OWN = pwd.getpwuid(os.getuid())
PLACE = Place("resources.yaml", 1, 1)


def process(*, running=True, limits=None, **status):
    return Process(status, limits or {}, OWN, running)


def worst(findings):
    """The verdicts, messages and hints that are not ok."""
    return [(f.verdict, f.message, f.hint) for f in findings if f.verdict != "ok"]


def asks_for(user):
    probe = Probe(name="p", command=("/bin/true",), user=user, timeout=1.0, place=PLACE)
    return Configuration(resources=(), probes=(probe,))


def test_a_finding_is_a_line_and_what_to_do_below_it():
    assert list(Finding("clock", "fail", "it is late", "wind it").lines()) == [
        "FAIL clock          it is late",
        "                    -> wind it",
    ]


def test_no_new_privileges_is_a_warning():
    found = worst(machine.privileges(process(NoNewPrivs="1"), asks_for(None)))
    assert [(verdict, "NoNewPrivileges" in said) for verdict, said, _ in found] == [("warn", True)]
    assert worst(machine.privileges(process(NoNewPrivs="0"), asks_for(None))) == []


def test_a_probe_of_another_user_needs_three_capabilities():
    status = {"NoNewPrivs": "0", "CapEff": f"{1 << 7 | 1 << 6:x}"}
    ((verdict, said, todo),) = worst(machine.privileges(process(**status), asks_for("gpu")))
    assert (verdict, said) == ("fail", "probes ask for the user gpu; missing: CAP_KILL")
    assert todo.startswith("AmbientCapabilities=CAP_SETUID")
    status["CapEff"] = "ffffffff"
    assert worst(machine.privileges(process(**status), asks_for("gpu"))) == []
    assert worst(machine.privileges(process(**status), asks_for(OWN.pw_name))) == []


def test_a_default_user_counts_as_every_probes():
    configuration = Configuration(
        resources=(), probes=asks_for(None).probes, agent=AgentSettings(user="gpu")
    )
    assert "user gpu" in worst(machine.privileges(process(CapEff="0"), configuration))[0][1]


def test_low_limits_are_a_warning_that_says_how_low():
    low = {"Max open files": ("1024", "1024"), "Max processes": ("unlimited", "unlimited")}
    found = worst(machine.limits(process(limits=low)))
    assert found[0][:2] == ("warn", "max open files 1024 (at least 4096)")


def test_this_process_tells_its_limits_and_status():
    own = Process.of(os.getpid())
    assert own.running
    assert own.uid == os.geteuid()
    assert set(own.limits) >= {"Max open files", "Max processes"}
    assert own.status["NoNewPrivs"] in {"0", "1"}


def test_a_path_that_others_can_write_is_a_failure(tmp_path):
    (tmp_path / "sh").touch()
    assert worst(machine.path(f"{tmp_path}:/nowhere")) == []
    tmp_path.chmod(0o777)
    assert worst(machine.path(str(tmp_path)))[0][:2] == (
        "fail",
        f"{tmp_path} can be written by everybody",
    )
    assert "no sh in" in worst(machine.path("/nowhere"))[0][1]


def test_files_that_everybody_can_write_or_the_agent_cannot_read_are_a_failure(tmp_path):
    file = tmp_path / "resources.yaml"
    file.touch(mode=0o644)
    nobody = pwd.getpwnam("nobody")
    agent = Process({}, {}, OWN, True)
    assert worst(machine.configuration_files(tmp_path, agent)) == []
    file.chmod(0o666)
    assert "everybody can write" in worst(machine.configuration_files(tmp_path, agent))[0][1]
    file.chmod(0o600)
    if os.geteuid() == 0:
        other = Process({}, {}, nobody, True)
        assert "nobody cannot read" in worst(machine.configuration_files(tmp_path, other))[0][1]


def test_a_runtime_folder_or_socket_that_everybody_may_use_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNRES_RUNTIME", str(tmp_path))
    assert worst(machine.runtime_folder(process())) == []
    sock = tmp_path / "agent-h1.sock"
    sock.touch()
    sock.chmod(0o666)
    assert worst(machine.runtime_folder(process()))[0][2] == f"chmod o= {sock}"
    tmp_path.chmod(0o777)
    assert "can be written by everybody" in worst(machine.runtime_folder(process()))[0][1]
    monkeypatch.setenv("DYNRES_RUNTIME", "/nowhere")
    assert worst(machine.runtime_folder(process()))[0][0] == "warn"


@pytest.mark.parametrize(("greeting", "verdict"), [(b"\xff\0", "ok"), (b"HTTP/1.1", "fail")])
def test_a_controller_is_known_by_how_it_greets(greeting, verdict):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            link, _ = server.accept()
            with link:
                link.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        (found,) = reach.controllers([f"tcp://127.0.0.1:{server.getsockname()[1]}"])
        thread.join()
    assert found.verdict == verdict


def test_a_controller_that_is_not_there_is_a_failure():
    (found,) = reach.controllers(["tcp://127.0.0.1:1"])
    assert (found.verdict, found.message) == ("fail", "tcp://127.0.0.1:1: Connection refused")


def test_clients_find_the_controllers_of_the_agent_on_the_usual_port():
    assert reach.client_endpoints(["tcp://head:5750", "ipc:///x"]) == ("tcp://head:5751",)


def test_a_controller_that_does_not_answer_clients_keeps_clocks_from_being_compared():
    found = list(reach.clock(("tcp://127.0.0.1:1",), "h1"))
    assert "not compared" in found[-1].message
    assert found[-1].verdict == "warn"
    assert found[0].message.startswith("up ")


def test_the_verb_says_what_to_do_and_fails_when_something_does(dynres, tmp_path):
    run = tmp_path / "run"
    options = ("doctor", "--config", "/nowhere", "--controller", "tcp://127.0.0.1:1")
    done = dynres(*options, DYNRES_RUNTIME=str(run))
    assert done.returncode == 1
    assert "\nFAIL configuration  /nowhere" in "\n" + done.stdout
    assert "\nok   launcher " in done.stdout
    assert "-> see: dynres check" in done.stdout


def test_the_folder_is_the_running_agents_and_the_controller_that_of_the_environment(monkeypatch):
    status = {
        "host": "h1",
        "pid": os.getpid(),
        "controllers": [],
        "probes": [],
        "config": {"folder": "/of/the/agent", "state": "ok"},
    }
    monkeypatch.setattr("dynres.cli.local.ask_agent", lambda _host, _verb: status)
    monkeypatch.setattr("dynres.cli.doctor._helpers", lambda _path: iter(()))
    monkeypatch.setenv("DYNRES_CONTROLLER", "tcp://127.0.0.1:1")
    said = CliRunner().invoke(doctor, [], standalone_mode=False).output
    assert "FAIL configuration  /of/the/agent" in said
    assert "tcp://127.0.0.1:1" in said


def test_json_has_every_check_with_its_verdict(dynres, tmp_path):
    options = ("doctor", "--config", "/nowhere", "--controller", "tcp://127.0.0.1:1", "--json")
    document = json.loads(dynres(*options, DYNRES_RUNTIME=str(tmp_path)).stdout)
    assert document["failed"] == sum(c["verdict"] == "fail" for c in document["checks"]) > 0
    assert all(
        check.keys() == {"check", "verdict", "message", "hint"} for check in document["checks"]
    )
    assert all((c["hint"] is None) == (c["verdict"] == "ok") for c in document["checks"])
