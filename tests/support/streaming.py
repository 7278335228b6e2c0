"""Streaming probes with a real launcher, and what they gave, for tests."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

from dynres.config.model import Place, Probe
from dynres.worker.accounts import own
from dynres.worker.latest import Latest, Rule
from dynres.worker.outcome import RunSpec
from dynres.worker.run import Runner, clock
from dynres.worker.streams import Streams

P = Place("resources.yaml", 1, 1)
PATH = "/usr/bin:/bin"


def spec(script, *, resources=None, name="s", ttl=60.0, interval=60.0, **probe):
    """A stream that runs `script` in a shell."""
    fields = {"mode": "stream", "timeout": 10.0, "allow_unsafe": True, **probe}
    resources = resources or {"a": "numeric"}
    return RunSpec(
        probe=Probe(name=name, command=("/bin/sh", "-c", script), place=P, **fields),
        resources=resources,
        several=len(resources) > 1,
        host="h1",
        path=PATH,
        default_user=own().name,
        ttl=ttl,
        interval=interval,
    )


class Site:
    """Streams, their table, and every result they gave."""

    def __init__(self, runner, group):
        self.runner = runner
        self.latest = Latest()
        self.results = []
        self.streams = Streams(runner, group.create_task, self._take, clock)
        self._news = asyncio.Event()
        self._specs = {}

    def run(self, *specs, recheck=False):
        self._specs = {s.probe.name: s for s in specs}
        rules = {
            name: Rule(s.probe.name, kind, None, 60.0, "keep", None)
            for s in specs
            for name, kind in s.resources.items()
        }
        self.latest.define(rules)
        self.streams.plan({n: (s, s) for n, s in self._specs.items()}, recheck=recheck)

    def state(self, name="s"):
        return self.streams.state(name)

    def value(self, name="a"):
        reading = self.latest.reading(name)
        return None if reading is None else reading.value

    def failures(self):
        return [r for r in self.results if r.outcome not in {"ok"}]

    async def until(self, true, seconds=20.0):
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.01)

    def _take(self, result, spec, about):
        self.results.append(result)
        self.latest.apply(result, about)


@asynccontextmanager
async def site():
    runner = Runner(f"streams-{uuid4().hex}", PATH)
    await runner.start()
    try:
        async with asyncio.TaskGroup() as group:
            here = Site(runner, group)
            yield here
            await here.streams.end()
    finally:
        await runner.close()


def streaming(test):
    """Run an async test with a `Site` of its own."""

    def run(tmp_path):
        async def inner():
            async with site() as here:
                await test(here, tmp_path)

        asyncio.run(inner())

    run.__name__ = test.__name__
    return run
