"""What the agent is told on its command line, which wins over `agent.yaml`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_FOLDER = "/etc/dynres"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """None and empty: as `agent.yaml` says."""

    config: Path
    host: str | None = None
    controllers: tuple[str, ...] = ()
    once: bool = False
    """Run every probe once, report, and end."""
    metrics: str | None = None
    """ADDR:PORT of the metrics page."""


def parse(arguments: Sequence[str]) -> AgentOptions:
    """The options out of a command line. Raises SystemExit(2) with a usage message."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="dynres agent", description="The per-host daemon.", allow_abbrev=False
    )
    parser.add_argument("--config", metavar="DIR", type=Path)
    parser.add_argument("--host", metavar="NAME")
    parser.add_argument("--controller", metavar="ENDPOINT", action="append", default=[])
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--metrics", metavar="ADDR:PORT")
    given = parser.parse_args(arguments)
    folder = given.config or Path(os.environ.get("DYNRES_CONFIG") or DEFAULT_FOLDER)
    return AgentOptions(
        config=folder.absolute(),
        host=given.host,
        controllers=tuple(dict.fromkeys(given.controller)),
        once=given.once,
        metrics=given.metrics,
    )
