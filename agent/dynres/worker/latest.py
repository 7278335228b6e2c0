"""The agent's own table: what each target is worth after the runs that have ended.

A target is a resource, or one instance of a shared resource (`wire/targets.py`); a run speaks of
resources, and what it says holds for every target of its probe that belongs to the resource.
It decides what a failure does to a value (`on_failure`), when a value is fresh, and why there is
none. Instants are seconds of the clock that counts suspend too; `now` is an argument.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from dynres.config.model import Resource
from dynres.value import Value, ValueType, format_duration
from dynres.wire.targets import resource_of
from dynres.worker.numbers import Names, Numbers
from dynres.worker.outcome import Outcome, RunResult
from dynres.worker.readings import Block, Reading, Readings

NOT_HERE: Final = "not here: the probe does not apply to this host"
SAID_SO: Final = "the probe says that it is unavailable"
NO_RUN_YET: Final = "no run yet"

_reading = tuple.__new__  # a named tuple in half the time
State = Literal["fresh", "stale", "unavailable"]


class Rule(NamedTuple):
    """What the table needs to know of one target; `ttl` in seconds."""

    probe: str
    type: ValueType
    unit: str | None
    ttl: float
    on_failure: Literal["keep", "unavailable", "literal"]
    fallback: Value | None

    @staticmethod
    def of(resource: Resource, probe: str) -> "Rule":
        """The rule of a dynamic resource that `probe` feeds on this host."""
        return Rule(
            probe=probe,
            type=resource.type,
            unit=resource.unit,
            ttl=resource.ttl or float("inf"),
            on_failure=resource.on_failure,
            fallback=resource.fallback,
        )


class Ended(NamedTuple):
    """A run that ended, as reports and status need it."""

    probe: str
    outcome: Outcome
    reason: str | None
    started: float
    duration: float
    missed: Mapping[str, str]
    """Resource of this probe -> why an `ok` run gave it no value."""
    not_here: bool = False
    """Whether the probe does not apply to this host."""


@dataclass(frozen=True, slots=True)
class ProbeState:
    """How a probe has fared."""

    last: Ended
    failures: int
    """Failed runs in a row."""
    stderr: str
    refused: tuple[tuple[str, str, str], ...]
    """Values of the last run that were not taken: name, text, reason."""


class Standing(NamedTuple):
    """One resource as a view shows it; `value` only while fresh, `last` also when stale."""

    state: State
    value: Value | None
    last: Value | None
    reason: str | None
    age: float | None
    """Seconds since it was measured."""
    fallback: bool


class Latest:
    """The current reading of every target that this host measures."""

    def __init__(self) -> None:
        self.generation = 0
        """Counts how often the rules were defined."""
        self._rules: dict[str, Rule] = {}
        self.table = Readings()
        """What each target is worth."""
        self._probes: dict[str, ProbeState] = {}
        self._names: dict[str, list[str]] = {}
        self._targets: dict[str, list[tuple[str, str]]] = {}
        """Probe -> its targets, each with its resource."""
        self._whole: dict[str, Names] = {}
        """Probe -> names that are known to be exactly its targets."""

    def define(self, rules: Mapping[str, Rule]) -> None:
        """Go by these rules from now on.

        What is no longer among them vanishes; so does a reading whose type or unit has changed.
        """
        readings = self.table.loosen_all()
        for name, old in self._rules.items():
            new = rules.get(name)
            if new is None or (new.type, new.unit) != (old.type, old.unit):
                readings.pop(name, None)
            elif new.probe != old.probe and name in readings:
                # The runs of the probe that gave it do not renew it any more.
                readings[name] = readings[name]._replace(probe=new.probe)
        self._rules = dict(rules)
        self._names, self._targets, self._whole = {}, {}, {}
        for name, rule in rules.items():
            self._names.setdefault(rule.probe, []).append(name)
            self._targets.setdefault(rule.probe, []).append((name, resource_of(name)))
        self.generation += 1
        self._probes = {p: state for p, state in self._probes.items() if p in self._names}

    def apply(self, result: RunResult, asked: Collection[str]) -> Ended | None:
        """Take the result of a run that was asked for the resources `asked`.

        None where it changes nothing: it was cut short, or its probe is gone.
        """
        if result.outcome == "cancelled" or result.probe not in self._names:
            return None
        block = self._block(result, asked)
        missed: Mapping[str, str] = {}
        if block is not None:
            self.table.put_block(block)
        elif result.outcome != "skipped":
            missed = self._take_each(result, asked)
        ended = Ended(
            probe=result.probe,
            outcome=result.outcome,
            reason=result.reason,
            started=result.started,
            duration=result.duration,
            missed=missed,
            not_here=result.not_here,
        )
        self._remember(result, ended)
        return ended

    def targets_of(self, probe: str) -> list[str]:
        """The targets that `probe` feeds."""
        return self._names.get(probe, [])

    def reading(self, target: str) -> Reading | None:
        """What it is worth; None before its first run."""
        return self.table.get(target)

    def readings(self) -> Mapping[str, Reading]:
        """All readings by target."""
        return dict(self.table.items())

    def probe(self, probe: str) -> ProbeState | None:
        """How a probe has fared; None before its first run."""
        return self._probes.get(probe)

    def standing(self, target: str, now: float) -> Standing | None:
        """How a target stands at `now`; None for one that this host does not measure."""
        rule = self._rules.get(target)
        if rule is None:
            return None
        reading = self.table.get(target)
        if reading is None:
            return Standing("unavailable", None, None, NO_RUN_YET, None, fallback=False)
        age = max(0.0, now - reading.measured)
        if reading.value is None:
            return Standing("unavailable", None, None, reading.reason, age, fallback=False)
        if age > rule.ttl:
            reason = self._why_stale(rule, age)
            return Standing("stale", None, reading.value, reason, age, reading.fallback)
        value = reading.value
        return Standing("fresh", value, value, reading.reason, age, reading.fallback)

    def standings(self, now: float) -> Iterator[tuple[str, Standing]]:
        """Every target that this host measures, with how it stands."""
        for name in self._rules:
            standing = self.standing(name, now)
            if standing is not None:
                yield name, standing

    def _block(self, result: RunResult, asked: Collection[str]) -> Block | None:
        """The run as a block, where it gave a number for each target of its probe."""
        numbers = result.values
        if asked is not numbers or not isinstance(numbers, Numbers):
            return None
        if result.outcome != "ok" or result.not_here or result.missed:
            return None
        names = numbers.names
        if self._whole.get(result.probe) is not names:
            if names.index.keys() != set(self._names[result.probe]):
                return None
            self._whole[result.probe] = names
        return Block(result.probe, numbers, result.started)

    def _take_each(self, result: RunResult, asked: Collection[str]) -> dict[str, str]:
        """Take what the run says of each target; which resources it gave no value, and why."""
        missed = self._missed(result, asked) if result.outcome == "ok" else {}
        plain = result.values if result.outcome == "ok" and not result.not_here else {}
        if isinstance(plain, Numbers):
            plain = plain.as_dict()
        readings = self.table.loosen(result.probe)
        for name, resource in self._targets[result.probe]:
            value = plain.get(resource)
            if value is not None and resource in asked and resource not in missed:
                fields = (result.probe, value, result.started, None, False)
                readings[name] = _reading(Reading, fields)
            elif resource in asked:
                known = readings.get(name)
                reading = self._reading(name, known, result, resource, missed.get(resource))
                if reading is not None:
                    readings[name] = reading
        return missed

    def _missed(self, result: RunResult, asked: Collection[str]) -> dict[str, str]:
        """Why each resource of the probe that has no value in an `ok` run has none."""
        if result.not_here:
            return {}
        refused = {value.name: value.reason for value in result.refused}
        missed = {}
        if not result.missed and len(asked) == len(result.values) == len(self._names[result.probe]):
            return {}  # it gave all that there is
        for name in dict.fromkeys(resource for _, resource in self._targets[result.probe]):
            if name not in asked:
                missed[name] = "this run was not asked for it"
            elif name in result.missed:
                missed[name] = result.missed[name]
            elif name not in result.values:
                missed[name] = refused.get(name, "the output does not give it")
        return missed

    def _reading(
        self, name: str, known: Reading | None, result: RunResult, resource: str, missed: str | None
    ) -> Reading | None:
        """What a run that gave a target no value makes of it; None: what was known stays."""
        started = result.started
        if result.not_here:
            return Reading(result.probe, None, started, result.reason or NOT_HERE)
        if not result.failure and missed is None:
            value = result.values[resource]
            why = result.why.get(resource, SAID_SO) if value is None else None
            return Reading(result.probe, value, started, why)
        reason = missed or result.reason or result.outcome
        rule = self._rules[name]
        if rule.on_failure == "literal":
            return Reading(result.probe, rule.fallback, started, reason, fallback=True)
        if rule.on_failure == "keep" and known is not None and known.value is not None:
            return None
        return Reading(result.probe, None, started, reason)

    def _remember(self, result: RunResult, ended: Ended) -> None:
        refused = tuple((r.name, r.text, r.reason) for r in result.refused)
        before = self._probes.get(result.probe)
        if result.outcome == "skipped" and before is not None:
            self._probes[result.probe] = replace(before, last=ended)
            return
        failures = (before.failures if before else 0) + 1 if result.failure else 0
        self._probes[result.probe] = ProbeState(ended, failures, result.stderr, refused)

    def _why_stale(self, rule: Rule, age: float) -> str:
        probe = self._probes.get(rule.probe)
        if probe is not None and probe.last.reason:
            return f"{probe.last.outcome}: {probe.last.reason}"
        return f"not measured for {format_duration(round(age, 1))}"
