"""A controller for tests of the agent: it keeps what it hears and says what it is told to."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from dynres.wire.codec import encode, from_agent
from dynres.wire.link import Listener
from dynres.wire.messages import Beat, Hello, Refusal, Report, Stamp, Welcome

T = TypeVar("T")


class StubController:
    """Welcomes every hello with `measure` (None: all that the agent declares), or refuses it."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:*") -> None:
        self.measure: tuple[str, ...] | None = None
        self.refusal: Refusal | None = None
        self.heartbeat = 60.0
        self.answers = True
        self.hellos: list[Hello] = []
        self.reports: list[Report] = []
        self.beats: list[Beat] = []
        self.messages: list[object] = []
        self.values: dict[str, object] = {}
        self.peer = b""
        self._changed = asyncio.Event()
        self._listener = Listener(endpoint, self._take)
        self.endpoint = self._listener.endpoint

    def _take(self, peer: bytes, _address: str, body: bytes) -> None:
        message = from_agent(body)
        self.peer = peer
        self.messages.append(message)
        match message:
            case Hello():
                self.hellos.append(message)
                if self.answers:
                    self.say(self.refusal or self.welcome(message))
            case Report():
                self.reports.append(message)
                if message.full:
                    self.values = {}
                self.values.update((m.resource, m.value) for m in message.values)
            case Beat():
                self.beats.append(message)
        self._changed.set()

    def welcome(self, hello: Hello) -> Welcome:
        """The welcome that this hello gets."""
        measure = tuple(hello.definitions) if self.measure is None else self.measure
        return Welcome(
            version=1,
            software="stub",
            host=hello.host,
            heartbeat=self.heartbeat,
            stamp=1000.0,
            measure=measure,
        )

    def say(self, message: object) -> None:
        """Send a message to the agent that was heard last."""
        assert self._listener.send(self.peer, encode(message))  # type: ignore[arg-type]

    def stamp(self, stamp: float) -> None:
        """Send a heartbeat."""
        self.say(Stamp(stamp=stamp))

    async def until(self, what: Callable[[], T], seconds: float = 30.0) -> T:
        """Wait for messages until the answer is true, and return it."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            left = deadline - time.monotonic()
            assert left > 0, f"not within {seconds} s; messages: {self.messages[-20:]}"
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return answer

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
