"""The launcher's second socket to the agent: what must not wake the agent when it comes.

Beats, which the agent looks for when it wants to know whether the launcher is alive, and the
pipes of streams, which the main socket announces.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

BEAT = 0.6
"""Seconds between two beats."""


class Side:
    """The launcher's end; nothing here waits, or fails when the agent is gone."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, fd)
        self.due = 0.0
        """When the next beat is due (monotonic)."""

    def beat(self, now: float) -> None:
        """Say, when it is due, that the launcher lives; where many beats lie, one may be lost."""
        if now >= self.due:
            self.due = now + BEAT
            try:
                self._socket.send(b"%.3f" % now, MSG_DONTWAIT)
            except OSError:
                return

    def hand_over(self, run: str, fd: int) -> bool:
        """Give the agent a run's descriptor, in place of ours; False where it does not take it."""
        rights = (SOL_SOCKET, SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))
        try:
            self._socket.sendmsg([run.encode()], [rights], MSG_DONTWAIT)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True
