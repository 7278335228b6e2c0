"""Reads the files again when asked, one reading at a time; a bad file changes nothing."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from dynres import notify
from dynres.config.faults import Fault
from dynres.config.model import Configuration
from dynres.config.result import LoadResult
from dynres.wire.link import LinkError
from dynres.worker.agent import Agent
from dynres.worker.files import Reader
from dynres.worker.local import Answer, failure
from dynres.worker.options import AgentOptions

log = logging.getLogger(__name__)


class Changes:
    """Puts a valid configuration in force, as far as that can be done without a restart."""

    def __init__(self, options: AgentOptions, agent: Agent) -> None:
        self._options = options
        self._agent = agent

    def apply(self, configuration: Configuration) -> list[str]:
        """From now on this one; returns what takes effect only at a restart, in words."""
        before = self._agent.declaration.configuration.agent
        now = configuration.agent
        options = self._options
        self._agent.reconfigure(configuration)
        logging.getLogger("dynres").setLevel(now.log_level.upper())
        warnings = []
        if options.host is None and now.host != before.host:
            warnings.append(f"agent.yaml: host {now.host} takes effect at a restart")
        if options.metrics is None and now.metrics != before.metrics:
            warnings.append(f"agent.yaml: metrics {now.metrics} takes effect at a restart")
        try:
            self._agent.connect(options.controllers or now.controllers)
        except LinkError as error:
            warnings.append(f"agent.yaml: {error}")
        return warnings


class Reloader:
    """Reloads for SIGHUP and for the local socket; requests that come together share one reading.

    `apply` puts a valid configuration in force and returns warnings in words.
    """

    def __init__(
        self, folder: Path, agent: Agent, apply: Callable[[Configuration], list[str]]
    ) -> None:
        self.faults: tuple[Fault, ...] = ()
        """Why the files' newest state is not in force."""
        self._folder = folder
        self._agent = agent
        self._apply = apply
        self._wanted = asyncio.Event()
        self._waiters: list[asyncio.Future[Answer]] = []

    def request(self) -> None:
        """Reload soon; what is changed in the files before now will be seen."""
        self._wanted.set()

    async def reload(self) -> Answer:
        """Reload, and the answer to whoever asked."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiters.append(answer)
        self._wanted.set()
        return await answer

    async def serve(self) -> None:
        """Reload whenever asked."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiters, self._waiters = self._waiters, []
            notify.reloading()
            answer = self._take(await self._read())
            notify.ready(
                "reload refused, the last good configuration is in force"
                if self.faults
                else "running"
            )
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(answer)

    async def _read(self) -> LoadResult:
        try:
            reader = Reader(self._folder)
        except OSError as error:
            what = f"{self._folder} cannot be read now: {error.strerror}"
            return LoadResult(faults=(Fault(place=None, what=what),))
        return await reader.result()

    def _take(self, result: LoadResult) -> Answer:
        if result.configuration is None:
            return self._refuse(result.faults)
        self.faults = ()
        warnings = [*map(str, result.warnings), *self._apply(result.configuration)]
        for warning in warnings:
            log.warning("%s", warning)
        log.info("reloaded: %d resources", len(result.configuration.resources))
        self._agent.metrics.reloaded("ok")
        return {"reloaded": True, "warnings": warnings}

    def _refuse(self, faults: tuple[Fault, ...]) -> Answer:
        self.faults = faults
        for fault in faults:
            log.error("%s", fault)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        reason = f"{faults[0]}{more}" if faults else "no configuration"
        log.error("reload refused: the last good configuration stays in force")
        self._agent.metrics.reloaded("refused")
        self._agent.refuse(reason)
        message = "the files are refused; the last good configuration stays in force"
        return failure("config", message, tuple(fault.as_json() for fault in faults))
