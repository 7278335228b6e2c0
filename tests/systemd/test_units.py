"""The units: valid for systemd, and a whole life of both daemons under a real one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENV = Path(sys.prefix)
UNITS = sorted((ROOT / "systemd").glob("*.service"))
SANDBOX = ROOT / "tests/tools/systemd-sandbox"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_has_nothing_to_say_about_the_unit(unit: Path, tmp_path: Path):
    text = unit.read_text().replace("/opt/dynres/bin/", f"{VENV}/bin/")
    (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_agents_unit_sets_nothing_that_takes_privileges_from_probes():
    settings = {
        line.partition("=")[0]
        for line in (ROOT / "systemd/dynres-agent.service").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    }
    taken = ("Protect", "Private", "Restrict", "SystemCall", "NoNew", "Lock", "Capability")
    assert sorted(name for name in settings if name.startswith(taken)) == []


@pytest.fixture(scope="module")
def facts() -> dict[str, str]:
    """What happened in the sandbox."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "systemctl"))):
        pytest.skip("needs root, unshare, nsenter and systemd")
    script = ROOT / "tests/systemd/in_sandbox.sh"
    command = [str(SANDBOX), str(script), str(VENV), str(ROOT)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT
    )
    if done.returncode == 3:
        pytest.skip(f"systemd cannot be booted here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("systemd")
def test_both_units_start_reload_and_stop_under_a_real_systemd(facts: dict[str, str]):
    want = {
        "started": "active active",
        "probe_user": "dynres",
        "status": "1",
        "state_owner": "dynres",
        "local_status": "ok",
        "reloaded": "42",
        "stopped": "inactive inactive",
        "results": "success success",
        "left_processes": "0",
        "left_runtime": "0",
    }
    assert {name: facts.get(name) for name in want} == want


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("systemd")
def test_a_reload_that_is_refused_fails_and_the_last_good_files_stay_in_force(facts):
    names = ("refused_agent", "refused_controller", "after_refusal", "kept")
    assert [facts[name] for name in names] == ["yes", "yes", "active active", "42"]


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("systemd")
def test_an_agent_that_is_killed_is_started_again(facts):
    assert facts["restarts"] == "1"


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("systemd")
def test_hangups_while_the_agent_starts_do_not_end_it(facts):
    assert (facts["hung_up"], facts["same_process"]) == ("active,0", "yes")


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("systemd")
def test_a_broken_file_ends_the_start_with_the_fault_and_is_not_tried_again(facts):
    assert facts["bad_file"] == "exit-code,0"
    assert int(facts["bad_file_says"]) >= 1
