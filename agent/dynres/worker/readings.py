"""Readings by target: one by one, or all numbers of one run as a block."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from dynres.value import Value
from dynres.worker.numbers import Numbers

_reading = tuple.__new__  # a named tuple in half the time


class Reading(NamedTuple):
    """What one resource is worth, and since when; `value` None: unavailable, for `reason`."""

    probe: str
    value: Value | None
    measured: float
    """The instant when the run that gave it started."""
    reason: str | None = None
    fallback: bool = False
    """Whether `on_failure` gave it."""


class Block(NamedTuple):
    """Readings of one run that differ in nothing but target and number."""

    probe: str
    numbers: Numbers
    measured: float

    def items(self) -> Iterator[tuple[str, Reading]]:
        """Them, one by one."""
        probe, numbers, measured = self
        for name, value in zip(numbers.names.order, numbers.numbers, strict=True):
            yield name, _reading(Reading, (probe, value, measured, None, False))


class Readings:
    """The newest reading of each target, whichever way it came."""

    def __init__(self) -> None:
        self._single: dict[str, Reading] = {}
        self._blocks: dict[str, Block] = {}
        """By probe; what is in a block is nowhere else."""

    def get(self, target: str) -> Reading | None:
        """What it is worth, where anything is known."""
        reading = self._single.get(target)
        if reading is None:
            for probe, numbers, measured in self._blocks.values():
                place = numbers.names.index.get(target)
                if place is not None:
                    return Reading(probe, numbers.numbers[place], measured)
        return reading

    def block(self, probe: str) -> Block | None:
        """All that this probe has given, where that is one block."""
        return self._blocks.get(probe)

    def blocks(self) -> Iterable[Block]:
        """All blocks."""
        return self._blocks.values()

    def put_block(self, block: Block) -> None:
        """What this probe has given is this block, whole."""
        names = block.numbers.names
        before = self._blocks.get(block.probe)
        if before is None or before.numbers.names is not names:
            for probe, other in list(self._blocks.items()):
                if probe == block.probe or names.index.keys() & other.numbers.names.index.keys():
                    self.loosen(probe)
            for name in names.order:
                self._single.pop(name, None)
        self._blocks[block.probe] = block

    def loosen(self, probe: str) -> dict[str, Reading]:
        """Have no block of this probe; the readings outside of blocks, to be changed."""
        block = self._blocks.pop(probe, None)
        if block is not None:
            self._single.update(block.items())
        return self._single

    def loosen_all(self) -> dict[str, Reading]:
        """Have no block; all readings, to be changed."""
        for probe in list(self._blocks):
            self.loosen(probe)
        return self._single

    def update(self, readings: Mapping[str, Reading]) -> None:
        """What these targets are worth now; none of them is in a block."""
        self._single.update(readings)

    def items(self, without: Collection[str] = ()) -> Iterator[tuple[str, Reading]]:
        """All of them, but for the blocks of the probes `without`."""
        yield from self._single.items()
        for probe, block in self._blocks.items():
            if probe not in without:
                yield from block.items()
