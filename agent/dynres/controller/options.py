"""What the controller is started with, and what follows from it and the configuration."""

from pathlib import Path

import msgspec

from dynres.config.faults import ConfigError, Fault
from dynres.config.model import Configuration, ControllerSettings
from dynres.controller.core import Rule
from dynres.wire.link import is_loopback


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line options; None: what controller.yaml says, or its default. Port 0: any."""

    config: Path
    listen: str | None = None
    agent_port: int | None = None
    client_port: int | None = None
    feed_port: int | None = None
    metrics: str | None = None
    state: Path | None = None


class Addresses(msgspec.Struct, frozen=True):
    """Where the controller listens."""

    agents: str
    clients: str
    feed: str
    feed_asked: bool
    """Whether somebody named the port of the feed."""
    metrics: str | None
    asked: bool
    """Whether somebody named the address of the metrics page."""


def addresses(options: ControllerOptions, configuration: Configuration) -> Addresses:
    """Where to listen: the command line goes before controller.yaml."""
    settings = configuration.controller
    host = settings.listen if options.listen is None else options.listen
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host

    def endpoint(chosen: int | None, declared: int) -> str:
        return f"tcp://{shown}:{declared if chosen is None else chosen}"

    page = settings.metrics if options.metrics is None else options.metrics
    return Addresses(
        agents=endpoint(options.agent_port, settings.agent_port),
        clients=endpoint(options.client_port, settings.client_port),
        feed=endpoint(options.feed_port, settings.feed_port),
        feed_asked=(options.feed_port is not None)
        or settings.feed_port != ControllerSettings().feed_port,
        metrics=None if page == "off" else page,
        asked=options.metrics is not None or settings.metrics != ControllerSettings().metrics,
    )


def waiting_for_restart(
    options: ControllerOptions, started: ControllerSettings, now: ControllerSettings
) -> list[str]:
    """In words, the settings whose new values a reload does not put in force."""
    return [
        f"controller.yaml: {key} {getattr(now, key) or 'off'} takes effect at a restart"
        for key in ("listen", "agent_port", "client_port", "feed_port", "metrics", "state")
        if getattr(options, key) is None and getattr(now, key) != getattr(started, key)
    ]


def registration_rule(configuration: Configuration, endpoint: str) -> Rule:
    """Who may register with agents' `endpoint`. Raises ConfigError where it may not be open."""
    chosen = configuration.controller.registration
    if chosen == "listed" or (chosen is None and configuration.listed):
        return "listed"
    if is_loopback(endpoint):
        return "open"
    fault = Fault(
        place=None,
        what="registration: any host could register",
        expected="an address of this machine only (127.0.0.1) where registration is open",
        got=endpoint,
        hint="list the hosts in hosts.yaml, set registration: listed, or listen on 127.0.0.1",
    )
    raise ConfigError([fault])


def state_folder(options: ControllerOptions, configuration: Configuration) -> Path:
    """The folder of what must survive a restart, made where it is missing.

    Raises OSError where it cannot be made, with what to do.
    """
    folder = options.state or Path(configuration.controller.state)
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        said = "not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise OSError(
            f"{folder}: the folder for the controller's state cannot be made: {said}; name "
            "another with --state, or `state` in controller.yaml"
        ) from error
    return folder
