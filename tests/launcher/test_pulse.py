"""A helper that only waits is not woken up; one that has done anything is asked."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynres.worker.pulse import LOOK, PATIENCE, Pulse, Watch

WAITS = "import os\nwhile data := os.read(0, 1): os.write(1, data)"
SPINS = "import os\nos.read(0, 1); os.write(1, b'x')\nwhile True: pass"
STEP = 0.01


class Helper:
    """A process that echoes each byte, and its pulse; `asked` and `silent` count the calls."""

    def __init__(self, source=WAITS):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.asked = self.silent = 0
        self.now = 0.0
        self.pulse = Pulse(self.process.pid, self._ask, self._is_silent)

    def __enter__(self):
        self.say()
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
        assert helper.look(1.0) == PATIENCE
        assert helper.look(PATIENCE - 0.1) == 0.1
        assert (helper.asked, helper.silent) == (1, 0)
        helper.look(0.1)
        assert (helper.asked, helper.silent) == (1, 1)


def test_an_answer_in_time_makes_it_one_that_waits():
    with Helper() as helper:
        for turn in range(1, 4):
            helper.say()
            helper.look(1.0)
            helper.pulse.heard()
            assert helper.look(1.0) == LOOK
            assert (helper.asked, helper.silent) == (turn, 0)


def test_one_that_a_signal_stops_while_it_waits_is_asked():
    with Helper() as helper:
        os.kill(helper.process.pid, signal.SIGSTOP)
        stat = Path(f"/proc/{helper.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
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
    pulse = Pulse(2**22 + 1, lambda: asked.append(1), pytest.fail)  # there is no such pid
    for now in range(3):
        pulse.look(float(now), late=False)
        pulse.heard()
    assert len(asked) == 3


def test_whoever_looks_late_waits_once_more_before_it_blames_the_helper():
    with Helper() as helper:
        helper.say()
        helper.look(1.0)
        assert helper.look(5.0, late=True) == PATIENCE
        assert helper.silent == 0
        helper.look(PATIENCE)
        assert helper.silent == 1


def test_a_glance_while_awake_saves_the_look_for_which_to_wake_up():
    class Counted(Pulse):
        looks = 0

        def look(self, now, *, late):
            self.looks += 1
            return super().look(now, late=late)

    async def body():
        watch, pulse = Watch(), Counted(os.getpid(), lambda: None, pytest.fail)
        pulse.heard()
        watch.add(pulse)
        watch.glance()  # the first look is due later, so this is it
        watch.glance()  # too soon after that
        looks = pulse.looks
        watch.remove(pulse)
        watch.glance()
        pulse.close()
        return looks, pulse.looks

    assert asyncio.run(body()) == (1, 1)
