"""A controller is killed again and again under load: what it answered is there afterwards."""

import itertools
import os
import random
import subprocess
import threading
from collections import Counter
from decimal import Decimal

import pytest
from standing import Standing, standing

from dynres.client import Client, ClientError, UnreachableError

KILLS = int(os.environ.get("DYNRES_KILLS", "5"))
"""`make heavy` kills it 200 times."""
CLIENTS = 8
CAPACITY = 12
RESOURCES = f"""
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {{value: {CAPACITY}, location: [all]}}
  - name: scratch
    flags: [consumable]
    resourcemap:
      - {{value: 3, location: [default]}}
"""
HOSTS = "hosts: [{name: 'h[1-4]'}]\n"


class Load(threading.Thread):
    """One client that takes and gives back, and remembers what it was told."""

    def __init__(self, endpoint: str, name: str, stop: threading.Event) -> None:
        super().__init__(name=name)
        self._endpoint = endpoint
        self._stop_asked = stop
        self._random = random.Random(name)
        self.held: dict[str, tuple[str, Decimal]] = {}
        """Leases that were granted, and whose release was not answered."""
        self.granted = 0
        self.released = 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            with Client(self._endpoint, timeout=1) as client:
                for number in itertools.count():
                    if self._stop_asked.is_set():
                        return
                    self._once(client, f"{self.name}-{number}")
        except BaseException as error:
            self.fault = error
            raise

    def _again(self, ask):
        """Until it is answered: an unanswered request may have been carried out."""
        while True:
            try:
                return ask()
            except UnreachableError:
                continue

    def _once(self, client: Client, job: str) -> None:
        if self.held and self._random.random() < 0.5:
            lease = self._random.choice(list(self.held))
            self._again(lambda: client.release(lease=lease))
            del self.held[lease]
            self.released += 1
            return
        host = f"h{self._random.randint(1, 4)}"
        needs = {"iris": self._random.randint(1, 2), "scratch": "0.5"}
        view = self._again(lambda: client.acquire(job, [host], needs, request="r"))
        assert view.answer in {"granted", "wait"}
        for lease in view.leases:
            self.held[lease.lease] = (lease.instance, lease.amount)
            self.granted += 1


def check(made: Standing, loads: list[Load]) -> None:
    """Exactly what was answered is held, and no unit of it twice."""
    with Client(made.endpoint, timeout=20) as client:
        leases = {one.lease: (one.instance, one.amount) for one in client.leases().leases}
        pools = client.pools(holders=True).pools
    told: dict[str, tuple[str, Decimal]] = {}
    for load in loads:
        assert not told.keys() & load.held.keys()
        told |= load.held
    assert leases == told
    sums: Counter[tuple[str, str]] = Counter()
    for pool in pools:
        assert pool.holders is not None
        assert sum((one.amount for one in pool.holders), Decimal(0)) == pool.leased
        assert pool.free is not None
        assert pool.capacity is not None
        assert pool.free + pool.leased == pool.capacity
        assert not pool.overcommitted
        sums[pool.resource, pool.instance] += 1
    assert set(sums.values()) == {1}


@pytest.mark.timeout(0 if KILLS > 5 else 120)
def test_every_answered_grant_outlives_kills_under_load(tmp_path):
    with standing(tmp_path, RESOURCES, HOSTS) as made:
        stop = threading.Event()
        loads = [Load(made.endpoint, f"c{n}", stop) for n in range(CLIENTS)]
        for load in loads:
            load.start()
        try:
            for number in range(KILLS):
                threading.Event().wait(random.Random(number).uniform(0.1, 0.8))
                made.kill()
                made.start()
        finally:
            stop.set()
            for load in loads:
                load.join(60)
        assert [load.fault for load in loads] == [None] * CLIENTS
        granted = sum(load.granted for load in loads)
        assert granted > 0
        check(made, loads)
        released = sum(load.released for load in loads)
        print(f"{KILLS} kills, {granted} leases granted, {released} released, none lost or doubled")


ROUNDS = int(os.environ.get("DYNRES_RACES", "100"))
"""`make heavy` races 1,000 times."""


def test_two_who_ask_for_the_last_unit_have_one_winner_each_time(tmp_path):
    with standing(tmp_path, RESOURCES, HOSTS) as made:
        barrier = threading.Barrier(2)
        answers: list[list[str]] = [[], []]
        faults: list[BaseException] = []

        def race(me: int) -> None:
            try:
                with Client(made.endpoint, timeout=30) as client:
                    for number in range(ROUNDS):
                        barrier.wait(30)
                        job = f"{number}-{me}"
                        answer = client.acquire(job, ["h1"], {"iris": CAPACITY}).answer
                        answers[me].append(answer)
                        barrier.wait(30)
                        client.release(job)
            except (ClientError, threading.BrokenBarrierError) as error:
                faults.append(error)
                barrier.abort()

        racers = [threading.Thread(target=race, args=(n,)) for n in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(120)
        assert faults == []
        pairs = list(zip(*answers, strict=True))
        assert len(pairs) == ROUNDS
        assert {tuple(sorted(pair)) for pair in pairs} == {("granted", "wait")}


def test_a_second_controller_on_the_same_ledger_names_the_first(tmp_path):
    with standing(tmp_path, RESOURCES, HOSTS) as made:
        done = subprocess.run(
            made.command(port=0), capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 1
        assert made.process is not None
        assert f"pid {made.process.pid}" in done.stderr
        assert "another controller is active" in done.stderr
