"""Wires the agent together and ends it cleanly: one task group, signals, systemd, the page."""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from typing import Final, NoReturn

from dynres import notify
from dynres.collecting import collect_rarely
from dynres.config.model import AgentSettings, Configuration
from dynres.config.names import is_host_name
from dynres.metrics import on_loop
from dynres.page import Health, PageError, serve_page
from dynres.wire.link import LinkError
from dynres.worker import native
from dynres.worker.adopted import bury_orphans, is_first_process
from dynres.worker.agent import Agent
from dynres.worker.claim import Claim, ClaimError
from dynres.worker.confinement import confine
from dynres.worker.files import Reader
from dynres.worker.identity import Identity
from dynres.worker.launcher_client import LauncherError
from dynres.worker.local import Answer, LocalServer
from dynres.worker.once import once
from dynres.worker.options import AgentOptions
from dynres.worker.reload import Changes, Reloader
from dynres.worker.run import Runner
from dynres.worker.status import health, status

USAGE: Final = 2

log = logging.getLogger("dynres.agent")


class StartError(Exception):
    """The agent cannot start; `exit_code` says whether another try may help."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def serve(options: AgentOptions, identity: Identity, reader: Reader) -> int:
    """Run the agent until SIGTERM, SIGINT, or the end of `--once`; returns the exit code."""
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(_serve(options, identity, reader))
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        return await serving
    except asyncio.CancelledError:
        if stopped:
            return 0
        raise
    except (StartError, ClaimError) as error:
        return _say(error)


async def _serve(options: AgentOptions, identity: Identity, reader: Reader) -> int:
    configuration = await _first_configuration(reader)
    settings = configuration.agent
    _log_to_stderr(settings.log_level)
    host = settings.host or socket.gethostname() if options.host is None else options.host
    if not is_host_name(host):
        raise StartError(f"{host!r} is no host name: letters, digits, `.`, `-` and `_`", 2)
    async with AsyncExitStack() as stack:
        claim = Claim(host)
        stack.callback(claim.release)
        runner = Runner(str(claim.socket), settings.path, joins=confine().take)
        stack.push_async_callback(runner.close)
        try:
            await runner.start(settings.user)
        except (LauncherError, OSError) as error:
            raise StartError(f"the helper processes cannot be started: {error}") from error
        collect_rarely()
        native.give_back_memory()
        async with asyncio.TaskGroup() as group:
            agent = Agent(host, identity, configuration, runner, group.create_task)
            stack.callback(agent.disconnect)
            code = await _work(options, agent, claim, stack, group)
    return code


async def _work(
    options: AgentOptions,
    agent: Agent,
    claim: Claim,
    stack: AsyncExitStack,
    group: asyncio.TaskGroup,
) -> int:
    """Everything from the first probe to the last, in this task and the group's."""
    settings = agent.declaration.configuration.agent
    endpoints = options.controllers or settings.controllers
    try:
        if options.once:
            agent.begin(endpoints, spread=False)
            return await once(agent)
        reloader = Reloader(options.config, agent, Changes(options, agent).apply)
        await _answer_locally(options, agent, claim, reloader, stack)
        await _serve_page(options, settings, agent, stack)
        agent.begin(endpoints, spread=True)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
        group.create_task(reloader.serve())
        if is_first_process():
            group.create_task(bury_orphans())
        notify.ready(f"measuring for {agent.host}")
        await _stay_awake()
    except (StartError, PageError, LinkError) as error:
        return _say(error)
    finally:
        notify.stopping()
        agent.stop()
        await agent.end_streams()


async def _answer_locally(
    options: AgentOptions,
    agent: Agent,
    claim: Claim,
    reloader: Reloader,
    stack: AsyncExitStack,
) -> None:
    async def tell() -> Answer:
        return status(agent, options.config, reloader.faults)

    local = LocalServer(claim.socket, {"status": tell, "reload": reloader.reload})
    try:
        await local.start()
    except OSError as error:
        raise StartError(f"{claim.socket}: {error.strerror}") from error
    stack.push_async_callback(local.close)


async def _serve_page(
    options: AgentOptions, settings: AgentSettings, agent: Agent, stack: AsyncExitStack
) -> None:
    """Serve metrics and health; that the default address is taken (a second agent) is no fault."""
    address = settings.metrics if options.metrics is None else options.metrics
    if address is None or address == "off":
        return
    loop = asyncio.get_running_loop()
    try:
        healthy = on_loop(loop, lambda: Health(*health(agent)))
        page = serve_page(address, agent.metrics.app(), healthy)
    except PageError as error:
        if options.metrics is None and address == AgentSettings().metrics:
            log.warning("no metrics page: %s", error)
            return
        raise
    stack.push_async_callback(asyncio.to_thread, page.close)


async def _stay_awake() -> NoReturn:
    """Until the agent is stopped; systemd hears meanwhile that the loop turns."""
    interval = notify.watchdog_interval()
    while True:
        notify.watchdog()
        await asyncio.sleep(interval or 3600.0)


async def _first_configuration(reader: Reader) -> Configuration:
    """The files' configuration; a faulty one ends the agent. Raises StartError."""
    result = await reader.result()
    for warning in result.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    if result.configuration is None:
        faults = "\n".join(map(str, result.faults))
        raise StartError(f"the configuration is refused\n{faults}", 2)
    return result.configuration


def _say(error: Exception) -> int:
    sys.stderr.write(f"dynres agent: {error}\n")
    if isinstance(error, StartError):
        return error.exit_code
    return USAGE if isinstance(error, LinkError) else 1


def _log_to_stderr(level: str) -> None:
    """Lines for the journal, which has its own time stamps, or with one."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    logging.basicConfig(format=f"{stamp}%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("dynres").setLevel(level.upper())
