"""Starts the agent: `python -m dynres.worker --config DIR …`, what `dynres agent` becomes."""

import signal

# From the first instruction on, a SIGHUP or SIGTERM waits until the daemon can take it.
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGTERM, signal.SIGINT))


def main() -> int:
    """Read the command line, begin to read the files, and serve; returns the exit code."""
    import sys

    from dynres.worker import lean, native
    from dynres.worker.options import parse

    native.one_heap()
    lean.keep_out()
    options = parse(sys.argv[1:])
    from dynres.worker.files import Reader

    try:
        # The reader needs longer than anything else here: it works while we import the rest.
        reader = Reader(options.config)
    except OSError as error:
        sys.stderr.write(f"dynres agent: cannot start a process: {error.strerror}\n")
        return 1
    import asyncio

    from dynres.worker.daemon import serve
    from dynres.worker.identity import Identity

    return asyncio.run(serve(options, Identity.read(), reader))


if __name__ == "__main__":
    raise SystemExit(main())
