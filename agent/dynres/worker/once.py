"""`dynres agent --once`: every probe has run and a controller knows it, or why not."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from dynres.worker.agent import Agent
from dynres.worker.status import health

CONTROLLER_TIME: Final = 5.0
"""Seconds within which a controller must have answered."""
UNREACHABLE: Final = 111
FAILED: Final = 1

log = logging.getLogger(__name__)


async def once(agent: Agent) -> int:
    """Wait until every probe has run and was reported; returns the exit code."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CONTROLLER_TIME):
            await _until(agent, _answered)
    if not _answered(agent):
        log.error("no controller within %g s: %s", CONTROLLER_TIME, health(agent)[1])
        return UNREACHABLE
    await _until_finished(agent)
    if not any(link.registered for link in agent.links.values()):
        log.error("nothing was reported: %s", health(agent)[1])
        return FAILED
    return 0


async def _until_finished(agent: Agent) -> None:
    """Until every probe has run and was reported; a stream has its timeout for a record."""
    streams = {name: spec for name, (spec, _) in agent.plan.streams.items()}
    patience = max((spec.probe.timeout for spec in streams.values()), default=None)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await _until(agent, lambda agent: _finished(agent, ()))
            return
    for name, spec in streams.items():
        if agent.latest.probe(name) is None:
            log.warning("probe %s: no record within %g s", name, spec.probe.timeout)
    await _until(agent, lambda agent: _finished(agent, streams))


async def _until(agent: Agent, done: Callable[[Agent], bool]) -> None:
    while not done(agent):
        agent.changed.clear()
        await agent.changed.wait()


def _answered(agent: Agent) -> bool:
    """Whether a controller has said yes, or all have said no."""
    links = agent.links.values()
    return any(link.registered for link in links) or all(link.refusal for link in links)


def _finished(agent: Agent, without: Collection[str]) -> bool:
    """Whether there is nothing left to run or to tell to a controller that listens."""
    listening = [link for link in agent.links.values() if link.registered]
    ran = agent.all_have_run(without)
    return not listening or (ran and all(link.told_all for link in listening))
