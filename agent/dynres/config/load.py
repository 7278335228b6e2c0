"""Reads a configuration folder: every fault at once, or frozen types that hold together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from dynres.config import builtin, schema
from dynres.config.consistency import check_host_values
from dynres.config.context import Context
from dynres.config.damaged import check_damaged, declare_hosts
from dynres.config.entries import Scope
from dynres.config.faults import ConfigError
from dynres.config.findings import Findings, in_order
from dynres.config.folder import Folder
from dynres.config.hostfile import HostFile
from dynres.config.hostrows import read_host_file
from dynres.config.model import Configuration, Host, Place, Probe, Resource
from dynres.config.near import closest, nearest
from dynres.config.probes import build_probe
from dynres.config.resources import DeclaredProbe, DeclaredResource, ResourceReader
from dynres.config.result import Loaded
from dynres.config.scalars import Document, Items, Map, Node, Scalar
from dynres.config.settings import read_agent, read_controller
from dynres.config.shape import mapping, validate
from dynres.config.types import describe, short
from dynres.value import is_name

__all__ = ["Loaded", "Role", "default_role", "load"]

Role = Literal["agent", "controller"]


def load(folder: Path, role: Role, *, everything: bool = False) -> Loaded:
    """Read the folder as `role` does: resources, hosts, and the role's own settings.

    `everything` reads the settings of the other role as well. Raises ConfigError with all faults,
    in file order; nothing else is raised for whatever the files hold.
    """
    files = Folder(folder)
    if not files.usable():
        raise ConfigError(files.faults)
    return _Loader(files, role).load(everything=everything)


def default_role(folder: Path) -> Role:
    """The role that a folder is for: an agent's where it has agent.yaml and no controller files."""
    try:
        alone = not any((folder / name).exists() for name in ("hosts.yaml", "controller.yaml"))
        return "agent" if alone and (folder / "agent.yaml").exists() else "controller"
    except OSError:  # load() will say what cannot be read
        return "controller"


class _Loader:
    def __init__(self, files: Folder, role: Role) -> None:
        self.files = files
        self.role: Role = role
        self.findings = Findings()
        self.resources: dict[str, DeclaredResource | None] = {}
        self.probes: dict[str, DeclaredProbe | None] = {}
        self.places: dict[tuple[str, str], Node] = {}
        self.hosts: tuple[Host, ...] = ()
        self.named = True
        """Every item could be told by its name."""
        self.damaged: list[Map] = []
        """Resources whose shape is wrong."""
        self.whole = True
        """Every item had a name and the right shape: then what nothing uses can be told."""

    def load(self, *, everything: bool) -> Loaded:
        for document in self.files.resources():
            self._declare(document)
        complete = self.named and not self.files.faults
        hosts = self.files.read("hosts.yaml")
        listed = "hosts.yaml" in self.files.present
        hostfile: HostFile | None = None
        if hosts:
            hostfile = read_host_file(hosts, self.resources, self.findings, complete=complete)
        # A hosts.yaml that cannot be read has its fault: what its groups are nobody can tell.
        context = Context(hostfile, "agent" if listed and hosts is None else self.role)
        rows = hostfile.hosts if hostfile else ()
        given = frozenset(value.resource for host in rows for value in host.values)
        made, probes = self._build(Scope(context, self.findings, given))
        agent = controller = None
        if everything or self.role == "agent":
            agent = self.files.read("agent.yaml")
        if everything or self.role == "controller":
            controller = self.files.read("controller.yaml")
        settings = read_agent(agent, self.findings)
        serving = read_controller(controller, self.findings, listed=listed)
        faults = self.files.faults + self.findings.faults
        if faults:
            raise ConfigError(in_order(faults))
        configuration = Configuration(
            resources=(*made, *self._builtins()),
            probes=(*probes, builtin.probe()),
            hosts=self.hosts,
            groups=hostfile.groups if hostfile else {},
            listed=listed,
            agent=settings,
            controller=serving,
        )
        return Loaded(configuration=configuration, warnings=in_order(self.findings.warnings))

    def _declare(self, document: Document) -> None:
        """Take the resources and probes of one file whose shape is right."""
        if document.root is None:
            what = f"{document.file} declares nothing"
            place, hint = Place(document.file, 1, 1), "resources: [] declares none"
            self.findings.fault(place, what, "resources: or probes:", "comments only", hint)
        root = mapping(document.root, document.file, self.findings)
        if root is None:
            self.whole = self.named = False
            return
        self._check_keys(root, document.file)
        for item, name in self._items(root, "resources", "resource"):
            shape = validate(schema.Resource, item, f"resource {shown(name)}", self.findings)
            node = item if isinstance(item, Map) else None
            self.whole &= shape is not None
            if shape is None and node is not None:
                self.damaged.append(node)
            if self._is_new("resource", name, item) and name is not None:
                right = shape is not None and node is not None
                self.resources[name] = DeclaredResource(shape, node) if right else None  # type: ignore[arg-type]
        for item, name in self._items(root, "probes", "probe"):
            probe = validate(schema.NamedProbe, item, f"probe {shown(name)}", self.findings)
            node = item if isinstance(item, Map) else None
            self.whole &= probe is not None
            if self._is_new("probe", name, item) and name is not None:
                right = probe is not None and node is not None
                self.probes[name] = DeclaredProbe(probe, node) if right else None  # type: ignore[arg-type]

    def _check_keys(self, root: Map, file: str) -> None:
        known = ("resources", "probes")
        for key in list(root):
            if key not in known and isinstance(key, Scalar):
                what = f"unknown key {key.text!r}"
                expected = "one of " + ", ".join(known)
                self.findings.fault(key.place, what, expected, key.text, nearest(key, known))
                root.mend(key.text, closest(key, known))
        if not any(key in root for key in known):
            self.findings.fault(root.place, f"{file} declares nothing", "resources: or probes:")

    def _items(self, root: Map, key: str, kind: str) -> Iterator[tuple[Node, str | None]]:
        """Each item of a list with the name that it gives itself."""
        items = root.get(key)
        if items is not None and not isinstance(items, Items):
            self.whole = self.named = False
            hint = f"each {kind} as an item: - name: …"
            self.findings.fault(items.place, key, "a list", describe(items), hint)
            return
        for item in items or ():
            if self.findings.full:
                return
            name = item.get("name") if isinstance(item, Map) else None
            yield item, name.text if isinstance(name, Scalar) else None

    def _is_new(self, kind: str, name: str | None, item: Node) -> bool:
        """Whether the name is not taken; a fault with both places when it is."""
        if name is None:
            self.whole = self.named = False
            return False
        place = item.place_of("name") if isinstance(item, Map) else item.place
        first = self.places.setdefault((kind, name), item)
        if first is not item:
            other = first.place_of("name") if isinstance(first, Map) else first.place
            got = f"another; the first is at {other}"
            self.findings.fault(place, f"{kind} {shown(name)}", "each name once", got, "rename one")
        return first is item

    def _build(self, scope: Scope) -> tuple[list[Resource], list[Probe]]:
        right = [declared for declared in self.resources.values() if declared is not None]
        reader = ResourceReader(self.probes, scope)
        for declared in right:
            reader.note_uses(declared)
            for entry in declared.shape.resourcemap or ():
                scope.context.declare(entry.location)
                scope.context.declare(entry.reporter)
        for node in self.damaged:
            declare_hosts(node, scope)
        self.hosts = scope.context.hosts()
        for node in self.damaged:
            check_damaged(node, scope)
        made = [reader.read(declared) for declared in right]
        self.findings.add(check_host_values(made, self.hosts, scope.spelled))
        return made, [*self._named_probes(reader), *reader.inline]

    def _named_probes(self, reader: ResourceReader) -> Iterator[Probe]:
        for name, declared in self.probes.items():
            if declared is None:
                continue
            users = reader.users.get(name, [])
            if not users and self.whole:
                self.findings.warn(declared.node.place, f"probe {name}: nothing uses it")
            yield build_probe(
                declared.shape,
                declared.node,
                name,
                interval=min((interval for _, interval in users), default=None),
                feeds=[resource for resource, _ in users],
                findings=self.findings,
            )

    def _builtins(self) -> Iterator[Resource]:
        return (index for index in builtin.resources() if index.name not in self.resources)


def shown(name: str | None) -> str:
    """A name for messages: one that is none in quotes, `?` for one that is missing."""
    if name is None:
        return "?"
    return name if is_name(name) else short(name)
