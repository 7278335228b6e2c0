"""The order and the pace in which runs that are due together are started."""

import itertools
import os
import select
import threading
import time
from types import SimpleNamespace

import pytest
from launching import until

from dynres.worker import starts
from dynres.worker.starts import BATCH, HELPERS, PACE, NotStarted, Starts


@pytest.fixture
def started(monkeypatch):
    """Submits so many runs at once, and waits until all were taken. Starts no process."""
    all_wait = threading.Event()

    def start(self, run):
        assert all_wait.wait(10)
        return NotStarted("refused", "")

    monkeypatch.setattr(starts, "RunMarks", lambda agent: None)
    monkeypatch.setattr(starts, "TaskGroups", lambda: None)
    monkeypatch.setattr(Starts, "_start", start)
    epoll = select.epoll()
    opened = Starts("test", os.geteuid(), epoll)

    def submit(count):
        runs = [
            SimpleNamespace(
                timeout=1.0, reported=False, stream=False, set_aside=False, came_back=False, taken=0
            )
            for _ in range(count)
        ]
        for run in runs:
            opened.submit(run)
        all_wait.set()
        until(lambda: all(run.came_back for run in runs))
        return runs

    yield submit
    epoll.close()
    os.close(opened.wake)


def test_a_few_runs_that_are_due_together_start_in_order_and_apart(started):
    taken = [run.taken for run in started(5)]
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    assert min(gaps) >= PACE


def test_of_many_that_wait_only_the_last_few_are_started_apart(started, monkeypatch):
    slept = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(starts, "time", clock)
    started(10 * BATCH)
    assert 0 < len(slept) <= BATCH + HELPERS
