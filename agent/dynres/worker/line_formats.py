"""Formats whose record is a line: `value`, `lines`, `pbs`, and the choice where none is named."""

from collections.abc import Callable

from dynres.worker.json_format import json_pairs
from dynres.worker.pairs import Asked, BadOutputError, Pair, decode


def value_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`value`: one line that is the value of the only resource."""
    only = _only(asked, "value")
    lines = lines_of(body)
    if len(lines) != 1:
        raise BadOutputError(f"expected one line with a value, got {len(lines)} lines")
    return [text_pair(only, lines[0])]


def pbs_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`pbs`: the first line is the value of the only resource, whatever follows."""
    first, _, _ = body.partition(b"\n")
    return [text_pair(_only(asked, "pbs"), first.strip(b" \t\r"))]


def lines_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`lines`: one `NAME=value` a line; blank lines are skipped."""
    return [line_pair(line) for line in lines_of(body)]


def default_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """The default choice: by the number of resources, then by what the output looks like."""
    if asked.several:
        return _for_several(body)(body, asked)
    return _by_number(body, asked)


def _by_number(body: bytes, asked: Asked) -> list[Pair]:
    resources = asked.resources
    if len(resources) != 1:
        return (json_pairs if braced(body) else lines_pairs)(body, asked)
    lines = lines_of(body)
    if braced(body) and "string" not in resources.values():
        return json_pairs(body, asked)
    pairs = [line_pair(line) for line in lines]
    if any(asked.target(pair.name) in resources for pair in pairs):
        return pairs
    if len(lines) != 1:
        only = next(iter(resources))
        raise BadOutputError(f"expected one value or {only}=value, got {len(lines)} lines")
    return value_pairs(body, asked)


def _for_several(body: bytes) -> Callable[[bytes, Asked], list[Pair]]:
    """The default choice for a probe of several resources, of which one may be asked for here.

    It may then print a bare value; but what looks like a name is one, never part of a string.
    """
    if braced(body):
        return json_pairs
    return lines_pairs if b"=" in body else _by_number


def _only(asked: Asked, form: str) -> str:
    if len(asked.resources) != 1:
        count = len(asked.resources)
        raise BadOutputError(f"format {form} gives one resource, this probe has {count}")
    return next(iter(asked.resources))


def braced(body: bytes) -> bool:
    """Whether it looks like a JSON object."""
    return body.lstrip().startswith(b"{")


def lines_of(body: bytes) -> list[bytes]:
    """The lines that are not blank, without the blanks around them."""
    stripped = (line.strip(b" \t\r") for line in body.split(b"\n"))
    return [line for line in stripped if line]


def line_pair(line: bytes) -> Pair:
    """What one `NAME=value` says."""
    name, equals, text = line.partition(b"=")
    if not equals:
        return Pair(name="", text=decode(line), fault="expected NAME=value")
    return text_pair(decode(name.rstrip(b" \t")), text.lstrip(b" \t"))


def text_pair(name: str, raw: bytes) -> Pair:
    """A name and its value as written."""
    text = decode(raw)
    if raw in {b"-", b"null"}:
        return Pair(name=name, text=None)
    fault = None if raw else "empty: print - where there is no value"
    return Pair(name=name, text=text, fault=fault)
