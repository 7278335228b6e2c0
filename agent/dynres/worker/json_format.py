"""Format `json`: one object, its members taken one by one with their numbers as written."""

import json
import re
from typing import Final

from dynres.worker.pairs import Asked, BadOutputError, Pair, decode

DEEPEST: Final = 64
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")


class _Object(list[tuple[str, object]]):
    """A JSON object as its pairs in order."""


class _Number(str):
    """A JSON number as written."""

    __slots__ = ()


def json_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`json`: one object, name -> number, string, boolean or null."""
    _check_depth(body)
    try:
        tree = _DECODER.decode(decode(body))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadOutputError(f"not JSON: {error.msg} at {where}") from None
    if not isinstance(tree, _Object):
        raise BadOutputError(f"expected a JSON object, got {_kind(tree)}")
    return [_pair(name, member) for name, member in tree]


def _check_depth(body: bytes) -> None:
    """The parser recurses, so a deep nesting is refused before it is tried."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise BadOutputError(f"JSON nested deeper than {DEEPEST}")


def _pair(name: str, member: object) -> Pair:
    if member is None:
        return Pair(name=name, text=None)
    if isinstance(member, bool):
        return Pair(name=name, text="true" if member else "false")
    if isinstance(member, str):
        return Pair(name=name, text=str(member))
    fault = f"expected a number, string, boolean or null, got {_kind(member)}"
    return Pair(name=name, text=_kind(member), fault=fault)


def _kind(member: object) -> str:
    if member is None:
        return "null"
    kinds = {_Object: "an object", list: "a list", _Number: "a number", bool: "a boolean"}
    return kinds.get(type(member), "a string")


def _object(pairs: list[tuple[str, object]]) -> _Object:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise BadOutputError(f"the JSON key {name[:80]!a} is given twice")
        seen.add(name)
    return _Object(pairs)


def _constant(word: str) -> object:
    raise BadOutputError(f"{word} is not JSON: print null where there is no value")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_Number,
    parse_int=_Number,
    parse_constant=_constant,
    strict=False,  # a control character then costs its own value, not the whole output
)
