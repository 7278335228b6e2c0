"""Runs a daemon's module in this process, which the kernel ends when the parent does.

`python -P -m dynres.cli.tether PARENT MODULE [ARGUMENT]...`
"""

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become MODULE."""
    parent, module = int(sys.argv[1]), sys.argv[2]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it was gone before the kernel knew
        sys.exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent takes its signals by waiting
    sys.argv[1:] = sys.argv[3:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
