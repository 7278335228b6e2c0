"""One control group bounds tasks and memory of all that probes start."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from dynres.worker.confinement import Confinement, confine
from dynres.worker.launch import LaunchRequest, LaunchResult
from dynres.worker.launcher_client import LauncherClient
from dynres.worker.task_groups import TaskGroups

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
    assert group.folders == (unit / "probes" / "all",)
    assert (unit / "agent" / "cgroup.procs").read_text() == str(os.getpid())
    assert (unit / "cgroup.subtree_control").read_text() == "+pids +memory"
    assert (unit / "probes" / "pids.max").read_text() == "3000"
    assert int((unit / "probes" / "memory.max").read_text()) > 0
    assert (unit / "probes" / "cgroup.subtree_control").read_text() == "+pids"
    group.take(4711)
    assert (unit / "probes" / "all" / "cgroup.procs").read_text() == "4711"


def test_a_controller_that_was_not_delegated_is_left_out(tmp_path):
    unit = unit_of(tmp_path, "pids")
    assert confine(tmp_path, OWN, UNDER_SYSTEMD).folders == (unit / "probes" / "all",)
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
needs_legacy = pytest.mark.skipif(
    os.geteuid() != 0 or not (LEGACY / "cgroup.procs").exists(), reason="root and cgroup v1"
)
UNIFIED = Path("/sys/fs/cgroup")
if not (UNIFIED / "cgroup.controllers").exists():
    UNIFIED /= "unified"


@contextmanager
def delegated(mount: Path) -> Iterator[Path]:
    """A group that is ours to divide, in a real hierarchy; with all in it gone at the end."""
    unit = mount / f"dynres-test-{uuid4().hex}"
    unit.mkdir()
    try:
        try:
            os.setxattr(unit, "trusted.delegate", b"1")
        except OSError:
            pytest.skip("no extended attributes here")
        yield unit
    finally:
        while unit.exists():
            for folder, _, _ in os.walk(unit, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()


@needs_legacy
def test_the_bound_holds_for_all_that_a_helper_starts():
    with delegated(LEGACY) as unit:
        (unit / "pids.max").write_text("8")
        group = confine(LEGACY.parent, f"8:pids:/{unit.name}\n", UNDER_SYSTEMD)
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


FORKS = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); echo $i; done"


@needs_legacy
def test_processes_of_a_probe_of_root_are_bounded_in_a_group_of_its_own():
    def asked(run: str, processes: int | None) -> LaunchRequest:
        env = {"PATH": "/usr/bin:/bin"}
        argv = ("/bin/sh", "-c", FORKS)
        return LaunchRequest(run=run, argv=argv, env=env, timeout=20.0, processes=processes)

    async def runs(joins: Callable[[int], None]) -> list[LaunchResult]:
        client = LauncherClient(f"test-{uuid4().hex}", joins=joins)
        try:
            await client.start()
            names = [("a.b-1", 6), ("a.b-2", 9), ("free-1", None)]
            return [await client.run(asked(*name)) for name in names]
        finally:
            await client.close()

    with delegated(LEGACY) as unit:
        group = confine(LEGACY.parent, f"8:pids:/{unit.name}\n", UNDER_SYSTEMD)
        first, second, free = asyncio.run(runs(group.take))
        (own,) = (unit / "probes").glob("probe-*")  # one, for both runs
        assert (own / "pids.max").read_text() == "9\n"
        assert (own / "cgroup.procs").read_text() == ""
    assert [r.stdout.split()[-1] for r in (first, second, free)] == [b"5", b"8", b"40"]
    assert b"fork" in first.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not UNIFIED.exists(), reason="root and cgroup v2")
def test_a_real_hierarchy_is_divided_as_the_kernel_wants_it():
    """Also where the unit itself has the agent as a member, as systemd starts it."""
    source = (
        "import os, sys; from pathlib import Path; from dynres.worker.confinement import confine\n"
        "unit = Path(sys.argv[1]); (unit / 'cgroup.procs').write_text(str(os.getpid()))\n"
        "own = f'0::/{unit.name}\\n'\n"
        "print(*confine(unit.parent, own, {'INVOCATION_ID': 'x'}).folders)\n"
        "print(open('/proc/self/cgroup').read())"
    )
    with delegated(UNIFIED) as unit, subprocess.Popen(["sleep", "60"]) as helper:
        command = [sys.executable, "-c", source, str(unit)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        Confinement((unit / "probes" / "all",)).take(helper.pid)
        assert (unit / "probes" / "all" / "cgroup.procs").read_text() == f"{helper.pid}\n"
        helper.kill()
        there = (unit / "cgroup.controllers").read_text().split()
        for folder in (unit, unit / "probes"):
            divided = (folder / "cgroup.subtree_control").read_text().split()
            assert ("pids" in divided) == ("pids" in there)
    assert said.startswith(f"{unit}/probes/all\n")
    assert f"0::/{unit.name}/agent\n" in said


OF_THE_LAUNCHER = {
    "v2": "0::/u.service/probes/all\n",
    "v1": "4:memory:/u.service/probes\n8:pids:/u.service/probes\n0::/u.service\n",
}


@pytest.mark.parametrize("version", OF_THE_LAUNCHER)
def test_the_group_of_one_probe_lies_in_that_of_all_probes(tmp_path, version):
    probes = tmp_path / ("pids/u.service" if version == "v1" else "u.service") / "probes"
    probes.mkdir(parents=True)
    if version == "v2":
        (tmp_path / "cgroup.controllers").touch()
        (probes / "cgroup.subtree_control").write_text("memory pids\n")
    (tmp_path / "own").write_text(OF_THE_LAUNCHER[version])
    groups = TaskGroups(str(tmp_path), str(tmp_path / "own"))
    one, other = groups.of("a.b", 5), groups.of("a_b", 7)
    assert one == f"{probes}/probe-a_2e_b"
    assert one != other
    assert (probes / "probe-a_2e_b" / "pids.max").read_text() == "5"


@pytest.mark.parametrize("own", ["0::/u.service\n", "0::/u.service/probes/all\n", "8:pids:/x\n"])
def test_without_a_group_for_all_probes_there_is_none_for_one(tmp_path, own):
    (tmp_path / "cgroup.controllers").touch()
    probes = tmp_path / "u.service" / "probes"
    probes.mkdir(parents=True)
    (probes / "cgroup.subtree_control").write_text("memory\n")  # it does not bound tasks
    (tmp_path / "own").write_text(own)
    assert TaskGroups(str(tmp_path), str(tmp_path / "own")).of("a", 5) is None


def test_a_helper_that_is_gone_already_is_no_fault(tmp_path, caplog):
    Confinement((tmp_path / "none",)).take(1)
    assert "probes are not bounded" in caplog.text
