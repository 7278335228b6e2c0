"""Values, strict reading of numbers, units, durations and names: what a value *is*.

Standard library only: everything else may import this module.

A numeric value is an IEEE double. Text with at most 15 significant digits comes back from it
unchanged, and every view prints the shortest text that reads back as the same double.
"""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final, Literal

Value = float | bool | str
"""One value of a resource: numeric, boolean or string. Unavailable is `None`, never a Value."""

ValueType = Literal["numeric", "boolean", "string"]
Order = Literal["decreasing", "increasing", "none"]

STRING_LIMIT: Final = 1024
"""Longest string value, in UTF-8 bytes."""

AMOUNT_LIMIT: Final = Decimal("9e12")
AMOUNT_DIGITS: Final = 15
AMOUNT_PLACES: Final = 6

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_ENDLESS = re.compile(r"[eE][+-]?0*[1-9]\d{6}", re.ASCII)
"""An exponent that an exact decimal may not have."""
_LEADING_ZERO = re.compile(r"[+-]?0\d", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_QUANTITY = re.compile(r"([+-]?[0-9.eE+-]*[0-9.])\s*(\S*)", re.ASCII)

_DURATION_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_DURATION: Final = 30 * 86400.0

_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})

_TIME_UNITS: Final = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
_BINARY: Final = {p: Decimal(1024) ** i for i, p in enumerate("KMGTP", start=1)}
_BINARY_UNIT = re.compile(r"([kmgtp])(?:i?b)?", re.ASCII | re.IGNORECASE)


def is_name(text: str) -> bool:
    """Whether `text` may name a resource or a probe: a letter, then letters, digits, `_`; <= 64."""
    return _NAME.fullmatch(text) is not None


def read_number(text: str) -> float:
    """Read one plain decimal number (an exponent is fine) as a finite double.

    Blanks and a line end around it are allowed. Raises ValueError with the reason in words for
    everything else: `nan`, `inf`, `1_000`, `0x10`, `010`, `1,5`, other alphabets' digits, `1e400`.
    """
    plain = text.strip(" \t\r\n")
    if _NUMBER.fullmatch(plain) is None:
        raise ValueError(_why_no_number(plain))
    if _LEADING_ZERO.match(plain):
        raise ValueError("leading zero: octal or decimal?")
    if _ENDLESS.search(plain):
        raise ValueError("an exponent of more than six digits")
    number = float(plain)
    if math.isinf(number):
        raise ValueError("too large for a number")
    return number + 0.0  # -0.0 becomes 0.0


def _why_no_number(plain: str) -> str:
    if not plain:
        return "empty"
    if plain.lower().lstrip("+-.") in {"nan", "inf", "infinity"}:
        return "not a finite number"
    if re.fullmatch(r"[+-]?\d+,\d+", plain, re.ASCII):
        return "decimal comma? use a point"
    if not plain.isascii():
        return "not ASCII digits"
    if "_" in plain:
        return "underscore in a number"
    if re.match(r"[+-]?0[xXoObB]", plain):
        return "not decimal"
    return "not a plain decimal number"


def format_number(number: float) -> str:
    """The shortest text that reads back as the same double; whole numbers without `.0`."""
    if number.is_integer() and abs(number) < 1e16:
        return str(int(number))
    return repr(number)


def plain_number(number: float) -> float | int:
    """The same number, as an `int` where it is whole: what JSON views print losslessly."""
    return int(number) if number.is_integer() and abs(number) < 1e16 else number


def read_boolean(text: str, *, digits: bool = False) -> bool:
    """Read `true/false/yes/no/on/off`, and `1/0` with `digits` (from a probe). ValueError else."""
    word = text.strip(" \t\r\n").lower()
    if word in _TRUE or (digits and word == "1"):
        return True
    if word in _FALSE or (digits and word == "0"):
        return False
    raise ValueError("not true/false, yes/no, on/off" + (" or 1/0" if digits else ""))


def read_string(text: str) -> str:
    """Check a string value: at most 1 KiB of UTF-8, no control characters. ValueError else."""
    if len(text.encode("utf-8", "surrogatepass")) > STRING_LIMIT:
        raise ValueError(f"longer than {STRING_LIMIT} bytes")
    for char in text:
        if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000:
            raise ValueError(f"control character U+{ord(char):04X}")
    return text


def read_value(text: str, kind: ValueType, *, from_probe: bool = False) -> Value:
    """Read `text` as a value of the declared type. Raises ValueError with the reason in words."""
    if kind == "numeric":
        return read_number(text)
    if kind == "boolean":
        return read_boolean(text, digits=from_probe)
    return read_string(text)


def format_value(value: Value | None) -> str:
    """A value as a person reads it: `-` for none, `true`/`false`, lossless numbers."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else format_number(float(value))


def read_amount(text: str) -> Decimal:
    """Read an amount: a non-negative exact decimal, at most 6 places and 15 digits, below 9e12."""
    read_number(text)
    amount = Decimal(text.strip())
    check_amount(amount)
    return amount


def check_amount(amount: Decimal) -> None:
    """Raise ValueError when `amount` is not one that can be held, summed or a capacity."""
    if amount < 0:
        raise ValueError("negative")
    if amount >= AMOUNT_LIMIT:
        raise ValueError("9e12 or more")
    _, digits, exponent = amount.normalize().as_tuple()
    if isinstance(exponent, int) and -exponent > AMOUNT_PLACES:
        raise ValueError(f"more than {AMOUNT_PLACES} decimal places")
    if len(digits) + max(0, int(exponent)) > AMOUNT_DIGITS:
        raise ValueError(f"more than {AMOUNT_DIGITS} significant digits")


def read_duration(text: str) -> float:
    """Read `15`, `15s`, `500ms`, `5m`, `1h30m` as seconds; more than 0, at most 30 days."""
    plain = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", plain, re.ASCII):
        seconds = float(plain)
    else:
        parts = _DURATION_PART.findall(plain)
        if not parts or "".join(n + u for n, u in parts) != plain:
            raise ValueError("not a duration such as 15, 15s, 500ms, 5m or 1h30m")
        units = [u for _, u in parts]
        order = list(_DURATION_SECONDS)[::-1]
        if sorted(set(units), key=order.index) != units:
            raise ValueError("units must fall and not repeat, as in 1h30m")
        seconds = sum(float(n) * _DURATION_SECONDS[u] for n, u in parts)
    if not 0 < seconds <= LONGEST_DURATION:
        raise ValueError("must be more than 0 and at most 30 days")
    return seconds


def format_duration(seconds: float) -> str:
    """Seconds as a person reads them: `1h30m`, `15s`, `500ms`."""
    if seconds < 1:
        return f"{format_number(round(seconds * 1000, 3))}ms"
    text, rest = "", seconds
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _DURATION_SECONDS[unit])
        text += f"{int(count)}{unit}" if count else ""
    rest = round(rest, 3)
    return text + (f"{format_number(rest)}s" if rest or not text else "")


def _factor(unit: str) -> tuple[str, Decimal]:
    """The dimension of a unit and its size in that dimension's base unit; a label is its own."""
    binary = _BINARY_UNIT.fullmatch(unit)
    if binary:
        return "binary", _BINARY[binary[1].upper()]
    if unit in _TIME_UNITS:
        return "time", _TIME_UNITS[unit]
    return f"label {unit}", Decimal(1)


def convert(amount: Decimal, unit: str, to: str, *, rounding: Literal["up", "down"]) -> Decimal:
    """Convert `amount` from one unit into another, rounded at the 6th place.

    K, M, G, T, P (with or without B or iB, any case) are powers of 1024; ms, s, min, h convert
    among each other; any other unit is a label and only itself. Raises ValueError where the two
    do not measure the same thing. Requests round up, measured capacities down.
    """
    dimension, size = _factor(unit)
    wanted, base = _factor(to)
    if dimension != wanted:
        raise ValueError(f"{unit} cannot be converted to {to}")
    mode = ROUND_CEILING if rounding == "up" else ROUND_FLOOR
    return (amount * size / base).quantize(Decimal("0.000001"), mode)


def split_quantity(text: str) -> tuple[str, str]:
    """Split `20GB` or `20 GB` into number text and unit text (empty when bare)."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a number, or a number and a unit")
    return match[1], match[2]
