"""The console script: from its first instruction on, a daemon to be is not killed by a hangup."""

import signal
import sys
from typing import NoReturn

DAEMONS = frozenset({"agent", "controller"})


def main() -> NoReturn:
    """Run `dynres`; where it becomes a daemon, a SIGHUP waits until that can take it."""
    if not DAEMONS.isdisjoint(sys.argv[1:2]) and "reload" not in sys.argv[2:]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    # Only now what takes its time.
    from dynres.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
