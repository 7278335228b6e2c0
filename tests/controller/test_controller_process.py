"""The controller as a process: exit codes, faults on stderr, signals."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import free_port, wait_for

from dynres.client import Client, ClientError

RESOURCES = """
resources:
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
"""
HOSTS = "hosts: [{name: host1}]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "config"
    made.mkdir()
    (made / "resources.yaml").write_text(RESOURCES)
    (made / "hosts.yaml").write_text(HOSTS)
    return made


def command(folder: Path, *arguments: str) -> list[str]:
    ports = ("--agent-port", "0", "--client-port", "0", "--feed-port", "0")
    defaults = (*ports, "--metrics", "127.0.0.1:0", "--state", str(folder / "state"))
    return [
        *(sys.executable, "-m", "dynres.controller", "--config", str(folder)),
        *(*defaults, *arguments),
    ]


def ended(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, timeout=30, check=False
    )


@contextlib.contextmanager
def running(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", Client]]:
    port = free_port()
    # As the command line does: until the process can take it, a hangup is ignored.
    start = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*start, *command(folder, "--client-port", str(port), *arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        with process, Client(f"tcp://127.0.0.1:{port}", timeout=20) as client:
            try:
                yield process, client
            finally:
                if process.poll() is None:
                    process.terminate()
                process.wait(20)
    finally:
        if process.poll() is None:
            process.kill()


def test_a_bad_folder_ends_with_2_and_every_fault_on_stderr(folder: Path) -> None:
    (folder / "resources.yaml").write_text("resources:\n  - {name: a b, intervall: 3}\n")
    done = ended(folder)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("resources.yaml:2:")]
    assert len(lines) >= 2
    assert done.stdout == ""


def test_a_folder_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    done = ended(tmp_path / "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr


@pytest.mark.parametrize("option", ["--agent-port", "--client-port", "--feed-port"])
def test_a_port_in_use_ends_with_1_and_says_so(folder: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = ended(folder, option, str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "port in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_metrics_address_that_somebody_asked_for_must_be_usable(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = ended(folder, "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "--metrics" in done.stderr


def test_without_a_list_of_hosts_only_this_machine_may_reach_it(folder: Path) -> None:
    (folder / "hosts.yaml").unlink()
    done = ended(folder, "--listen", "0.0.0.0")
    assert done.returncode == 2
    assert "hosts.yaml" in done.stderr


def test_a_state_folder_that_cannot_be_made_ends_with_1(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = ended(folder, "--state", str(tmp_path / "file" / "state"))
    assert done.returncode == 1
    assert "state" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_on_a_signal(folder: Path, number: signal.Signals, tmp_path: Path) -> None:
    with running(folder, "--state", str(tmp_path / "a" / "state")) as (process, client):
        assert client.hosts().hosts == ()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert (tmp_path / "a" / "state").is_dir()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("journal", [True, False])
def test_a_log_line_has_a_time_unless_the_journal_gives_it_one(folder: Path, journal: bool) -> None:
    kept = {name: text for name, text in os.environ.items() if name != "JOURNAL_STREAM"}
    process = subprocess.Popen(
        command(folder, "--client-port", str(free_port())),
        stderr=subprocess.PIPE,
        text=True,
        env=kept | ({"JOURNAL_STREAM": "8:1"} if journal else {}),
    )
    with process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
        finally:
            process.terminate()
    assert re.match(r"INFO " if journal else r"\d{4}-\d\d-\d\d \S+ INFO ", first)


def test_a_hangup_at_any_instant_never_kills_and_reloads(folder: Path) -> None:
    with running(folder) as (process, client):
        while process.poll() is None:
            # Not before the shell is another program.
            if "python" in Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0]:
                process.send_signal(signal.SIGHUP)
            with contextlib.suppress(ClientError):
                client.hosts(timeout=0.05)
                break
        (folder / "resources.yaml").write_text(RESOURCES.replace("el9", "el10"))
        process.send_signal(signal.SIGHUP)
        values = wait_for(
            lambda: [
                v
                for v in client.values(["host1"]).hosts["host1"].values.values()
                if v.value == "el10"
            ]
        )
        assert len(values) == 1
        assert process.poll() is None


def test_systemd_is_told_when_it_serves_reloads_and_ends(folder: Path, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(20)
        with running(folder, env={"NOTIFY_SOCKET": address}) as (process, client):
            assert channel.recv(4096).startswith(b"READY=1")
            client.reload()
            assert channel.recv(4096).startswith(b"RELOADING=1")
            assert channel.recv(4096).startswith(b"READY=1")
            process.terminate()
            assert channel.recv(4096) == b"STOPPING=1"
