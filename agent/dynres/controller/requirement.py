"""Decides a requirement, three-valued, for all hosts at once or for some of them.

FALSE < UNKNOWN < TRUE, so that `&&` is the minimum, `||` the maximum, and `!` turns the scale.
"""

from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dynres.controller.condition import Comparison
from dynres.controller.meaning import (
    Against,
    Between,
    Denied,
    Either,
    Every,
    Known,
    Leaf,
    Mapped,
    Meaning,
    Schema,
    meaning,
    resources_of,
)
from dynres.controller.parser import parse
from dynres.controller.resvals import ABSENT, FRESH
from dynres.value import Value

FALSE: Final = 0
UNKNOWN: Final = 1
TRUE: Final = 2

Verdicts = npt.NDArray[np.int8]
"""FALSE, UNKNOWN or TRUE, one a row."""
Holds = npt.NDArray[np.bool_]

_COMPARE: Final[dict[Comparison, np.ufunc]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class Column(NamedTuple):
    """One resource over some rows: states as in the table, and numbers where it is fresh.

    Booleans are 0 and 1, strings codes; what is not fresh may be any number.
    """

    states: npt.NDArray[np.int8]
    numbers: npt.NDArray[np.float64]


class Source(Protocol):
    """Where a requirement takes values from: the hosts, and the instant, that it is asked for."""

    @property
    def size(self) -> int:
        """How many hosts."""
        ...

    def column(self, resource: str) -> Column:
        """One resource on each of them; what is free where it can be leased."""
        ...

    def text_code(self, text: str) -> float:
        """The number that stands for a text in the columns; NaN where no host has it."""
        ...


class Masks(NamedTuple):
    """On which rows a requirement holds, and on which it is unknown whether it does."""

    satisfied: Holds
    unknown: Holds


class Requirement:
    """A requirement whose names and types are those of a schema; made by `compile_requirement`."""

    def __init__(self, text: str, what: Meaning) -> None:
        self.text = text
        self.meaning = what
        self.resources = resources_of(what)
        """The resources that it asks about."""

    def evaluate(self, source: Source) -> Masks:
        """Decide it on each host of `source`."""
        verdicts = decide(self.meaning, source)
        return Masks(verdicts == TRUE, verdicts == UNKNOWN)


def compile_requirement(text: str, schema: Schema) -> Requirement:
    """Read a requirement and check it against declared resources. Raises RequirementError."""
    return Requirement(text, meaning(parse(text), schema))


def decide(what: Meaning, source: Source) -> Verdicts:
    """The verdict on each host."""
    match what:
        case Every(parts) | Either(parts):
            join = np.minimum if isinstance(what, Every) else np.maximum
            verdicts = decide(parts[0], source)
            for part in parts[1:]:
                verdicts = join(verdicts, decide(part, source))
            return verdicts
        case Denied(part):
            return np.int8(TRUE) - decide(part, source)
        case Known() | Mapped() | Against() | Between():
            return _leaf(what, source)


def _leaf(what: Leaf, source: Source) -> Verdicts:
    match what:
        case Known(truth):
            return np.full(source.size, TRUE if truth else FALSE, dtype=np.int8)
        case Mapped(resource):
            mapped = source.column(resource).states != ABSENT
            return np.where(mapped, np.int8(TRUE), np.int8(FALSE))
        case Against(resource, operator, value):
            states, numbers = source.column(resource)
            holds: Holds = _COMPARE[operator](numbers, _number(value, source))
            return _verdicts(holds, states == FRESH, states == ABSENT)
        case Between(left, operator, right, factors):
            first, second = source.column(left), source.column(right)
            holds = _COMPARE[operator](first.numbers * factors[0], second.numbers * factors[1])
            fresh = (first.states == FRESH) & (second.states == FRESH)
            return _verdicts(holds, fresh, (first.states == ABSENT) | (second.states == ABSENT))


def _number(value: Value, source: Source) -> float:
    return source.text_code(value) if isinstance(value, str) else float(value)


def _verdicts(holds: Holds, fresh: Holds, absent: Holds) -> Verdicts:
    """Unknown where a value is not fresh, but false where a resource is absent."""
    verdicts: Verdicts = np.where(fresh, holds.view(np.int8) * np.int8(TRUE), np.int8(UNKNOWN))
    verdicts[absent] = FALSE
    return verdicts
