"""What a plugin's read() returned -> values, by the same rules as for printed text."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dynres.value import Value, ValueType
from dynres.worker.formats import Parsed, Resources, nothing, take
from dynres.worker.outcome import RunSpec
from dynres.worker.pairs import Pair

Item = tuple[str, str, Any]
"""Name, kind (number, boolean, string, none, not_here, or another type's name), value; of `none`
why there is none, or None.
"""

_KINDS: Final[dict[ValueType, str]] = {
    "numeric": "number",
    "boolean": "boolean",
    "string": "string",
}


def take_reading(items: Iterable[Item], spec: RunSpec) -> tuple[Parsed, bool]:
    """Values of a reading, and whether the plugin says that none of it applies to this host.

    The only value of a plugin that feeds only one resource is that resource's, whatever its name.
    """
    resources, names = spec.resources, spec.probe.map
    taken = list(items)
    if not taken:
        return nothing(resources, "no data: read() returned nothing"), False
    if len(taken) == len(resources) == 1 and not spec.several:
        names = {taken[0][0]: next(iter(resources))}
    plain = _plain(taken, resources, names)
    if plain is not None:
        return Parsed(values=plain), False
    absent = {names.get(name, name) for name, kind, _ in taken if kind == "not_here"}
    why = {names.get(n, n): said for n, kind, said in taken if kind == "none" and said}
    pairs = [_pair(item, resources.get(names.get(item[0], item[0]))) for item in taken]
    parsed = take(pairs, resources, names)
    if why:
        parsed = msgspec.structs.replace(parsed, why=why)
    return parsed, bool(resources) and absent >= resources.keys()


def _plain(
    taken: Sequence[Item], resources: Resources, names: Mapping[str, str]
) -> dict[str, Value | None] | None:
    """The values, where there is a number for each resource and nothing else; None: otherwise."""
    if len(taken) != len(resources):
        return None
    values: dict[str, Value | None] = {}
    for called, kind, value in taken:
        name = names.get(called, called)
        if kind != "number" or resources.get(name) != "numeric" or not math.isfinite(value):
            return None
        values[name] = value + 0.0  # -0.0 becomes 0.0
    return values if len(values) == len(resources) else None


def _pair(item: Item, wanted: ValueType | None) -> Pair:
    name, kind, value = item
    if kind in {"none", "not_here"}:
        return Pair(name=name, text=None)
    fault = None
    if wanted is not None and kind != _KINDS[wanted]:
        fault = f"expected a {_KINDS[wanted]}, got {kind}"
    return Pair(name=name, text=_text(kind, value), fault=fault)


def _text(kind: str, value: Any) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    return str(value) if kind in {"number", "string"} else kind
