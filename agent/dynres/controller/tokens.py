"""Cuts the text of a requirement into words, numbers with their unit, strings and signs."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from dynres.controller.condition import RequirementError
from dynres.value import read_number, read_string

LONGEST: Final = 4096
"""Characters of a requirement."""

Kind = Literal["name", "number", "text", "sign", "end"]

_BLANK = re.compile(r"\s*")
_SIGN = re.compile(r"==|!=|<=|>=|&&|\|\||[<>!():]")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_REST = re.compile(r"[^\s()&|!=<>:\"']*")
"""What hangs on to a number: its unit, or what makes it none."""
_UNIT = re.compile(r"[ \t]+([^\W\d_][^\s()&|!=<>:\"']*|[%°][^\s()&|!=<>:\"']*)")
"""A unit after a blank."""
_NO_NUMBER = re.compile(r"[\d._,]|[xXoObB]\d")
_INSTEAD: Final = {
    "=": "write == to compare",
    "&": "write && for and",
    "|": "write || for or",
    "+": "there is no arithmetic here",
    "-": "there is no arithmetic here, and names have no -",
    "*": "there is no arithmetic here",
    "/": "there is no arithmetic here",
    ",": "write && for and",
}


class Token(NamedTuple):
    """A piece of the text. `number` and `unit` of a number; `text` of a string, without quotes."""

    kind: Kind
    text: str
    column: int
    number: Decimal = Decimal(0)
    unit: str | None = None


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a requirement, an `end` last. Raises RequirementError."""
    if len(text) > LONGEST:
        raise RequirementError(LONGEST + 1, f"longer than {LONGEST} characters")
    at = _skip(text, 0)
    while at < len(text):
        token, at = _next(text, at)
        yield token
        at = _skip(text, at)
    yield Token("end", "the end", len(text) + 1)


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _next(text: str, at: int) -> tuple[Token, int]:
    column = at + 1
    if _NUMBER.match(text, at):
        return _number(text, at)
    if found := _SIGN.match(text, at):
        return Token("sign", found[0], column), found.end()
    if found := _NAME.match(text, at):
        return Token("name", found[0], column), found.end()
    if text[at] in "\"'":
        return _string(text, at)
    raise RequirementError(column, f"unexpected {text[at]!r}", _INSTEAD.get(text[at]))


def _number(text: str, at: int) -> tuple[Token, int]:
    found = _NUMBER.match(text, at)
    plain = found[0] if found else ""
    rest = _REST.match(text, at + len(plain))
    attached = rest[0] if rest else ""
    end = at + len(plain) + len(attached)
    if _NO_NUMBER.match(attached):
        plain, attached = plain + attached, ""
    try:
        read_number(plain)
    except ValueError as error:
        raise RequirementError(at + 1, f"{plain[:40]} is no number: {error}") from error
    unit = attached or None
    if unit is None and (apart := _UNIT.match(text, end)):
        unit, end = apart[1], apart.end()
    return Token("number", plain, at + 1, Decimal(plain), unit), end


def _string(text: str, at: int) -> tuple[Token, int]:
    """A string in either kind of quotes; `\\` takes the next character as it is."""
    quote, end, parts = text[at], at + 1, list[str]()
    while end < len(text) and text[end] != quote:
        end += text[end] == "\\"
        parts += text[end : end + 1]
        end += 1
    if end >= len(text):
        raise RequirementError(at + 1, f"a string without its closing {quote}")
    try:
        plain = read_string("".join(parts))
    except ValueError as error:
        raise RequirementError(at + 1, f"no string that a resource can have: {error}") from error
    return Token("text", plain, at + 1), end + 1
