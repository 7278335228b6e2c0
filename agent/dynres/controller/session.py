"""One agent's session: who it is, when it was heard, which of its reports have come."""

from typing import Final, Literal
from weakref import WeakValueDictionary

import msgspec

from dynres.controller.orders import Orders
from dynres.wire.messages import Echo, Report, Run

HEARTBEAT: Final = 5.0
"""Seconds between two heartbeats, in both directions."""
UNREACHABLE_AFTER: Final = 3 * HEARTBEAT
"""Seconds without a word after which a host is unreachable."""

Taken = Literal["taken", "gap", "late"]


class Definitions(dict[str, str]):
    """Resource -> digest, as an agent's files declare them."""

    __slots__ = ("__weakref__",)


class DefinitionStore:
    """Thousands of agents with equal files share one mapping."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, Definitions] = WeakValueDictionary()

    def share(self, definitions: dict[str, str]) -> Definitions:
        """An equal mapping that is known already, or this one."""
        key = hash(frozenset(definitions.items()))
        known = self._known.get(key)
        if known is None or known != definitions:
            known = self._known[key] = Definitions(definitions)
        return known


class Session(msgspec.Struct):
    """A session that was accepted; `connected` until its connection is known to be gone."""

    peer: bytes
    address: str
    host: str
    id: str
    boot_id: str
    machine_id: str
    software: str
    version: int
    definitions: Definitions
    refused: str | None
    """Why the agent goes on with an older configuration than its files hold."""
    heard: float
    """When its newest message came."""
    born: float
    """When the agent started, by the controller's clock."""
    orders: Orders
    """Lists of names that its reports refer to."""
    connected: bool = True
    over: bool = False
    """Ended on purpose, or replaced: it is heard no more."""
    seq: int = 0
    """Number of the newest report that came."""
    complete: bool = False
    """Whether every report since the newest full one has come."""
    asked: float = float("-inf")
    """When it was last asked for a full report."""
    stamped: float = float("-inf")
    """When it was last sent a stamp."""
    differs: dict[str, str] = {}
    bad: dict[str, Run] = {}
    """Probe -> its last run, where that did not give everything."""

    def silent(self, now: float) -> bool:
        """Whether three heartbeats are missing."""
        return now - self.heard > UNREACHABLE_AFTER

    def up(self, now: float) -> bool:
        """Whether the agent is here."""
        return not self.over and not self.silent(now)

    def usable(self, now: float, patience: float) -> bool:
        """Whether it is connected and was heard within `patience` seconds."""
        return not self.over and self.connected and now - self.heard <= patience

    def ran(self, run: Run) -> None:
        """Remember how a probe's newest run went; one that did not take place says nothing."""
        if run.outcome == "ok" and not run.missed:
            self.bad.pop(run.probe, None)
        elif run.outcome not in {"skipped", "cancelled"}:
            self.bad[run.probe] = run

    def trouble(self, probe: str, resource: str) -> str | None:
        """Why the probe's last run gave the resource nothing; None where it gave it a value."""
        run = self.bad.get(probe)
        if run is None:
            return None
        if run.outcome != "ok":
            return f"{run.outcome}: {run.reason}" if run.reason else run.outcome
        return run.missed.get(resource)

    def take(self, report: Report) -> Taken:
        """Number a report: `late` ones were known already; after a `gap` some are missing.

        After a gap the values that a report names still count, but no run renews others: which
        values the agent believes known is not known.
        """
        if report.seq <= self.seq:
            return "late"
        missed = not report.full and (report.seq != self.seq + 1 or not self.complete)
        self.seq = report.seq
        self.complete = not missed
        if report.full:
            self.asked = float("-inf")  # the next gap is asked about at once
        return "gap" if missed else "taken"


def measured_at(echo: Echo | None, age: float, received: float) -> float:
    """The instant, by the controller's clock, of what was `age` seconds old when it was sent.

    With an echo: the stamp, and the time since it came to the agent. The stamp's own way is
    left out, so the instant is never later than the true one, and a report that waited in a
    buffer is as old as it is. Never later than what the time of receipt allows.
    """
    latest = received - age
    return latest if echo is None else min(latest, echo.stamp + echo.since - age)
