"""What the agent is told on its command line, which wins over `agent.yaml`."""

import os
import sys
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


USAGE = """\
usage: dynres agent [--config DIR] [--host NAME] [--controller ENDPOINT]... [--once]
                    [--metrics ADDR:PORT]
"""
_WITH_VALUE = ("--config", "--host", "--controller", "--metrics")


def parse(arguments: Sequence[str]) -> AgentOptions:
    """The options out of a command line. Raises SystemExit(2) with a usage message.

    Not by `argparse`, which would stay in memory with all that it brings. `dynres agent` has
    checked them.
    """
    given: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in {"-h", "--help"}:
            sys.stdout.write(USAGE)
            raise SystemExit(0)
        if name in _WITH_VALUE and not equals and rest:
            value = rest.pop(0)
        elif (name in _WITH_VALUE) is not bool(equals) or name not in (*_WITH_VALUE, "--once"):
            sys.stderr.write(f"{USAGE}dynres agent: error: {name}\n")
            raise SystemExit(2)
        given.setdefault(name, []).append(value)

    def last(name: str) -> str | None:
        return given[name][-1] if name in given else None

    folder = last("--config") or os.environ.get("DYNRES_CONFIG") or DEFAULT_FOLDER
    return AgentOptions(
        config=Path(folder).absolute(),
        host=last("--host"),
        controllers=tuple(dict.fromkeys(given.get("--controller", ()))),
        once="--once" in given,
        metrics=last("--metrics"),
    )
