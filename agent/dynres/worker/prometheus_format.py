"""Format `prometheus`: of a page in the text exposition format, the series that are wanted."""

import re
from typing import Final

from dynres.config.series import Series, read_series, scan_series
from dynres.worker.pairs import Asked, Pair, decode

_METRIC = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_BLANKS: Final = b" \t\r"


class _Wanted:
    """One series that is wanted, and what the page had of it."""

    def __init__(self, name: str, series: Series) -> None:
        self.name = name
        self.labels = series.labels.items()
        self.found = 0
        self.text = ""
        self.fault: str | None = None

    def pair(self) -> Pair:
        """What there is to judge."""
        fault = self.fault
        if self.found > 1:
            fault = f"{self.found} series are meant: name more labels in map"
        return Pair(name=self.name, text=self.text, fault=fault)


def prometheus_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`prometheus`: the wanted series by their names in `map:`, else by the resource's own."""
    wanted = _wanted(asked)
    odd: list[Pair] = []
    for raw in body.split(b"\n"):
        line = raw.strip(_BLANKS)
        if not line or line.startswith(b"#"):
            continue
        metric = _METRIC.match(line)
        if metric is None:
            odd.append(Pair(name="", text=decode(line[:200]), fault="not a sample"))
            continue
        those = wanted.get(metric[0])
        if those is not None:
            _take(decode(line), those)
    found = [each.pair() for those in wanted.values() for each in those if each.found]
    return [*found, *odd]


def _wanted(asked: Asked) -> dict[bytes, list[_Wanted]]:
    """Metric -> the series of it that are wanted."""
    mapped = set(asked.names.values())
    names = [*asked.names, *(name for name in asked.resources if name not in mapped)]
    wanted: dict[bytes, list[_Wanted]] = {}
    for name in names:
        if asked.target(name) in asked.resources:
            try:
                series = read_series(name)
            except ValueError:
                continue
            wanted.setdefault(series.metric.encode(), []).append(_Wanted(name, series))
    return wanted


def _take(line: str, those: list[_Wanted]) -> None:
    """One sample of a metric of which series are wanted."""
    try:
        series, end = scan_series(line, 0)
    except ValueError as error:
        for each in those:
            if not each.labels:  # else it cannot be told whether it is meant
                each.found, each.text, each.fault = each.found + 1, line, f"not a sample: {error}"
        return
    words = line[end:].split()
    fault = None
    if not words:
        fault = "a series without a value"
    elif len(words) > 1:
        fault = "a sample with a timestamp or exemplar: its age could not be told"
    for each in those:
        if each.labels <= series.labels.items():
            each.found += 1
            each.text, each.fault = words[0] if words else line, fault
