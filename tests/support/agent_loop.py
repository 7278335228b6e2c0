"""The agent's loop in this process, with runs that end at once, for tests of links and reloads."""

import asyncio
from contextlib import asynccontextmanager

from blockbuster import blockbuster_ctx
from controller_stub import StubController

from dynres.config.model import (
    AgentSettings,
    Configuration,
    Entry,
    Location,
    Place,
    Probe,
    Resource,
)
from dynres.worker.agent import Agent, clock
from dynres.worker.identity import Identity
from dynres.worker.outcome import RunResult

IDENTITY = Identity("machine", "boot", "session")

P = Place("resources.yaml", 1, 1)


class FakeRuns:
    """Gives each probe's values at once."""

    def __init__(self):
        self.values = {}
        self.ran = []
        self.cancelled = []
        self.hold: asyncio.Event | None = None

    async def run(self, spec):
        started = clock()
        self.ran.append(spec.probe.name)
        if self.hold is not None:
            await self.hold.wait()
        values = {name: self.values.get(name, 1.0) for name in spec.resources}
        return RunResult(
            probe=spec.probe.name, outcome="ok", started=started, duration=0.0, values=values
        )

    def cancel(self, probe):
        self.cancelled.append(probe)

    def forget(self, probe):
        self.cancelled.append(probe)


def resource(name, *, interval=3600.0, probe=None, shared=False, location=None):
    flags = frozenset({"shared"}) if shared else frozenset()
    entry = Entry(location=location or Location(rest=not shared, everyone=shared), place=P)
    return Resource(
        name=name,
        interval=interval,
        ttl=3 * interval,
        probe=probe or name,
        entries=(entry,),
        flags=flags,
        place=P,
    )


def configuration(*resources, **agent):
    probes = dict.fromkeys(r.probe for r in resources)
    return Configuration(
        resources=resources,
        probes=tuple(Probe(name=p, command=("/bin/x",), timeout=5.0, place=P) for p in probes),
        agent=AgentSettings(**agent),
    )


@asynccontextmanager
async def running(config, *endpoints, spread=False):
    runs = FakeRuns()
    async with asyncio.TaskGroup() as group:
        agent = Agent("h1", IDENTITY, config, runs, group.create_task)
        agent.begin(endpoints, spread=spread)
        try:
            yield agent, runs
        finally:
            agent.stop()
            agent.disconnect()
            if runs.hold is not None:
                runs.hold.set()


async def changed(agent, what, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not what():
            agent.changed.clear()
            await agent.changed.wait()


def in_loop(test):
    """Run an async test that gets a stub controller."""

    def run():
        async def inner():
            stub = StubController()
            try:
                with blockbuster_ctx("dynres"):
                    await test(stub)
            finally:
                stub.close()

        asyncio.run(inner())

    run.__name__ = test.__name__
    return run
