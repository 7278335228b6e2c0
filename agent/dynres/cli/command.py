"""Runs a command as a child in our own process group, and passes signals on to it.

What a terminal sends goes to the whole group, so the child has it already; only what was sent to
us alone is passed on.
"""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

PASSED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
STOPS: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
BY_KERNEL: Final = 0x80
"""`si_code` of a signal that a terminal has sent."""
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127


class CannotStartError(Exception):
    """The command cannot be started; `exit_code` is what a shell would give."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Command:
    """A command that runs. Signals must be held back (`hold`) before it is made."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it. Raises CannotStartError."""
        name = arguments[0]
        path = shutil.which(name, path=environment.get("PATH"))
        if path is None:
            there = os.path.exists(name) and "/" in name  # noqa: PTH110 - as the shell looks
            if there:
                raise CannotStartError(f"{name}: not executable", NOT_EXECUTABLE)
            raise CannotStartError(f"{name}: command not found", NOT_FOUND)
        try:
            self._pid = os.posix_spawn(
                path,
                list(arguments),
                dict(environment),
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        except OSError as error:
            raise CannotStartError(f"{name}: {error.strerror}", NOT_EXECUTABLE) from error

    def wait(self) -> int:
        """Pass signals on until it ends; its exit status, 128+N after signal N."""
        while True:
            got = signal.sigwaitinfo({*PASSED, signal.SIGCHLD})
            number = signal.Signals(got.si_signo)
            if number != signal.SIGCHLD:
                self._pass_on(number, by_kernel=got.si_code == BY_KERNEL)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code

    def _pass_on(self, number: signal.Signals, *, by_kernel: bool) -> None:
        if not by_kernel:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)
        if number in STOPS:
            # As the kernel means it: nobody could continue what a terminal's shell does not see.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})


def hold() -> None:
    """From now on signals wait for `Command.wait`."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD})
