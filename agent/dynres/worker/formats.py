"""What a probe printed -> the values taken, missed and refused; one function a format.

A format function only finds (name, text) pairs. Whatever its format, each pair is then judged
alone by the same rules, so that one bad value never costs its neighbours.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from dynres.value import STRING_LIMIT, Value, ValueType, read_value
from dynres.worker.elim_format import elim_pairs
from dynres.worker.json_format import json_pairs
from dynres.worker.line_formats import default_pairs, lines_pairs, pbs_pairs, value_pairs
from dynres.worker.load_sensor_format import load_sensor_pairs
from dynres.worker.nagios_format import nagios_pairs
from dynres.worker.outcome import Refused
from dynres.worker.pairs import Asked, BadOutputError, Pair
from dynres.worker.prometheus_format import prometheus_pairs
from dynres.worker.refusals import UNAVAILABLE, Refusals
from dynres.worker.startd_cron_format import startd_cron_pairs

Resources = Mapping[str, ValueType]
Reader = Callable[[bytes, Asked], list[Pair]]

FORMATS: Final[dict[str, Reader]] = {
    "value": value_pairs,
    "lines": lines_pairs,
    "json": json_pairs,
    "elim": elim_pairs,
    "load_sensor": load_sensor_pairs,
    "startd_cron": startd_cron_pairs,
    "pbs": pbs_pairs,
    "nagios": nagios_pairs,
    "prometheus": prometheus_pairs,
}


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """What one output gave; `problem`: why nothing of it counts."""

    values: dict[str, Value | None] = {}
    missed: dict[str, str] = {}
    """Resource that was asked for -> why it got no value."""
    refused: tuple[Refused, ...] = ()
    problem: str | None = None
    why: dict[str, str] = {}
    """Resource that was said to be unavailable -> why, where that was said too."""


def parse(output: bytes, form: str | None, asked: Asked) -> Parsed:
    """Read a probe's output; `form` None: the default choice.

    Never raises for what a probe printed; ValueError for a format that does not exist.
    """
    read = default_pairs if form is None else FORMATS.get(form)
    if read is None:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, got {form}")
    resources = asked.resources
    body = output.removeprefix(b"\xef\xbb\xbf")
    if not body.strip():
        return nothing(resources, "no data: the output is empty")
    try:
        pairs = read(body, asked)
    except BadOutputError as error:
        return nothing(resources, str(error))
    return take(pairs, resources, asked.names)


def nothing(resources: Resources, problem: str) -> Parsed:
    """An output of which nothing counts."""
    return Parsed(missed=dict.fromkeys(resources, problem), problem=problem)


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
