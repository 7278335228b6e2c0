"""Measurements of what jobs can hold: a negative one, or one beyond all amounts, is bad output."""

from typing import Final

import msgspec

from dynres.value import AMOUNT_LIMIT, Value, format_value
from dynres.worker.outcome import Refused, RunResult, RunSpec

NEGATIVE: Final = "negative, and jobs can hold amounts of it"
TOO_MUCH: Final = "9e12 or more, and jobs can hold amounts of it"


def held_to_amounts(result: RunResult, spec: RunSpec) -> RunResult:
    """The result without the values that cannot be amounts; bad output where no other is left."""
    faults = {name: _fault(result.values.get(name)) for name in spec.amounts}
    bad = {name: why for name, why in faults.items() if why is not None}
    if not bad:
        return result
    kept = {name: value for name, value in result.values.items() if name not in bad}
    refused = (
        *result.refused,
        *(Refused(name, format_value(result.values[name]), why) for name, why in bad.items()),
    )
    if kept:
        missed = {**result.missed, **bad}
        return msgspec.structs.replace(result, values=kept, missed=missed, refused=refused)
    reason = "; ".join(
        f"{name}: {why} ({format_value(result.values[name])})" for name, why in bad.items()
    )
    return msgspec.structs.replace(
        result, outcome="bad_output", reason=reason, values={}, missed={}, refused=refused
    )


def _fault(value: Value | None) -> str | None:
    if value is None or isinstance(value, bool | str):
        return None
    if value < 0:
        return NEGATIVE
    return TOO_MUCH if value >= AMOUNT_LIMIT else None
