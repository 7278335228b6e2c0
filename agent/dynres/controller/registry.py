"""Which hosts there are, which of them have an agent here, and who may register as one.

A state machine: what comes in (hello, beat, bye, a lost connection, the passing of time) gives
effects to carry out. It knows neither sockets nor clocks.
"""

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Final, Literal

import msgspec

from dynres.config.names import AmbiguousError, Names, is_host_name
from dynres.config.near import nearest
from dynres.controller.orders import Orders, OrderStore
from dynres.controller.presence import Presence
from dynres.controller.session import HEARTBEAT, DefinitionStore, Session
from dynres.wire.codec import choose_version
from dynres.wire.messages import (
    OLDEST,
    VERSION,
    Alive,
    FromController,
    Hello,
    Refusal,
    SendAll,
    Stamp,
)
from dynres.wire.views import HostState

ANSWER_WITHIN: Final = 1.0
"""Seconds that a session has to answer when another one claims its host."""


class Send(msgspec.Struct, frozen=True):
    """Send this message to that peer."""

    peer: bytes
    message: FromController


class Accepted(msgspec.Struct, frozen=True):
    """A session is registered, or has said hello again; it is to be welcomed."""

    session: Session
    new: bool
    """Whether it is another session than this host had before."""
    reporting: tuple[str, ...]
    """Instances of shared dynamic resources that the agent measures already."""


class Ended(msgspec.Struct, frozen=True):
    """The host has no agent any more: it said bye."""

    host: str


class Forgotten(msgspec.Struct, frozen=True):
    """The host is not known any more."""

    host: str


Effect = Send | Accepted | Ended | Forgotten


class Claim(msgspec.Struct, frozen=True):
    """A second session that claims a host, until the first has answered or has not."""

    peer: bytes
    address: str
    hello: Hello
    until: float


class Registry:
    """Hosts and sessions. `declared` hosts are never forgotten."""

    def __init__(
        self, rule: Literal["listed", "open"], declared: Iterable[str], forget_after: float
    ) -> None:
        self._sessions: dict[str, Session] = {}
        self._peers: dict[bytes, Session] = {}
        self._claims: dict[str, Claim] = {}
        self._definitions = DefinitionStore()
        self._orders = OrderStore()
        self.generation = 0
        """Another number whenever other hosts are known."""
        self.presence = Presence()
        self.arrived: list[str] = []
        """Hosts with a new session, since whoever looks has emptied it."""
        self.holds: Callable[[str], bool] = lambda host: False
        """Whether a job holds anything there: then the host is not forgotten."""
        self.configure(rule, declared, forget_after)

    def configure(
        self, rule: Literal["listed", "open"], declared: Iterable[str], forget_after: float
    ) -> None:
        """Start or go on with these declarations; see `unwelcome` for who has to leave."""
        self._rule = rule
        self.generation += 1
        self._declared = dict.fromkeys(declared)
        self._forget_after = forget_after
        self._names = Names([*self._declared, *self._sessions])
        self._call_the_roll()

    def _call_the_roll(self) -> None:
        self.presence.reset((host, self._sessions.get(host)) for host in self.hosts())

    # who is there

    def hosts(self) -> Iterator[str]:
        """Every known host: declared, then registered."""
        yield from self._declared
        yield from (host for host in self._sessions if host not in self._declared)

    def canonical(self, name: str) -> str | None:
        """The known host that `name` means. Raises AmbiguousError."""
        return self._names.canonical(name)

    def session(self, host: str) -> Session | None:
        """The newest session of that host, also when it is over."""
        return self._sessions.get(host)

    def of_peer(self, peer: bytes) -> Session | None:
        """The registered session that speaks through this connection."""
        return self._peers.get(peer)

    def sessions(self) -> Iterator[Session]:
        """Every session that is not over."""
        return (s for s in self._sessions.values() if not s.over)

    def state(self, host: str, now: float) -> HostState:
        """`up`, `unreachable`, or `never` while no agent has registered."""
        session = self._sessions.get(host)
        if session is None:
            return "never"
        return "up" if session.up(now) else "unreachable"

    # events

    def hello(self, peer: bytes, address: str, hello: Hello, now: float) -> list[Effect]:
        """An agent introduces itself."""
        version = choose_version(hello)
        if version is None:
            return [Send(peer, _no_version(hello))]
        host = self._admit(hello.host)
        if isinstance(host, Refusal):
            return [Send(peer, host)]
        bound = self._peers.get(peer)
        if bound is not None and bound.host != host:
            self._end(bound)
        first = self._sessions.get(host)
        if first is None or first.id == hello.session or first.peer == peer:
            return self._accept(host, peer, address, hello, now)
        if not first.connected or not first.up(now):
            return self._accept(host, peer, address, hello, now)
        return self._contend(host, first, Claim(peer, address, hello, now + ANSWER_WITHIN))

    def heard(self, peer: bytes, now: float) -> Session | None:
        """A message of a registered session came; None from anybody else."""
        session = self._peers.get(peer)
        if session is not None:
            session.heard = now
            session.connected = True
            self.presence.heard(session)
        return session

    def beat(self, peer: bytes, now: float) -> list[Effect]:
        """A heartbeat: also the answer of a session whose host another one claims."""
        session = self.heard(peer, now)
        if session is None:
            return [Send(peer, _stranger())]
        claim = self._claims.pop(session.host, None)
        return [Send(claim.peer, _taken(session, claim))] if claim else []

    def bye(self, peer: bytes) -> list[Effect]:
        """An agent ends on purpose."""
        self._unclaim(peer)
        session = self._peers.get(peer)
        if session is None:
            return []
        self._end(session)
        return [Ended(session.host)]

    def gone(self, peer: bytes, now: float) -> list[Effect]:
        """The connection of a peer is lost."""
        self._unclaim(peer)
        session = self._peers.get(peer)
        if session is None:
            return []
        session.connected = False
        return self._resolve(session.host, now)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: claims to decide, stamps and requests to send, hosts to forget."""
        effects: list[Effect] = []
        for host in [h for h, claim in self._claims.items() if claim.until <= now]:
            effects += self._resolve(host, now)
        for session in self._sessions.values():
            if session.over:
                continue
            if now - session.stamped >= HEARTBEAT:
                session.stamped = now
                effects.append(Send(session.peer, Stamp(stamp=now)))
            if not session.complete and now - session.asked >= HEARTBEAT:
                effects.append(self.ask_all(session, now))
        return effects + self._forget(now)

    def ask_all(self, session: Session, now: float, within: float = 0.0) -> Send:
        """Ask for a full report, `within` seconds."""
        session.asked = now + within
        return Send(session.peer, SendAll(within=within))

    def unwelcome(self) -> list[Effect]:
        """After a reload: the sessions whose host may not register any more leave."""
        effects: list[Effect] = []
        for host, session in list(self._sessions.items()):
            verdict = self._judge(host)
            if not isinstance(verdict, Refusal):
                continue
            if not session.over:
                effects.append(Send(session.peer, verdict))
            self._end(session)
            effects.append(self._drop(host))
        return effects

    def fault_of_forgetting(self, host: str, now: float) -> str | None:
        """Why a known host cannot be forgotten at once; None where it can."""
        if host in self._declared:
            return f"{host} is declared: take it out of the files and reload the controller"
        if self.state(host, now) == "up":
            return f"{host} is up: stop its agent first"
        if self.holds(host):
            return (
                f"jobs hold amounts for {host}: release them first (dynres release --host {host})"
            )
        return None

    def forget(self, host: str) -> list[Effect]:
        """Know a host no more, whatever it has."""
        session = self._sessions.get(host)
        if session is None:
            return []
        self._end(session)
        return [self._drop(host)]

    # rules

    def _admit(self, name: str) -> str | Refusal:
        """The host's canonical name, or why it may not register."""
        if not is_host_name(name):
            reason = f"{name[:80]!r} is no host name: letters, digits, '.', '-', '_'"
            return Refusal(code="not_listed", reason=reason)
        try:
            known = self._names.canonical(name)
        except AmbiguousError as error:
            return Refusal(code="not_listed", reason=str(error))
        return self._judge(known or name)

    def _judge(self, host: str) -> str | Refusal:
        if self._rule == "open" or host in self._declared:
            return host
        hint = nearest(host, self._declared) or (
            "add it to hosts.yaml and reload the controller, or set registration: open"
        )
        return Refusal(code="not_listed", reason=f"host {host} is not listed: {hint}")

    def _accept(
        self, host: str, peer: bytes, address: str, hello: Hello, now: float
    ) -> list[Effect]:
        effects: list[Effect] = []
        before = self._sessions.get(host)
        session = Session(
            peer=peer,
            address=address,
            host=host,
            id=hello.session,
            boot_id=hello.boot_id,
            machine_id=hello.machine_id,
            software=hello.software,
            version=choose_version(hello) or OLDEST,
            definitions=self._definitions.share(hello.definitions),
            refused=hello.refused,
            heard=now,
            born=now - hello.uptime if isfinite(hello.uptime) else now,
            asked=now,
            stamped=now,
            orders=Orders(self._orders),
        )
        new = before is None or before.id != hello.session
        if before is not None:
            if not new:
                session.seq = before.seq
            elif before.connected and not before.over and before.peer != peer:
                effects.append(Send(before.peer, _replaced(before, session)))
            self._end(before)
        self._claims.pop(host, None)
        self.generation += before is None and host not in self._declared
        self._sessions[host] = session
        self.presence.add(session)
        self._peers[peer] = session
        self._names.add(host)
        if new:
            self.arrived.append(host)
        return [*effects, Accepted(session, new, hello.reporting)]

    def _contend(self, host: str, first: Session, claim: Claim) -> list[Effect]:
        other = self._claims.get(host)
        if other is not None and other.hello.session != claim.hello.session:
            return [Send(claim.peer, _taken(first, claim))]
        self._claims[host] = claim
        return [Send(first.peer, Alive())]

    def _resolve(self, host: str, now: float) -> list[Effect]:
        """The first session has not answered, or is gone: who claims the host has it."""
        claim = self._claims.pop(host, None)
        if claim is None:
            return []
        return self._accept(host, claim.peer, claim.address, claim.hello, now)

    def _unclaim(self, peer: bytes) -> None:
        for host in [h for h, claim in self._claims.items() if claim.peer == peer]:
            del self._claims[host]

    def _end(self, session: Session) -> None:
        session.over = True
        if self._sessions.get(session.host) is session:
            self.presence.ended(session)
        if self._peers.get(session.peer) is session:
            del self._peers[session.peer]

    def _forget(self, now: float) -> list[Effect]:
        old = [
            host
            for host, session in self._sessions.items()
            if host not in self._declared
            and not session.up(now)
            and now - session.heard > self._forget_after
            and not self.holds(host)
        ]
        effects: list[Effect] = []
        for host in old:
            self._end(self._sessions[host])
            effects.append(self._drop(host))
        return effects

    def _drop(self, host: str) -> Forgotten:
        del self._sessions[host]
        self.generation += 1
        self._claims.pop(host, None)
        self._names = Names([*self._declared, *self._sessions])
        self._call_the_roll()
        return Forgotten(host)


def _no_version(hello: Hello) -> Refusal:
    reason = (
        f"this controller speaks protocol {OLDEST} to {VERSION}, the agent {hello.oldest} to "
        f"{hello.newest}: bring the older of the two up to date"
    )
    return Refusal(code="version", reason=reason)


def _taken(first: Session, claim: Claim) -> Refusal:
    reason = (
        f"host {first.host} is taken: the agent at {first.address} answers, this one is at "
        f"{claim.address}: stop one of them, or give this one its own name with --host"
    )
    return Refusal(code="host_taken", reason=reason)


def _replaced(before: Session, session: Session) -> Refusal:
    reason = (
        f"host {session.host} has another agent now, at {session.address}: this one, at "
        f"{before.address}, did not answer"
    )
    return Refusal(code="replaced", reason=reason)


def _stranger() -> Refusal:
    return Refusal(code="unknown", reason="this connection is not registered: say hello first")
