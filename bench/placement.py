"""The placement question and the feed over 10,000 hosts x 20 resources, inside the controller.

usage: placement.py [ROUNDS]

The question has three conditions: a number, a boolean and a pool. It is timed as the controller
does it, from the request to the names of the hosts, in the order of NodeSet. The floor, taken in
the same round, are the three comparisons alone, on bare numpy columns that hold the same numbers.
A report changes one value on one host; the feed tells it to 50 subscribers of one requirement, and
its floor is the same report while nobody follows.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dynres.config.definition import digest
from dynres.config.load import load
from dynres.controller.answers import Answers
from dynres.controller.core import Core
from dynres.controller.feed import Feed
from dynres.controller.placement import Placement
from dynres.wire.feed import subscribe_text
from dynres.wire.messages import Hello, Measured, Report
from dynres.wire.requests import AskHosts

HOSTS = 10_000
MEASURED = 7
"""With the 11 load indices, a boolean and a pool: 20 resources."""
WHERE = "m0 >= 40 GB && big && iris: 2"
BOUND_MS = 2.0
REPEAT = 20
SUBSCRIBERS = 50


def write_folder(folder: Path) -> None:
    """The configuration."""
    lines = ["resources:"]
    for n in range(MEASURED):
        lines += [
            f"  - name: m{n}",
            "    unit: GB",
            "    interval: 30s",
            f"    probe: {{command: [/bin/m{n}]}}",
            "    resourcemap: [{location: [default]}]",
        ]
    lines += [
        "  - name: big",
        "    type: boolean",
        "    resourcemap:",
        '      - {value: true, location: ["node[00001-05000]"]}',
        "      - {value: false, location: [default]}",
        "  - {name: iris, flags: [shared], resourcemap: [{value: 100, location: [all]}]}",
    ]
    (folder / "resources.yaml").write_text("\n".join(lines) + "\n")
    (folder / "hosts.yaml").write_text(f'hosts: [{{name: "node[00001-{HOSTS:05}]"}}]\n')


def fill(core: Core, now: float) -> None:
    """Every host registers and reports everything."""
    known = {resource.name: digest(resource) for resource in core.configuration.resources}
    names = [r.name for r in core.configuration.resources if r.dynamic]
    probes = {r.name: r.probe or "" for r in core.configuration.resources}
    for n in range(1, HOSTS + 1):
        peer = str(n).encode()
        hello = Hello(
            oldest=1,
            newest=1,
            software="0",
            host=f"node{n:05}",
            machine_id=str(n),
            boot_id="b",
            session="s",
            uptime=1.0,
            definitions=known,
        )
        core.receive(peer, "127.0.0.1", hello, now)
        values = tuple(
            Measured(resource=name, probe=probes[name], age=0.0, value=float((n * 7 + i) % 100))
            for i, name in enumerate(names)
        )
        core.receive(peer, "127.0.0.1", Report(seq=1, full=True, values=values), now)


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds of one call, over REPEAT of them."""
    begun = time.perf_counter()
    for _ in range(REPEAT):
        call()
    return (time.perf_counter() - begun) * 1000 / REPEAT


def floor(core: Core, now: float) -> Callable[[], Any]:
    """The three comparisons alone."""
    table = core.table
    first = table.numbers(table.index["m0"], now).copy()
    second = table.numbers(table.index["big"], now).copy()
    third = np.full(table.width, 100.0)
    return lambda: np.flatnonzero((first >= 40) & (second == 1) & (third >= 2))


class Reports:
    """One host reports another value each time, and the feed tells it."""

    def __init__(self, core: Core, feed: Feed, now: float) -> None:
        self._core, self._feed, self._now, self._seq = core, feed, now, 1

    def one(self) -> None:
        self._seq += 1
        value = Measured(resource="m0", probe="m0", age=0.0, value=float(50 + self._seq % 40))
        message = Report(seq=self._seq, values=(value,))
        self._core.receive(b"4321", "127.0.0.1", message, self._now)
        self._feed.turn(self._now)


def ratio(these: list[float], floors: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(these, floors, strict=True))


def main() -> int:
    rounds = max(5, int(sys.argv[1])) if len(sys.argv) > 1 else 7
    now = 1000.0
    with TemporaryDirectory() as folder:
        write_folder(Path(folder))
        core = Core(load(Path(folder), "controller").configuration, "listed", now, lambda _: None)
    fill(core, now)
    placement = Placement(core)
    request = AskHosts(where=WHERE, details=False)
    found = len(Answers(core, now).hosts_where(placement, request, WHERE).hosts)
    sent: list[int] = []

    def send(_: bytes, body: bytes) -> bool:
        sent.append(len(body))
        return True

    feed = Feed(core, send, epoch=1, wall=time.time)
    reports = Reports(core, feed, now)
    asked, bare, told, untold, snapshots = [], [], [], [], []
    for _ in range(rounds):
        bare.append(timed(floor(core, now)))
        asked.append(timed(lambda: Answers(core, now).hosts_where(placement, request, WHERE)))
        untold.append(timed(reports.one))
        sent.clear()
        for n in range(SUBSCRIBERS):
            feed.receive(str(n).encode(), subscribe_text(WHERE), now)
        begun = time.perf_counter()
        while feed.turn(now):
            pass
        snapshots.append((time.perf_counter() - begun) * 1000 / SUBSCRIBERS)
        size = sum(sent) / SUBSCRIBERS / 1e6
        told.append(timed(reports.one))
        feed.turn(now + 60)  # all of them have been silent, and are forgotten
    question = statistics.median(asked)
    print(f"hosts x resources           {HOSTS} x {len(core.resources)}, {found} found")
    print(f"question                    {question:.3f} ms   bound {BOUND_MS} ms")
    print(f"three numpy comparisons     {statistics.median(bare):.3f} ms")
    print(f"ratio                       {ratio(asked, bare):.1f}")
    print(f"report, nobody follows      {statistics.median(untold):.3f} ms")
    print(f"report, {SUBSCRIBERS} follow          {statistics.median(told):.3f} ms")
    print(f"ratio                       {ratio(told, untold):.1f}")
    print(f"snapshot of {found} hosts     {statistics.median(snapshots):.1f} ms, {size:.2f} MB")
    return int(question > BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
