"""A command in a terminal of its own: what a person sees of it, and what a person can do to it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import pyte

T = TypeVar("T")
_SECOND = 1049
"""Number of the mode that shows a terminal's second screen."""
_CURSOR = 25


_SHELL = """
import os, signal, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # by the first process of a session: it controls it
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
"""
"""What a shell with job control does for the command in front."""


class TwoScreens(pyte.Screen):
    """A terminal with a second screen, which programs that draw use and then leave."""

    first: Any = None

    def set_mode(self, *modes: int, **how: Any) -> None:
        if how.get("private") and _SECOND in modes and self.first is None:
            self.first = (deepcopy(self.buffer), deepcopy(self.cursor))
            self.erase_in_display(2)
        super().set_mode(*modes, **how)

    def reset_mode(self, *modes: int, **how: Any) -> None:
        super().reset_mode(*modes, **how)
        if how.get("private") and _SECOND in modes and self.first is not None:
            buffer, cursor = self.first
            self.first = None
            self.buffer.clear()
            self.buffer.update(buffer)
            self.cursor.x, self.cursor.y = cursor.x, cursor.y


class Terminal:
    """One command in a pseudo-terminal, in the foreground as a shell puts it there."""

    def __init__(
        self, *arguments: str, env: dict[str, str], columns: int = 100, lines: int = 30
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.screen = TwoScreens(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._size(columns, lines)
        self._before = termios.tcgetattr(theirs)
        # Its size is what the terminal says: the runner of the tests may have said another.
        fixed = ("COLUMNS", "LINES", "NO_COLOR")
        clean = {k: v for k, v in {**os.environ, **env}.items() if k not in fixed}
        command = (sys.executable, "-m", "dynres", *arguments)
        self._shell = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SHELL, os.ttyname(theirs), *command],
            env={**clean, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self._theirs = theirs  # kept open: what is written at the end can still be read

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Another size; the kernel tells the command."""
        self.screen.resize(lines, columns)
        self._size(columns, lines)

    def key(self, control: str) -> None:
        """Press Ctrl and a letter."""
        os.write(self._ours, bytes([ord(control.upper()) - 64]))

    @property
    def pid(self) -> int:
        """The command's process, once it is in the foreground."""
        return os.tcgetpgrp(self._ours)

    @property
    def stopped(self) -> bool:
        """Whether the command's process is stopped."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    @property
    def lines(self) -> list[str]:
        """What stands there, without the blanks at line ends and the empty lines at the end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    @property
    def drawing(self) -> bool:
        """Whether the second screen is shown."""
        return self.screen.first is not None

    @property
    def usable(self) -> bool:
        """Whether it is as it was before the command: first screen, cursor, echo and line mode."""
        shown = _CURSOR << 5 in self.screen.mode
        return shown and not self.drawing and termios.tcgetattr(self._theirs) == self._before

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        self._stream.feed(os.read(self._ours, 65536))
        return True

    def until(self, what: Callable[[], T], seconds: float = 30.0) -> T:
        """Take what the command writes until the answer is true, and return it."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            assert time.monotonic() < deadline, (
                f"not within {seconds} s (ended: {self._shell.poll()}); the screen:\n{self.text}"
            )
            self._read(0.05)
        return answer

    def ended(self) -> int:
        """Wait for its end, take all that it wrote; its exit status."""
        self.until(lambda: self._shell.poll() is not None)
        while self._read(0):
            pass
        return self._shell.wait()

    def close(self) -> None:
        """End it."""
        if self._shell.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._shell.wait()
        os.close(self._theirs)
        os.close(self._ours)


@contextmanager
def terminal(*arguments: str, **how: Any) -> Iterator[Terminal]:
    """`dynres` with these arguments in a terminal; nothing of it is left."""
    made = Terminal(*arguments, **how)
    try:
        yield made
    finally:
        made.close()
