"""Makes the settings of agent.yaml and controller.yaml, each address and name checked."""

import ipaddress
import re
from typing import Any

from dynres.config import schema
from dynres.config.findings import Findings
from dynres.config.model import AgentSettings, ControllerSettings
from dynres.config.names import is_host_name
from dynres.config.scalars import Document, Scalar
from dynres.config.shape import mapping, validate

_ENDPOINT = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})", re.ASCII)
_SOCKET = re.compile(r"ipc:///.{1,100}", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})", re.ASCII)


def read_agent(document: Document | None, findings: Findings) -> AgentSettings:
    """agent.yaml; without it, or with comments only, the defaults."""
    if document is None or document.root is None:
        return AgentSettings()
    node = mapping(document.root, "agent.yaml", findings)
    shape = validate(schema.Agent, node, "agent", findings) if node is not None else None
    if node is None or shape is None:
        return AgentSettings()
    given: dict[str, Any] = {"log_level": shape.log_level}
    if shape.host is not None:
        given["host"] = shape.host.text
        if not is_host_name(shape.host.text):
            expected = "a host name: letters, digits, '.', '-', '_'"
            findings.fault(shape.host.place, "agent: host", expected, repr(shape.host.text))
    if shape.controller is not None:
        listed = [shape.controller] if isinstance(shape.controller, str) else shape.controller
        given["controllers"] = tuple(endpoint.text for endpoint in listed)
        _check_endpoints(listed, node.place_of("controller"), findings)
    if shape.metrics is not None:
        given["metrics"] = _metrics(shape.metrics, "agent: metrics", findings)
    if shape.path is not None:
        given["path"] = shape.path
        if not all(part.startswith("/") for part in shape.path.split(":")):
            expected = "absolute folders separated by ':'"
            findings.fault(node.place_of("path"), "agent: path", expected, repr(shape.path))
    return AgentSettings(
        trusted_owners=tuple(shape.trusted_owners),
        max_running=shape.max_running,
        user=shape.user,
        **given,
    )


def _check_endpoints(listed: list[Scalar], place: Any, findings: Findings) -> None:
    if not listed:
        findings.fault(place, "agent: controller", "at least one endpoint", "an empty list")
    for endpoint in listed:
        match = _ENDPOINT.fullmatch(endpoint)
        if not _SOCKET.fullmatch(endpoint) and (match is None or int(match[2]) > 65535):
            bare = _ADDRESS.fullmatch(endpoint)
            findings.fault(
                endpoint.place,
                "agent: controller",
                "an endpoint such as tcp://HOST:5750",
                repr(endpoint.text),
                f"write tcp://{endpoint.text}" if bare else None,
            )


def _metrics(word: Scalar, what: str, findings: Findings) -> str | None:
    """ADDR:PORT; None for `off`."""
    if word.text in {"off", "none", "no"}:
        return None
    match = _ADDRESS.fullmatch(word)
    if match is None or int(match[2]) > 65535:
        findings.fault(word.place, what, "ADDR:PORT, or off", repr(word.text), "127.0.0.1:9750")
    return word.text


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
    for key in ("agent_port", "client_port", "state", "forget_after", "registration"):
        if getattr(shape, key) is not None:
            given[key] = getattr(shape, key)
    if shape.state is not None and not shape.state.startswith("/"):
        findings.fault(
            node.place_of("state"), "controller: state", "an absolute path", repr(shape.state)
        )
    if shape.metrics is not None:
        given["per_host_metrics"] = shape.metrics.per_host
        if shape.metrics.listen is not None:
            what = "controller: metrics: listen"
            given["metrics"] = _metrics(shape.metrics.listen, what, findings)
    if shape.listen is not None:
        given["listen"] = shape.listen.text
        if _is_address(shape.listen.text) is None:
            expected = "an IP address of this machine, or * for all"
            findings.fault(shape.listen.place, "controller: listen", expected, shape.listen.text)
    made = ControllerSettings(**given)
    if made.agent_port == made.client_port and made.agent_port:
        key = "client_port" if "client_port" in node else "agent_port"
        what = f"controller: {key}"
        findings.fault(node.place_of(key), what, "two different ports", str(made.agent_port))
    _check_registration(made, node.place_of("registration"), findings, listed=listed)
    return made


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
    return _is_address(address) is True


def _is_address(text: str) -> bool | None:
    """Whether the address is a loopback one; None when it is no address."""
    if text in {"*", "localhost"}:
        return text == "localhost"
    try:
        return ipaddress.ip_address(text.strip("[]")).is_loopback
    except ValueError:
        return None
