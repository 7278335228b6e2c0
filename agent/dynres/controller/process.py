"""Runs one controller as this process: what it reads, its signals, its exit status."""

import asyncio
import logging
import signal

from dynres import notify
from dynres.collecting import collect_rarely
from dynres.config.faults import ConfigError
from dynres.controller.ledger_base import LedgerError
from dynres.controller.options import ControllerOptions
from dynres.controller.reading import read_folder
from dynres.controller.say import complain
from dynres.controller.server import Server
from dynres.page import PageError
from dynres.wire.link import LinkError

log = logging.getLogger("dynres.controller")


async def serve(options: ControllerOptions) -> int:
    """Run a controller until SIGTERM or SIGINT; the exit status, faults on stderr."""
    hangup = asyncio.Event()
    serving = asyncio.create_task(_serve(options, hangup))
    loop = asyncio.get_running_loop()
    ends = (signal.SIGTERM, signal.SIGINT)
    for number in ends:
        loop.add_signal_handler(number, serving.cancel)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    # Until here a signal waited: a reload that is asked for too early comes after the start.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ends, signal.SIGHUP))
    try:
        return await serving
    except asyncio.CancelledError:
        return 0


async def _serve(options: ControllerOptions, hangup: asyncio.Event) -> int:
    try:
        loaded = await read_folder(options.config)
        logging.getLogger("dynres").setLevel(loaded.configuration.controller.log_level.upper())
        for warning in loaded.warnings:
            log.warning("%s", warning)
        server = Server(options, loaded)
        server.stay_on_one_cpu()
        collect_rarely()
    except ConfigError as error:
        complain(error)
        return 2
    except (LinkError, PageError, LedgerError, OSError) as error:
        complain(error)
        return 1
    try:
        await server.run(hangup)
    except asyncio.CancelledError:
        if server.fault is None:
            raise
        complain(server.fault)
        return 1
    finally:
        notify.stopping()
        await server.close()
    return 0
