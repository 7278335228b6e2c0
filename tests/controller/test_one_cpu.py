"""The loop and the ledger's writer are on one CPU, and nothing else is held there."""

import os
import threading

import pytest
from standing import standing

from dynres.controller.one_cpu import EVERY, OneCpu

ALL = os.sched_getaffinity(0)
needs_two = pytest.mark.skipif(len(ALL) < 2, reason="this machine has one CPU")
RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all]}
"""


@pytest.fixture
def other():
    """The native id of a thread that waits."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield thread.native_id
    end.set()
    thread.join()


@pytest.fixture
def bound(other):
    made = OneCpu(threading.get_native_id(), other)
    yield made
    made.free()


def places(*threads):
    return [os.sched_getaffinity(thread) for thread in threads]


@needs_two
def test_both_are_on_one_cpu_and_may_move_once_a_minute(bound, other):
    bound.tick(1.0)
    mine, others = places(0, other)
    assert mine == others
    assert len(mine) == 1
    bound.tick(EVERY)
    assert len(os.sched_getaffinity(0)) == 1
    bound.tick(EVERY + 1.0)
    assert places(0, other) == [ALL, ALL]
    bound.tick(EVERY + 1.25)
    assert len(os.sched_getaffinity(0)) == 1


@needs_two
def test_what_is_started_while_they_are_free_is_bound_to_nothing(bound):
    bound.tick(1.0)
    bound.free()
    made = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
    seen = []
    made.start()
    made.join()
    assert seen == [ALL]


@needs_two
def test_a_thread_that_has_ended_does_no_harm():
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    bound = OneCpu(threading.get_native_id(), ended.native_id)
    bound.tick(1.0)
    assert len(os.sched_getaffinity(0)) == 1
    bound.free()
    assert os.sched_getaffinity(0) == ALL


def test_without_threads_or_with_one_cpu_nothing_is_done(monkeypatch):
    OneCpu().tick(1.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    monkeypatch.delattr(os, "sched_setaffinity")
    OneCpu(threading.get_native_id()).tick(1.0)


@needs_two
def test_a_controller_process_binds_its_loop_and_its_writer_only(tmp_path):
    with standing(tmp_path, RESOURCES, "hosts: [{name: h1}]\n") as here:
        pid = here.process.pid
        tasks = [int(task) for task in os.listdir(f"/proc/{pid}/task")]
        held = [task for task in tasks if len(os.sched_getaffinity(task)) == 1]
        assert pid in held
        assert len(held) == 2
        assert len({frozenset(os.sched_getaffinity(task)) for task in held}) == 1
