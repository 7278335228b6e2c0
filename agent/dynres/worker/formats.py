"""What a probe printed -> the values taken, missed and refused; one function a format.

A format function only finds (name, text) pairs. Whatever its format, each pair is then judged
alone by the same rules, so that one bad value never costs its neighbours.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from dynres.value import STRING_LIMIT, Value, ValueType, read_value
from dynres.worker.json_format import json_pairs
from dynres.worker.outcome import Refused
from dynres.worker.pairs import BadOutputError, Pair, decode
from dynres.worker.refusals import UNAVAILABLE, Refusals

Resources = Mapping[str, ValueType]
Reader = Callable[[bytes, Resources, Mapping[str, str]], list[Pair]]


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """What one output gave; `problem`: why nothing of it counts."""

    values: dict[str, Value | None] = {}
    missed: dict[str, str] = {}
    """Resource that was asked for -> why it got no value."""
    refused: tuple[Refused, ...] = ()
    problem: str | None = None


def parse(
    output: bytes,
    form: str | None,
    resources: Resources,
    names: Mapping[str, str],
    *,
    several: bool = False,
) -> Parsed:
    """Read a probe's output. `names` is the probe's `map:`, its own name -> resource.

    `form` None: the default choice; `several`: the probe feeds more resources than one, even
    where only one of them is asked for. Never raises for what a probe printed; ValueError for a
    format that does not exist.
    """
    read = default_pairs if form is None else FORMATS.get(form)
    if read is None:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, got {form}")
    body = output.removeprefix(b"\xef\xbb\xbf")
    if not body.strip():
        return nothing(resources, "no data: the output is empty")
    if form is None and several:
        read = _for_several(body)
    try:
        pairs = read(body, resources, names)
    except BadOutputError as error:
        return nothing(resources, str(error))
    return take(pairs, resources, names)


def nothing(resources: Resources, problem: str) -> Parsed:
    """An output of which nothing counts."""
    return Parsed(missed=dict.fromkeys(resources, problem), problem=problem)


def value_pairs(body: bytes, resources: Resources, names: Mapping[str, str]) -> list[Pair]:
    """`value`: one line that is the value of the only resource."""
    if len(resources) != 1:
        raise BadOutputError(f"format value gives one resource, this probe has {len(resources)}")
    lines = _lines(body)
    if len(lines) != 1:
        raise BadOutputError(f"expected one line with a value, got {len(lines)} lines")
    return [_text_pair(next(iter(resources)), lines[0])]


def lines_pairs(body: bytes, resources: Resources, names: Mapping[str, str]) -> list[Pair]:
    """`lines`: one `NAME=value` a line; blank lines are skipped."""
    return [_line_pair(line) for line in _lines(body)]


def default_pairs(body: bytes, resources: Resources, names: Mapping[str, str]) -> list[Pair]:
    """The default choice: by the number of resources, then by what the output looks like."""
    if len(resources) != 1:
        return (json_pairs if _braced(body) else lines_pairs)(body, resources, names)
    lines = _lines(body)
    if _braced(body) and "string" not in resources.values():
        return json_pairs(body, resources, names)
    pairs = [_line_pair(line) for line in lines]
    if any(names.get(pair.name, pair.name) in resources for pair in pairs):
        return pairs
    if len(lines) != 1:
        only = next(iter(resources))
        raise BadOutputError(f"expected one value or {only}=value, got {len(lines)} lines")
    return value_pairs(body, resources, names)


def _for_several(body: bytes) -> Reader:
    """The default choice for a probe of several resources, of which one may be asked for here.

    It may then print a bare value; but what looks like a name is one, never part of a string.
    """
    if _braced(body):
        return json_pairs
    return lines_pairs if b"=" in body else default_pairs


def _braced(body: bytes) -> bool:
    return body.lstrip().startswith(b"{")


def _lines(body: bytes) -> list[bytes]:
    stripped = (line.strip(b" \t\r") for line in body.split(b"\n"))
    return [line for line in stripped if line]


def _line_pair(line: bytes) -> Pair:
    name, equals, text = line.partition(b"=")
    if not equals:
        return Pair(name="", text=decode(line), fault="expected NAME=value")
    return _text_pair(decode(name.rstrip(b" \t")), text.lstrip(b" \t"))


def _text_pair(name: str, raw: bytes) -> Pair:
    text = decode(raw)
    if raw in {b"-", b"null"}:
        return Pair(name=name, text=None)
    fault = None if raw else "empty: print - where there is no value"
    return Pair(name=name, text=text, fault=fault)


FORMATS: Final[dict[str, Reader]] = {
    "value": value_pairs,
    "lines": lines_pairs,
    "json": json_pairs,
}


def take(pairs: Iterable[Pair], resources: Resources, names: Mapping[str, str]) -> Parsed:
    """Judge each pair alone; say for every resource that was asked for what became of it."""
    values: dict[str, Value | None] = {}
    missed: dict[str, str] = {}
    refused = Refusals()
    for pair in pairs:
        name = names.get(pair.name, pair.name)
        if pair.fault is not None and name not in resources:
            refused.add(pair, pair.fault)
        elif name not in resources:
            refused.add(pair, "not asked of this probe on this host")
        elif name in values or name in missed:
            values.pop(name, None)
            missed[name] = "given twice"
            refused.add(pair, "given twice")
        else:
            try:
                values[name] = read_pair(pair, resources[name])
            except ValueError as error:
                missed[name] = str(error)
                refused.add(pair, str(error))
    for name in resources:
        if name not in values:
            missed.setdefault(name, "not in the output")
    problem = None if values else _summary(missed, refused.kept)
    return Parsed(values=values, missed=missed, refused=refused.all(), problem=problem)


def read_pair(pair: Pair, kind: ValueType) -> Value | None:
    """The value of one pair as the declared type; None: unavailable. ValueError: why not."""
    if pair.fault is not None:
        raise ValueError(pair.fault)
    if pair.text is None or pair.text == UNAVAILABLE:
        return None
    if len(pair.text) > STRING_LIMIT:
        raise ValueError(f"longer than {STRING_LIMIT} bytes")
    if any(0xDC80 <= ord(char) <= 0xDCFF for char in pair.text):
        raise ValueError("not UTF-8")
    return read_value(pair.text, kind, from_probe=True)


def _summary(missed: Mapping[str, str], refused: list[Refused]) -> str:
    """Why a run without a value has none, in one line."""
    odd = next((r for r in refused if r.name not in missed), None)
    texts = {r.name: r.text for r in refused}
    parts = [
        f"{name}: {reason}" + (f" ('{texts[name]}')" if name in texts else "")
        for name, reason in list(missed.items())[:3]
    ]
    if len(missed) > 3:
        parts.append(f"and {len(missed) - 3} more")
    if odd is not None and all(name not in texts for name in missed):
        parts.append(f"the output had '{odd.name or odd.text}'")
    return "; ".join(parts)
