"""Acquires and releases per second at the ledger, as a ratio to append+fdatasync.

usage: ledger.py [ROUNDS] [FOLDER]

"ledger" commits the changes of acquires and releases that were decided before;
"whole" is the whole operation: decision of the pools, commit, confirmation. The targets
are for both.
The floor is what no ledger can avoid: in the same round, on the same disk, a dict of leases whose
every change is appended to a file as one line of 128 bytes, with one fdatasync for each operation
or for each group. Leases are released 50 acquires after they were taken. In "groups" 64 requests
wait together; of whole operations the next 64 are decided meanwhile, as a server's loop does.
"""

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from dynres.collecting import collect_rarely
from dynres.config.model import Configuration, Entry, Host, Location, Place, Resource
from dynres.controller.changes import AnyChange
from dynres.controller.distribution import Instance, distribute
from dynres.controller.lease import Ask, Need, Seat
from dynres.controller.ledger import SqliteLedger
from dynres.controller.ledger_base import LedgerError
from dynres.controller.one_cpu import OneCpu
from dynres.controller.pool import Reading
from dynres.controller.pools import Pools
from dynres.controller.proposal import Instant, Proposal

LAG = 50
TOGETHER = 64
SINGLE, GROUPED = 1500, 20_000
TARGETS = {"single": 0.7, "groups": 0.35}


class Facts:
    def __init__(self) -> None:
        self.disputes: dict[str, set[str]] = {}

    def reading(self, instance: Instance, now: float) -> Reading | None:
        return None

    def closed(self, host: str) -> bool:
        return False

    def boot_id(self, host: str) -> str | None:
        return "boot"


def pools() -> Pools:
    place = Place("resources.yaml", 1, 1)
    entry = Entry(location=Location(everyone=True), value=1e6, place=place)
    iris = Resource(
        name="iris",
        order="decreasing",
        flags=frozenset({"shared"}),
        per="job",
        entries=(entry,),
        place=place,
    )
    hosts = tuple(Host(name=f"h{n}", place=place) for n in range(100))
    layout = distribute(Configuration(resources=(iris,), probes=(), hosts=hosts, listed=True))
    return Pools({"iris": iris}, layout, Facts(), Instant(0.0, time.time()), epoch=1)


def floor(folder: Path, count: int, together: int) -> float:
    """Operations per second of append+fdatasync."""
    fd = os.open(folder / "floor", os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
    free, held, lines = 1_000_000, dict[int, int](), list[bytes]()
    begun = time.perf_counter()
    for n in range(count):
        if n % 2 == 0:
            free -= 2
            held[n] = 2
            lines.append(b"+%0126d\n" % n)
        elif n > 2 * LAG:
            free += held.pop(n - 1 - 2 * LAG)
            lines.append(b"-%0126d\n" % n)
        else:
            lines.append(b" %0126d\n" % n)
        if len(lines) == together:
            os.write(fd, b"".join(lines))
            lines.clear()
            os.fdatasync(fd)
    taken = time.perf_counter() - begun
    os.close(fd)
    return count / taken


class Driver:
    """Decides `together` requests and hands them to the ledger; confirms them when durable.

    With groups, the next one is decided while the disk works on the one before, as a server's
    loop does.
    """

    def __init__(self, ledger: SqliteLedger, together: int, asks: list[Ask]) -> None:
        self.pools = pools()
        self.ledger = ledger
        self.together = together
        self.ahead = 1 if together == 1 else 2
        self.asks = asks
        self.on_the_way: deque[Proposal] = deque()
        self.durable = 0
        self.woken: SimpleQueue[None] = SimpleQueue()
        self.held: deque[str] = deque()
        self.at = Instant(1.0, time.time())

    def submit(self, proposal: Proposal) -> None:
        self.on_the_way.append(proposal)
        self.ledger.submit(proposal.changes, self.done)

    def done(self, error: LedgerError | None) -> None:
        if error is not None:
            raise error
        self.durable += 1

    def hand_over(self, settle: Callable[[], None]) -> None:
        settle()
        self.woken.put(None)

    def decide(self, start: int, stop: int) -> None:
        core, at, held, asks = self.pools, self.at, self.held, self.asks
        for n in range(start, stop):
            if len(held) > LAG and n % 2:
                self.submit(core.release_job("local", held.popleft()))
            else:
                self.submit(core.acquire(asks[n], at))

    def confirm(self, count: int) -> None:
        """Wait for the next so many to be durable: they become so in the order of submission."""
        while self.durable < count:
            self.woken.get()
        self.durable -= count
        for _ in range(count):
            proposal = self.on_the_way.popleft()
            self.pools.confirm(proposal, self.at)
            if proposal.taken:
                self.held.append(proposal.taken[0].lease.job)

    def run(self, count: int) -> float:
        """Operations per second."""
        begun = time.perf_counter()
        groups: deque[int] = deque()
        for start in range(0, count, self.together):
            stop = min(start + self.together, count)
            self.decide(start, stop)
            groups.append(stop - start)
            if len(groups) == self.ahead:
                self.confirm(groups.popleft())
        for group in groups:
            self.confirm(group)
        return count / (time.perf_counter() - begun)


def requests(count: int) -> list[Ask]:
    """What would be asked, as a server has decoded it."""
    return [
        Ask(
            job=str(n),
            needs=(Need("iris", Decimal(2)),),
            seats=(Seat(f"h{n % 100}"),),
            request="r",
        )
        for n in range(count)
    ]


def prepared(asks: list[Ask]) -> list[tuple[AnyChange, ...]]:
    """The changes of so many acquires and releases, as the pools decide them."""
    core, at = pools(), Instant(1.0, time.time())
    held: deque[str] = deque()
    made = []
    for n, ask in enumerate(asks):
        if len(held) > LAG and n % 2:
            proposal = core.release_job("local", held.popleft())
        else:
            proposal = core.acquire(ask, at)
            held.append(ask.job)
        core.confirm(proposal, at)
        made.append(tuple(proposal.changes))
    return made


def committed(ledger: SqliteLedger, work: list[tuple[AnyChange, ...]], together: int) -> float:
    """Operations per second of the ledger alone, each group after the one before is durable."""
    durable: SimpleQueue[None] = SimpleQueue()
    failed: list[LedgerError] = []

    def done(error: LedgerError | None) -> None:
        if error is not None:
            failed.append(error)

    def last(error: LedgerError | None) -> None:
        done(error)
        durable.put(None)

    begun = time.perf_counter()
    for start in range(0, len(work), together):
        *others, final = work[start : start + together]
        for changes in others:
            ledger.submit(changes, done)
        ledger.submit(final, last)
        durable.get()
    taken = time.perf_counter() - begun
    if failed:
        raise failed[0]
    return len(work) / taken


@contextmanager
def on_one_cpu(ledger: SqliteLedger) -> Iterator[None]:
    """As the threads of a controller are."""
    bound = OneCpu(threading.get_native_id(), *ledger.threads)
    bound.tick(0.0)
    try:
        yield
    finally:
        bound.free()


def measure(folder: Path, count: int, together: int) -> tuple[float, float, float]:
    """Operations per second of ledger, whole operation and floor, one after the other."""
    asks = requests(count)
    work = prepared(asks)
    base = floor(folder, count, together)
    alone = SqliteLedger(state_folder(folder, f"ledger{together}"))
    alone.load()
    try:
        with on_one_cpu(alone):
            ledger_only = committed(alone, work, together)
    finally:
        alone.close()
    drivers: list[Driver] = []
    ledger = SqliteLedger(
        state_folder(folder, f"whole{together}"),
        hand_over=lambda f: drivers[0].hand_over(f),  # noqa: PLW0108
    )
    ledger.load()
    drivers.append(Driver(ledger, together, asks))
    try:
        with on_one_cpu(ledger):
            return ledger_only, drivers[0].run(count), base
    finally:
        ledger.close()


def state_folder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(exist_ok=True)
    return made


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    results: dict[str, list[tuple[float, float, float]]] = {"single": [], "groups": []}
    collect_rarely()  # as the controller does
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else "/var/tmp") as name:
        for _ in range(rounds):
            results["single"].append(measure(Path(name), SINGLE, 1))
            results["groups"].append(measure(Path(name), GROUPED, TOGETHER))
    shown: dict[str, dict[str, Any]] = {
        kind: {
            "ledger_per_second": round(statistics.median(a for a, _, _ in taken)),
            "whole_per_second": round(statistics.median(b for _, b, _ in taken)),
            "floor_per_second": round(statistics.median(c for _, _, c in taken)),
            "ratio": round(statistics.median(a / c for a, _, c in taken), 3),
            "ratios": [round(a / c, 3) for a, _, c in taken],
            "whole_ratio": round(statistics.median(b / c for _, b, c in taken), 3),
            "whole_ratios": [round(b / c, 3) for _, b, c in taken],
            "target": TARGETS[kind],
        }
        for kind, taken in results.items()
    }
    print(json.dumps({"rounds": rounds, **shown}, indent=2))
    if any(
        min(figures["ratio"], figures["whole_ratio"]) < figures["target"]
        for figures in shown.values()
    ):
        sys.exit("below the target")


if __name__ == "__main__":
    main()
