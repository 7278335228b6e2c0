"""The frozen types that a valid configuration folder becomes.

They are msgspec structs so that the short-lived process which reads the YAML can hand them to
the long-lived agent as bytes. Times are seconds, sizes bytes, amounts exact decimals.
"""

from decimal import Decimal
from typing import Any, Literal

import msgspec

from dynres.value import Order, Value, ValueType

Flag = Literal["shared", "global", "consumable", "release", "per_host"]
Measures = Literal["total", "free", "external"]
Per = Literal["job", "host", "slot"]
Registration = Literal["listed", "keyed", "open"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all configuration types."""


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Location(Struct, frozen=True, kw_only=True):
    """The folded terms of one `location:`, independent of their order.

    Covers: `hosts`; every worker host when `everyone` (`all`); every worker host that no other
    entry of the resource covers when `rest` (`default`, `others`), both without `minus` (which has
    been taken from `hosts` already).
    """

    hosts: tuple[str, ...] = ()
    everyone: bool = False
    rest: bool = False
    minus: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    """Groups that an agent without hosts.yaml cannot resolve: not yet, until the welcome."""


class Probe(Struct, frozen=True, kw_only=True):
    """How values are measured: an external command, a Python plugin, or a file that is read."""

    name: str
    command: tuple[str, ...] = ()
    plugin: str | None = None
    file: str | None = None
    options: dict[str, Any] = {}
    timeout: float
    format: str | None = None
    mode: Literal["once", "stream"] = "once"
    map: dict[str, str] = {}
    env: dict[str, str] = {}
    user: str | None = None
    cwd: str = "/"
    retry: float | None = None
    recheck: float = 600.0
    output_limit: int = 64 * 1024
    memory: int | None = None
    cpu: float | None = None
    processes: int | None = None
    nice: int = 0
    allow_unsafe: bool = False
    place: Place


class Entry(Struct, frozen=True, kw_only=True):
    """One entry of a `resourcemap`: an instance, or a value replicated to each host."""

    name: str | None = None
    location: Location
    value: Value | None = None
    """The declared static value; None for a dynamic resource."""
    capacity: Decimal | None = None
    reserve: Decimal | None = None
    """An amount that is never leased; see `reserve_percent`."""
    reserve_percent: Decimal | None = None
    reporters: tuple[str, ...] = ()
    """Shared dynamic only: who may measure, in order of preference; empty: the location's."""
    probe: Probe | None = None
    """The probe of this instance where its options differ from the resource's."""
    instance: str | None = None
    """Id of the instance that it makes, of a shared resource."""
    place: Place


class Resource(Struct, frozen=True, kw_only=True):
    """A declared resource."""

    name: str
    description: str = ""
    type: ValueType = "numeric"
    order: Order = "none"
    unit: str | None = None
    flags: frozenset[Flag] = frozenset()
    interval: float | None = None
    """Seconds between measurements; None makes the resource static."""
    ttl: float | None = None
    on_failure: Literal["keep", "unavailable", "literal"] = "keep"
    fallback: Value | None = None
    """The value that `on_failure: <literal>` names."""
    probe: str | None = None
    """Name of the probe that feeds it."""
    measures: Measures | None = None
    settle: float | None = None
    per: Per = "host"
    entries: tuple[Entry, ...] = ()
    builtin: bool = False
    """A built-in load index that no file redefines."""
    place: Place

    @property
    def dynamic(self) -> bool:
        """Whether a probe measures it."""
        return self.interval is not None

    @property
    def shared(self) -> bool:
        """Whether one instance serves several hosts (`shared` or `global`)."""
        return bool(self.flags & {"shared", "global"})

    @property
    def leasable(self) -> bool:
        """Whether jobs can hold amounts of it."""
        return (
            self.type == "numeric"
            and self.order == "decreasing"
            and bool(self.flags & {"shared", "global", "consumable"})
        )


class HostValue(Struct, frozen=True, kw_only=True):
    """A value that `hosts.yaml` gives to one host."""

    resource: str
    value: Value
    place: Place


class Host(Struct, frozen=True, kw_only=True):
    """A host named in `hosts.yaml`, or declared by naming it where there is none."""

    name: str
    worker: bool = True
    values: tuple[HostValue, ...] = ()
    place: Place


class AgentSettings(Struct, frozen=True, kw_only=True):
    """`agent.yaml`."""

    host: str | None = None
    controllers: tuple[str, ...] = ("tcp://127.0.0.1:5750",)
    metrics: str | None = "127.0.0.1:9750"
    """ADDR:PORT of the metrics page; None: no page."""
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    trusted_owners: tuple[str, ...] = ()
    max_running: int | None = None
    """Probe runs at once; None: 2 x CPUs."""
    user: str | None = None
    """User of probes that name none; None: the agent's own, unless that is root."""
    log_level: str = "info"


class ControllerSettings(Struct, frozen=True, kw_only=True):
    """`controller.yaml`."""

    listen: str = "127.0.0.1"
    """Address; agents connect to port 5750 there, clients to 5751, the feed is at 5752."""
    agent_port: int = 5750
    client_port: int = 5751
    feed_port: int = 5752
    metrics: str | None = "0.0.0.0:9751"
    per_host_metrics: bool = False
    state: str = "/var/lib/dynres"
    registration: Registration | None = None
    """None: `listed` where there is a hosts.yaml, else `open` (allowed only on loopback)."""
    forget_after: float = 7 * 86400.0
    fair_after: float = 300.0
    """Seconds after which nobody takes what the oldest waiter is short of."""
    log_level: str = "info"


class Configuration(Struct, frozen=True, kw_only=True):
    """A whole valid folder."""

    resources: tuple[Resource, ...]
    """Declared ones in file order, then the built-in load indices that no file redefines."""
    probes: tuple[Probe, ...]
    hosts: tuple[Host, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}
    listed: bool = False
    """Whether there is a hosts.yaml."""
    agent: AgentSettings = AgentSettings()
    controller: ControllerSettings = ControllerSettings()

    def resource(self, name: str) -> Resource | None:
        """The resource of that name."""
        return next((r for r in self.resources if r.name == name), None)

    def probe(self, name: str) -> Probe | None:
        """The probe of that name."""
        return next((p for p in self.probes if p.name == name), None)
