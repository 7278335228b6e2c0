"""Every verb that asks, against a real controller and a real agent."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cluster import cluster, wait_for

from dynres.wire import views

pytestmark = pytest.mark.xdist_group("asking")  # one cluster for all of them
FOLDER = Path(__file__).parent / "folder"


def fields(view):
    return set(view.__struct_encode_fields__)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with cluster(FOLDER, tmp_path_factory.mktemp("c")) as made:
        made.start_controller()
        made.start_agent("host1")

        def complete() -> Any:
            values = made.ask("values")["hosts"].get("host1", {"values": {}})["values"]
            states = {name: value["state"] for name, value in values.items()}
            good = states.get("room") == states.get("mem") == "fresh"
            return good and "exit" in (values["broken"]["reason"] or "")

        wait_for(complete, 40)
        yield made


def test_values_have_every_field_always(site):
    document = site.ask("values", "host1")
    assert set(document) == fields(views.ValuesView)
    [host] = document["hosts"].values()
    assert set(host) == fields(views.HostView)
    assert set(host["agent"]) == fields(views.AgentView)
    assert set(host["config"]) == fields(views.ConfigView)
    assert {"room", "broken", "os", "iris", "slots", "mem", "r15s"} <= set(host["values"])
    for value in host["values"].values():
        assert set(value) == fields(views.ValueView)
        assert set(value["source"]) == fields(views.Source)
    room, broken = host["values"]["room"], host["values"]["broken"]
    assert (room["value"], room["unit"], room["state"]) == (7.5, "GB", "fresh")
    assert (broken["value"], broken["state"]) == (None, "unavailable")


def test_values_in_text_are_one_line_each_with_the_reason(site):
    done = site.call("values", "host1", "--resource", "room", "--resource", "broken")
    head, *lines = done.stdout.splitlines()
    assert head.split()[:5] == ["HOST", "RESOURCE", "VALUE", "UNIT", "STATE"]
    shown = {line.split()[1]: line for line in lines}
    assert set(shown) == {"room", "broken"}
    assert shown["room"].split()[:5] == ["host1", "room", "7.5", "GB", "fresh"]
    assert "unavailable" in shown["broken"]
    assert "probe broken on host1" in shown["broken"]


def test_a_reader_that_goes_away_ends_a_verb_quietly(site):
    command = f"{sys.executable} -m dynres values | head -1; echo ${{PIPESTATUS[@]}}"
    environment = {**os.environ, **site.env}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0 0"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["values", "host2"], "unknown_host"),
        (["hosts", "host1,nohost"], "unknown_host"),
        (["values", "--resource", "rom"], "unknown_resource"),
        (["explain", "host1", "rom"], "unknown_resource"),
        (["explain", "nohost", "room"], "unknown_host"),
    ],
)
def test_an_unknown_name_is_refused_with_exit_code_1(site, words, code):
    done = site.call(*words, "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == code
    assert error["message"] in done.stderr


def test_hosts_show_who_is_here_and_whether_the_files_are_the_same(site):
    document = site.ask("hosts")
    assert set(document) == fields(views.HostsView)
    assert "host1" in document["hosts"]
    assert document["details"]["host1"]["config"]["same"] is True
    head, line = site.call("hosts", "host1", "--all-hosts").stdout.splitlines()
    assert head.split() == ["HOST", "STATE", "AGENT", "UPTIME", "CONFIG"]
    host, state, _, _, config = line.split()
    assert (host, state, config) == ("host1", "up", "same")


def test_pools_show_shared_and_consumable_instances(site):
    pools = {pool["resource"]: pool for pool in site.ask("pools")["pools"]}
    assert set(pools) == {"iris", "slots"}
    for pool in pools.values():
        assert set(pool) == fields(views.PoolView)
    iris = pools["iris"]
    assert [iris[key] for key in ("capacity", "reserve", "free", "leased")] == [100, 2, 98, 0]
    assert "host1" in iris["members"]
    text = site.call("pools").stdout
    assert "+........." in text
    assert [line.split()[0] for line in text.splitlines()][:3] == ["RESOURCE", "iris", "slots"]


def test_explain_says_it_in_sentences(site):
    document = site.ask("explain", "host1", "os")
    assert set(document) == fields(views.Explanation)
    sentences = site.call("explain", "host1", "os").stdout.splitlines()
    assert sentences[:2] == list(document["sentences"][:2])  # others speak of what goes on
    assert len(sentences) == len(document["sentences"])
    text = site.call("explain", "host1", "broken").stdout
    assert "unavailable" in text
    assert "no licence server" in text


def test_status_shows_each_probe_and_why_it_fails(site):
    document = site.ask("status", "--host", "host1")
    assert document["host"] == "host1"
    probes = {probe["probe"]: probe for probe in document["probes"]}
    assert set(probes) == {"room", "broken", "load-indices"}
    assert probes["room"]["outcome"] == "ok"
    assert probes["broken"]["failures"] > 0
    lines = site.call("status").stdout.splitlines()
    [broken] = [line for line in lines if line.startswith("broken ") and "command" in line]
    assert "failed" in broken
    assert any(line.startswith("agent of host host1") for line in lines)


def test_the_agent_is_a_process_without_the_command_line_in_it(site):
    pid = site.daemons["host1"].process.pid
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    assert b"dynres.worker" in command
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "pydantic_core" not in maps
    assert "numpy" not in maps


@pytest.mark.parametrize("side", ["agent", "controller"])
def test_a_reload_says_whether_the_new_files_are_in_force(site, side):
    file = site.folder / "resources.yaml"
    good = file.read_text()
    done = site.call(side, "reload")
    assert (done.returncode, done.stdout) == (0, "the new configuration is in force\n"), done.stderr
    assert site.call(side, "reload", "--json").returncode == 0
    file.write_text(good.replace("interval: 1s", "intervall: 1s", 1))
    try:
        done = site.call(side, "reload", "--json")
        assert done.returncode == 2
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "config"
        assert "resources.yaml:4:5" in {fault["place"] for fault in error["faults"]}
        assert "resources.yaml:4:5: " in done.stderr
    finally:
        file.write_text(good)
    assert site.call(side, "reload").returncode == 0


def in_terminal(site, *words, **environment):
    """What a verb shows in a terminal of 200 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    clean = {key: text for key, text in os.environ.items() if key != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "dynres", *words],
        env=clean | site.env | {"TERM": "xterm-256color"} | environment,
        stdin=theirs,
        stdout=theirs,
        check=False,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of what is shown
        while True:
            shown += os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0
    return shown.decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def test_a_terminal_gets_colours_unless_they_are_not_wanted(site):
    coloured = in_terminal(site, "values", "host1")
    assert COLOUR.search(coloured)
    plain = in_terminal(site, "values", "host1", NO_COLOR="1")
    assert not COLOUR.search(plain)
    for text in (coloured, plain):
        lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
        assert any(line.split()[:5] == ["host1", "room", "7.5", "GB", "fresh"] for line in lines)
    assert "\x1b" not in site.call("values", "host1").stdout


def test_json_in_a_terminal_is_the_same_document(site):
    document = json.loads(in_terminal(site, "pools", "--json"))
    assert document["pools"][0]["resource"] == "iris"


def test_an_agent_that_runs_once_reports_and_ends(site):
    daemon = site.start_agent("host7", "--once")
    assert daemon.process.wait(20) == 0, daemon.log.read_text()
    value = site.ask("values", "host7", "--resource", "room")["hosts"]["host7"]["values"]["room"]
    assert value["last"] == 7.5


def test_json_is_what_the_typed_client_gives(site):
    document = site.ask("values")
    read = msgspec.convert(document, views.ValuesView)
    assert views.to_builtins(read) == document
