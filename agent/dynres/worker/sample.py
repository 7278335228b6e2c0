"""One life of a stream up to its first good record, as `dynres probe test` shows it."""

import asyncio

import msgspec

from dynres.value import format_duration
from dynres.worker.command import asked_of
from dynres.worker.load_sensor_format import QUIT, REQUEST
from dynres.worker.outcome import Refused, RunResult, RunSpec
from dynres.worker.records import Batch, Records
from dynres.worker.refusals import REFUSED_LIMIT
from dynres.worker.streams import StreamRuns


async def sample(runs: StreamRuns, spec: RunSpec) -> RunResult:
    """Run it until its first good record, or for `timeout`; its stdout is kept.

    `ok` with what that record gave; else `timeout`, or how its process ended before.
    """
    first = _First(runs, spec)
    loop = asyncio.get_running_loop()
    timer = loop.call_later(spec.probe.timeout, first.stop)
    try:
        result = await runs.stream(spec, first)
    finally:
        timer.cancel()
    result = msgspec.structs.replace(
        result,
        stdout=bytes(first.stdout).decode("utf-8", "backslashreplace"),
        refused=tuple(first.refused[:REFUSED_LIMIT]),
    )
    good = first.good
    if good is not None:
        return msgspec.structs.replace(
            result, outcome="ok", reason=None, values=dict(good.values), missed=good.missed
        )
    if result.outcome == "cancelled":
        within = f"no good record within {format_duration(spec.probe.timeout)}"
        return msgspec.structs.replace(result, outcome="timeout", reason=within)
    return result


class _First:
    """Hears a stream until it has said something good."""

    def __init__(self, runs: StreamRuns, spec: RunSpec) -> None:
        self.good: Batch | None = None
        self.stdout = bytearray()
        self.refused: list[Refused] = []
        self._runs = runs
        self._name = spec.probe.name
        self._sensor = spec.probe.format == "load_sensor"
        self._limit = spec.probe.output_limit
        self._records = Records(spec.probe.format, asked_of(spec), self._limit)

    def started(self, pid: int) -> None:
        """Its process is there."""
        if self._sensor:
            self._runs.tell(self._name, REQUEST)

    def heard(self, data: bytes) -> None:
        """It printed this."""
        if self.good is not None:
            return
        self.stdout += data[: self._limit - len(self.stdout)]
        batch = self._records.feed(data)
        self.refused += batch.refused[: REFUSED_LIMIT - len(self.refused)]
        if batch.values:
            self.good = batch
            self.stop()

    def stop(self) -> None:
        """It is enough."""
        self._runs.stop(self._name, QUIT if self._sensor else b"")
