"""Many numbers under names that stay the same: side by side, without a dictionary of their own.

A stream that gives thousands of values a second gives them under the same names each time. Then
the names are one object that everything shares, and what changes is one list.
"""

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence


class Names:
    """Names in their order; equal orders of one stream are one object."""

    __slots__ = ("index", "order")

    def __init__(self, order: tuple[str, ...]) -> None:
        self.order = order
        self.index = {name: place for place, name in enumerate(order)}

    def __len__(self) -> int:
        return len(self.order)


class Numbers(Mapping[str, float]):
    """A mapping of names to numbers, as two sequences of the same length; never changed."""

    __slots__ = ("names", "numbers")

    def __init__(self, names: Names, numbers: Sequence[float]) -> None:
        self.names = names
        self.numbers = numbers

    def __getitem__(self, name: str) -> float:
        return self.numbers[self.names.index[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.order)

    def __len__(self) -> int:
        return len(self.names.order)

    def __contains__(self, name: object) -> bool:
        return name in self.names.index

    def as_dict(self) -> dict[str, float]:
        """The same as a dictionary, which is faster to look up many names in."""
        return dict(zip(self.names.order, self.numbers, strict=True))


def packed(numbers: Sequence[float]) -> bytes:
    """IEEE 754 doubles, little-endian, 8 bytes each."""
    doubles = numbers if isinstance(numbers, array) else array("d", numbers)
    if sys.byteorder != "little":
        doubles = doubles[:]
        doubles.byteswap()
    return doubles.tobytes()
