"""Makes the settings of agent.yaml and controller.yaml, each address and name checked."""

import ipaddress
from typing import Any

from dynres.config import schema
from dynres.config.findings import Findings
from dynres.config.model import AgentSettings, ControllerSettings
from dynres.config.scalars import Document, Map
from dynres.config.shape import mapping, validate


def read_agent(document: Document | None, findings: Findings) -> AgentSettings:
    """agent.yaml; without it, or with comments only, the defaults."""
    if document is None or document.root is None:
        return AgentSettings()
    node = mapping(document.root, "agent.yaml", findings)
    shape = validate(schema.Agent, node, "agent", findings) if node is not None else None
    if node is None or shape is None:
        return AgentSettings()
    given: dict[str, Any] = {}
    if shape.controller is not None:
        many = isinstance(shape.controller, list)
        given["controllers"] = tuple(shape.controller) if many else (str(shape.controller),)
        if not given["controllers"]:
            place = node.place_of("controller")
            findings.fault(place, "agent: controller", "at least one endpoint", "an empty list")
    if shape.metrics is not None:
        given["metrics"] = shape.metrics or None
    if shape.path is not None:
        given["path"] = shape.path
    return AgentSettings(
        host=schema.text(shape.host),
        trusted_owners=tuple(shape.trusted_owners),
        max_running=shape.max_running,
        user=shape.user,
        log_level=shape.log_level,
        **given,
    )


def read_controller(
    document: Document | None, findings: Findings, *, listed: bool
) -> ControllerSettings:
    """controller.yaml; `listed`: whether there is a hosts.yaml."""
    if document is None or document.root is None:
        return ControllerSettings()
    node = mapping(document.root, "controller.yaml", findings)
    shape = validate(schema.Controller, node, "controller", findings) if node is not None else None
    if node is None or shape is None:
        return ControllerSettings()
    given: dict[str, Any] = {"log_level": shape.log_level}
    for key in (
        *("agent_port", "client_port", "feed_port"),
        *("state", "forget_after", "fair_after", "registration"),
    ):
        if getattr(shape, key) is not None:
            given[key] = getattr(shape, key)
    if shape.listen is not None:
        given["listen"] = shape.listen
    if shape.metrics is not None:
        given["per_host_metrics"] = shape.metrics.per_host
        if shape.metrics.listen is not None:
            given["metrics"] = shape.metrics.listen or None
    made = ControllerSettings(**given)
    _check_ports(made, node, findings)
    _check_registration(made, node.place_of("registration"), findings, listed=listed)
    return made


def _check_ports(made: ControllerSettings, node: Map, findings: Findings) -> None:
    """Each port but 0 (any) serves one thing."""
    seen: dict[int, str] = {}
    for key in ("agent_port", "client_port", "feed_port"):
        port = getattr(made, key)
        if port and port in seen:
            named = key if key in node else seen[port]
            what = f"controller: {named}"
            findings.fault(node.place_of(named), what, "another port for each", str(port))
        seen[port] = key


def _check_registration(
    made: ControllerSettings, place: Any, findings: Findings, *, listed: bool
) -> None:
    what = "controller: registration"
    if made.registration == "keyed":
        expected = "listed or open: keyed needs keys, which this version does not have"
        findings.fault(place, what, expected, "keyed")
    is_open = made.registration == "open" or (made.registration is None and not listed)
    if is_open and not is_loopback(made.listen):
        got = "open" if made.registration else "open, the default without hosts.yaml"
        findings.fault(
            place,
            what,
            f"listed, because {made.listen} can be reached from other machines",
            got,
            "list the hosts in hosts.yaml, or listen: 127.0.0.1",
        )


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach `address`."""
    if address in {"*", "localhost"}:
        return address == "localhost"
    return ipaddress.ip_address(address.strip("[]")).is_loopback
