"""The launcher's second socket to the agent: for what must not wake the agent when it comes.

That is the pipes of streams, which the main socket announces.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket


class Side:
    """The launcher's end; nothing here waits, or fails when the agent is gone."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, fd)

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
