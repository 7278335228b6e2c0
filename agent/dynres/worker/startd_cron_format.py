"""Format `startd_cron` (HTCondor): a record is ClassAd attributes up to a line with -."""

import re
from typing import Final

from dynres.worker.line_formats import lines_of
from dynres.worker.merging import newest
from dynres.worker.pairs import Asked, Pair, decode

SEPARATOR: Final = b"-"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\.?[0-9][0-9.eE+-]*", re.ASCII)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def startd_cron_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`startd_cron`: the records of an output; its end ends the last one."""
    records: list[list[bytes]] = [[]]
    for line in lines_of(body):
        if line.startswith(SEPARATOR):
            records.append([])
        else:
            records[-1].append(line)
    return newest((startd_cron_record(lines, asked) for lines in records), asked)


def startd_cron_record(lines: list[bytes], asked: Asked) -> list[Pair]:
    """What the attributes of one record say; their names count in either case."""
    known = {name.lower(): name for name in [*asked.resources, *asked.names]}
    return [_attribute(line, known) for line in lines]


def _attribute(line: bytes, known: dict[str, str]) -> Pair:
    name, equals, text = (part.strip() for part in decode(line).partition("="))
    if not equals or not _NAME.fullmatch(name):
        return Pair(name="", text=decode(line), fault="expected Attribute = value")
    name = known.get(name.lower(), name)
    word = text.lower()
    if word == "undefined":
        return Pair(name=name, text=None)
    if word in {"true", "false"}:
        return Pair(name=name, text=word)
    string = _STRING.fullmatch(text)
    if string is not None:
        return Pair(name=name, text=_ESCAPE.sub(_unescaped, string[1]))
    if not text:
        fault = "empty: print undefined where there is no value"
    elif word == "error" or not _NUMBER.fullmatch(text):
        fault = "no literal: expected a number, a string in quotes, true, false or undefined"
    else:
        fault = None
    return Pair(name=name, text=text, fault=fault)


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    if what[0] in "01234567":
        return chr(int(what, 8) & 0xFF)
    return _ESCAPED.get(what, what)
