"""Asking the agent on this machine over its socket, which a fake one answers here."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest

from dynres.cli.local import ask_agent, find_socket, runtime_folders
from dynres.cli.output import CommandError


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNRES_RUNTIME", str(tmp_path))
    return tmp_path


@contextmanager
def fake_agent(path, reply):
    """An agent that answers one request with the bytes `reply` and ends; yields what was asked."""
    asked = []

    def serve():
        link, _ = listener.accept()
        with link:
            asked.append(json.loads(link.makefile("rb").readline()))
            link.sendall(reply)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def test_the_only_agent_of_the_machine_is_asked_by_one_json_line(runtime):
    with fake_agent(runtime / "agent-host1.sock", b'{"host": "host1"}\n') as asked:
        assert ask_agent(None, "status") == {"host": "host1"}
    assert asked == [{"verb": "status"}]


def test_several_agents_and_no_host_is_a_usage_error_that_names_them(runtime):
    for host in ("host2", "host1"):
        (runtime / f"agent-{host}.sock").touch()
    with pytest.raises(CommandError, match="choose one of host1, host2 with --host") as caught:
        find_socket(None)
    assert caught.value.exit_code == 2
    assert find_socket("host2") == runtime / "agent-host2.sock"


def test_no_agent_is_said_with_where_it_was_looked_for(runtime):
    with pytest.raises(CommandError, match=str(runtime)) as caught:
        find_socket(None)
    assert caught.value.exit_code == 1
    (runtime / "agent-host1.sock").touch()
    with pytest.raises(CommandError, match=r"no agent of host host9.*there is host1"):
        find_socket("host9")


def test_the_socket_of_an_agent_that_was_killed_is_said_to_be_one(runtime):
    path = runtime / "agent-host1.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    with pytest.raises(CommandError, match="no agent is listening"):
        ask_agent(None, "status")


@pytest.mark.parametrize("reply", [b"", b'{"host": '])
def test_an_agent_that_ends_in_the_middle_of_its_answer_is_no_answer(runtime, reply):
    with (
        fake_agent(runtime / "agent-host1.sock", reply),
        pytest.raises(CommandError, match="ended before it had answered"),
    ):
        ask_agent(None, "status")


def test_what_the_agent_refuses_keeps_its_code_and_its_faults(runtime):
    fault = {"place": "resources.yaml:1:1", "what": "empty", "expected": None, "got": None}
    answer = {"error": {"code": "config", "message": "refused", "faults": [fault | {"hint": None}]}}
    with (
        fake_agent(runtime / "agent-host1.sock", json.dumps(answer).encode() + b"\n"),
        pytest.raises(CommandError, match="refused") as caught,
    ):
        ask_agent("host1", "reload")
    assert (caught.value.code, caught.value.exit_code) == ("config", 2)
    assert caught.value.faults == (fault | {"hint": None},)


def test_without_a_folder_named_a_user_has_an_own_one_before_the_systems(monkeypatch):
    monkeypatch.delenv("DYNRES_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert [str(folder) for folder in runtime_folders()] == ["/run/user/1000/dynres", "/run/dynres"]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert [str(folder) for folder in runtime_folders()] == ["/run/dynres"]
