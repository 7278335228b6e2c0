"""What one cell of the resvals table is: its state, its value, where that comes from."""

from typing import Final, NamedTuple

from dynres.value import Value, ValueType
from dynres.wire.views import SourceKind

ABSENT: Final = 0
FRESH: Final = 1
STALE: Final = 2
UNAVAILABLE: Final = 3


class Origin(NamedTuple):
    """Where a value comes from."""

    kind: SourceKind
    probe: str | None = None
    place: str | None = None


class Column(NamedTuple):
    """A resource as the table sees it; `ttl` in seconds, `inf` for a static one."""

    name: str
    type: ValueType
    ttl: float


class Cell(NamedTuple):
    """One cell as it is at an instant; `value` is None in every state but FRESH."""

    state: int
    value: Value | None
    last: Value | None
    reason: str | None
    measured: float
    origin: Origin
