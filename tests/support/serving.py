"""A controller inside the test's own loop, agents that speak through real sockets, and requests."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from dynres.client import AsyncClient
from dynres.config.load import load
from dynres.controller.options import ControllerOptions
from dynres.controller.server import Server
from dynres.wire.codec import encode, from_controller
from dynres.wire.link import Dealer
from dynres.wire.messages import FromAgent, FromController

T = TypeVar("T")
M = TypeVar("M")


async def until(what: Callable[[], T], seconds: float = 20.0) -> T:
    """Look again and again until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.01)
    return answer


class HandMadeAgent:
    """An agent that says only what the test tells it to."""

    def __init__(self, endpoint: str) -> None:
        self.heard: list[FromController] = []
        self.connected = False
        self._closed = False
        self._dealer = Dealer(endpoint, self._take, self._state)

    def _take(self, body: bytes) -> None:
        self.heard.append(from_controller(body))

    def _state(self, connected: bool) -> None:
        self.connected = connected

    async def say(self, message: FromAgent | bytes) -> None:
        """Send a message, or bytes as they are."""
        await until(lambda: self.connected)
        body = message if isinstance(message, bytes) else encode(message)
        await until(lambda: self._dealer.send(body))

    async def hear(self, kind: type[M]) -> M:
        """The next message of that kind; those before it are dropped."""
        found = await until(lambda: [m for m in self.heard if isinstance(m, kind)])
        del self.heard[: self.heard.index(found[0]) + 1]  # type: ignore[arg-type]
        return found[0]

    def close(self) -> None:
        """Close the connection; once more is no fault."""
        if not self._closed:
            self._closed = True
            self._dealer.close()


class Serving:
    """A running server, its folder, and what is to be closed with it."""

    def __init__(self, server: Server, folder: Path, hangup: asyncio.Event) -> None:
        self.server = server
        self.folder = folder
        self.hangup = hangup
        self._agents: list[HandMadeAgent] = []

    @property
    def agent_endpoint(self) -> str:
        """Where agents connect."""
        return self.server.endpoints[0]

    @property
    def client_endpoint(self) -> str:
        """Where clients connect."""
        return self.server.endpoints[1]

    def agent(self) -> HandMadeAgent:
        """A new connection of an agent."""
        self._agents.append(HandMadeAgent(self.agent_endpoint))
        return self._agents[-1]

    def close(self) -> None:
        """Close the agents' connections."""
        for agent in self._agents:
            agent.close()


@contextlib.asynccontextmanager
async def serving(
    folder: Path, resources: str, hosts: str | None = None, **ports: int | None
) -> AsyncIterator[tuple[Serving, AsyncClient]]:
    """A server over a folder with these files, on free ports or `ports`, and a client of it."""
    (folder / "resources.yaml").write_text(resources)
    if hosts is not None:
        (folder / "hosts.yaml").write_text(hosts)
    chosen = {"agent_port": 0, "client_port": 0, "feed_port": 0} | ports
    options = ControllerOptions(
        config=folder,
        listen="127.0.0.1",
        **chosen,
        metrics="127.0.0.1:0",
        state=folder / "state",
    )
    server = Server(options, await asyncio.to_thread(load, folder, "controller"))
    hangup = asyncio.Event()
    task = asyncio.create_task(server.run(hangup))
    made = Serving(server, folder, hangup)
    try:
        async with AsyncClient(made.client_endpoint, timeout=20) as client:
            yield made, client
    finally:
        made.close()
        task.cancel()
        await asyncio.wait([task])
        await server.close()
