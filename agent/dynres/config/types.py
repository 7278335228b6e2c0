"""The types of single settings: each reads text as written, and says what it expected.

Every type carries its own JSON Schema, in which an editor may also use YAML's own numbers and
booleans where the text form is one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dynres import value as values
from dynres.config.near import nearest
from dynres.config.scalars import Map, Scalar


def complaint(expected: str, got: str | None = None, hint: str | None = None) -> Exception:
    """The error that becomes a fault: `expected …, got … (hint)`."""
    context = {"expected": expected, "got": got, "hint": hint}
    return PydanticCustomError("dynres", "{expected}", context)


def describe(node: Any) -> str:
    """What stands in the file, in few words."""
    if isinstance(node, Scalar):
        return "nothing" if node.missing else short(node.text)
    if isinstance(node, Map):
        return "a mapping"
    return "a list" if isinstance(node, list) else short(str(node))


def short(text: str) -> str:
    """Text for a message: on one line, quoted, and cut when it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def text_of(node: Any, expected: str) -> Scalar:
    """`node` as text. Raises the complaint where it is a mapping, a list or nothing."""
    if not isinstance(node, Scalar) or node.missing:
        hint = "quote it" if isinstance(node, Map | list) and "text" in expected else None
        raise complaint(expected, describe(node), hint)
    return node


@dataclass(frozen=True, eq=False)
class Reads:
    """Metadata of an annotation: how pydantic reads a node, and what an editor is told."""

    read: Callable[[Any], Any]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _typed(expected: str, schema: dict[str, Any], read: Callable[[Scalar], Any]) -> Reads:
    """Reads a scalar; ValueError becomes a complaint."""

    def validate(node: Any) -> Any:
        text = text_of(node, expected)
        try:
            return read(text)
        except ValueError as error:
            raise complaint(expected, f"{short(text.text)}: {error}") from None

    return Reads(validate, schema)


def _name(text: Scalar) -> Scalar:
    if not values.is_name(text.text):
        raise complaint("a name: a letter, then letters, digits, _; at most 64", short(text.text))
    return text


def _label(text: Scalar) -> str:
    if not 0 < len(text) <= 32 or re.search(r"\s", text):
        raise ValueError("1 to 32 characters without blanks")
    return values.read_string(text.text)


def _line(text: Scalar) -> str:
    return values.read_string(text.text)


def _argument(text: Scalar) -> str:
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > 100_000:
        raise ValueError("a NUL character, or more than 100000 bytes")
    return text.text


def _prose(text: Scalar) -> str:
    if len(text) > 10_000:
        raise ValueError("longer than 10000 characters")
    return text.text


def _percent_or_amount(text: Scalar) -> tuple[Decimal, bool]:
    number = text.text.strip()
    percent = number.endswith("%")
    amount = values.read_amount(number.removesuffix("%").rstrip())
    if percent and amount > 100:
        raise ValueError("more than 100%")
    return amount, percent


def _size(text: Scalar) -> int:
    number, unit = values.split_quantity(text.text)
    amount = values.read_amount(number)
    if unit.upper() != "B" and unit:
        amount = values.convert(amount, unit, "K", rounding="down") * 1024
    if not 0 < amount < 2**62:
        raise ValueError("must be more than 0")
    return int(amount)


def whole(low: int, high: int) -> Reads:
    """Reads a whole number from `low` to `high`."""

    def read(text: Scalar) -> int:
        if not re.fullmatch(r"-?(0|[1-9]\d{0,9})", text.strip(), re.ASCII):
            raise ValueError("not a whole number")
        if not low <= int(text) <= high:
            raise ValueError("out of range")
        return int(text)

    schema = {"type": ["integer", "string"], "minimum": low, "maximum": high}
    return _typed(f"a whole number from {low} to {high}", schema, read)


def choice(*words: str) -> Reads:
    """Reads one of `words`, with a hint for a near miss."""
    listed = " | ".join(words)

    def validate(node: Any) -> str:
        text = text_of(node, listed).text
        if text not in words:
            raise complaint(listed, short(text), nearest(text, words))
        return text

    return Reads(validate, {"type": "string", "enum": list(words)})


_DURATION: Final = {
    "type": ["string", "number"],
    "pattern": r"^\s*\d+(\.\d+)?((ms|s|m|h|d)(\d+(\.\d+)?(ms|s|m|h))*)?\s*$",
}
_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_AMOUNT: Final = {"type": ["string", "number"], "minimum": 0}


Name = Annotated[
    Scalar,
    _typed("a name", {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,63}$"}, _name),
]
Label = Annotated[str, _typed("a unit such as GB", {"type": "string"}, _label)]
Line = Annotated[str, _typed("text on one line", _SCALAR, _line)]
Argument = Annotated[str, _typed("text", _SCALAR, _argument)]
"""What a program is given: it may have several lines, such as a script for `sh -c`."""
Prose = Annotated[str, _typed("text", _SCALAR, _prose)]
Word = Annotated[Scalar, _typed("text", _SCALAR, lambda text: text)]
"""A scalar that is read later, when its declared type is known."""
Duration = Annotated[
    float,
    _typed("a duration such as 15, 15s, 5m, 1h30m", _DURATION, values.read_duration),
]
Boolean = Annotated[
    bool,
    _typed("true or false", {"type": ["boolean", "string"]}, values.read_boolean),
]
Amount = Annotated[
    Decimal, _typed("an amount: a number, not negative", _AMOUNT, values.read_amount)
]
Reserve = Annotated[
    tuple[Decimal, bool],
    _typed("an amount, or a share such as 10%", {"type": ["string", "number"]}, _percent_or_amount),
]
Size = Annotated[
    int, _typed("a size such as 64KiB or 200M", {"type": ["string", "integer"]}, _size)
]
