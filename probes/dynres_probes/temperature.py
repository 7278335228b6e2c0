"""Temperatures by the kernel's sensors (psutil): the hottest, or how far it is from too hot."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from dynres.probe import NOT_HERE, NotHere, ProbeError

What = Literal["hottest", "margin"]


@dataclass(frozen=True, slots=True)
class Options:
    """Which sensors, and what is told of them."""

    chip: str | None = None
    """Such as coretemp or k10temp; None: all."""
    label: str | None = None
    """The beginning of a sensor's label, such as `Package`; None: all."""
    what: tuple[What, ...] = ("hottest",)

    def __post_init__(self) -> None:
        """Refuse options that can give nothing."""
        if not self.what:
            raise ValueError("what: at least one")


class Sensor(NamedTuple):
    """One sensor, in degrees C; `limit`: where its maker calls it too hot."""

    chip: str
    label: str
    degrees: float
    limit: float | None


class _Reading(Protocol):
    """What psutil gives for one sensor."""

    @property
    def label(self) -> str: ...
    @property
    def current(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def critical(self) -> float | None: ...


class Temperature:
    """Values named after `what`; NOT_HERE on a machine without sensors (most virtual ones)."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | NotHere | None]:
        """One run. ProbeError when there are sensors, but not those asked for."""
        import psutil  # 3.6 MB, and only where this probe is used

        options = self._options
        sensors = list(known(psutil.sensors_temperatures()))
        if not sensors:
            return dict.fromkeys(options.what, NOT_HERE)
        chosen = choose(sensors, options)
        return {what: measure(chosen, what) for what in options.what}


def known(readings: Mapping[str, Iterable[_Reading]]) -> Iterable[Sensor]:
    """Sensors that have a value which can be true: a broken one tells -128 or 255 and more."""
    for chip, found in readings.items():
        for reading in found:
            if reading.current is not None and -60 < reading.current < 250:
                limit = reading.critical or reading.high
                sane = limit if limit is not None and 0 < limit < 250 else None
                yield Sensor(chip, reading.label, float(reading.current), sane)


def choose(sensors: Sequence[Sensor], options: Options) -> list[Sensor]:
    """Those asked for. ProbeError with what there is when there is none."""
    chosen = [
        sensor
        for sensor in sensors
        if options.chip in {None, sensor.chip} and sensor.label.startswith(options.label or "")
    ]
    if not chosen:
        there = ", ".join(sorted({f"{s.chip} {s.label}".strip() for s in sensors})[:20])
        raise ProbeError(f"no such sensor; there are {there}")
    return chosen


def measure(sensors: Sequence[Sensor], what: What) -> float | None:
    """Degrees C of the hottest; degrees that the one nearest to its limit is away from it."""
    if what == "hottest":
        return round(max(sensor.degrees for sensor in sensors), 1)
    margins = [sensor.limit - sensor.degrees for sensor in sensors if sensor.limit is not None]
    return round(min(margins), 1) if margins else None
