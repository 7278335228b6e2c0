"""What a metrics page answers: which format a scraper asks for, and the plain text itself.

prometheus_client writes both as well, but what it needs for that (HTTP, TLS, e-mail headers) is
7 MB of the agent. OpenMetrics, which needs none of it, is left to it.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.samples import Sample

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN: Final = "application/openmetrics-text"

_ENDS: Final = {"counter": "_total", "info": "_info"}
"""What the name of a family ends with in plain text, by its type."""
_PLAIN_TYPES: Final = {
    "info": "gauge",
    "stateset": "gauge",
    "gaugehistogram": "histogram",
    "unknown": "untyped",
}
_LATE: Final = ("_created", "_gsum", "_gcount")
"""Samples that plain text has no place for: each becomes a gauge of its own."""


class Body(NamedTuple):
    """The body of an answer, and its headers but for the length."""

    headers: dict[str, str]
    content: bytes


Metrics = Callable[[str, Mapping[str, str]], Body]
"""A metrics page: query and headers of a request (names in lower case) -> the answer."""


def answer(
    query: str,
    headers: Mapping[str, str],
    collect: Callable[[list[str]], Iterable["Metric"]],
    openmetrics: Callable[[list[str]], tuple[bytes, str]],
) -> Body:
    """The page as a scraper asks for it.

    `collect` gives the families, `openmetrics` the page in that format and its content type, of
    the series that are named (all, where none is).
    """
    names = _names(query)
    if OPEN in _offers(headers.get("accept", "")):
        content, kind = openmetrics(names)
    else:
        content, kind = plain_text(collect(names)), PLAIN
    if "gzip" in _offers(headers.get("accept-encoding", "")):
        packed = zlib.compress(content, wbits=31)  # 31: a gzip header
        return Body({"Content-Type": kind, "Content-Encoding": "gzip"}, packed)
    return Body({"Content-Type": kind}, content)


def _names(query: str) -> list[str]:
    if not query:
        return []
    from urllib.parse import parse_qs  # 0.8 MB, and hardly a scraper asks for that

    return parse_qs(query).get("name[]", [])


def _offers(header: str) -> set[str]:
    return {offer.partition(";")[0].strip().lower() for offer in header.split(",")}


def plain_text(families: Iterable["Metric"]) -> bytes:
    """The text format 0.0.4 of Prometheus."""
    lines: list[str] = []
    for family in families:
        late: dict[str, list[str]] = {}
        head = family.name + _ENDS.get(family.type, "")
        lines += _head(head, family, _PLAIN_TYPES.get(family.type, family.type))
        for sample in family.samples:
            end = sample.name.removeprefix(family.name)
            (late.setdefault(end, []) if end in _LATE else lines).append(_line(sample))
        for end in sorted(late):
            lines += _head(family.name + end, family, "gauge") + late[end]
    return "".join(f"{line}\n" for line in lines).encode()


def _head(name: str, family: "Metric", kind: str) -> list[str]:
    text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _line(sample: "Sample") -> str:
    labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}} {_number(sample.value)}" if labels else _bare(sample)


def _bare(sample: "Sample") -> str:
    return f"{sample.name} {_number(sample.value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    text = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)
