"""One control group bounds tasks and memory of all that probes start."""

import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from dynres.worker.confinement import Confinement, confine

UNDER_SYSTEMD = {"INVOCATION_ID": "x"}


def unit_of(mount: Path, *controllers: str) -> Path:
    """A folder as systemd delegates it in cgroup v2."""
    (mount / "cgroup.controllers").write_text("cpu memory pids\n")
    unit = mount / "system.slice" / "dynres-agent.service"
    unit.mkdir(parents=True)
    (unit / "cgroup.controllers").write_text(" ".join(controllers))
    (unit / "pids.max").write_text("4000\n")
    (unit / "memory.max").write_text("max\n")
    if os.geteuid() == 0:
        os.setxattr(unit, "trusted.delegate", b"1")
    return unit


OWN = "0::/system.slice/dynres-agent.service\n"


def test_the_agent_moves_beside_its_probes_and_bounds_them_to_a_share_of_the_unit(tmp_path):
    unit = unit_of(tmp_path, "cpu", "memory", "pids")
    group = confine(tmp_path, OWN, UNDER_SYSTEMD)
    assert group.folders == (unit / "probes",)
    assert (unit / "agent" / "cgroup.procs").read_text() == str(os.getpid())
    assert (unit / "cgroup.subtree_control").read_text() == "+pids +memory"
    assert (unit / "probes" / "pids.max").read_text() == "3000"
    assert int((unit / "probes" / "memory.max").read_text()) > 0
    group.take(4711)
    assert (unit / "probes" / "cgroup.procs").read_text() == "4711"


def test_a_controller_that_was_not_delegated_is_left_out(tmp_path):
    unit = unit_of(tmp_path, "pids")
    assert confine(tmp_path, OWN, UNDER_SYSTEMD).folders == (unit / "probes",)
    assert not (unit / "probes" / "memory.max").exists()


@pytest.mark.parametrize("why", ["not under systemd", "not delegated"])
def test_without_delegation_nothing_is_made(tmp_path, why):
    unit = unit_of(tmp_path, "memory", "pids")
    environ = UNDER_SYSTEMD
    if why == "not under systemd":
        environ = {}
    elif os.geteuid() == 0:
        os.removexattr(unit, "trusted.delegate")
    else:
        pytest.skip("needs root")
    assert confine(tmp_path, OWN, environ).folders == ()
    assert not (unit / "probes").exists()


def test_a_group_that_cannot_be_divided_is_said_and_leaves_probes_unbounded(tmp_path, caplog):
    unit = unit_of(tmp_path, "memory", "pids")
    (unit / "agent").write_text("in the way")
    with caplog.at_level("INFO"):
        assert confine(tmp_path, OWN, UNDER_SYSTEMD).folders == ()
    assert "no control group for probes" in caplog.text


LEGACY = Path("/sys/fs/cgroup/pids")


@pytest.mark.skipif(
    os.geteuid() != 0 or not (LEGACY / "cgroup.procs").exists(), reason="root and cgroup v1"
)
def test_the_bound_holds_for_all_that_a_helper_starts(tmp_path):
    name = f"dynres-test-{uuid4().hex}"
    unit = LEGACY / name
    unit.mkdir()
    try:
        (unit / "pids.max").write_text("8")
        try:
            os.setxattr(unit, "trusted.delegate", b"1")
        except OSError:
            pytest.skip("no extended attributes here")
        group = confine(LEGACY.parent, f"8:pids:/{name}\n", UNDER_SYSTEMD)
        assert group.folders == (unit / "probes",)
        assert (unit / "probes" / "pids.max").read_text() == "6\n"
        script = "read go; i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); echo $i; done"
        with subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as helper:
            group.take(helper.pid)
            assert helper.stdin is not None
            assert helper.stdout is not None
            helper.stdin.write(b"go\n")
            helper.stdin.flush()
            helper.wait(20)
            for pid in (unit / "probes" / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
            assert helper.stdout.read().split()[-1] == b"5"
    finally:
        for folder in (unit / "probes", unit):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    continue


def test_a_helper_that_is_gone_already_is_no_fault(tmp_path, caplog):
    Confinement((tmp_path / "none",)).take(1)
    assert "probes are not bounded" in caplog.text
