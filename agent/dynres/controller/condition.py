"""A requirement as it is written: its parts as a tree, and the text that such a tree stands for."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]

COMPARISONS: Final[tuple[Comparison, ...]] = ("==", "!=", "<", "<=", ">", ">=")


class RequirementError(ValueError):
    """A requirement that means nothing: `column` (from 1) says where, the text what and why."""

    def __init__(self, column: int, what: str, hint: str | None = None) -> None:
        super().__init__(f"column {column}: {what}" + (f" ({hint})" if hint else ""))
        self.column = column
        self.what = what
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Part:
    """Base of all parts; `column` is where it begins, and no part of what it means."""

    column: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Name(Part):
    """A resource: a value, or a condition where it is boolean."""

    name: str


@dataclass(frozen=True, slots=True)
class Number(Part):
    """A number in `unit`; without one, in that of what it is compared with."""

    number: Decimal
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Text(Part):
    """A quoted string."""

    text: str


@dataclass(frozen=True, slots=True)
class Truth(Part):
    """`true` or `false`."""

    truth: bool


Operand = Name | Number | Text | Truth


@dataclass(frozen=True, slots=True)
class Compare(Part):
    """`left operator right`."""

    left: Operand
    operator: Comparison
    right: Operand


@dataclass(frozen=True, slots=True)
class Enough(Part):
    """`name: number`, at least or at most that much by the order of the resource."""

    name: Name
    number: Number


@dataclass(frozen=True, slots=True)
class Defined(Part):
    """`defined(name)`: whether the resource is mapped to the host."""

    name: Name


@dataclass(frozen=True, slots=True)
class Not(Part):
    """`!part`."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class All(Part):
    """`part && part…`, two or more."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Any(Part):
    """`part || part…`, two or more."""

    parts: tuple["Condition", ...]


Condition = Name | Truth | Compare | Enough | Defined | Not | All | Any


def written(part: Condition | Operand) -> str:
    """The text of a tree, with no more parentheses than it needs; reading it gives the same."""
    match part:
        case Name(name):
            return name
        case Number(number, unit):
            apart = " " if unit and (unit[0].isalpha() or unit[0] in "%°") else ""
            return f"{number}{apart}{unit or ''}"
        case Text(text):
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case Truth(truth):
            return "true" if truth else "false"
        case Compare(left, operator, right):
            return f"{written(left)} {operator} {written(right)}"
        case Enough(name, number):
            return f"{written(name)}: {written(number)}"
        case Defined(name):
            return f"defined({written(name)})"
        case Not(inner):
            return f"!{_enclosed(inner, (Compare, Enough, All, Any))}"
        case All(parts):
            return " && ".join(_enclosed(inner, (All, Any)) for inner in parts)
        case Any(parts):
            return " || ".join(_enclosed(inner, (Any,)) for inner in parts)


def _enclosed(part: Condition, kinds: tuple[type[Part], ...]) -> str:
    return f"({written(part)})" if isinstance(part, kinds) else written(part)
