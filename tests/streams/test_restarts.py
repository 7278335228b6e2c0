"""When a stream is started again: back-off, a stable minute, not here; with a fake runner."""

import asyncio

from streaming import spec

from dynres.worker.outcome import RunResult
from dynres.worker.streams import Stream


class Ends:
    """Lives for as long as it is told to, then ends."""

    def __init__(self, lives, **how):
        self.lives = list(lives)
        self.how = {"outcome": "failed", "exit": 1, "reason": "exit status 1", **how}
        self.now = 0.0
        self.stream_of = None

    async def stream(self, spec, hears):
        self.now += self.lives.pop(0)
        if not self.lives:
            self.stream_of.end()
        return RunResult(probe="s", started=0.0, duration=0.0, **self.how)

    def tell(self, probe, text):
        pass

    def stop(self, probe, farewell):
        pass


def pauses(lives, monkeypatch, **how):
    """The pauses between these lives, without the jitter; and every result."""
    runs, slept, results = Ends(lives, **how), [], []

    async def sleep(self, seconds):
        slept.append(seconds)

    async def main():
        made = Stream(spec(""), None, runs, lambda *told: results.append(told[0]), lambda: 0.0)
        runs.stream_of = made
        monkeypatch.setattr(Stream, "_sleep", sleep)
        monkeypatch.setattr(made, "_loop", runs)
        runs.time = lambda: runs.now
        await made.keep(())
        assert made.over.is_set()

    asyncio.run(main())
    return slept, results


def test_pauses_double_up_to_a_minute_with_a_little_more_by_chance(monkeypatch):
    slept, _ = pauses([0.1] * 10, monkeypatch)
    for pause, base in zip(slept, [1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert base <= pause <= base * 1.25


def test_pauses_begin_anew_after_a_stable_minute(monkeypatch):
    slept, _ = pauses([0.1, 0.1, 0.1, 61.0, 0.1, 0.1], monkeypatch)
    for pause, base in zip(slept, [1, 2, 4, 1, 2], strict=True):
        assert base <= pause <= base * 1.25


def test_not_here_is_asked_again_after_recheck(monkeypatch):
    slept, results = pauses([0.1, 0.1], monkeypatch, outcome="ok", not_here=True)
    assert slept == [600.0]
    assert [r.not_here for r in results] == [True]


def test_a_stream_that_exits_with_success_has_failed_all_the_same(monkeypatch):
    _, results = pauses([0.1, 0.1], monkeypatch, exit=0)
    assert [(r.outcome, r.reason) for r in results] == [
        ("failed", "it ended by itself (exit status 0)")
    ]
