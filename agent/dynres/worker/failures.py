"""What to log of failing probes: a failure at once, its repetition once a minute, its end once."""

from typing import Final

from dynres.value import format_duration
from dynres.worker.outcome import RunResult

AGAIN: Final = 60.0
"""Seconds in which the same failure is logged only once."""


class Failures:
    """Remembers per probe what was logged last; `now` is in seconds."""

    def __init__(self) -> None:
        self._logged: dict[str, tuple[str, float, float]] = {}

    def line(self, result: RunResult, now: float) -> str | None:
        """The line to log for this run, or None."""
        probe = result.probe
        known = self._logged.get(probe)
        if result.outcome in {"skipped", "cancelled"}:
            return None
        if not result.failure:
            self._logged.pop(probe, None)
            if known is None:
                return None
            lasted = format_duration(max(1.0, round(now - known[2])))
            return f"probe {probe}: works again after {lasted}"
        kind = f"{result.outcome} {result.exit} {result.signal}"  # reasons may hold a changing text
        if known is not None and known[0] == kind and now - known[1] < AGAIN:
            return None
        self._logged[probe] = (kind, now, known[2] if known else now)
        return f"probe {probe}: {result.outcome}: {result.reason}"

    def keep_only(self, probes: set[str]) -> None:
        """Forget every other probe."""
        self._logged = {p: logged for p, logged in self._logged.items() if p in probes}
