"""The keys of every file, with their types: the shape that validation and JSON Schema share."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from dynres.config.scalars import Map, Scalar
from dynres.config.types import (
    AbsolutePath,
    Amount,
    Argument,
    Boolean,
    Duration,
    Endpoint,
    HostName,
    Label,
    Line,
    ListenAddress,
    Name,
    Page,
    ProbeName,
    Prose,
    Reserve,
    SearchPath,
    Size,
    Term,
    Word,
    choice,
    whole,
)

INLINE = "(inline)"
NAMED = "(named)"
PARTS = frozenset({INLINE, NAMED})
"""Tags of unions: parts of an error's path that are not in the file."""


class Shape(BaseModel):
    """Base of all: an unknown key is an error; a value is read from text as written."""

    model_config = ConfigDict(extra="forbid", defer_build=True, hide_input_in_errors=True)


def _one_or_many(node: Any) -> str:
    return INLINE if isinstance(node, Map | list) else NAMED


class Probe(Shape):
    """How values are measured: `command`, `plugin` or `file`, exactly one of them."""

    command: list[Argument] | None = Field(None, description="Program and arguments; no shell.")
    plugin: Line | None = Field(None, description="Name of a Python plugin.")
    file: AbsolutePath | None = Field(None, description="Absolute path of a file that is read.")
    options: Annotated[
        Any, WithJsonSchema({"type": "object", "description": "Settings of the plugin."})
    ] = None
    timeout: Duration | None = Field(None, description="Default: min(interval, 10s).")
    format: Word | None = Field(
        None,
        description="value | lines | json | elim | load_sensor | startd_cron | pbs | nagios | "
        "prometheus. Default: by the number of resources.",
    )
    mode: Annotated[str, choice("once", "stream")] | None = Field(
        None, description="once | stream: the process stays. Default: by the format."
    )
    map: dict[Line, Name] | None = Field(None, description="What the probe says -> resource.")
    env: dict[Line, Argument] | None = Field(None, description="Environment variables to add.")
    user: Line | None = Field(None, description="User that the probe runs as.")
    cwd: AbsolutePath | None = Field(None, description="Working folder, absolute. Default /.")
    retry: Duration | None = Field(None, description="Next try after a failure.")
    recheck: Duration | None = Field(None, description="Asked again after NOT_HERE. Default 10m.")
    output_limit: Size | None = Field(None, description="Bytes of output. Default 64KiB.")
    memory: Size | None = Field(None, description="Address space per process.")
    cpu: Duration | None = Field(None, description="CPU time per process.")
    processes: Annotated[int, whole(1, 100_000)] | None = Field(None, description="Tasks at once.")
    nice: Annotated[int, whole(-20, 19)] | None = Field(None, description="Default 0.")
    allow_unsafe: Boolean = Field(False, description="Run it whoever may write it.")


class NamedProbe(Probe):
    """A probe that several resources may name."""

    name: Name = Field(description="A letter, then letters, digits, _.")


class Entry(Shape):
    """One entry of a resourcemap."""

    name: Name | None = Field(None, description="Name of this instance.")
    location: list[Term] | None = Field(None, description="Hosts, @groups, all, default, others.")
    value: Word | None = Field(None, description="The static value.")
    capacity: Amount | None = Field(None, description="Upper bound of a measured amount.")
    reserve: Reserve | None = Field(None, description="Never leased: an amount or a share.")
    reporter: list[Term] | None = Field(None, description="Hosts that may measure a pool.")
    probe: Probe | None = Field(None, description="Probe settings that differ here.")


class Resource(Shape):
    """A declared resource."""

    name: Name = Field(description="A letter, then letters, digits, _; at most 64.")
    description: Prose = Field("", description="For people.")
    type: Annotated[str, choice("numeric", "boolean", "string")] = "numeric"
    order: Annotated[str, choice("decreasing", "increasing", "none")] | None = Field(
        None, description="decreasing: more is freer; increasing: more is busier."
    )
    unit: Label | None = Field(None, description="Such as GB, min or a label.")
    flags: list[Annotated[str, choice("shared", "global", "consumable", "release", "per_host")]] = (
        Field([], description="What kind of resource it is.")
    )
    interval: Duration | None = Field(None, description="Makes it dynamic; needs a probe.")
    ttl: Duration | None = Field(None, description="Default: max(3 x interval, interval+timeout).")
    on_failure: Word | None = Field(None, description="keep | unavailable | a value.")
    probe: (
        Annotated[
            Annotated[ProbeName, Tag(NAMED)] | Annotated[Probe, Tag(INLINE)],
            Discriminator(_one_or_many),
        ]
        | None
    ) = Field(None, description="A probe, or the name of one under probes.")
    measures: Annotated[str, choice("total", "free", "external")] | None = Field(
        None, description="What the probe of a leasable resource measures."
    )
    settle: Duration | None = Field(None, description="With measures: free.")
    per: Annotated[str, choice("job", "host", "slot")] | None = Field(
        None, description="What is charged once."
    )
    override: Boolean = Field(False, description="Redefines a built-in load index.")
    resourcemap: list[Entry] | None = Field(None, description="Where it is, and how much.")


class Resources(Shape):
    """resources.yaml and resources.d/*.yaml."""

    resources: list[Resource] = Field([], description="The resources.")
    probes: list[NamedProbe] = Field([], description="Probes that feed several resources.")


class HostValue(Shape):
    """A value of one host."""

    name: Name = Field(description="A static per-host resource.")
    value: Word = Field(description="Its value on this host.")


class Host(Shape):
    """One host, or a range of hosts."""

    name: Term = Field(description="A host name, or a range such as node[001-128].")
    worker: Boolean = Field(True, description="false: known, but in no mapping.")
    resource: list[HostValue] | None = Field(None, description="Values of this host alone.")


class Hosts(Shape):
    """hosts.yaml."""

    groups: dict[Term, list[Term]] = Field({}, description="Groups, for @NAME in a location.")
    hosts: list[Host] = Field([], description="Every host that may be named.")


class Agent(Shape):
    """agent.yaml."""

    host: HostName | None = Field(None, description="Name of this host. Default: its host name.")
    controller: (
        Annotated[
            Annotated[Endpoint, Tag(NAMED)] | Annotated[list[Endpoint], Tag(INLINE)],
            Discriminator(_one_or_many),
        ]
        | None
    ) = Field(None, description="Where the controller listens; one or several.")
    metrics: Page | None = Field(None, description="ADDR:PORT of the metrics page, or off.")
    path: SearchPath | None = Field(None, description="PATH in which commands are looked up.")
    trusted_owners: list[Line] = Field([], description="Users whose programs may be run.")
    max_running: Annotated[int, whole(1, 10_000)] | None = Field(
        None, description="Probe runs at once. Default: 2 x CPUs."
    )
    user: Line | None = Field(None, description="User of probes that name none.")
    log_level: Annotated[str, choice("debug", "info", "warning", "error")] = "info"


class Metrics(Shape):
    """The metrics page of the controller."""

    listen: Page | None = Field(None, description="ADDR:PORT, or off.")
    per_host: Boolean = Field(False, description="Also a series for each host's values.")


class Controller(Shape):
    """controller.yaml."""

    listen: ListenAddress | None = Field(None, description="Address to listen on.")
    agent_port: Annotated[int, whole(0, 65_535)] | None = Field(None, description="5750.")
    client_port: Annotated[int, whole(0, 65_535)] | None = Field(None, description="5751.")
    feed_port: Annotated[int, whole(0, 65_535)] | None = Field(None, description="5752.")
    metrics: Metrics | None = Field(None, description="The metrics page.")
    state: AbsolutePath | None = Field(None, description="Folder for what must survive a restart.")
    registration: Annotated[str, choice("listed", "keyed", "open")] | None = Field(
        None, description="Who may register."
    )
    forget_after: Duration | None = Field(None, description="Unlisted and unreachable. 7d.")
    fair_after: Duration | None = Field(None, description="Then the oldest waiter is first. 5m.")
    log_level: Annotated[str, choice("debug", "info", "warning", "error")] = "info"


def text(scalar: Scalar | None) -> str | None:
    """A scalar as plain text."""
    return None if scalar is None else scalar.text
