"""examples/site-probes through a real agent: programs that a site already has, unchanged."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from agent_process import AgentProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "site-probes"
NEEDED = ("gpus_free", "scratch_gb", "has_avx2", "backup_age")


@pytest.fixture
def agent(tmp_path):
    """An agent over the example, its scripts and metrics file where this clone has them."""
    config = tmp_path / "config"
    config.mkdir()
    (tmp_path / "run").mkdir()
    page = tmp_path / "backup.prom"
    page.write_text('# TYPE backup_age_seconds gauge\nbackup_age_seconds{set="home"} 12\n')
    text = (EXAMPLE / "resources.yaml").read_text()
    text = text.replace("/usr/local/libexec/dynres/", f"{EXAMPLE / 'libexec'}/")
    text = text.replace("/var/lib/prometheus/node-exporter/backup.prom", str(page))
    # A clone may lie where others can write; installed as root, the scripts need no such word.
    for command in ("elim.gpu]", "scratch_sensor]", "cpu_flags]"):
        name = text[: text.index(command)].rpartition("\n")[2]
        indent = name[: len(name) - len(name.lstrip())]
        text = text.replace(command, f"{command}\n{indent}allow_unsafe: true")
    (config / "resources.yaml").write_text(text)
    if os.geteuid() == 0:  # a clone below /root is root's alone
        (config / "agent.yaml").write_text("user: root\n")
    agent = AgentProcess(tmp_path)
    yield agent
    agent.close()


async def status(agent):
    return await agent.ask("status") if agent.socket.exists() else {"resources": [], "probes": []}


async def until(agent, what, seconds=30.0):
    """The agent's status once `what` of it is true."""
    deadline = time.monotonic() + seconds
    while not what(told := await status(agent)):
        assert time.monotonic() < deadline, f"{told}\n{agent.said()}"
        await asyncio.sleep(0.05)
    return told


def values(told):
    return {r["resource"]: r["value"] for r in told["resources"]}


def streams(told):
    return {p["probe"]: p["stream"]["pid"] for p in told["probes"] if p["stream"]}


def have_values(told):
    return all(values(told).get(name) is not None for name in NEEDED)


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_each_gives_its_values_and_a_reload_leaves_the_streams_running(agent):
    async def main():
        told = await until(agent, have_values)
        assert values(told)["backup_age"] == 12
        assert values(told)["gpu_model"] is None
        before = streams(told)
        assert set(before) == {"elim_gpu", "scratch_gb"}
        assert (await agent.ask("reload"))["reloaded"]
        assert streams(await status(agent)) == before
        if Path("/usr/lib/nagios/plugins/check_load").exists():
            told = await until(agent, lambda told: values(told)["load_now"] is not None)
            assert values(told)["load_ok"] is not None
        assert await agent.stop() == 0
        assert [pid for pid in before.values() if not gone(pid)] == []

    asyncio.run(main())


def test_streams_end_within_a_second_of_a_killed_agent(agent):
    async def main():
        pids = list(streams(await until(agent, have_values)).values())
        agent.send(signal.SIGKILL)
        await agent.ended()
        killed = time.monotonic()
        await agent.until(lambda: all(map(gone, pids)))
        assert time.monotonic() - killed < 5.0  # a second, on a machine that has nothing else to do

    asyncio.run(main())
