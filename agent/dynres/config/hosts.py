"""The ClusterShell edge: text with bracket ranges <-> host names, in NodeSet's order."""

import re
from collections.abc import Iterable
from math import prod
from typing import Any, Final

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from dynres.config.names import NAME_LIMIT, AmbiguousError, Names, host_key

__all__ = ["TERM_LIMIT", "AmbiguousError", "Names", "TermError", "expand", "fold", "sort_hosts"]

TERM_LIMIT: Final = 200_000
"""Most hosts of one term."""

_PIECE = re.compile(r"[A-Za-z0-9._-]+|\[([^\[\]]*)\]", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,99})(?:-([0-9]{1,99})(?:/([0-9]{1,99}))?)?", re.ASCII)
_SEVERAL_NUMBERS = re.compile(r"[0-9][^0-9]+[0-9]", re.ASCII)


class TermError(ValueError):
    """A text that is no host name with bracket ranges; `hint` says what to do."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        self.hint = hint
        super().__init__(why)


def expand(text: str) -> list[str]:
    """The hosts that a name with bracket ranges gives, each once, in NodeSet's order.

    Raises TermError for anything else (wildcards, blanks, operators, commas outside brackets) and
    for more than TERM_LIMIT hosts, which is found out before anything is expanded.
    """
    if "[" not in text and "]" not in text:
        _check_characters(text)
        if len(text) > NAME_LIMIT:
            raise TermError(f"longer than {NAME_LIMIT} characters")
        return [text]
    if _count(text) > TERM_LIMIT:
        raise TermError(f"more than {TERM_LIMIT} hosts in one term")
    try:
        hosts = list(map(str, _node_set(text)))
    except NodeSetException as error:
        raise TermError(str(error)) from error
    if max(map(len, hosts)) > NAME_LIMIT:
        raise TermError(f"names longer than {NAME_LIMIT} characters")
    return hosts


def _check_characters(text: str) -> None:
    if not text:
        raise TermError("empty")
    bad = re.search(r"[^A-Za-z0-9._\[\]-]", text, re.ASCII)
    if bad is None:
        return
    char = bad[0]
    if char.isspace():
        raise TermError("blank in a host name", "one term for each host, separated by commas")
    if char in "*?":
        raise TermError(f"wildcard {char}", "write the names, a range such as node[1-9] or a group")
    if char in "!&^":
        raise TermError(f"operator {char}", 'to take hosts away write "~TERM" as a term of its own')
    if char == ",":
        raise TermError("comma outside brackets", "one term for each host")
    if char == "@":
        raise TermError("@ inside a name", 'a group is "@NAME", a term of its own')
    shown = char if char.isprintable() else f"U+{ord(char):04X}"
    raise TermError(f"character {shown}", "letters, digits, '.', '-', '_' and ranges such as [1-9]")


def _count(text: str) -> int:
    """How many hosts a term with brackets stands for, at most. Raises TermError."""
    at, counts = 0, []
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise _why_no_piece(text, at)
        if piece[1] is not None:
            counts.append(sum(_range_count(part) for part in piece[1].split(",")))
        at = piece.end()
    return prod(counts)


def _why_no_piece(text: str, at: int) -> TermError:
    if text[at] in "[]":
        return TermError("brackets do not pair", 'quote it, as in "node[1-4,9]"')
    try:
        _check_characters(text[at:])
    except TermError as error:
        return error
    return TermError("not a host name with ranges")


def _range_count(part: str) -> int:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise TermError(f"[{part}] is no range", "as in [1-4,9] or [0-10/2]")
    start, stop, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(start) > int(stop) or step < 1:
        raise TermError(f"[{part}] runs backwards", "as in [1-4] or [0-10/2]")
    if len(start) != len(stop) and "0" in {start[0], stop[0]} and start != "0":
        raise TermError(f"[{part}] pads its ends differently", "as in [001-128]")
    return (int(stop) - int(start)) // step + 1


def fold(hosts: Iterable[str]) -> str:
    """The shortest text for these host names: `node[1-4,9]`."""
    return str(NodeSet.fromlist(list(hosts), resolver=RESOLVER_NOGROUP))


def sort_hosts(hosts: Iterable[str]) -> list[str]:
    """Host names, each once, in NodeSet's order."""
    names = set(hosts)
    if any(_SEVERAL_NUMBERS.search(name) for name in names):
        several = NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP)
        return [str(name) for name in several]
    return sorted(names, key=host_key)


def _node_set(text: str) -> Any:
    return NodeSet(text, resolver=RESOLVER_NOGROUP)
