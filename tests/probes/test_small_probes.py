"""The probes users, link, unit, temperature and count: what they measure, and how they fail."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dynres.probe import NOT_HERE, ProbeError
from dynres_probes import count, link, temperature, unit, users
from dynres_probes.logins import Login

LOGINS = [Login("root", ()), Login("eve", ("/dev/pts/0",)), Login("adam", ()), Login("eve", ())]


# users


def test_users_are_counted_once_and_those_to_be_ignored_not_at_all():
    what = ("users", "logins", "names")
    assert users.measure(LOGINS, users.Options(what)) == {
        "users": 3,
        "logins": 4,
        "names": "adam eve root",
    }
    assert users.measure(LOGINS, users.Options(what, ignore=("root", "eve"))) == {
        "users": 1,
        "logins": 1,
        "names": "adam",
    }


def test_many_names_are_cut_between_two_of_them():
    many = [Login(f"user{i:04}", ()) for i in range(300)]
    names = users.measure(many, users.Options(("names",)))["names"]
    assert len(names.encode()) <= 1024
    assert names.endswith(" …")


def test_users_reads_this_machine():
    assert users.Users(users.Options()).read()["users"] >= 0


# link


@pytest.mark.parametrize(
    ("said", "up", "speed"),
    [
        ({"operstate": "up", "carrier": "1", "speed": "10000"}, True, 10000.0),
        ({"operstate": "down", "carrier": None, "speed": None}, False, None),
        ({"operstate": "unknown", "carrier": "1", "speed": None}, True, None),
        ({"operstate": "unknown", "carrier": "0", "speed": "-1"}, False, None),
        ({"operstate": "up", "carrier": "1", "speed": "-1"}, True, None),
        ({"operstate": "up", "carrier": "1", "speed": "4294967295"}, True, None),
        ({"operstate": "lowerlayerdown", "carrier": "0", "speed": "1000"}, False, None),
        ({"operstate": "dormant", "carrier": "1", "speed": "1000"}, False, None),
        ({}, False, None),
    ],
)
def test_a_link_is_up_by_its_state_and_a_speed_that_is_not_known_is_no_number(said, up, speed):
    assert link.measure(said, "up") is up
    assert link.measure(said, "speed") == speed


def test_the_duplex_of_a_link_that_is_up():
    up = {"operstate": "up", "duplex": "full"}
    assert link.measure(up, "duplex") == "full"
    assert link.measure(up | {"duplex": "unknown"}, "duplex") is None
    assert link.measure(up | {"operstate": "down"}, "duplex") is None


def test_the_loopback_of_this_machine_is_up():
    assert "lo" in [name for _, name in socket.if_nameindex()]
    assert link.Link(link.Options("lo", ("up", "speed"))).read() == {"up": True, "speed": None}


def test_an_interface_that_is_missing_is_a_failure_or_not_here():
    with pytest.raises(ProbeError, match=r"ib9: no such interface; there are .*lo"):
        link.Link(link.Options("ib9")).read()
    assert link.Link(link.Options("ib9", optional=True)).read() == {"up": NOT_HERE}
    for name in ("", "..", "a/b"):
        with pytest.raises(ValueError, match="expected a name"):
            link.Options(name)


# unit


@pytest.mark.parametrize(
    ("state", "active"),
    [("active", True), ("reloading", True), ("activating", False), ("failed", False)],
)
def test_a_unit_is_active_by_its_state(state, active):
    text = f"NRestarts=3\nLoadState=loaded\nActiveState={state}\nSubState=running\n"
    properties = unit.parse(text)
    assert unit.measure(properties, "active") is active
    assert unit.measure(properties, "state") == f"{state} (running)"
    assert unit.measure(properties, "restarts") == 3


def test_a_unit_that_is_no_service_has_no_restarts():
    properties = unit.parse("LoadState=loaded\nActiveState=active\nSubState=mounted\n")
    assert unit.measure(properties, "restarts") is None
    with pytest.raises(ProbeError, match="expected ActiveState=…, got 'nonsense'"):
        unit.parse("nonsense")


def test_a_unit_is_one_unit_and_no_option_or_pattern():
    for name in ("", "--all", "ssh*", "a b"):
        with pytest.raises(ValueError, match="expected one unit"):
            unit.Options(name)


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    def make(body: str) -> None:
        path = tmp_path / "systemctl"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return make


def test_systemctl_is_asked_for_the_unit(systemctl):
    systemctl('[ "$1 $3 $4" = "show -- slurmd" ] && echo ActiveState=active; echo LoadState=loaded')
    assert unit.Unit(unit.Options("slurmd")).read() == {"active": True}


def test_a_unit_that_is_missing_is_a_failure_or_not_here(systemctl):
    systemctl("echo LoadState=not-found; echo ActiveState=inactive")
    with pytest.raises(ProbeError, match="slurmd: no such unit"):
        unit.Unit(unit.Options("slurmd")).read()
    assert unit.Unit(unit.Options("slurmd", optional=True)).read() == {"active": NOT_HERE}


def test_a_machine_without_systemd_is_not_here(systemctl):
    systemctl("echo 'System has not been booted with systemd as init system' >&2; exit 1")
    assert unit.Unit(unit.Options("slurmd")).read() == {"active": NOT_HERE}
    systemctl("echo 'Failed to get properties: Access denied' >&2; exit 4")
    with pytest.raises(ProbeError, match="exit status 4: Failed to get properties"):
        unit.Unit(unit.Options("slurmd")).read()


# temperature


def reading(label, current, high=None, critical=None):
    return SimpleNamespace(label=label, current=current, high=high, critical=critical)


SENSORS = {
    "coretemp": [reading("Package id 0", 61.0, 80.0, 100.0), reading("Core 0", 58.25, 80.0, 100.0)],
    "nvme": [reading("Composite", 38.85, 81.85, 84.85), reading("Sensor 2", 65261.85)],
    "acpitz": [reading("", 27.8), reading("", -128.0), reading("", None)],
}


def test_temperatures_that_cannot_be_true_do_not_count():
    assert len(list(temperature.known(SENSORS))) == 4


def test_the_hottest_and_the_margin_to_what_is_too_hot():
    sensors = list(temperature.known(SENSORS))
    assert temperature.measure(sensors, "hottest") == 61.0
    assert temperature.measure(sensors, "margin") == 39.0
    nvme = temperature.choose(sensors, temperature.Options(chip="nvme"))
    assert temperature.measure(nvme, "hottest") == 38.9
    core = temperature.choose(sensors, temperature.Options(label="Core"))
    assert temperature.measure(core, "hottest") == 58.2
    assert temperature.measure([s for s in sensors if s.chip == "acpitz"], "margin") is None


def test_a_sensor_that_is_missing_is_a_failure_that_names_those_there_are():
    with pytest.raises(ProbeError, match=r"there are acpitz, coretemp Core 0, .*nvme Composite"):
        temperature.choose(list(temperature.known(SENSORS)), temperature.Options(chip="k10temp"))


def test_a_machine_without_sensors_is_not_here(monkeypatch):
    import psutil

    monkeypatch.setattr(psutil, "sensors_temperatures", dict)
    assert temperature.Temperature(temperature.Options()).read() == {"hottest": NOT_HERE}


# count


@pytest.fixture
def tree(tmp_path):
    for name in ("a.log", "b.log", ".hidden.log", "sub/c.log", "sub/deep/d.log", ".git/e.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    return tmp_path


def counted(**options):
    return count.Count(count.Options(**options)).read()["count"]


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("*.log", 2),
        (".*.log", 1),
        ("**/*.log", 4),
        ("sub/**", 3),
        ("*/c.log", 1),
        ("?.log", 2),
        ("[ab].log", 2),
        ("a.log", 1),
        ("nowhere/*", 0),
        ("sub/../a.log", 1),
    ],
)
def test_files_are_counted_by_pattern_and_links_are_not_followed(tree, pattern, want):
    assert counted(files=f"{tree}/{pattern}") == want


def test_only_old_files_count_where_their_age_is_asked_for(tree):
    os.utime(tree / "a.log", (time.time() - 100, time.time() - 100))
    assert counted(files=f"{tree}/*.log", older_than=50.0) == 1


def test_a_look_without_end_is_a_failure(tree):
    with pytest.raises(ProbeError, match="more than 3 entries to look at"):
        counted(files=f"{tree}/**/*.log", limit=3)
    with pytest.raises(ProbeError, match="more than 1 entries"):
        counted(processes=".*", limit=1)


def test_processes_are_counted_by_name_command_line_and_user(tmp_path):
    # Of names that no other test has: processes come and go while these are counted.
    name, mine = f"own{os.getpid()}", str(os.getuid())
    program = tmp_path / name
    program.symlink_to(shutil.which("sleep"))
    started = [subprocess.Popen([program, "1000"]) for _ in range(2)]
    try:
        for process in started:  # the kernel names a process a moment after it has begun it
            while Path(f"/proc/{process.pid}/comm").read_text().strip() != name:
                pass
        assert counted(processes=name) == 2
        assert counted(processes=name[:-1]) == 0
        assert counted(processes=f"{name} 1000", command_line=True) == 2
        assert counted(processes=name, user=mine) == 2
        assert counted(processes=name, user=str(os.getuid() + 1)) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()
    with pytest.raises(ProbeError, match="no such user: nobody-here"):
        counted(processes="x", user="nobody-here")


def test_a_pattern_is_the_whole_name_or_part_of_the_command_line():
    by_name = count.Options(processes="sh|bash")
    assert count.matches(b"bash\n", by_name)
    assert not count.matches(b"bashful\n", by_name)
    by_line = count.Options(processes=r"-jar \S*solver", command_line=True)
    assert count.matches(b"java\0-jar\0/opt/solver.jar\0", by_line)
    assert not count.matches(b"", by_line)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"files": "/a", "processes": "b"},
        {"files": "a/*"},
        {"files": "/a", "user": "root"},
        {"processes": "("},
        {"processes": "a", "older_than": 3.0},
        {"processes": "a", "limit": 0},
    ],
)
def test_what_cannot_be_counted_is_refused_when_the_probe_is_made(options):
    with pytest.raises(ValueError, match=r"expected|regular|for"):
        count.Options(**options)
