"""`python -m dynres.controller`: the controller as a process."""

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynres.controller.options import ControllerOptions


def _options(arguments: list[str]) -> "ControllerOptions":
    import argparse
    from pathlib import Path

    from dynres.controller.options import ControllerOptions

    parser = argparse.ArgumentParser(prog="dynres controller", allow_abbrev=False)
    parser.add_argument("--config", type=Path, default=Path("/etc/dynres"), metavar="DIR")
    parser.add_argument("--listen", metavar="ADDR")
    parser.add_argument("--agent-port", type=int, metavar="PORT")
    parser.add_argument("--client-port", type=int, metavar="PORT")
    parser.add_argument("--feed-port", type=int, metavar="PORT")
    parser.add_argument("--metrics", metavar="ADDR:PORT")
    parser.add_argument("--state", type=Path, metavar="DIR")
    given = parser.parse_args(arguments)
    return ControllerOptions(
        config=given.config,
        listen=given.listen,
        agent_port=given.agent_port,
        client_port=given.client_port,
        feed_port=given.feed_port,
        metrics=given.metrics,
        state=given.state,
    )


def main(arguments: list[str]) -> int:
    """Run the controller until a signal ends it; the exit status."""
    # Before anything else: a reload that is asked for during the start must not kill, it comes
    # after it. The loop takes the signals when it is there.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGINT, signal.SIGTERM})
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    options = _options(arguments)
    # Threads of numpy's linear algebra, which nothing here needs, would spin at first.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    import asyncio
    import resource

    from dynres.controller.process import serve
    from dynres.controller.say import log_to_stderr

    # Each agent is a connection, and the usual soft limit is 1024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    log_to_stderr()
    return asyncio.run(serve(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
