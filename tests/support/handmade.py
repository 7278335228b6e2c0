"""Agents written by hand, for tests of the controller: hellos, reports and what comes back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from dynres.config.definition import digest
from dynres.config.load import load
from dynres.config.model import Configuration
from dynres.controller.core import Core, Output
from dynres.controller.registry import Send
from dynres.value import Value
from dynres.wire.messages import OLDEST, VERSION, Beat, Bye, Echo, Hello, Measured, Report, Run

T = TypeVar("T")


def configured(folder: Path, resources: str, hosts: str | None = None) -> Configuration:
    """The configuration that these files give; without `hosts` there is no hosts.yaml."""
    (folder / "resources.yaml").write_text(resources)
    if hosts is not None:
        (folder / "hosts.yaml").write_text(hosts)
    return load(folder, "controller").configuration


def definitions(configuration: Configuration) -> dict[str, str]:
    """What an agent with the same files declares."""
    return {resource.name: digest(resource) for resource in configuration.resources}


def hello(host: str, session: str = "s1", **keys: Any) -> Hello:
    """A hello of this version."""
    fields: dict[str, Any] = {
        "oldest": OLDEST,
        "newest": VERSION,
        "software": "0.1.0",
        "host": host,
        "machine_id": f"machine of {host}",
        "boot_id": "boot1",
        "session": session,
        "uptime": 12.0,
        "definitions": {},
    }
    return Hello(**(fields | keys))


def measured(resource: str, value: Value | None, age: float = 0.0, **keys: Any) -> Measured:
    """One value of the probe that is named like its resource."""
    keys.setdefault("probe", resource)
    return Measured(resource=resource, value=value, age=age, **keys)


def run(probe: str, age: float = 0.0, outcome: str = "ok", **keys: Any) -> Run:
    """One run that ended."""
    return Run(probe=probe, outcome=outcome, age=age, duration=0.1, **keys)


def report(
    seq: int,
    *values: Measured,
    runs: Sequence[Run] = (),
    full: bool = False,
    echo: Echo | None = None,
) -> Report:
    """One report."""
    return Report(seq=seq, full=full, runs=tuple(runs), values=values, echo=echo)


def sent(outputs: Sequence[Any], kind: type[T], peer: bytes | None = None) -> list[T]:
    """The messages of that kind among what is to be sent (to that peer)."""
    return [
        output.message
        for output in outputs
        if isinstance(output, Send)
        and isinstance(output.message, kind)
        and (peer is None or output.peer == peer)
    ]


class Bench:
    """A core with a clock of the test's own; counts what became of reports."""

    def __init__(self, configuration: Configuration, rule: Any = "listed", now: float = 1000.0):
        self.now = now
        self.counts: list[str] = []
        self.configuration = configuration
        self.core = Core(configuration, rule, now, self.counts.append)

    def hello(self, peer: bytes, host: str, session: str = "s1", **keys: Any) -> list[Output]:
        """An agent with the controller's own files says hello."""
        keys.setdefault("definitions", definitions(self.configuration))
        message = hello(host, session, **keys)
        return self.core.receive(peer, f"address of {peer.decode()}", message, self.now)

    def report(self, peer: bytes, *parts: Any, **keys: Any) -> list[Output]:
        """An agent reports."""
        return self.core.receive(peer, "", report(*parts, **keys), self.now)

    def beat(self, peer: bytes) -> list[Output]:
        """An agent's heartbeat."""
        return self.core.receive(peer, "", Beat(), self.now)

    def bye(self, peer: bytes) -> list[Output]:
        """An agent ends."""
        return self.core.receive(peer, "", Bye(), self.now)

    def wait(self, seconds: float, *beating: bytes) -> list[Output]:
        """Time passes, second by second; those `beating` send their heartbeats."""
        outputs: list[Output] = []
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 1.0)
            for peer in beating:
                outputs += self.beat(peer)
            outputs += self.core.tick(self.now)
        return outputs
