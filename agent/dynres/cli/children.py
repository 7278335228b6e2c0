"""The child processes of `dynres up`: started, listened to, and ended with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

PATIENCE = 8.0
"""Seconds in which a daemon may end by itself; its probes get their own second."""


class Child:
    """A daemon that lives no longer than this process. Started from the main thread.

    `on_line(name, line)` gets each line of its stderr, from a thread.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.lines: deque[str] = deque(maxlen=200)
        self._on_line = on_line
        tether = (sys.executable, "-P", "-m", "dynres.cli.tether", str(os.getpid()), module)
        # A session of its own: Ctrl-C in the terminal is for us, and we end them in order.
        self._process = subprocess.Popen(
            (*tether, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
            text=True,
            errors="backslashreplace",
        )
        self._pump = threading.Thread(target=self._read, name=f"{name} stderr", daemon=True)
        self._pump.start()

    def _read(self) -> None:
        stream = self._process.stderr
        if stream is None:
            return
        with stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))
                self._on_line(self.name, line.rstrip("\n"))

    @property
    def ended(self) -> int | None:
        """Its exit status once it has ended (negative: the signal), else None."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end, and end it by force when it does not in time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.drain()

    def drain(self) -> None:
        """Wait until what it wrote before its end has been read (what it left may hold on)."""
        self._pump.join(1.0)
