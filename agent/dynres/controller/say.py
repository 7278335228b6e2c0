"""What the controller says: its log, without the same line over and over, and why it ends."""

import logging
import os
import sys
import time
from typing import Final

from dynres.config.faults import ConfigError
from dynres.controller.core import Note

QUIET: Final = 60.0
"""Seconds within which the same warning is logged once."""
REMEMBERED: Final = 1000


class Log:
    """Notes and warnings; the same warning at most once a minute."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[str, float] = {}

    def note(self, note: Note) -> None:
        """Something that the core has to say."""
        if note.warning:
            self.warn(note.text)
        else:
            self._logger.info("%s", note.text)

    def warn(self, text: str) -> None:
        """A warning that may come again and again."""
        now = time.monotonic()
        if now - self._said.get(text, -QUIET) < QUIET:
            return
        if len(self._said) >= REMEMBERED:
            self._said.clear()
        self._said[text] = now
        self._logger.warning("%s", text)


def log_to_stderr() -> None:
    """Log lines on stderr: for the journal, which has its own time stamps, or with one."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"{stamp}%(levelname)s %(message)s"))
    root = logging.getLogger("dynres")
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def complain(error: ConfigError | Exception) -> None:
    """Why the controller does not start, on stderr: every fault, one a line."""
    if isinstance(error, ConfigError):
        lines = list(map(str, error.faults))
    elif isinstance(error, OSError) and error.filename is not None:
        lines = [f"{error.filename}: {error.strerror}"]
    else:
        lines = [str(error)]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
