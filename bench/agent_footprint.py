"""Memory of an agent with 100 external probes, and how soon after its start it reports.

usage: agent_footprint.py [ROUNDS]

Memory is PSS (proportional set size) from /proc/PID/smaps_rollup, after every probe has run at
least twice. The first report is timed from just before the process is started until a listener in
this process has decoded it. The floor of the start is an interpreter that imports what an agent
cannot do without (asyncio, zmq, msgspec, prometheus_client), started in the same round.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dynres.wire.codec import encode, from_agent
from dynres.wire.link import Listener
from dynres.wire.messages import Hello, Report, Welcome

PROBES = 100
IMPORTS = "import asyncio, zmq, msgspec, prometheus_client"


def write_folder(folder: Path) -> None:
    """A configuration of 100 external probes, one per resource, every 2 s."""
    lines = ["resources:"]
    for n in range(PROBES):
        lines += [
            f"  - name: r{n:03}",
            "    interval: 2s",
            f'    probe: {{command: [/bin/sh, -c, "echo {n}"]}}',
            "    resourcemap: [{location: [default]}]",
        ]
    (folder / "resources.yaml").write_text("\n".join(lines) + "\n")


def pss(pid: int) -> float:
    """PSS of a process in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss line")


def helpers(pid: int) -> dict[str, list[int]]:
    """The agent's helper processes by kind."""
    found: dict[str, list[int]] = {"launcher": [], "plugin_host": []}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_text()
        for kind, pids in found.items():
            if f"dynres.worker.{kind}" in command:
                pids.append(int(child))
    return found


class Stub:
    """A controller that only welcomes and notes when reports come."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.listener = Listener("tcp://127.0.0.1:*", self._take)
        self.resources = resources
        self.first_report: float | None = None
        self.seen: dict[str, int] = {}
        self.changed = asyncio.Event()

    def _take(self, peer: bytes, _address: str, body: bytes) -> None:
        message = from_agent(body)
        if isinstance(message, Hello):
            welcome = Welcome(
                version=1,
                software="bench",
                host=message.host,
                heartbeat=5,
                stamp=time.clock_gettime(time.CLOCK_BOOTTIME),
                measure=tuple(message.definitions),
            )
            self.listener.send(peer, encode(welcome))
        elif isinstance(message, Report):
            self.first_report = self.first_report or time.monotonic()
            for run in message.runs:
                self.seen[run.probe] = self.seen.get(run.probe, 0) + 1
            self.changed.set()


def floor() -> float:
    """Seconds that an interpreter with an agent's imports needs to start and end."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-I", "-c", IMPORTS], check=True)
    return time.monotonic() - begun


def start_agent(folder: Path, controller: str) -> subprocess.Popen[bytes]:
    """The agent as a user starts it, with a metrics page of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        metrics = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "dynres", "agent", "--config", str(folder)]
    return subprocess.Popen(
        [*command, "--host", "bench", "--controller", controller, "--metrics", metrics],
        env={**os.environ, "DYNRES_RUNTIME": str(folder)},
    )


async def one_round(folder: Path) -> dict[str, float]:
    stub = Stub(())
    figures = {"floor_s": await asyncio.to_thread(floor)}
    begun = time.monotonic()
    agent = start_agent(folder, stub.listener.endpoint)
    try:
        async with asyncio.timeout(60):
            while stub.first_report is None or sum(n >= 2 for n in stub.seen.values()) <= PROBES:
                await stub.changed.wait()
                stub.changed.clear()
        figures["first_report_s"] = stub.first_report - begun
        figures["agent_mb"] = pss(agent.pid)
        kinds = helpers(agent.pid)
        figures["launcher_mb"] = sum(map(pss, kinds["launcher"]))
        figures["plugin_host_mb"] = max(map(pss, kinds["plugin_host"]))
    finally:
        agent.terminate()
        await asyncio.to_thread(agent.wait, 10)
        stub.listener.close()
    figures["agent_and_launcher_mb"] = figures["agent_mb"] + figures["launcher_mb"]
    figures["first_report_over_floor"] = figures["first_report_s"] / figures["floor_s"]
    return figures


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        write_folder(Path(name))
        results = [asyncio.run(one_round(Path(name))) for _ in range(rounds)]
    medians = {key: round(statistics.median(r[key] for r in results), 3) for key in results[0]}
    print(json.dumps({"rounds": rounds, "probes": PROBES, "median": medians}, indent=2))


if __name__ == "__main__":
    main()
