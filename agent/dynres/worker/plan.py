"""Which probes this host runs, for which resources: its own files, then the controllers' word."""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import msgspec

from dynres.config import builtin
from dynres.config.covers import Cover
from dynres.config.definition import digest
from dynres.config.model import Configuration, Entry, Probe, Resource
from dynres.config.names import AmbiguousError, Names
from dynres.wire.targets import instance_of, resource_of, target
from dynres.worker.latest import Rule
from dynres.worker.outcome import RunSpec
from dynres.worker.timetable import Cadence


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and what it gives: probes by name, rules by target."""

    specs: Mapping[str, RunSpec] = field(default_factory=dict)
    cadences: Mapping[str, Cadence] = field(default_factory=dict)
    """Of those that are run again and again."""
    streams: Mapping[str, tuple[RunSpec, object]] = field(default_factory=dict)
    """Those that stay, with what makes each the probe it is."""
    rules: Mapping[str, Rule] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)
    """Targets of which these files do not say by which probe they are measured -> why."""


class Declaration:
    """One valid configuration, seen from one host.

    `host` is how the agent calls itself; `canonical` how its own files spell that host.
    """

    def __init__(self, configuration: Configuration, host: str) -> None:
        self.configuration = configuration
        self.host = host
        self.canonical = _canonical(configuration, host)
        self.definitions = {r.name: digest(r) for r in configuration.resources}
        self._dynamic = {r.name: r for r in configuration.resources if r.dynamic}
        self._feeds = Counter(r.probe for r in self._dynamic.values())
        self._probes = {p.name: p for p in configuration.probes}
        self._covers = {name: Cover(resource) for name, resource in self._dynamic.items()}
        self._worker = all(h.worker for h in configuration.hosts if h.name == self.canonical)

    def own_measure(self) -> frozenset[str]:
        """What this host measures by its own files, until a controller has spoken.

        A group that they cannot resolve means: not yet. A shared resource is measured by one
        agent at a time, so the controller says by whom.
        """
        if not self._worker:
            return frozenset()
        return frozenset(
            name
            for name, resource in self._dynamic.items()
            if not resource.shared and self._covers[name].index_for(self.canonical) is not None
        )

    def allowed(self, wanted: Set[str]) -> frozenset[str]:
        """Of the targets that controllers want measured, those that these files declare dynamic."""
        return frozenset(name for name in wanted if self._declares(name))

    def _declares(self, name: str) -> bool:
        resource = self._dynamic.get(resource_of(name))
        return resource is not None and resource.shared == (instance_of(name) is not None)

    def shared(self, measured: Set[str]) -> tuple[str, ...]:
        """Which of these targets are instances of shared resources, declared here."""
        return tuple(sorted(n for n in self.allowed(measured) if instance_of(n) is not None))

    def plan(self, measured: Set[str]) -> Plan:
        """The probes that give the targets `measured`, each asked for their resources only."""
        wanted: dict[str, list[str | None]] = {}
        for name in sorted(measured):
            wanted.setdefault(resource_of(name), []).append(instance_of(name))
        fed: dict[str, dict[str, Resource]] = {}
        probes: dict[str, Probe] = {}
        rules: dict[str, Rule] = {}
        untold: dict[str, str] = {}
        for resource in self._dynamic.values():
            for instance in wanted.get(resource.name, ()):
                name = target(resource.name, instance)
                try:
                    probe = self._probe_of(resource, instance)
                except LookupError as error:
                    untold[name] = str(error)
                    rules[name] = Rule.of(resource, name)
                    continue
                if probe is not None:
                    probes[probe.name] = probe
                    fed.setdefault(probe.name, {})[resource.name] = resource
                    rules[name] = Rule.of(resource, probe.name)
        specs = {name: self._spec(probe, [*fed[name].values()]) for name, probe in probes.items()}
        streams = {
            name: (spec, (*_meaning(spec), spec.interval, spec.ttl))
            for name, spec in specs.items()
            if spec.probe.mode == "stream"
        }
        cadences = {name: _cadence(spec) for name, spec in specs.items() if name not in streams}
        return Plan(specs, cadences, streams, rules, untold)

    def _probe_of(self, resource: Resource, instance: str | None) -> Probe | None:
        """The resource's probe, or that of the entry; LookupError: these files do not say which.

        The entry is the one that covers this host, or the one that makes the instance. Its probe
        has a name and runs of its own: it measures something else than those of other entries.
        """
        if instance is None:
            entry = self._covers[resource.name].entry_for(self.canonical)
        else:
            entry = _entry_of(resource, instance)
        if entry is None or entry.probe is None:
            return self._probes.get(resource.probe or "")
        if instance is None:
            return entry.probe
        name = target(entry.probe.name, instance)
        return msgspec.structs.replace(entry.probe, name=name)

    def _spec(self, probe: Probe, resources: list[Resource]) -> RunSpec:
        agent = self.configuration.agent
        return RunSpec(
            probe=probe,
            resources={r.name: r.type for r in resources},
            amounts=frozenset(r.name for r in resources if r.leasable),
            units={r.name: r.unit for r in resources if r.unit is not None},
            shared=any(r.shared for r in resources),
            interval=min(r.interval for r in resources if r.interval is not None),
            ttl=min((r.ttl for r in resources if r.ttl is not None), default=float("inf")),
            several=self._feeds[probe.name] > 1,
            host=self.host,
            path=agent.path,
            trusted_owners=agent.trusted_owners,
            default_user=agent.user,
        )


def _entry_of(resource: Resource, instance: str) -> Entry | None:
    """The entry that makes the instance, or any other where it makes no difference.

    Without hosts.yaml a group is not resolved, so an id made of its hosts is not known here: then
    the entry without a name that has such a group is meant. LookupError: there are several.
    """
    for entry in resource.entries:
        known = entry.instance or entry.name or (len(resource.entries) == 1 and resource.name)
        if known == instance:
            return entry
    if not any(entry.probe for entry in resource.entries):
        return None
    meant = [e for e in resource.entries if e.name is None and e.location.unresolved]
    if len(meant) == 1:
        return meant[0]
    raise LookupError(
        f"this host's files do not say which entry of {resource.name} is {instance}: "
        "give each entry a name, on both sides"
    )


def _cadence(spec: RunSpec) -> Cadence:
    probe = spec.probe
    return Cadence(
        interval=spec.interval,
        retry=probe.retry,
        recheck=probe.recheck,
        at_once=probe.plugin == builtin.PLUGIN,
        definition=_meaning(spec),
    )


def _meaning(spec: RunSpec) -> tuple[object, ...]:
    """What makes a probe another one: all but where in the file it stands and how often it runs."""
    probe = spec.probe
    what = tuple(
        getattr(probe, name)
        for name in probe.__struct_fields__
        if name not in {"place", "retry", "recheck"}
    )
    own = (spec.resources, spec.several, spec.units, spec.amounts, spec.shared, spec.host)
    rest = (*own, spec.path, spec.trusted_owners, spec.default_user)
    return (*what, *rest)


def _canonical(configuration: Configuration, host: str) -> str:
    """How the files spell this host; `host` itself where they do not name it."""
    try:
        return Names(h.name for h in configuration.hosts).canonical(host) or host
    except AmbiguousError:
        return host
