"""The timetable's timer: at its instant of the clock that counts suspend, once, or not at all."""

import asyncio
import os
import time

from dynres.worker import native
from dynres.worker.alarm import Alarm


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ringing(use):
    """When the alarm rang, after `use(alarm)`, until 50 ms had passed since its last `await`."""

    async def main():
        rung = []
        alarm = Alarm(lambda: rung.append(now()))
        try:
            await use(alarm)
            await asyncio.sleep(0.05)
        finally:
            alarm.close()
            alarm.set(now())  # nothing any more
        return rung

    return asyncio.run(main())


def test_it_rings_once_at_its_instant_and_not_before():
    due = now() + 0.0212

    async def use(alarm):
        alarm.set(due)
        await asyncio.sleep(0.05)

    (rung,) = ringing(use)
    assert rung >= due


def test_an_instant_that_has_passed_rings_at_once():
    async def use(alarm):
        alarm.set(now() - 100.0)
        alarm.set(-1.0)

    assert len(ringing(use)) == 1


def test_what_is_set_later_counts_alone():
    async def use(alarm):
        alarm.set(now() + 0.01)
        alarm.set(now() + 1000.0)
        await asyncio.sleep(0.02)
        alarm.set(now() + 0.01)
        alarm.set(None)

    assert ringing(use) == []


def test_it_rings_again_when_it_is_set_while_it_rings():
    async def use(alarm):
        for _ in range(3):
            alarm.set(now())
            await asyncio.sleep(0.01)

    assert len(ringing(use)) == 3


def test_its_clock_goes_on_in_suspend():
    fd = native.timer()
    try:
        with open(f"/proc/self/fdinfo/{fd}") as info:
            assert f"clockid: {time.CLOCK_BOOTTIME}\n" in info.read()
    finally:
        os.close(fd)
