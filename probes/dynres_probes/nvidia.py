"""NVIDIA GPUs by `nvidia-smi`: how many, how busy, how much memory."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dynres.probe import NOT_HERE, NotHere, ProbeError
from dynres.value import read_number
from dynres_probes import tool

What = Literal[
    "gpus", "idle", "utilization", "memory_free", "memory_used", "memory_total",
    "memory_free_most", "temperature", "model",
]  # fmt: skip

_FIELDS: Final = (
    *("index", "name", "utilization.gpu", "memory.total", "memory.used"),
    *("memory.free", "temperature.gpu"),
)
_NO_DRIVER: Final = (
    "couldn't communicate with the nvidia driver",
    "no devices were found",
    "driver is not loaded",
    "nvml library",
    "driver not loaded",
)


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, of which GPUs."""

    what: tuple[What, ...] = ("gpus", "idle", "utilization", "memory_free")
    gpus: tuple[int, ...] = ()
    """Only those with these numbers; empty: all."""
    idle_below: float = 5.0
    """A GPU is idle below this utilization in percent …"""
    idle_memory: float = 512.0
    """… and with less than this memory in use, in MB."""
    command: str = "nvidia-smi"
    timeout: float = 5.0
    """Seconds that the tool has; less than the probe's own timeout."""

    def __post_init__(self) -> None:
        """Refuse options that can give nothing."""
        if not self.what:
            raise ValueError("what: at least one")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: percent, MB, degrees C; None where the driver does not say."""

    index: int
    name: str
    utilization: float | None
    memory_total: float | None
    memory_used: float | None
    memory_free: float | None
    temperature: float | None


class Nvidia:
    """Values named after `what`; NOT_HERE on a host without an NVIDIA GPU or its driver."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | str | NotHere | None]:
        """One run. ProbeError when a GPU asked for is not there, or the tool fails."""
        options = self._options
        query = f"--query-gpu={','.join(_FIELDS)}"
        command = (options.command, query, "--format=csv,noheader,nounits")
        try:
            done = tool.run(command, options.timeout)
        except FileNotFoundError:
            return dict.fromkeys(options.what, NOT_HERE)
        if no_driver(done.stdout + done.stderr):
            return dict.fromkeys(options.what, NOT_HERE)
        if done.status:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ProbeError(
                f"{options.command}: exit status {done.status}: {said[0] if said else 'no output'}"
            )
        return {**measure(parse(done.stdout), options)}


def no_driver(text: str) -> bool:
    """Whether the tool says that there is no driver or no GPU."""
    return any(words in text.lower() for words in _NO_DRIVER)


def parse(text: str) -> list[Gpu]:
    """The GPUs of a report; a lost one (`[GPU is lost]`) has no numbers. ProbeError else."""
    gpus = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != len(_FIELDS) or not row[0].strip().isdigit():
            raise ProbeError(
                f"nvidia-smi: expected {len(_FIELDS)} fields, got {','.join(row)[:200]!r}"
            )
        gpus.append(Gpu(int(row[0]), row[1].strip(), *map(_number, row[2:])))
    return gpus


def _number(text: str) -> float | None:
    try:
        return read_number(text)
    except ValueError:
        return None  # [N/A], [Not Supported], ERR!, [GPU is lost]


def measure(gpus: Sequence[Gpu], options: Options) -> dict[str, float | str | None]:
    """The values asked for, over the GPUs chosen."""
    chosen = [gpu for gpu in gpus if not options.gpus or gpu.index in options.gpus]
    missing = set(options.gpus) - {gpu.index for gpu in chosen}
    if missing:
        raise ProbeError(f"no GPU {', '.join(map(str, sorted(missing)))}; there are {len(gpus)}")
    return {what: _measure(chosen, what, options) for what in options.what}


def _measure(gpus: Sequence[Gpu], what: What, options: Options) -> float | str | None:
    if what == "gpus":
        return float(len(gpus))
    if what == "idle":
        return float(sum(_idle(gpu, options) for gpu in gpus))
    if what == "model":
        return ", ".join(sorted({gpu.name for gpu in gpus}))
    if what == "memory_free_most":
        return max(_known([gpu.memory_free for gpu in gpus]), default=None)
    if what == "temperature":
        return max(_known([gpu.temperature for gpu in gpus]), default=None)
    if what == "utilization":
        known = _known([gpu.utilization for gpu in gpus])
        return round(sum(known) / len(known), 1) if known else None
    parts = _known([getattr(gpu, what) for gpu in gpus])
    return sum(parts) if parts else None


def _known(numbers: Sequence[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]


def _idle(gpu: Gpu, options: Options) -> bool:
    """What cannot be seen is not idle."""
    return (
        gpu.utilization is not None
        and gpu.memory_used is not None
        and gpu.utilization < options.idle_below
        and gpu.memory_used < options.idle_memory
    )
