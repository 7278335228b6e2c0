"""Bad probes beside good ones in a real agent: what became of them, and what of the others.

The agent first runs the good ones alone, then by a reload the bad ones too, then again the good
ones alone. A stub controller hears every run and every heartbeat.
"""

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent_process import AgentProcess
from controller_stub import StubController

from dynres.wire.messages import Beat, Report, Run

HEARTBEAT = 0.5
SLACK = 1.5
"""Seconds that this machine may be busy with other things."""
ROOT = os.geteuid() == 0
GOOD = ("good0", "good1", "good2", "good_plugin")


@dataclass(frozen=True)
class Bad:
    """One kind of fault: the probe that has it, and how each of its runs may end, how soon."""

    fault: str
    outcomes: tuple[str, ...]
    probe: dict[str, Any]
    within: float = 1.0
    """Seconds that a run may take, checks and clearing up included (SLACK is added)."""
    reason: str = ""
    values: tuple[Any, ...] = ()
    """Where a run is ok: what its value may be."""
    type: str = "numeric"
    needs: Callable[[], bool] = field(default=lambda: True)


def shell(script: str, **more: Any) -> dict[str, Any]:
    return {"command": ["/bin/sh", "-c", script], "timeout": "1s", **more}


class Hearing(StubController):
    """Remembers when it heard what."""

    def __init__(self) -> None:
        self.runs: dict[str, list[tuple[float, Run]]] = {}
        self.beat_at: list[float] = []
        super().__init__()
        self.heartbeat = HEARTBEAT

    def _take(self, peer: bytes, address: str, body: bytes) -> None:
        known = len(self.messages)
        super()._take(peer, address, body)
        now = time.monotonic()
        for message in self.messages[known:]:
            if isinstance(message, Report):
                for run in message.runs:
                    self.runs.setdefault(run.probe, []).append((now - run.age, run))
            elif isinstance(message, Beat):
                self.beat_at.append(now)
                self.stamp(now)


class Beside:
    """The agent, its folder, and what the stub has heard."""

    def __init__(self, home: Path, stub: Hearing) -> None:
        self.home = home
        self.stub = stub
        self.word = f"mark{uuid4().hex}"
        (home / "config").mkdir()
        user = {"user": "root"} if ROOT else {}
        settings = {"max_running": 64, "controller": stub.endpoint, **user}
        (home / "config" / "agent.yaml").write_text(json.dumps(settings))
        self.declare(())
        self.start()

    def start(self) -> None:
        """Start the agent; its plugin hosts know the plugins of tests/run/site too."""
        launch = str(Path(__file__).with_name("agent_with_site.py"))
        self.agent = AgentProcess(self.home, program=(launch,))

    def declare(self, bad: tuple[Bad, ...], extra: tuple[dict[str, Any], ...] = ()) -> None:
        resources = [_resource(n, shell("echo 1", timeout="20s")) for n in GOOD[:3]]
        resources.append(_resource(GOOD[3], {"plugin": "counter", "options": {}, "timeout": "20s"}))
        for number, one in enumerate(bad):
            resources.append(_resource(f"bad{number}", self._probe(one), one.type))
        # JSON is YAML.
        text = json.dumps({"resources": [*resources, *extra]})
        (self.home / "config" / "resources.yaml").write_text(text)

    def _probe(self, bad: Bad) -> dict[str, Any]:
        if "command" not in bad.probe:
            return bad.probe
        return {**bad.probe, "env": {"WORD": self.word}}

    def helper(self, kind: str) -> int:
        """The pid of the agent's launcher or of its first plugin host."""
        children = Path(f"/proc/{self.agent.pid}/task/{self.agent.pid}/children").read_text()
        for pid in children.split():
            if f"dynres.worker.{kind}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        return 0

    def descriptors(self) -> tuple[int, int]:
        """Of the agent and of its launcher."""
        pids = (self.agent.pid, self.helper("launcher"))
        return tuple(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)  # type: ignore[return-value]

    def left(self) -> list[int]:
        """Processes of bad probes."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environ = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if self.word.encode() in environ:
                    found.append(int(entry.name))
        return found

    async def all_good(self, since: float) -> None:
        """Wait until every good probe has had a good run that began after `since`."""

        def seen() -> bool:
            return all(
                any(began > since and run.outcome == "ok" for began, run in self.stub.runs[n])
                if n in self.stub.runs
                else False
                for n in GOOD
            )

        await self.stub.until(seen)

    async def settled(self, before: tuple[int, int]) -> None:
        """Wait until nothing of the bad probes is there, and as many descriptors as before."""
        deadline = time.monotonic() + 10
        while (self.left() or self.descriptors() != before) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert (self.left(), self.descriptors()) == ([], before)

    def check_others(self, since: float, until: float, *, lost: float = 0.0) -> None:
        """Heartbeats went on, and every good probe ran in each of its seconds (but for `lost`)."""
        _check_gaps("heartbeats", self.stub.beat_at, since, until, HEARTBEAT + SLACK)
        for name in GOOD:
            good = [began for began, run in self.stub.runs[name] if run.outcome == "ok"]
            _check_gaps(name, good, since, until, 1.0 + SLACK + lost)
            if not lost:
                assert {r.outcome for b, r in self.stub.runs[name] if since < b < until} == {"ok"}


def _check_gaps(what: str, instants: list[float], since: float, until: float, most: float) -> None:
    inside = [since, *sorted(i for i in instants if since < i < until), until]
    gap = max(b - a for a, b in itertools.pairwise(inside))
    assert gap <= most, f"{what}: nothing for {gap:.2f} s"


def _resource(name: str, probe: dict[str, Any], kind: str = "numeric") -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "interval": "1s",
        "ttl": "10m",
        "probe": probe,
        "resourcemap": [{"location": ["default"]}],
    }


@contextmanager
def beside(home: Path) -> Iterator[Beside]:
    """Inside a running loop."""
    stub = Hearing()
    bench = Beside(home, stub)
    try:
        yield bench
    finally:
        bench.agent.close()
        stub.close()


async def run_beside(bench: Beside, bad: tuple[Bad, ...]) -> None:
    """All of it, with every check."""
    await bench.all_good(0.0)
    before = bench.descriptors()
    since = time.monotonic()
    bench.declare(bad)
    bench.agent.send(signal.SIGHUP)
    names = [f"bad{n}" for n in range(len(bad))]
    await bench.stub.until(lambda: all(name in bench.stub.runs for name in names))
    await bench.all_good(time.monotonic())
    until = time.monotonic()
    bench.check_others(since, until)
    for name, one in zip(names, bad, strict=True):
        for _, run in bench.stub.runs[name]:
            _check_run(one, run)
        if "ok" in one.outcomes and one.values:
            assert bench.stub.values[name] in one.values, one.fault
    bench.declare(())
    bench.agent.send(signal.SIGHUP)
    await bench.all_good(time.monotonic())
    await bench.settled(before)
    assert await bench.agent.stop() == 0
    assert "Traceback" not in bench.agent.said()


def _check_run(bad: Bad, run: Run) -> None:
    said = f"{bad.fault}: {run.outcome}: {run.reason}"
    assert run.outcome in bad.outcomes, said
    assert run.duration <= bad.within + SLACK, f"{said}: took {run.duration:.2f} s"
    if run.outcome != "ok":
        assert bad.reason in (run.reason or ""), said
