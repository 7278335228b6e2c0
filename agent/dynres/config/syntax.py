"""Says in a person's words what is wrong where the YAML parser stopped, and what to do."""

import re
from typing import NamedTuple

from dynres.config.faults import Fault
from dynres.config.model import Place


class Stop(NamedTuple):
    """Where and why a parser stopped; lines and columns count from 0."""

    problem: str
    line: int
    column: int
    context: str
    context_line: int
    context_column: int


def explain(stop: Stop, text: str, file: str) -> Fault:
    """The fault that a person can act on, for any of the parser's own complaints."""
    line = _line(text, stop.line)
    at = Place(file, stop.line + 1, stop.column + 1)
    char = line[stop.column : stop.column + 1]
    if "tab character" in stop.problem or ("any token" in stop.problem and char == "\t"):
        return Fault(
            place=at, what="indentation", expected="blanks", got="a tab", hint="replace the tab"
        )
    if "nesting" in stop.problem or "recursion" in stop.problem:
        return Fault(place=at, what="nested too deeply", expected="at most 64 levels")
    quote = _wants_quotes(stop, line)
    if quote:
        return Fault(place=quote.place(file), what="YAML syntax", got=quote.got, hint=quote.hint)
    if "flow" in stop.context:
        return _not_closed(stop, at, file)
    if "quoted scalar" in stop.context and "end of stream" in stop.problem:
        begin = Place(file, stop.context_line + 1, stop.context_column + 1)
        return Fault(place=begin, what="quoted text", expected="a closing quote", got="none")
    return _layout(stop, at)


class _Quote(NamedTuple):
    line: int
    column: int
    got: str
    hint: str

    def place(self, file: str) -> Place:
        return Place(file, self.line + 1, self.column + 1)


def _wants_quotes(stop: Stop, line: str) -> _Quote | None:
    """Text that YAML takes for something else, such as `@eda` or `node[1-4]` inside a list."""
    if "any token" in stop.problem:
        word = _word(line, stop.column)
        return _Quote(
            stop.line,
            stop.column,
            f"{word[:1]!r} at the start of plain text",
            f'quote it: "{word}"',
        )
    if stop.context.startswith(("while scanning a tag", "while scanning an a")):
        word = _word(line, stop.context_column)
        return _Quote(
            stop.context_line,
            stop.context_column,
            f"{word[:1]!r} at the start of plain text",
            f'quote it: "{word}"',
        )
    before = re.search(r"[\w.@~-]+$", line[: stop.column])
    if "flow" in stop.context and before and line[stop.column : stop.column + 1] == "[":
        inner = re.match(r"\[[^\]\s]*\]?[\w.-]*", line[stop.column :])
        word = before[0] + (inner[0] if inner else "[")
        return _Quote(stop.line, before.start(), "a range inside a list", f'quote it: "{word}"')
    return None


def _word(line: str, column: int) -> str:
    found = re.match(r"[^\s,\]}]*", line[column:])
    return found[0] if found else ""


def _not_closed(stop: Stop, at: Place, file: str) -> Fault:
    hint = "close it, or quote text that holds , [ ] { } or ': '"
    if "node" in stop.context:  # right after a '[', '{' or ',': where that stands is not told
        what = "an open list or mapping"
        return Fault(place=at, what=what, expected="an item, ']' or '}'", got="none", hint=hint)
    kind, close = ("mapping", "}") if "mapping" in stop.context else ("list", "]")
    begin = f"{file}:{stop.context_line + 1}:{stop.context_column + 1}"
    return Fault(
        place=at,
        what=f"{kind} that begins at {begin}",
        expected=f"',' or '{close}'",
        got="something else",
        hint=hint,
    )


def _layout(stop: Stop, at: Place) -> Fault:
    if "mapping values" in stop.problem:
        return Fault(
            place=at,
            what="YAML syntax",
            got="a ':' where no key can stand",
            hint="check the indentation, or quote text that holds ': '",
        )
    if "expected key" in stop.problem or "indicator" in stop.problem:
        kind = "a key" if "key" in stop.problem else "'- ' and an item"
        return Fault(
            place=at,
            what="YAML syntax",
            expected=f"{kind} in the column of line {stop.context_line + 1}",
            got="something else",
            hint="check the indentation",
        )
    if "expected ':'" in stop.problem and "key" in stop.context:
        return Fault(
            place=Place(at.file, stop.context_line + 1, stop.context_column + 1),
            what="YAML syntax",
            expected="KEY: VALUE",
            got="a line without ': '",
            hint="put ': ' after the key; text that goes on is indented further",
        )
    return Fault(place=at, what=f"YAML syntax: {stop.problem}")


def _line(text: str, number: int) -> str:
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
    return lines[number] if number < len(lines) else ""
