"""One conversation with the controller: what goes wrong becomes an exit code and what to do."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    pass

TIMEOUT: Final = 4.0
"""Seconds for an answer; with our own start-up, an unreachable controller is said within 5 s."""
_USAGE = frozenset({"usage", "config"})
