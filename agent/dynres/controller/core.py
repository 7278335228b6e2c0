"""The controller without sockets and clocks: messages and time in, messages to send out."""

from collections.abc import Callable, Collection, Iterable
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from dynres import __version__
from dynres.config.definition import digest
from dynres.config.model import Configuration, Resource
from dynres.controller.amounts import Amounts
from dynres.controller.changes import Event, LedgerState
from dynres.controller.columns import Columns
from dynres.controller.distribution import Distribution, Instance, distribute
from dynres.controller.facts import TableFacts
from dynres.controller.intake import Intake
from dynres.controller.operators import Operators
from dynres.controller.overriding import Laid, OverriddenResvals
from dynres.controller.pools import Pools
from dynres.controller.proposal import Instant
from dynres.controller.registry import Accepted, Effect, Ended, Forgotten, Registry, Send
from dynres.controller.resvals import ALWAYS, DIFFERS, Column, Origin
from dynres.controller.session import HEARTBEAT, Definitions, Session
from dynres.controller.shared import SharedTable
from dynres.value import Value
from dynres.wire.messages import (
    Assign,
    Beat,
    FromAgent,
    Hello,
    Problem,
    Refusal,
    Report,
    Welcome,
)
from dynres.wire.targets import resource_of, target

REPORTER_PATIENCE = 8.0
"""Seconds without a word after which another agent measures a shared resource."""
STALL = 2.0
"""Seconds between two ticks that mean that the controller itself stood still."""
MOST_COMPARED = 256
"""Different sets of definitions of which the comparison is kept."""
UNDECLARED = "not declared by the agent"
UNKNOWN_HERE = "not declared by the controller"

Rule = Literal["listed", "open"]


class Note(msgspec.Struct, frozen=True):
    """Something for the log."""

    text: str
    warning: bool = False


Output = Send | Note


class Core:
    """Tables and rules of one controller."""

    def __init__(
        self,
        configuration: Configuration,
        rule: Rule,
        now: float,
        count: Callable[[str], None],
        *,
        state: LedgerState | None = None,
        wall: float = 0.0,
        epoch: int = 0,
    ) -> None:
        """`state`: what the ledger has kept, as of wall-clock time `wall` and epoch `epoch`."""
        at = Instant(now, wall)
        self._count = count
        self._ticked = now
        self.events: list[Event] = []
        """What has happened for the history, since whoever writes it down has emptied it."""
        self.restated: list[str] = []
        """What to say of overrides in another unit, since whoever says it has emptied it."""
        self.registry = Registry(
            rule,
            (host.name for host in configuration.hosts),
            configuration.controller.forget_after,
        )
        self.operators = Operators(state or LedgerState(), at)
        self.facts = TableFacts(self.registry, self.operators)
        self._install(configuration)
        self.shared = SharedTable(self.distribution, now)
        self._wire()
        self.pools = Pools(
            self.resources, self.distribution, self.facts, at, state=state, epoch=epoch
        )
        self.registry.holds = self.pools.holdings.holds

    # configuration

    def _install(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.resources: dict[str, Resource] = {r.name: r for r in configuration.resources}
        self._digests = {name: digest(r) for name, r in self.resources.items()}
        self._compared: dict[int, tuple[Definitions, dict[str, str]]] = {}
        self.distribution = distribute(configuration, self.registry.hosts())
        self.table = _fill(self.distribution)

    def _wire(self) -> None:
        """Make what stands on the tables, which are new."""
        self.facts.install(self.resources, self.table, self.shared)
        self.restated += self.operators.restate(self.resources)
        self.overrule()
        self._intake = Intake(self.resources, self.table, self.shared)
        self.columns = Columns(
            self.resources,
            self.distribution,
            self.table,
            self.shared,
            free=lambda instance, fresh: self.amounts(instance, fresh).free,
            overridden=self.operators.of,
        )

    @property
    def closed(self) -> Collection[str]:
        """Hosts that get no work, whatever they have."""
        return self.operators.closed.keys()

    def amounts(self, instance: Instance, fresh: Value | None) -> Amounts:
        """How much of an instance there is, and is free: the one place that says so.

        `fresh` is its value if it has a fresh one. Whoever changes what is held calls `held`.
        """
        return self.pools.amounts_if(instance, self.facts.assumed(instance, fresh))

    def overrule(self) -> None:
        """Let operators' values count in the table, and no others."""
        self.table.overrule(
            {
                (resource, host): Laid(s.override.value, s.reason)
                for resource, host, s in self.operators.of_hosts()
            }
        )

    def held(self, instance: Instance) -> None:
        """What jobs hold of an instance has changed."""
        self.columns.held(instance)
        if instance.host is None:
            self.shared.changed.add((instance.resource, instance.id))
        elif self.table.journal is not None and instance.host in self.table.rows:
            column, row = self.table.index[instance.resource], self.table.rows[instance.host]
            self.table.journal.cell(column, row)

    def reload(self, configuration: Configuration, rule: Rule, now: float) -> list[Output]:
        """Go by another configuration; what is measured and declared alike keeps its values."""
        before, old = self._digests, self.table
        self.registry.configure(
            rule,
            (host.name for host in configuration.hosts),
            configuration.controller.forget_after,
        )
        outputs = self._after(self.registry.unwelcome(), now)
        self._install(configuration)
        kept = [
            name
            for name, resource in self.resources.items()
            if resource.dynamic and before.get(name) == self._digests[name]
        ]
        self.table.carry(old, (name for name in kept if not self.resources[name].shared))
        self.shared.configure(self.distribution, kept)
        self._wire()
        for session in list(self.registry.sessions()):
            self._compare(session)
        self.shared.elect(now, self._obstacle_at(now))
        for session in list(self.registry.sessions()):
            outputs.append(self._assignment(session))
            outputs.append(self.registry.ask_all(session, now, within=HEARTBEAT))
        return outputs + self._moved()

    def forget(self, host: str, now: float) -> list[Output]:
        """Know a host no more, whatever it has."""
        return self._after(self.registry.forget(host), now)

    # events

    def receive(self, peer: bytes, address: str, message: FromAgent, now: float) -> list[Output]:
        """A message of an agent."""
        if isinstance(message, Hello):
            return self._after(self.registry.hello(peer, address, message, now), now)
        if isinstance(message, Report):
            return self._report(peer, message, now)
        if isinstance(message, Beat):
            return self._after(self.registry.beat(peer, now), now)
        return self._after(self.registry.bye(peer), now)

    def malformed(self) -> None:
        """Bytes came that are no message."""
        self._count("malformed")

    def lost(self, peer: bytes, now: float) -> list[Output]:
        """A peer's connection is gone."""
        return self._after(self.registry.gone(peer, now), now)

    def tick(self, now: float) -> list[Output]:
        """Time has passed; after a stall of our own, what agents sent meanwhile comes first."""
        stalled = now - self._ticked > STALL
        self._ticked = now
        if stalled:
            return []
        outputs = self._after(self.registry.tick(now), now)
        return outputs + self._reassign(self.shared.elect(now, self._obstacle_at(now)))

    def _report(self, peer: bytes, report: Report, now: float) -> list[Output]:
        session = self.registry.heard(peer, now)
        if session is None:
            self._count("unregistered")
            return []
        result, refused = self._intake.report(session, report, now)
        self._count(result)
        outputs: list[Output] = []
        if refused:
            outputs.append(Send(peer, Problem(refused=refused)))
        if not session.complete and now - session.asked >= HEARTBEAT:
            outputs.append(self.registry.ask_all(session, now))
        return outputs

    def _after(self, effects: Iterable[Effect], now: float) -> list[Output]:
        outputs: list[Output] = []
        for effect in effects:
            if isinstance(effect, Send):
                outputs.append(effect)
                if isinstance(effect.message, Refusal):
                    outputs.append(Note(f"refused: {effect.message.reason}", warning=True))
            elif isinstance(effect, Accepted):
                outputs += self._welcome(effect, now)
            elif isinstance(effect, Ended):
                outputs.append(Note(f"{effect.host}: the agent has ended"))
            else:
                outputs += self._forget(effect)
        return outputs

    def _forget(self, effect: Forgotten) -> list[Output]:
        host = effect.host
        self.facts.compared(host, ())
        self.table.remove_host(host)
        self.distribution = distribute(self.configuration, self.registry.hosts())
        self.shared.configure(self.distribution, self.resources)
        self._wire()
        return [Note(f"{host}: forgotten")]

    def _welcome(self, effect: Accepted, now: float) -> list[Output]:
        session = effect.session
        if self.distribution.join(session.host):
            self._fill_row(session.host)
        self._compare(session)
        self._intake.new_session(session.host)
        changed = self.shared.arrived(session.host, effect.reporting, now, self._obstacle_at(now))
        changed.discard(session.host)
        welcome = Welcome(
            version=session.version,
            software=__version__,
            host=session.host,
            heartbeat=HEARTBEAT,
            stamp=now,
            measure=self._measure(session),
            differs=session.differs,
        )
        again = "" if effect.new else " again"
        note = Note(f"{session.host}: registered{again} from {session.address}")
        return [Send(session.peer, welcome), note, *self._reassign(changed)]

    # what an agent measures

    def _obstacle_at(self, now: float) -> Callable[[str, str], str | None]:
        def obstacle(host: str, resource: str) -> str | None:
            session = self.registry.session(host)
            if session is None:
                return "it has no agent"
            if host in self.operators.closed:
                return "it is closed"
            if not session.usable(now, REPORTER_PATIENCE):
                return "its agent is lost"
            if resource not in session.definitions:
                return UNDECLARED
            return session.differs.get(resource)

        return obstacle

    def _measure(self, session: Session) -> tuple[str, ...]:
        own = self.distribution.measured_by(session.host)
        names = (*own, *self.shared.duties(session.host))
        return tuple(name for name in names if resource_of(name) not in session.differs)

    def _assignment(self, session: Session) -> Send:
        assign = Assign(measure=self._measure(session), differs=session.differs)
        return Send(session.peer, assign)

    def _reassign(self, hosts: Iterable[str]) -> list[Output]:
        sessions = (self.registry.session(host) for host in sorted(hosts))
        told = (self._assignment(s) for s in sessions if s is not None and not s.over)
        return [*told, *self._moved()]

    def _moved(self) -> list[Output]:
        """Write down which reporters have changed."""
        notes: list[Output] = []
        for instance, before, after, why in self.shared.moves:
            what = f"{target(instance.resource, instance.id)} is measured by {after} now"
            detail = None if before is None else f"instead of {before}: {why}"
            notes.append(Note(what if detail is None else f"{what}, {detail}"))
            if detail is not None:
                about = Event("reporter", resource=instance.resource, instance=instance.id)
                self.events.append(msgspec.structs.replace(about, host=after, detail=detail))
        self.shared.moves.clear()
        return notes

    def _compare(self, session: Session) -> None:
        """Find out which definitions differ, and take those values out of use on that host."""
        session.differs = self._differences(session.definitions)
        clashes = [name for name, how in session.differs.items() if how == DIFFERS]
        self.facts.compared(session.host, clashes)
        row = self.table.rows.get(session.host)
        if row is None:
            return
        self.table.dispute(row, [self.table.index[name] for name in clashes])
        for name in self.distribution.measured_by(session.host):
            if session.differs.get(name) == UNDECLARED:
                self.table.withdraw(self.table.index[name], row, UNDECLARED)

    def _differences(self, theirs: Definitions) -> dict[str, str]:
        known = self._compared.get(id(theirs))
        if known is not None:
            return known[1]
        ours = self._digests
        differs = {n: UNKNOWN_HERE for n in theirs if n not in ours}
        for name, meaning in ours.items():
            if name not in theirs:
                if not self.resources[name].builtin:
                    differs[name] = UNDECLARED
            elif theirs[name] != meaning:
                differs[name] = DIFFERS
        if len(self._compared) >= MOST_COMPARED:
            self._compared.clear()
        self._compared[id(theirs)] = (theirs, differs)
        return differs

    def _fill_row(self, host: str) -> None:
        """A host that joins late gets what it would have had from the start."""
        row = self.table.add_host(host)
        for name, resource in self.resources.items():
            if resource.shared or resource.dynamic:
                continue
            declared = self.distribution.value_for(name, host)
            if declared is not None:
                origin = Origin("static", place=str(declared.place))
                self.table.put(self.table.index[name], row, declared.value, origin=origin)
        for name in self.distribution.measured_by(host):
            origin = Origin("probe", self.resources[name].probe)
            self.table.expect(self.table.index[name], row, origin)


def _fill(distribution: Distribution) -> OverriddenResvals:
    """The table of a distribution, with every declared value in it."""
    resources = distribution.configuration.resources
    table = OverriddenResvals(
        (Column(r.name, r.type, ALWAYS if r.ttl is None else r.ttl) for r in resources),
        distribution.hosts,
    )
    rows_of: dict[tuple[str, ...], npt.NDArray[np.intp]] = {}

    def rows(hosts: tuple[str, ...]) -> npt.NDArray[np.intp]:
        found = rows_of.get(hosts)
        if found is None:
            found = rows_of[hosts] = np.array([table.rows[h] for h in hosts], dtype=np.intp)
        return found

    for column, resource in enumerate(resources):
        for value, place, hosts in distribution.static(resource.name):
            table.put(column, rows(hosts), value, origin=Origin("static", place=str(place)))
        hosts = distribution.measured(resource.name)
        if hosts:
            table.expect(column, rows(hosts), Origin("probe", resource.probe))
    return table
