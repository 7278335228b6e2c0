"""The types of single settings: each reads text as written, and says what it expected.

Every type carries its own JSON Schema, in which an editor may also use YAML's own numbers and
booleans where the text form is one.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dynres import value as values
from dynres.config import builtin
from dynres.config.names import is_host_name
from dynres.config.near import nearest
from dynres.config.scalars import Map, Scalar

_NAME: Final = "a name: a letter, then letters, digits, _; at most 64"
_TERM: Final = "a host, a range, @group, all, default or others"
_QUOTABLE: Final = frozenset({_TERM, "text on one line", "text", "a single value"})
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})", re.ASCII)
_TCP = re.compile(f"tcp://{_ADDRESS.pattern}", re.ASCII)
_IPC = re.compile(r"ipc:///?[^:]{1,100}", re.ASCII)


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
        hint = "quote it" if isinstance(node, Map | list) and expected in _QUOTABLE else None
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
        except PydanticCustomError:
            raise
        except ValueError as error:
            raise complaint(expected, f"{short(text.text)}: {error}") from None

    return Reads(validate, schema)


def _name(text: Scalar) -> Scalar:
    if not values.is_name(text.text):
        raise complaint(_NAME, short(text.text))
    return text


def _probe_name(text: Scalar) -> Scalar:
    return text if text.text == builtin.PROBE else _name(text)


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


def _host_name(text: Scalar) -> Scalar:
    if not is_host_name(text.text):
        raise ValueError("letters, digits, '.', '-', '_', and no keyword")
    return text


def _endpoint(text: Scalar) -> str:
    found = _TCP.fullmatch(text)
    if _IPC.fullmatch(text) or (found and 0 < int(found[2]) < 65536):
        return text.text
    hint = f"write tcp://{text.text}" if _ADDRESS.fullmatch(text) else None
    raise complaint("an endpoint such as tcp://HOST:5750", short(text.text), hint)


def _page(text: Scalar) -> str:
    if text.text == "off":
        return ""
    found = _ADDRESS.fullmatch(text)
    if not found or int(found[2]) > 65535:
        raise complaint("ADDR:PORT, or off", short(text.text), "such as 127.0.0.1:9750")
    return text.text


def _listen(text: Scalar) -> str:
    if text.text not in {"*", "localhost"}:
        try:
            ipaddress.ip_address(text.text.strip("[]"))
        except ValueError:
            raise ValueError("no IP address") from None
    return text.text


def _path(text: Scalar) -> str:
    if not text.startswith("/"):
        raise ValueError("does not begin with /")
    return values.read_string(text.text)


def _search_path(text: Scalar) -> str:
    for folder in text.split(":"):
        if not folder.startswith("/"):
            raise ValueError(f"{folder!r} does not begin with /")
    return values.read_string(text.text)


_DURATION: Final = {
    "type": ["string", "number"],
    "pattern": r"^\s*\d+(\.\d+)?((ms|s|m|h|d)(\d+(\.\d+)?(ms|s|m|h))*)?\s*$",
}
_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_AMOUNT: Final = {"type": ["string", "number"], "minimum": 0}


Name = Annotated[
    Scalar,
    _typed(_NAME, {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,63}$"}, _name),
]
ProbeName = Annotated[
    Scalar,
    _typed(
        _NAME,
        {"type": "string", "pattern": f"^([A-Za-z][A-Za-z0-9_]{{0,63}}|{builtin.PROBE})$"},
        _probe_name,
    ),
]
"""The name of a probe that a resource uses; a load index may use the built-in one."""
Label = Annotated[str, _typed("a unit such as GB", {"type": "string"}, _label)]
Line = Annotated[str, _typed("text on one line", _SCALAR, _line)]
Argument = Annotated[str, _typed("text", _SCALAR, _argument)]
"""What a program is given: it may have several lines, such as a script for `sh -c`."""
Prose = Annotated[str, _typed("text", _SCALAR, _prose)]
Word = Annotated[Scalar, _typed("a single value", _SCALAR, lambda text: text)]
"""A scalar that is read later, when its declared type is known."""
Term = Annotated[Scalar, _typed(_TERM, _SCALAR, lambda text: text)]
HostName = Annotated[Scalar, _typed("a host name", _SCALAR, _host_name)]
Endpoint = Annotated[
    str, _typed("an endpoint such as tcp://HOST:5750", {"type": "string"}, _endpoint)
]
Page = Annotated[str, _typed("ADDR:PORT, or off", _SCALAR, _page)]
"""Where a page is served; empty text for `off`."""
ListenAddress = Annotated[
    str, _typed("an IP address of this machine, or * for all", {"type": "string"}, _listen)
]
AbsolutePath = Annotated[str, _typed("an absolute path", {"type": "string"}, _path)]
SearchPath = Annotated[
    str, _typed("absolute folders separated by ':'", {"type": "string"}, _search_path)
]
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
