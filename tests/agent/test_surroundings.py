"""The agent in surroundings that it did not choose: each with a real one that still reports."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_process import AgentProcess
from controller_stub import StubController

FILES = """\
resources:
  - name: half
    interval: 1s
    probe: {command: [/bin/sh, -c, "awk 'BEGIN { printf \\"%.1f\\", 1.5 }'"], timeout: 20s}
    resourcemap: [{location: [default]}]
  - name: room
    interval: 1s
    probe: {plugin: disk, timeout: 20s, options: {path: /, what: used_percent}}
    resourcemap: [{location: [default]}]
"""
ORPHANS = """\
  - name: leaves
    interval: 1s
    probe: {command: [/bin/sh, -c, "setsid sh -c 'sleep 0.05 & exit' & echo 1"], timeout: 20s}
    resourcemap: [{location: [default]}]
  - name: tool_leaves
    interval: 1s
    probe:
      plugin: licence
      timeout: 20s
      options:
        command: [/bin/sh, -c, "sleep 60 & echo 'Users of x:  (Total of 2 licenses issued;
          Total of 1 license in use)'"]
        features: [x]
        what: [used]
    resourcemap: [{location: [default]}]
"""


def reports(home, *, files=FILES, wanted=("half", "room"), **surroundings):
    """Start an agent there; it must report, do what `then` says, and end cleanly on SIGTERM."""
    then = surroundings.pop("then", None)
    folder = home / "config"
    folder.mkdir(exist_ok=True)
    (folder / "resources.yaml").write_text(files)

    async def run():
        stub = StubController()
        agent = AgentProcess(home, "--controller", stub.endpoint, **surroundings)
        try:
            await stub.until(lambda: all(stub.values.get(name) is not None for name in wanted))
            assert stub.values["half"] == 1.5
            if then is not None:
                await then(stub, agent)
            first = len(stub.reports)
            await stub.until(lambda: len(stub.reports) > first + 1)
            os.kill(then_pid(agent), signal.SIGTERM)
            assert await agent.ended() == 0
        finally:
            stub.close()
            agent.close()

    asyncio.run(run())


def then_pid(agent):
    """The agent itself: what was started for it may be its parent."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    command = Path(f"/proc/{agent.pid}/cmdline").read_bytes()
    return int(children[0]) if command.startswith(b"unshare") else agent.pid


@contextmanager
def small_disk(folder):
    """A file system of 64 KB, full to the last byte."""
    folder.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if subprocess.run(made, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a file system")
    try:
        with open(folder / "full", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def needs(*command):
    """Skip where the machine does not allow it."""
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"not allowed: {' '.join(command)}")


def test_a_locale_with_a_decimal_comma_changes_no_number(tmp_path):
    locale = {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8"}
    if shutil.which("localedef") and Path("/usr/share/i18n/locales/de_DE").exists():
        made = ["localedef", "-i", "de_DE", "-f", "UTF-8", f"{tmp_path}/de_DE.UTF-8"]
        subprocess.run(made, check=True, capture_output=True)
        locale["LOCPATH"] = str(tmp_path)
        done = subprocess.run(
            [
                "python3",
                "-c",
                "import locale; locale.setlocale(locale.LC_ALL, ''); print(f'{1.5:n}')",
            ],
            env={**os.environ, **locale},
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "1,5\n"
    reports(tmp_path, env={**os.environ, **locale})


def test_no_path_in_the_environment_nor_anything_else(tmp_path):
    reports(tmp_path, env={})


def test_closed_standard_descriptors(tmp_path):
    reports(tmp_path, under=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))


def test_a_disk_that_is_full(tmp_path):
    with small_disk(tmp_path / "full") as full:
        (full / "run").mkdir()
        (tmp_path / "run").symlink_to(full / "run")
        log = full / "agent.log"
        places = {"HOME": str(full), "TMPDIR": str(full)}
        reports(tmp_path, env={**os.environ, **places}, log=log)
        assert log.read_bytes() == b"", "there was room on it"


def test_a_root_that_is_read_only(tmp_path):
    needs("unshare", "--mount")
    (tmp_path / "run").mkdir()
    script = f'mount -t tmpfs none {tmp_path}/run && mount -o remount,bind,ro / && exec "$@"'
    reports(tmp_path, under=("unshare", "--mount", "sh", "-c", script, "sh"))


def test_as_the_first_process_of_a_pid_namespace_it_leaves_no_zombie(tmp_path):
    needs("unshare", "--pid", "--fork", "--mount-proc")

    async def no_zombies(stub, agent):
        """Those of its helpers stay with them; what else loses its parent comes to it, and goes."""
        first = then_pid(agent)
        assert Path(f"/proc/{first}/status").read_text().count(f"NSpid:\t{first}\t1\n") == 1
        await stub.until(lambda: stub.values.get("tool_leaves") == 1 and len(stub.reports) > 4)
        deadline = time.monotonic() + 30
        inside = ("nsenter", "--pid", f"--target={first}", "sh", "-c", "sleep 0.1 & exit")
        await (await asyncio.create_subprocess_exec(*inside)).wait()
        while not (dead := zombies(first)):
            assert time.monotonic() < deadline, "no orphan came to it"
            await asyncio.sleep(0.01)
        while dead & zombies(first):
            assert time.monotonic() < deadline, dead
            await asyncio.sleep(0.05)

    reports(
        tmp_path,
        files=FILES + ORPHANS,
        wanted=("half", "room", "leaves", "tool_leaves"),
        under=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
        then=no_zombies,
    )


def zombies(pid):
    """Dead children of that process."""
    found = set()
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for number in child.read_text().split():
            try:
                fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z":
                found.add(number)
    return found
