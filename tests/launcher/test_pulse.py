"""A helper that only waits is not woken up; one that has done anything is asked."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynres.worker import pulse
from dynres.worker.pulse import LOOK, PATIENCE, Pulse, Watch

WAITS = "import os\nwhile data := os.read(0, 1): os.write(1, data)"
SPINS = "import os\nos.read(0, 1); os.write(1, b'x')\nwhile True: pass"
STEP = 0.01


class Helper:
    """A process that echoes each byte, and its pulse; `asked` and `silent` count the calls."""

    def __init__(self, source=WAITS, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.rests = "R" if source is SPINS else "S"
        self.asked = self.silent = 0
        self.now = 0.0
        self.pulse = Pulse(self.process.pid, self._ask, self._is_silent, **options)

    def __enter__(self):
        self.say()
        self.until_in_state(self.rests)
        self.pulse.heard()
        return self

    def __exit__(self, *_):
        self.pulse.close()
        self.process.kill()
        self.process.communicate()

    def _ask(self):
        self.asked += 1

    def _is_silent(self):
        self.silent += 1

    def say(self):
        """Let it do something, and wait until it has."""
        self.process.stdin.write(b"x")
        assert self.process.stdout.read(1) == b"x"

    def until_in_state(self, *letters):
        stat = Path(f"/proc/{self.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] in letters)

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        self.until_in_state("T")

    def look(self, after, *, late=False):
        self.now += after
        return round(self.pulse.look(self.now, late=late) - self.now, 6)


def until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(STEP)


def test_one_that_has_answered_and_waits_is_not_asked():
    with Helper() as helper:
        assert [helper.look(1.0) for _ in range(100)] == [LOOK] * 100
        assert (helper.asked, helper.silent) == (0, 0)


def test_one_that_has_run_since_is_asked_once_and_is_silent_when_its_time_is_over():
    with Helper() as helper:
        helper.say()
        assert helper.look(1.0) == PATIENCE / 2
        assert helper.look(0.1) == round(PATIENCE / 2 - 0.1, 6)
        assert helper.look(PATIENCE / 2 - 0.1) == PATIENCE / 2
        assert (helper.asked, helper.silent) == (1, 0)
        assert helper.look(PATIENCE / 2) == math.inf
        assert (helper.asked, helper.silent) == (1, 1)


def test_an_answer_in_time_makes_it_one_that_waits():
    with Helper() as helper:
        for turn in range(1, 4):
            helper.say()
            helper.look(1.0)
            helper.until_in_state("S")
            helper.pulse.heard()
            assert helper.look(1.0) == LOOK
            assert (helper.asked, helper.silent) == (turn, 0)


def test_one_that_was_given_something_to_do_is_asked_whether_it_has_run_or_not():
    with Helper() as helper:
        helper.pulse.unsure()
        helper.look(1.0)
        assert helper.asked == 1


def test_one_that_only_does_what_it_is_told_may_be_held_up_on_its_way_back_to_where_it_waits():
    with Helper(only_told=True) as helper:
        helper.say()
        helper.until_in_state("S")
        assert [helper.look(1.0) for _ in range(3)] == [LOOK] * 3
        helper.stop()
        helper.look(1.0)
        assert helper.asked == 1


def test_one_that_only_does_what_it_is_told_and_runs_on_and_on_is_asked():
    with Helper(SPINS, only_told=True) as helper:
        until(lambda: helper.look(1.0) != LOOK)
        assert helper.asked == 1


def test_one_that_a_signal_stops_while_it_waits_is_asked():
    with Helper() as helper:
        helper.stop()
        helper.look(1.0)
        assert helper.asked == 1


def test_one_that_was_stopped_on_its_way_from_the_answer_back_to_where_it_waits_is_asked():
    with Helper() as helper:
        helper.stop()
        helper.pulse.heard()
        helper.look(1.0)
        assert helper.asked == 1


def test_one_that_runs_and_runs_after_its_answer_is_asked():
    with Helper(SPINS) as helper:
        until(lambda: helper.look(1.0) != LOOK)
        assert helper.asked == 1


def test_one_that_may_wait_for_a_lock_for_ever_is_asked_each_time():
    with Helper() as helper:
        helper.pulse.trusted = False
        for _ in range(3):
            helper.look(1.0)
            helper.pulse.heard()
        assert helper.asked == 3


def test_one_of_which_the_kernel_does_not_tell_is_asked_each_time():
    asked = []
    unknown = Pulse(2**22 + 1, lambda: asked.append(1), pytest.fail)  # there is no such pid
    for now in range(3):
        unknown.look(float(now), late=False)
        unknown.heard()
    assert len(asked) == 3


def test_whoever_looks_late_waits_once_more_before_it_blames_the_helper():
    with Helper() as helper:
        helper.say()
        for after in (1.0, 5.0):  # it was held up between the question and the first look after it
            assert helper.look(after, late=after > 1.0) == PATIENCE / 2
        helper.look(PATIENCE / 2)
        helper.look(PATIENCE / 2, late=True)
        assert helper.silent == 0
        helper.look(PATIENCE / 2)
        helper.look(PATIENCE / 2)
        assert (helper.asked, helper.silent) == (1, 1)


def test_one_that_was_found_silent_is_looked_at_no_more(monkeypatch):
    monkeypatch.setattr(pulse, "LOOK", 0.01)
    monkeypatch.setattr(pulse, "PATIENCE", 0.02)
    silent = []

    async def body():
        watch, dead = Watch(), Pulse(os.getpid(), lambda: None, lambda: silent.append(1))
        watch.add(dead)
        await asyncio.sleep(0.3)
        dead.close()
        return asyncio.get_running_loop()._scheduled

    assert asyncio.run(body()) == []
    assert silent == [1]


class Counted(Pulse):
    """One whose looks are counted; it is this process, and runs all the time."""

    def __init__(self):
        super().__init__(os.getpid(), lambda: None, pytest.fail)
        self.looks = 0
        self.heard()

    def look(self, now, *, late):
        self.looks += 1
        return super().look(now, late=late)


def planned(watch):
    """In how many seconds it looks again."""
    return watch._timer.when() - asyncio.get_running_loop().time()


def test_a_glance_while_awake_saves_the_look_for_which_to_wake_up():
    async def body():
        watch, counted = Watch(), Counted()
        watch.add(counted)
        watch.glance()  # the first look is due later, and nothing says that it is awake before
        watch.glance()  # awake again at once: that will be early enough
        looks = counted.looks
        watch.remove(counted)
        watch.glance()
        counted.close()
        return looks, counted.looks

    assert asyncio.run(body()) == (1, 1)


def test_an_answer_saves_the_look_for_its_absence():
    async def body():
        watch, counted, other = Watch(), Counted(), Counted()
        watch.add(counted)
        watch.add(other)
        watch.glance()
        asked = planned(watch)
        counted.heard()
        half = planned(watch)
        other.heard()
        other.heard()
        after = planned(watch)
        for one in (counted, other):
            watch.remove(one)
            one.heard()
            one.close()
        return asked, half, after, watch._timer

    asked, half, after, timer = asyncio.run(body())
    assert max(asked, half) <= PATIENCE / 2 < after <= LOOK
    assert timer is None
