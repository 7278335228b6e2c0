"""Format `nagios`: a plugin's exit status, its text, and its performance data."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from dynres.value import read_number
from dynres.worker.pairs import Asked, Pair, decode

STATUSES: Final = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""By exit status; any other fails the run."""
STATUS: Final = "status"
"""What `map:` calls the plugin's status."""
OUTPUT: Final = "output"
"""What `map:` calls the first line of its text."""

_UNKNOWN: Final = 3
_QUOTED = re.compile(r"'((?:[^']|''){0,512}+)'=(\S*)")
_PLAIN = re.compile(r"([^\s'=][^\s=]*)=(\S*)")
_WORD = re.compile(r"\S+")
_VALUE = re.compile(r"([-+0-9.,eE]*[0-9.])([A-Za-z%µ/]{0,16})")
_BYTES = re.compile(r"([KMGTP]?)i?B?", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}


def nagios_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`nagios`: performance data by label; `status` and `output` where they are asked for."""
    text, performance = _split(decode(body))
    data = list(_data(performance))
    pairs = [_datum(label, value, asked) for label, value in data]
    pairs += [Pair(name="", text=word, fault="no performance data") for word in _odd(performance)]
    for name in (STATUS, OUTPUT):
        if asked.target(name) in asked.resources:
            pairs.append(_status(name, asked) if name == STATUS else Pair(name=name, text=text))
    return _for_one(pairs, data, asked) if len(asked.resources) == 1 else pairs


def _for_one(pairs: list[Pair], data: list[tuple[str, str]], asked: Asked) -> list[Pair]:
    """A probe of one resource, without `map:`, whose name the plugin does not know.

    A number is then the only performance datum; anything else is the plugin's status.
    """
    only, kind = next(iter(asked.resources.items()))
    if asked.several or asked.names or any(pair.name == only for pair in pairs):
        return pairs
    if kind != "numeric":
        return [_status(only, asked)]
    return [_datum(only, data[0][1], asked)] if len(data) == 1 else pairs


def _split(text: str) -> tuple[str, str]:
    """The first line of the text, and all performance data.

    Data follow the first `|` of the first line; then comes more text, and after a `|` in that
    nothing but data.
    """
    first, _, rest = text.partition("\n")
    line, _, data = first.partition("|")
    _, _, more = rest.partition("|")
    return line.strip(), f"{data}\n{more}"


def _data(performance: str) -> Iterator[tuple[str, str]]:
    for match in _scan(performance):
        if match.re is not _WORD:
            label = match[1].replace("''", "'") if match.re is _QUOTED else match[1]
            yield label.strip(), match[2].partition(";")[0]


def _odd(performance: str) -> Iterator[str]:
    return (match[0] for match in _scan(performance) if match.re is _WORD)


def _scan(performance: str) -> Iterator[re.Match[str]]:
    """One match for each thing in it, in order; what is no datum is a word."""
    at = 0
    while True:
        word = _WORD.search(performance, at)
        if word is None:
            return
        start = word.start()
        match = _PLAIN.match(performance, start) or _QUOTED.match(performance, start) or word
        yield match
        at = match.end()


def _datum(label: str, text: str, asked: Asked) -> Pair:
    if text == "U":
        return Pair(name=label, text=None)
    parts = _VALUE.fullmatch(text)
    if parts is None:
        return Pair(name=label, text=text, fault="no number: expected a value and its unit")
    number, unit = parts[1], parts[2]
    wanted = asked.units.get(asked.target(label))
    if unit in {"", "c"} or wanted is None or unit == wanted:
        return Pair(name=label, text=number)
    try:
        return Pair(name=label, text=_converted(number, unit, wanted))
    except ValueError as error:
        return Pair(name=label, text=text, fault=str(error))


def _converted(number: str, unit: str, wanted: str) -> str:
    """The number in another unit of the same dimension. Raises ValueError."""
    read_number(number)
    for size in (_seconds, _bytes):
        here, there = size(unit), size(wanted)
        if here is not None and there is not None:
            return str(Decimal(number) * here / there)
    raise ValueError(f"in {unit}, which cannot be converted to {wanted}")


def _seconds(unit: str) -> Decimal | None:
    return _SECONDS.get(unit)


def _bytes(unit: str) -> Decimal | None:
    match = _BYTES.fullmatch(unit) if unit else None
    if match is None or unit.lower() == "i":
        return None
    return Decimal(1024) ** " KMGTP".index(match[1].upper() or " ")


def _status(name: str, asked: Asked) -> Pair:
    kind = asked.resources[asked.target(name)]
    if kind == "string":
        return Pair(name=name, text=STATUSES[asked.status])
    if kind == "numeric":
        return Pair(name=name, text=str(asked.status))
    if asked.status == _UNKNOWN:
        return Pair(name=name, text=None)
    return Pair(name=name, text="true" if asked.status == 0 else "false")
