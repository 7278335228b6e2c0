"""Makes the frozen resources of those that files declare, with every fault of each."""

from dataclasses import dataclass
from typing import Any

from dynres.config import builtin, schema
from dynres.config.consistency import check_overlaps
from dynres.config.entries import Scope, build_entry, read_typed
from dynres.config.findings import Findings
from dynres.config.instances import named_instances
from dynres.config.model import Entry, Probe, Resource
from dynres.config.near import nearest, several
from dynres.config.probes import build_probe, check_interval, timeout_of
from dynres.config.rules import check_rules, check_ttl, order_of, per_of
from dynres.config.scalars import Items, Map, Node
from dynres.config.shape import validate
from dynres.value import ValueType


@dataclass(frozen=True)
class DeclaredResource:
    """One item of `resources:` whose shape is right."""

    shape: schema.Resource
    node: Map


@dataclass(frozen=True)
class DeclaredProbe:
    """One item of `probes:` whose shape is right."""

    shape: schema.NamedProbe
    node: Map


class ResourceReader:
    """Reads one resource after another; keeps the inline probes and who uses which named one."""

    def __init__(self, probes: dict[str, DeclaredProbe | None], scope: Scope) -> None:
        """`probes`: the named ones, None where the shape is wrong."""
        self.named = probes
        self.scope = scope
        self.inline: list[Probe] = []
        self.users: dict[str, list[tuple[str, float]]] = {}
        """By named probe: the resources that it feeds, with their intervals."""

    def note_uses(self, declared: DeclaredResource) -> None:
        """Count the resource among those that its named probe feeds."""
        shape = declared.shape
        if isinstance(shape.probe, str) and shape.interval is not None:
            users = self.users.setdefault(shape.probe.text, [])
            users.append((shape.name.text, shape.interval))

    def read(self, declared: DeclaredResource) -> Resource:
        """The resource; call `note_uses` for all before the first."""
        shape, node = declared.shape, declared.node
        findings = self.scope.findings
        check_rules(shape, node, findings)
        _check_override(shape, node, findings)
        probe, timeout = self._probe(shape, node)
        kind: Any = shape.type
        failure, fallback = _on_failure(shape, kind, findings)
        entries, slowest = self._entries(shape, node, timeout)
        if {"shared", "global"} & set(shape.flags):
            entries = named_instances(shape.name.text, entries)
        made = Resource(
            name=shape.name.text,
            description=shape.description,
            type=kind,
            order=order_of(shape),  # type: ignore[arg-type]
            unit=shape.unit,
            flags=frozenset(shape.flags),  # type: ignore[arg-type]
            interval=shape.interval,
            ttl=check_ttl(shape, node, slowest, findings),
            on_failure=failure,
            fallback=fallback,
            probe=probe,
            measures=shape.measures,  # type: ignore[arg-type]
            settle=shape.settle,
            per=per_of(shape),  # type: ignore[arg-type]
            entries=entries,
            place=node.place,
        )
        findings.add(check_overlaps(made.name, entries, self.scope.context.names))
        if not entries and made.name not in self.scope.given:
            _warn_unmapped(made, findings)
        return made

    def _probe(self, shape: schema.Resource, node: Map) -> tuple[str | None, float]:
        """Name and timeout of the resource's probe; an inline one is made."""
        if shape.probe is None or shape.interval is None:
            return None, 0.0
        owner, findings = f"resource {shape.name}", self.scope.findings
        inline = node["probe"]
        if isinstance(shape.probe, schema.Probe) and isinstance(inline, Map):
            name = shape.name.text
            made = build_probe(
                shape.probe, inline, name, interval=shape.interval, feeds=[name], findings=findings
            )
            check_interval(shape.probe, shape.interval, node.place_of("interval"), owner, findings)
            if name in self.named:
                other = self.named[name]
                where = other.node.place if other else "probes:"
                findings.fault(
                    inline.place,
                    f"{owner}: its probe is named {name} too",
                    "each probe name once",
                    f"another one at {where}",
                    "rename the other, or name it here",
                )
            self.inline.append(made)
            return name, made.timeout
        return self._named_probe(shape, node, owner)

    def _named_probe(
        self, shape: schema.Resource, node: Map, owner: str
    ) -> tuple[str | None, float]:
        assert isinstance(shape.probe, str)
        assert shape.interval is not None
        name, findings = shape.probe.text, self.scope.findings
        if name == builtin.PROBE and shape.name in builtin.NAMES:
            return name, builtin.TIMEOUT
        if name not in self.named:
            known = several(self.named) or "no probes are declared"
            hint = (
                findings.near.hint(name, self.named) or f"for a plugin: probe: {{plugin: {name}}}"
            )
            place = shape.probe.place
            findings.fault(place, f"{owner}: probe", f"a name under probes: ({known})", name, hint)
            return None, 0.0
        declared = self.named[name]
        if declared is None:
            return name, 0.0
        check_interval(declared.shape, shape.interval, node.place_of("interval"), owner, findings)
        shortest = min(interval for _, interval in self.users[name])
        return name, timeout_of(declared.shape, shortest)

    def _entries(
        self, shape: schema.Resource, node: Map, timeout: float
    ) -> tuple[tuple[Entry, ...], float]:
        """The entries, and the longest timeout among the probe and theirs."""
        nodes = node.get("resourcemap")
        made: list[Entry] = []
        for entry, below in zip(
            shape.resourcemap or (), nodes if isinstance(nodes, Items) else (), strict=True
        ):
            if isinstance(below, Map):
                probe = self._entry_probe(entry, below, shape, node)
                timeout = max(timeout, probe.timeout if probe else 0.0)
                made.append(build_entry(entry, below, shape, probe, self.scope))
        return tuple(made), timeout

    def _entry_probe(
        self, entry: schema.Entry, below: Map, shape: schema.Resource, node: Map
    ) -> Probe | None:
        """The resource's inline probe with this entry's settings laid over it."""
        own, base = below.get("probe"), node.get("probe")
        if entry.probe is None or not isinstance(own, Map):
            return None
        owner, findings = f"resource {shape.name}", self.scope.findings
        if shape.interval is None or not isinstance(base, Map):
            findings.fault(
                own.place,
                f"{owner}: probe of one entry",
                "a probe written in the resource itself, which this one changes",
                "none" if base is None else "the name of one",
            )
            return None
        merged = _overlay(base, own)
        whole = validate(schema.Probe, merged, f"probe {shape.name}", findings)
        if whole is None:
            return None
        name = shape.name.text
        return build_probe(
            whole, merged, name, interval=shape.interval, feeds=[name], findings=findings
        )


def _overlay(base: Map, over: Map) -> Map:
    made = Map(over.place)
    made.update(base)
    for key, value in over.items():
        below: Node | None = base.get(key)
        both = key in {"options", "env"} and isinstance(below, Map) and isinstance(value, Map)
        made[key] = _overlay(below, value) if both else value  # type: ignore[arg-type]
    return made


def _check_override(shape: schema.Resource, node: Map, findings: Findings) -> None:
    name = shape.name.text
    if name in builtin.NAMES and not shape.override:
        findings.fault(
            shape.name.place,
            f"resource {name}",
            "another name: this is a built-in load index",
            name,
            "override: true redefines it",
        )
    elif shape.override and name not in builtin.NAMES:
        hint = nearest(name, builtin.NAMES) or "leave it out"
        expected = "a built-in load index: " + ", ".join(r.name for r in builtin.resources())
        findings.fault(
            node.place_of("override"), f"resource {name}: override", expected, name, hint
        )


def _on_failure(shape: schema.Resource, kind: ValueType, findings: Findings) -> tuple[Any, Any]:
    """`on_failure` and its literal. For a string resource the two words keep their meaning."""
    word = shape.on_failure
    if word is None or (word.text == "keep"):
        return "keep", None
    if word.text == "unavailable":
        return "unavailable", None
    what = f"resource {shape.name}: on_failure"
    before = len(findings.faults)
    value = read_typed(word, kind, what, findings, shape.unit)
    if len(findings.faults) > before:
        fault = findings.faults.pop()
        findings.fault(
            fault.place,
            what,
            f"keep, unavailable or a {kind} value",
            fault.got,
            nearest(word.text, ("keep", "unavailable")),
        )
    return "literal", value


def _warn_unmapped(resource: Resource, findings: Findings) -> None:
    what = f"resource {resource.name}: no host has it"
    findings.warn(resource.place, what, "add a resourcemap")
