"""The agent, whose plugin hosts also find the plugins of tests/run/site."""

import sys
from pathlib import Path
from typing import Any

from dynres.worker import run
from dynres.worker.__main__ import main

SITE = str(Path(__file__).parents[1] / "run" / "site")
made = run.Runner.__init__


def with_site(self: run.Runner, agent: str, path: str, **more: Any) -> None:
    made(self, agent, path, plugin_path=[SITE], **more)


if __name__ == "__main__":
    run.Runner.__init__ = with_site  # type: ignore[method-assign,assignment]
    sys.exit(main())
