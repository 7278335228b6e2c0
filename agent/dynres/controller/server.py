"""One task group: agents' messages into the core, its messages out, clients' requests answered."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from typing import Final

from dynres import notify
from dynres.config.faults import ConfigError, Fault
from dynres.config.result import Loaded
from dynres.controller.clock import clock, instant
from dynres.controller.core import Core, Note, Output, Rule
from dynres.controller.desk import Desk, broken, unreadable
from dynres.controller.feed import Feed
from dynres.controller.leasing import Leasing
from dynres.controller.ledger import SqliteLedger
from dynres.controller.ledger_base import LedgerError
from dynres.controller.numbers import numbers
from dynres.controller.one_cpu import OneCpu
from dynres.controller.options import (
    Addresses,
    ControllerOptions,
    addresses,
    registration_rule,
    state_folder,
    waiting_for_restart,
)
from dynres.controller.reading import read_folder
from dynres.controller.say import Log
from dynres.metrics import ControllerMetrics, on_loop
from dynres.page import Health, Page, PageError, serve_page
from dynres.wire.codec import WireError, encode, from_agent
from dynres.wire.leasing import LeaseRequest, OperatorRequest, Waiting
from dynres.wire.link import LinkError, Listener
from dynres.wire.requests import AnyAnswer, Call, Failure, Reloaded, Result, read_call

TICK: Final = 0.25
"""Seconds between two looks at what time has done."""
TELL: Final = 0.1
"""Seconds between two messages of the feed: what changes meanwhile goes together."""
FEED_QUEUE: Final = 64
"""Messages that a subscriber of the feed may leave untaken."""
log = logging.getLogger("dynres.controller")


class Server:
    """The running controller: sockets around a core. Must be made inside the running loop."""

    def __init__(self, options: ControllerOptions, loaded: Loaded) -> None:
        where = self._where = addresses(options, loaded.configuration)
        rule = registration_rule(loaded.configuration, where.agents)
        self._options = options
        self._settings = loaded.configuration.controller
        self.fault: LedgerError | None = None
        """Why it ends by itself."""
        self._task: asyncio.Task[object] | None = None
        self._answering: set[asyncio.Task[bytes]] = set()
        self._log = Log(log)
        self._refused: str | None = None
        self._reloading = asyncio.Lock()
        loop = asyncio.get_running_loop()
        self._metrics = ControllerMetrics(on_loop(loop, lambda: numbers(self._core, clock())))
        with contextlib.ExitStack() as opened:
            # Before any port: a second controller is told who is active, not which port is taken.
            self._open_ledger(loaded, rule)
            opened.callback(self._ledger.close)
            self._agents = Listener(where.agents, self._on_agent)
            opened.callback(self._agents.close)
            self._clients = Listener(where.clients, self._on_client)
            opened.callback(self._clients.close)
            self._listen_feed(where)
            opened.callback(self._feeds.close)
            self._page = self._serve_page(where)
            self._opened = opened.pop_all()

        self._start()

    def _open_ledger(self, loaded: Loaded, rule: Rule) -> None:
        """The core as the ledger has kept it. Raises LedgerError or OSError."""
        hand_over = asyncio.get_running_loop().call_soon_threadsafe
        with contextlib.ExitStack() as opened:
            folder = state_folder(self._options, loaded.configuration)
            self._ledger = SqliteLedger(folder, hand_over=hand_over)
            opened.callback(self._ledger.close)
            self._core = Core(
                loaded.configuration,
                rule,
                clock(),
                self._metrics.report,
                state=self._ledger.load(),
                wall=time.time(),
                epoch=self._ledger.epoch,
            )
            opened.pop_all()
        self._one_cpu = OneCpu()

    def stay_on_one_cpu(self) -> None:
        """For a process of its own: this thread and the ledger's are on the same CPU from now."""
        self._one_cpu = OneCpu(threading.get_native_id(), *self._ledger.threads)

    def _start(self) -> None:
        """What stands between the sockets and the core."""
        self._leasing = Leasing(
            self._core,
            self._ledger,
            instant,
            warn=self._log.warn,
            count=self._metrics.leased,
            fenced=self._fenced,
        )
        self._feed = Feed(
            self._core,
            self._feeds.send,
            epoch=time.time_ns() // 10**6,
            wall=time.time,
            leases=self._leasing.leases,
        )
        self._leasing.feed = self._feed
        self._leasing.operating.carry_out = self._carry_out
        for text in self._leasing.configure():
            log.warning("%s", text)
        self._desk = Desk(
            self._core,
            self._ledger,
            clock=clock,
            reload=self.reload,
            measured=self._metrics.operation,
            feed=self._feeds.endpoint,
        )

    def _listen_feed(self, where: Addresses) -> None:
        """A port that nobody named may be taken by another controller on this machine."""
        try:
            self._feeds = Listener(where.feed, self._on_feed, send_queue=FEED_QUEUE)
        except LinkError as error:
            if where.feed_asked:
                raise
            anywhere = f"{where.feed.rpartition(':')[0]}:0"
            self._feeds = Listener(anywhere, self._on_feed, send_queue=FEED_QUEUE)
            log.warning("%s; the feed is at %s", error, self._feeds.endpoint)

    def _serve_page(self, where: Addresses) -> Page | None:
        if where.metrics is None:
            return None
        try:
            return serve_page(where.metrics, self._metrics.app(), self._health)
        except PageError as error:
            if where.asked:
                raise
            log.warning("%s; going on without a page", error)
            return None

    def _health(self) -> Health:
        if self._refused is not None:
            return Health(True, f"listening; the last reload was refused: {self._refused}")
        if self._leasing.fault is not None:
            return Health(True, f"listening, but nothing can be granted: {self._leasing.fault}")
        return Health(True, f"listening at {self._agents.endpoint} and {self._clients.endpoint}")

    @property
    def endpoints(self) -> tuple[str, str]:
        """Where agents and clients connect, ports resolved."""
        return self._agents.endpoint, self._clients.endpoint

    @property
    def feed(self) -> str:
        """Where the feed is, port resolved."""
        return self._feeds.endpoint

    @property
    def page(self) -> str | None:
        """Where the metrics page is; None without one."""
        return None if self._page is None else self._page.address

    @property
    def status(self) -> str:
        """Where it listens, for the log and for systemd."""
        page = f", metrics at {self._page.address}" if self._page else ""
        feed = f", feed at {self._feeds.endpoint}"
        return f"agents at {self._agents.endpoint}, clients at {self._clients.endpoint}{feed}{page}"

    # the feed

    def _on_feed(self, peer: bytes, address: str, body: bytes) -> None:
        try:
            self._feed.receive(peer, body, clock())
        except WireError as error:
            self._log.warn(f"the feed, from {address}: {error}")

    async def _tell(self) -> None:
        while True:
            more = self._feed.turn(clock())
            await asyncio.sleep(0 if more else TELL)

    # agents

    def _on_agent(self, peer: bytes, address: str, body: bytes) -> None:
        try:
            message = from_agent(body)
        except WireError as error:
            self._core.malformed()
            self._log.warn(f"malformed message from {address}: {error}")
            return
        self._carry_out(self._core.receive(peer, address, message, clock()))
        self._leasing.measured()

    def _carry_out(self, outputs: list[Output]) -> None:
        """Send and log; a peer that takes nothing is lost, which may give more to do."""
        queue = deque(outputs)
        while queue:
            output = queue.popleft()
            if isinstance(output, Note):
                self._log.note(output)
            elif not self._agents.send(output.peer, encode(output.message)):
                queue.extend(self._core.lost(output.peer, clock()))
        self._leasing.look()

    async def _tick(self) -> None:
        while True:
            now = clock()
            self._carry_out(self._core.tick(now))
            self._leasing.tick()
            self._one_cpu.tick(now)
            await asyncio.sleep(TICK)

    # clients

    def _on_client(self, peer: bytes, _address: str, body: bytes) -> None:
        begun = time.perf_counter()
        try:
            call = read_call(body)
        except WireError as error:
            self._clients.send(peer, unreadable(body, error))
            return
        if isinstance(call.request, LeaseRequest | OperatorRequest):
            self._lease(peer, call, call.request, begun)
            return
        task = asyncio.get_running_loop().create_task(self._desk.answer(call))
        self._answering.add(task)
        task.add_done_callback(lambda task: self._answered(peer, body, task))

    def _lease(
        self, peer: bytes, call: Call, request: LeaseRequest | OperatorRequest, begun: float
    ) -> None:
        """Answered by callbacks: a task for each would cost more than the answer."""

        def reply(answer: AnyAnswer) -> bool:
            if not isinstance(answer, Waiting):
                tag = str(request.__struct_config__.tag)
                self._metrics.operation(tag, time.perf_counter() - begun)
            return self._clients.send(peer, encode(Result(id=call.id, answer=answer)))

        taken = False
        try:
            self._leasing.take(request, reply)
            taken = True
        finally:
            if not taken:
                reply(Failure(code="internal", message="a defect (see the controller's log)"))

    def _answered(self, peer: bytes, body: bytes, task: asyncio.Task[bytes]) -> None:
        self._answering.discard(task)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None:
            log.error("a request could not be answered", exc_info=fault)
        # Where the client has gone meanwhile, nobody needs the answer.
        self._clients.send(peer, task.result() if fault is None else broken(body, fault))

    # life

    async def reload(self) -> Reloaded | Failure:
        """Read the folder again; what is refused changes nothing, and says why."""
        async with self._reloading:
            notify.reloading()
            try:
                self._one_cpu.free()  # who reads the files shall not be where the loop is
                loaded = await read_folder(self._options.config)
                rule = registration_rule(loaded.configuration, self._where.agents)
            except ConfigError as error:
                answer: Reloaded | Failure = self._refuse(error.faults)
            else:
                outputs = self._core.reload(loaded.configuration, rule, clock())
                moved = tuple(self._leasing.configure())
                for text in moved:
                    log.warning("%s", text)
                self._carry_out(outputs)
                self._refused = None
                self._metrics.reloaded("ok")
                warnings = self._warnings(loaded)
                log.info("reloaded: the new configuration is in force")
                answer = Reloaded(warnings=warnings, moved=moved)
            notify.ready(self.status)
            return answer

    def _warnings(self, loaded: Loaded) -> tuple[str, ...]:
        """What to know of a configuration that is now in force, as far as a reload can do it."""
        settings = loaded.configuration.controller
        logging.getLogger("dynres").setLevel(settings.log_level.upper())
        late = waiting_for_restart(self._options, self._settings, settings)
        warnings = (*map(str, loaded.warnings), *late)
        for warning in warnings:
            log.warning("%s", warning)
        return warnings

    def _refuse(self, faults: tuple[Fault, ...]) -> Failure:
        for fault in faults:
            log.error("%s", fault)
        self._refused = str(faults[0]) if faults else "no reason given"
        self._metrics.reloaded("refused")
        message = "the configuration was refused; the last good one stays in force"
        log.error("%s", message)
        shown = tuple(fault.as_json() for fault in faults)
        return Failure(code="config", message=message, faults=shown)

    async def run(self, hangup: asyncio.Event) -> None:
        """Serve until cancelled, or fenced off; `hangup` asks for a reload."""
        self._task = asyncio.current_task()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tick())
            tasks.create_task(self._tell())
            tasks.create_task(self._reload_on(hangup))
            tasks.create_task(_watchdog())
            log.info("%s", self.status)
            notify.ready(self.status)

    async def _reload_on(self, hangup: asyncio.Event) -> None:
        while True:
            await hangup.wait()
            hangup.clear()
            await self.reload()

    def _fenced(self, error: LedgerError) -> None:
        """Another controller has taken over the ledger: this one ends."""
        if self.fault is None and self._task is not None:
            self.fault = error
            self._task.cancel()

    async def close(self) -> None:
        """Finish what is on its way into the ledger, free ports and page."""
        for task in self._answering:
            task.cancel()
        await asyncio.to_thread(self._ledger.close)
        await asyncio.sleep(0)  # what has become durable is answered
        self._opened.close()
        if self._page is not None:
            await asyncio.to_thread(self._page.close)


async def _watchdog() -> None:
    interval = notify.watchdog_interval()
    while interval is not None:
        notify.watchdog()
        await asyncio.sleep(interval)
