"""Whom plugins run as, and that nothing of what they started stays."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from hosts import SITE, alive, until

from dynres.config.model import Place, Probe
from dynres.worker.outcome import RunSpec
from dynres.worker.run import Runner

PLACE = Place("resources.yaml", 1, 1)
USER = "root" if os.geteuid() == 0 else None


def spec(plugin, resources=("count",), *, user=USER, **options):
    probe = Probe(name=plugin, plugin=plugin, options=options, user=user, timeout=20.0, place=PLACE)
    types = dict.fromkeys(resources, "numeric")
    return RunSpec(probe=probe, resources=types, host="h1", path="/usr/bin:/bin")


def sleepers(seconds):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line == f"sleep\0{seconds}\0".encode():
                found.append(int(entry.name))
    return [pid for pid in found if alive(pid)]


def unique():
    return f"6{uuid4().int % 10**6:06d}"


def with_runner(tmp_path, use):
    async def main():
        runner = Runner(str(tmp_path / "agent"), "/usr/bin:/bin", plugin_path=[SITE])
        await runner.start()
        try:
            return await use(runner)
        finally:
            await runner.close()

    return asyncio.run(main())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_plugin_never_runs_as_root_unless_its_probe_says_so(tmp_path):
    async def owners(runner):
        resources = ("r1m",)
        assert (await runner.run(spec("load", resources, user=None))).outcome == "ok"
        hosts = set(runner._hosts.pids)
        assert (await runner.run(spec("load", resources))).outcome == "ok"
        more = set(runner._hosts.pids) - hosts
        return [{Path(f"/proc/{pid}").stat().st_uid for pid in pids} for pids in (hosts, more)]

    unsaid, said = with_runner(tmp_path, owners)
    assert 0 not in unsaid
    assert said == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_user_of_a_plugin_that_does_not_exist_is_a_start_error_that_names_it(tmp_path):
    result = with_runner(tmp_path, lambda runner: runner.run(spec("load", user="no-such-user")))
    assert (result.outcome, result.reason) == ("start_error", "no such user: no-such-user")


@pytest.mark.parametrize("cleared", [False, True], ids=["marked", "environment cleared"])
def test_a_child_that_a_plugin_keeps_in_its_own_session_ends_with_its_host(tmp_path, cleared):
    seconds = unique()
    daemon = spec("daemon", seconds=seconds, cleared=cleared, kept=True)

    async def run(runner):
        assert (await runner.run(daemon)).outcome == "ok"
        await until(lambda: sleepers(seconds))
        runner.forget("daemon")
        assert (await runner.run(spec("exit"))).outcome == "failed"  # ends the host
        await until(lambda: not sleepers(seconds))
        assert (await runner.run(daemon)).outcome == "ok"
        await until(lambda: sleepers(seconds))

    with_runner(tmp_path, run)
    assert sleepers(seconds) == []


AGENT = """
import asyncio, sys
sys.path[:0] = {path!r}
from pathlib import Path
from test_plugin_users import SITE, Runner, spec
async def main():
    runner = Runner({agent!r}, "/usr/bin:/bin", plugin_path=[SITE])
    await runner.start()
    await runner.run(spec("daemon", seconds={seconds!r}, cleared={cleared}, kept=True))
    print("ran", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize(("launcher_too", "cleared"), [(False, True), (True, False), (True, True)])
def test_a_child_that_a_plugin_keeps_does_not_survive_the_agent(tmp_path, launcher_too, cleared):
    """The launcher sees to it; where that was killed as well, the next start of the agent does."""
    seconds, agent = unique(), str(tmp_path / "agent")
    path = [str(Path(__file__).parent)]
    source = AGENT.format(path=path, agent=agent, seconds=seconds, cleared=cleared)
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ran\n"
        asyncio.run(until(lambda: sleepers(seconds)))
        if launcher_too:
            for child in (
                Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            ):
                if b"worker.launcher" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(process.pid, signal.SIGSTOP)
                    os.kill(int(child), signal.SIGKILL)
        process.kill()
    if launcher_too:
        assert sleepers(seconds) != []

        async def nothing(_):
            assert sleepers(seconds) == []

        with_runner(tmp_path, nothing)
    asyncio.run(until(lambda: not sleepers(seconds), 2.0))
