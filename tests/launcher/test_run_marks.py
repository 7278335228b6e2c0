"""The number in a resource limit that says whose an orphan is, whatever its environment says."""

import resource
import subprocess
import threading
from types import SimpleNamespace

import pytest
from launching import until

from dynres.worker.run_marks import RunMarks, hosts_of, mark_of, number_in


@pytest.fixture
def marks():
    """Changes this process's own limit, as the launcher does: put back at the end."""
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    yield RunMarks("agent")
    resource.setrlimit(resource.RLIMIT_RTTIME, before)


def entering(marks):
    """A second start that wants its turn: its run, and whether it has it."""
    run, has_it = SimpleNamespace(mark=0), threading.Event()

    def enter():
        marks.enter(run)
        has_it.set()

    threading.Thread(target=enter, daemon=True).start()
    return run, has_it


def test_a_start_waits_for_the_process_of_the_one_before_it(marks):
    first = SimpleNamespace(mark=0)
    turn = marks.enter(first)
    second, has_it = entering(marks)
    assert not has_it.wait(0.1)
    turn.leave()
    assert has_it.wait(5)
    assert second.mark == first.mark + 1


def test_a_start_whose_process_is_there_and_hangs_is_not_waited_for_and_takes_no_turn_back(marks):
    first = SimpleNamespace(mark=0)
    turn = marks.enter(first)
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert number_in(mark_of(process.pid) or 0, "agent") == first.mark
            _, has_it = entering(marks)
            assert has_it.wait(5)
            turn.leave()  # late: the gate is the second's by now
            _, third_has_it = entering(marks)
            assert not third_has_it.wait(0.1)
        finally:
            process.kill()


def test_the_mark_is_inherited_by_what_cleared_its_environment(marks):
    run = SimpleNamespace(mark=0)
    marks.enter(run).leave()
    with subprocess.Popen(["env", "-i", "setsid", "sleep", "60"]) as process:
        try:
            assert until(lambda: mark_of(process.pid))
            assert number_in(mark_of(process.pid) or 0, "agent") == run.mark
            assert number_in(mark_of(process.pid) or 0, "another") is None
        finally:
            process.kill()


def test_the_numbers_of_plugin_hosts_are_apart_from_those_of_runs_and_of_one_another():
    one, other = hosts_of("a", "s", "1"), hosts_of("a", "s", "12")
    assert not set(one) & set(other)
    for host in (one, other):
        assert host.start in hosts_of("a", "s")
        assert host.start in hosts_of("a")
        assert host.start not in hosts_of("a", "t")
        assert host.start not in hosts_of("b")
        assert number_in(host.start, "a") is None
