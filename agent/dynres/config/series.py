"""Reads how `map:` names a Prometheus series: a metric, and labels where it has several series."""

import re
from typing import NamedTuple

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*+)"[ \t]*', re.ASCII
)
_ESCAPE = re.compile(r"\\(.)")


class Series(NamedTuple):
    """A metric, and what its labels must be; labels that are not named may be anything."""

    metric: str
    labels: dict[str, str]


def read_series(text: str) -> Series:
    """`NAME` or `NAME{label="value",…}`. Raises ValueError with the reason in words."""
    series, end = scan_series(text, 0)
    if text[end:].strip():
        raise ValueError(f"text after the series: {text[end:].strip()[:80]!r}")
    return series


def scan_series(text: str, at: int) -> tuple[Series, int]:
    """The series that begins at `at`, and where it ends. Raises ValueError."""
    metric = _METRIC.match(text, at)
    if metric is None:
        raise ValueError("not the name of a metric: letters, digits, _ and :")
    at = metric.end()
    while at < len(text) and text[at] in " \t":
        at += 1
    if text[at : at + 1] != "{":
        return Series(metric[0], {}), metric.end()
    labels: dict[str, str] = {}
    at += 1
    while True:
        label = _LABEL.match(text, at)
        if label is None:
            break
        if label[1] in labels:
            raise ValueError(f"label {label[1]} is given twice")
        labels[label[1]] = _ESCAPE.sub(_unescaped, label[2])
        at = label.end()
        if text[at : at + 1] != ",":
            break
        at += 1
    while at < len(text) and text[at] in " \t":
        at += 1
    if text[at : at + 1] != "}":
        raise ValueError('expected {label="value",…} after the metric')
    return Series(metric[0], labels), at + 1


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
