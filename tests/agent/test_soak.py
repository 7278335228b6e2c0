"""The agent over many hangups and reloads: alive, as large as before, and by its newest files."""

import asyncio
import os
import re
import signal
import time
from pathlib import Path

from agent_process import AgentProcess
from controller_stub import StubController

RELOADS = int(os.environ.get("DYNRES_RELOADS", "20"))
"""How many; `make heavy` makes 200."""
STEADY = 4
"""Reloads after which the size is taken for the first time."""
GROWTH = 1024
"""KB of private memory that many reloads may differ by: allocators keep a little here and there."""
FILES = """\
resources:
  - name: one
    interval: 1s
    probe: {{command: [/bin/sh, -c, "echo {value}"], timeout: 20s}}
    resourcemap: [{{location: [default]}}]
  - name: {name}
    interval: 1s
    probe: {{plugin: disk, timeout: 20s, options: {{path: /, what: {what}}}}}
    resourcemap: [{{location: [default]}}]
"""


def write(home, number):
    """Files that differ each time: another value, another resource, other options of a plugin."""
    folder = home / "config"
    folder.mkdir(exist_ok=True)
    what = ("free", "used", "total")[number % 3]
    text = FILES.format(value=number, name=f"extra{number % 2}", what=what)
    new = folder / "new"
    new.write_text(text)
    new.rename(folder / "resources.yaml")


def size(pid):
    """Private KB, descriptors, threads and children of a process."""
    proc = Path(f"/proc/{pid}")
    memory = (proc / "smaps_rollup").read_text()
    private = sum(int(kb) for kb in re.findall(r"Private_\w+: +(\d+)", memory))
    children = [c for path in proc.glob("task/*/children") for c in path.read_text().split()]
    counts = [len(list((proc / name).iterdir())) for name in ("fd", "task")]
    return private, (*counts, len(children))


def soaked(test):
    """An async test of a stub controller, with its agents ended whatever happens."""

    def run(tmp_path):
        agents = []

        async def inner():
            stub = StubController()

            def start(**more):
                agents.append(AgentProcess(tmp_path, "--controller", stub.endpoint, **more))
                return agents[-1]

            try:
                await test(stub, tmp_path, start)
            finally:
                stub.close()

        try:
            asyncio.run(inner())
        finally:
            for agent in agents:
                agent.close()

    run.__name__ = test.__name__
    return run


@soaked
async def test_a_hangup_every_10_ms_from_the_first_instruction_on_never_kills(stub, home, start):
    write(home, 0)
    agent = start(program=("-m", "dynres.cli.start", "agent"))
    await agent.until_it_blocks_signals()
    number, began = 0, time.monotonic()
    while not stub.values or time.monotonic() - began < 3.0:
        agent.send(signal.SIGHUP)
        await asyncio.sleep(0.01)
        if stub.values and number < 50:
            number += 1
            write(home, number)
    agent.send(signal.SIGHUP)
    await stub.until(lambda: stub.values.get("one") == number)
    assert agent.process.poll() is None
    assert await agent.stop() == 0


@soaked
async def test_many_reloads_leave_memory_descriptors_and_threads_flat(stub, home, start):
    write(home, 0)
    agent = start()
    await stub.until(lambda: stub.values.get("one") == 0)

    async def reload(number):
        write(home, number)
        assert (await agent.ask("reload"))["reloaded"] is True
        await stub.until(lambda: stub.values.get("one") == number)

    for number in range(1, STEADY):
        await reload(number)
    memory, counts = size(agent.pid)
    for number in range(STEADY, STEADY + RELOADS):
        await reload(number)
    deadline = time.monotonic() + 10
    while size(agent.pid)[1] != counts:  # what a reload has begun may be ending
        assert time.monotonic() < deadline, (counts, size(agent.pid)[1])
        await asyncio.sleep(0.05)
    assert size(agent.pid)[0] - memory <= GROWTH
    status = await agent.ask("status")
    measured = {r["resource"] for r in status["resources"]}
    assert {"one", f"extra{number % 2}"} <= measured
    assert f"extra{1 - number % 2}" not in measured
    assert await agent.stop() == 0
