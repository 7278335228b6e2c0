"""Ends what a plugin's run leaves behind in its host: processes whose parent is gone.

The host adopts them, as a subreaper. One that was found at the end of a run can be of that run or
of another that was going then, and is killed when all of these have ended. A child that a plugin
keeps from run to run is not meant: the thread that started it is its parent.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False  # for the size of the plugin host
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

_PATIENCE: Final = 100
"""Milliseconds in which one that is killed is waited for."""
_ROUNDS: Final = 3
"""What a killed one leaves is looked for as often."""
_LOOK: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Left:
    """The adopted processes of this host."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._kept: set[int] = set()
        """Children of plugins themselves."""
        self._suspects: dict[int, set[int]] = {}
        """Adopted one -> runs that can have started it."""
        self._killed: set[int] = set()

    def end_of(self, run: int, going: Collection[int]) -> None:
        """That run has ended, in this thread, while those others go on."""
        with self._lock:
            suspects = {run, *going}
            for _ in range(_ROUNDS):
                if not self._find(suspects):
                    return
                for runs in self._suspects.values():
                    runs.intersection_update(going)
                free = [pid for pid, runs in self._suspects.items() if not runs]
                ended = [self._end(pid) for pid in free]
                if not any(ended):
                    return
                suspects = {*going}

    def _find(self, suspects: Collection[int]) -> bool:
        """Look for new ones; whether there are any, new or old."""
        try:
            os.waitid(os.P_ALL, 0, _LOOK)
        except ChildProcessError:
            children: set[int] = set()
            adopted = children
        else:
            main = os.getpid()
            adopted = _children(main)
            children = set(adopted)
            for task in os.listdir("/proc/self/task"):  # noqa: PTH208
                if int(task) != main:
                    own = _children(int(task))
                    self._kept |= own
                    children |= own
        self._kept &= children
        adopted -= self._kept
        self._killed &= adopted
        self._suspects = {pid: self._suspects.get(pid, {*suspects}) for pid in adopted}
        return bool(adopted)

    def _end(self, pid: int) -> bool:
        """Kill and reap it; whether it is gone, and may have left something in turn."""
        import select
        import signal  # both only here: most hosts have nothing to end

        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if pid not in _children(os.getpid()):
                return False  # a plugin has reaped it, and the number is another's
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            # One that cannot be killed is waited for once.
            poll.poll(0 if pid in self._killed else _PATIENCE)
            self._killed.add(pid)
            return os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG) is not None
        except OSError:
            return False  # it has become another user's
        finally:
            os.close(pidfd)


def _children(task: int) -> set[int]:
    """The children of one of our threads; none where the kernel does not tell them apart."""
    try:
        with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as file:
            return {int(pid) for pid in file.readall().split()}
    except OSError:
        return set()
