"""One link to one controller: registers, reports, answers, and comes back by itself.

Everything here is a callback on the event loop; what to say is the reporter's decision.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from dynres.wire.codec import WireError, encode, from_controller
from dynres.wire.link import Dealer
from dynres.wire.messages import (
    NAMED_ONCE,
    PACKED,
    SIDE_BY_SIDE,
    Alive,
    Assign,
    Beat,
    Bye,
    Hello,
    Problem,
    Refusal,
    SendAll,
    Stamp,
    Welcome,
)
from dynres.worker.latest import Ended
from dynres.worker.reporter import Reporter

COALESCE: Final = 0.1
"""Seconds in which the runs that end go into one report."""
ANSWER_TIME: Final = 5.0
"""Seconds after which a hello without an answer is sent again."""
AFTER_REFUSAL: Final = 30.0
RETRY: Final = 0.5
MISSED_STAMPS: Final = 3
EARLY: Final = 0.2
"""Share of its interval by which a heartbeat is ahead of its time, when a report has just left."""
LAST_WORD: Final = 0.5
"""Seconds that the last message gets to leave when the link is closed."""

State = Literal["connecting", "greeting", "registered", "refused", "silent"]

log = logging.getLogger(__name__)


class Hub(Protocol):
    """What a link needs of the agent."""

    def hello(self) -> Hello:
        """The hello that is true now."""
        ...

    def allowed(self, measure: frozenset[str]) -> frozenset[str]:
        """What of it the agent's own files allow."""
        ...

    def word_changed(self, link: "ControllerLink") -> None:
        """This controller wants something else measured than before."""

    def state_changed(self, link: "ControllerLink") -> None:
        """The link's state is another one."""

    def reported(self, link: "ControllerLink") -> None:
        """A report was handed to the link."""


class ControllerLink:
    """The link to the controller at `endpoint`. Raises LinkError for a useless endpoint.

    Must be made inside the running loop; `clock` counts seconds, suspend included.
    """

    def __init__(
        self, endpoint: str, hub: Hub, reporter: Reporter, clock: Callable[[], float]
    ) -> None:
        self.endpoint = endpoint
        self.state: State = "connecting"
        self.word: frozenset[str] | None = None
        """What this controller wants measured; None before it has said so."""
        self.welcome: Welcome | None = None
        self.refusal: Refusal | None = None
        self.problems: dict[str, str] = {}
        self.differs: dict[str, str] = {}
        self._hub = hub
        self._reporter = reporter
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._heard = clock()
        self._early = 0.0
        """Seconds by which a heartbeat may be early."""
        self._flushed = float("-inf")
        """When a report left last, by the loop's clock."""
        self._dealer = Dealer(endpoint, self._on_message, self._on_connection)
        self._later("reach", ANSWER_TIME, self._unreached)

    @property
    def registered(self) -> bool:
        """Whether this controller has welcomed the agent and is heard."""
        return self.state == "registered"

    def greet(self) -> None:
        """Say hello: after connecting, after a reload, and when there was no answer."""
        if self.state == "connecting":
            return
        if self.state != "registered":
            self._become("greeting")
        sent = self._dealer.send(encode(self._hub.hello()))
        self._later("greet", ANSWER_TIME if sent else RETRY, self.greet)

    def ended(self, ended: Ended, *, settled: bool = False, by_loop: bool = False) -> None:
        """A run ended: it is reported with those that end right after it.

        `settled`: what belongs together is together, so it is reported now, unless that was done
        just before. `by_loop`: the event loop called, and that can be done right here.
        """
        self._reporter.ended(ended)
        wait = COALESCE - (self._loop.time() - self._flushed) if settled else COALESCE
        if wait > 0.0 or not by_loop:
            self.flush_soon(max(0.0, wait))
        elif "flush" not in self._timers:
            self._flush()

    def flush_soon(self, delay: float = COALESCE) -> None:
        """Report within `delay` seconds, if there is something to say."""
        if self.registered and "flush" not in self._timers:
            self._later("flush", delay, self._flush)

    @property
    def told_all(self) -> bool:
        """Whether this controller has been told everything there is."""
        return self.registered and not self._reporter.wanting

    def close(self) -> None:
        """Say goodbye and close the connection."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        said = self.state != "connecting" and self._dealer.send(encode(Bye()))
        self._dealer.close(LAST_WORD if said else 0.0)

    def _on_connection(self, up: bool) -> None:
        self._heard = self._clock()
        if up:
            self._cancel("reach")
            self._become("greeting")
            self.greet()
            return
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._reporter.unstamped()
        if self.registered:
            log.warning("%s: connection lost", self.endpoint)
        self.refusal = None  # of a controller that may be another one when it is back
        self._become("connecting")

    def _unreached(self) -> None:
        """Said once; it is tried again all the time, and what was measured is kept meanwhile."""
        log.warning("%s: no controller answers yet", self.endpoint)

    def _on_message(self, body: bytes) -> None:
        try:
            message = from_controller(body)
        except WireError as error:
            log.warning("%s: a message that cannot be read: %s", self.endpoint, error)
            return
        self._heard = self._clock()
        match message:
            case Welcome():
                self._welcomed(message)
            case Refusal():
                self._refused(message)
            case Stamp(stamp=stamp):
                self._reporter.stamped(stamp, self._heard)
            case Assign(measure=measure, differs=differs):
                self._assigned(measure, differs)
                self.flush_soon()
            case SendAll(within=within):
                self._reporter.send_all()
                self._later("flush", random.uniform(0.0, within), self._flush)
            case Alive():
                self._beat()
            case Problem(refused=refused):
                self._warn_of(refused)

    def _welcomed(self, welcome: Welcome) -> None:
        self._cancel("greet")
        if not self.registered:
            log.info("%s: registered as %s", self.endpoint, welcome.host)
        self.welcome, self.refusal, self.problems = welcome, None, {}
        self._reporter.stamped(welcome.stamp, self._heard)
        self._reporter.in_blocks = welcome.version >= SIDE_BY_SIDE
        self._reporter.names_once = welcome.version >= NAMED_ONCE
        self._reporter.packed = welcome.version >= PACKED
        self._reporter.send_all()
        self._become("registered")
        self._assigned(welcome.measure, welcome.differs)
        self._flush()
        self._early = EARLY * welcome.heartbeat
        self._later("beat", welcome.heartbeat, self._heartbeat)

    def _assigned(self, measure: tuple[str, ...], differs: dict[str, str]) -> None:
        self.differs = differs
        self.word = self._hub.allowed(frozenset(measure))
        self._reporter.measure(self.word)
        self._hub.word_changed(self)

    def _refused(self, refusal: Refusal) -> None:
        if refusal.code == "unknown":
            self._forgotten()
            return
        if self.refusal is None or self.refusal.reason != refusal.reason:
            log.error("%s: refused (%s): %s", self.endpoint, refusal.code, refusal.reason)
        self.refusal, self.word = refusal, None
        for name in ("beat", "flush"):
            self._cancel(name)
        self._become("refused")
        self._hub.word_changed(self)
        self._later("greet", AFTER_REFUSAL * random.uniform(0.8, 1.2), self.greet)

    def _forgotten(self) -> None:
        """The controller has no session of this link: begin one, unless a hello was refused."""
        if self.state not in ("registered", "silent"):
            return
        log.warning("%s: the session was forgotten: registering again", self.endpoint)
        for name in ("beat", "flush"):
            self._cancel(name)
        self._become("greeting")
        self._later("greet", RETRY * random.uniform(0.5, 1.0), self.greet)

    def _warn_of(self, refused: dict[str, str]) -> None:
        for resource, reason in refused.items():
            if self.problems.get(resource) != reason:
                log.warning("%s: %s not taken: %s", self.endpoint, resource, reason)
        self.problems = {**self.problems, **refused}

    def _flush(self) -> None:
        self._cancel("flush")
        if not self.registered:
            return
        report = self._reporter.report(self._clock())
        if report is None:
            return
        if self._send(report):
            self._flushed = self._loop.time()
            self._reporter.taken()
            self._hub.reported(self)
            beat = self._timers.get("beat")
            if beat is not None and beat.when() < self._flushed + self._early:
                self._heartbeat()  # the agent need not wake up for it
        else:
            self._later("flush", RETRY, self._flush)

    def _heartbeat(self) -> None:
        """Say that the agent lives; see whether the controller does."""
        heartbeat = self.welcome.heartbeat if self.welcome else ANSWER_TIME
        self._later("beat", heartbeat, self._heartbeat)
        if self._clock() - self._heard > MISSED_STAMPS * heartbeat + RETRY:
            if self.registered:
                log.warning("%s: silent for %d heartbeats", self.endpoint, MISSED_STAMPS)
                self._become("silent")
            self.greet()
        else:
            self._beat()

    def _beat(self) -> None:
        self._send(Beat(echo=self._reporter.echo(self._clock())))

    def _send(self, message: msgspec.Struct) -> bool:
        return self._dealer.send(encode(message))

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._hub.state_changed(self)

    def _later(self, name: str, delay: float, what: Callable[..., Any]) -> None:
        """Do it after `delay` seconds, in place of what was to be done under that name."""
        self._cancel(name)
        self._timers[name] = self._loop.call_later(delay, what)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
