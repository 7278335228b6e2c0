"""Finds probe plugins by entry point and turns `options:` into what they declare."""

import dataclasses
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from dynres.config.findings import Findings
from dynres.config.model import Place
from dynres.config.near import nearest
from dynres.config.scalars import Items, Map, Node, Scalar
from dynres.config.types import describe
from dynres.value import read_boolean

GROUP: Final = "dynres.probes"

_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
"""What msgspec calls the types, as a person does."""

_BROKEN = (ImportError, AttributeError, SyntaxError, NameError, TypeError, ValueError, OSError)


@cache
def installed() -> dict[str, EntryPoint]:
    """The plugins that are installed here, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def options_type(plugin: Any) -> type | None:
    """The type of a plugin's `options`; None for a plugin that takes none."""
    hint = get_type_hints(plugin.__init__).get("options")
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def read_options(name: str, probe: Map, owner: str, findings: Findings) -> dict[str, Any]:
    """The `options:` of a probe as plain data that fits the plugin's own type.

    Where the plugin is not installed they stay text, with a warning: another machine may have it.
    """
    options = probe.get("options")
    if options is not None and not isinstance(options, Map):
        got = describe(options)
        findings.fault(options.place, f"{owner}: options", "a mapping", got)
        return {}
    given = options if options is not None else Map(probe.place)
    point = installed().get(name)
    if point is None:
        place = probe.place_of("plugin")
        hint = nearest(name, installed()) or f"known here: {', '.join(sorted(installed()))}"
        findings.warn(place, f"{owner}: plugin {name!r} is not installed here", hint)
        return {str(key): plain(node) for key, node in given.items()}
    try:
        wanted = options_type(point.load())
    except _BROKEN as error:
        place = probe.place_of("plugin")
        findings.warn(place, f"{owner}: plugin {name!r} cannot be loaded here: {error}")
        return {str(key): plain(node) for key, node in given.items()}
    if wanted is None:
        for key in given:
            place = key.place if isinstance(key, Scalar) else given.place
            findings.fault(place, f"{owner}: options", f"none: {name} takes no options", str(key))
        return {}
    return _convert(wanted, given, f"{owner}: option", findings)


def _convert(wanted: type, given: Map, owner: str, findings: Findings) -> dict[str, Any]:
    fields = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    hints = get_type_hints(wanted)
    before = len(findings.faults)
    values: dict[str, Any] = {}
    for key, node in given.items():
        if key not in fields:
            place = key.place if isinstance(key, Scalar) else given.place
            expected = "one of " + ", ".join(fields)
            findings.fault(place, f"{owner} {key}", expected, str(key), nearest(key, fields))
            continue
        try:
            values[str(key)] = msgspec.convert(_typed(node, hints[key]), hints[key], strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            what, words = f"{owner} {key}", _choices(hints[key])
            if words:
                hint = nearest(node, words) if isinstance(node, Scalar) else None
                findings.fault(node.place, what, " | ".join(words), describe(node), hint)
            else:
                _complain(node.place, what, str(error), describe(node), findings)
    for name, field in fields.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and name not in given:
            findings.fault(given.place, f"{owner} {name} is missing", f"{name}: …")
    if len(findings.faults) > before:
        return {}
    plain_values: dict[str, Any] = msgspec.to_builtins(values)
    try:
        msgspec.convert(plain_values, wanted, strict=False)
    except msgspec.ValidationError as error:
        _complain(given.place, owner + "s", str(error), None, findings)
    return plain_values


def _choices(wanted: Any) -> list[str]:
    """The words that an option may be; none where it is no choice."""
    if get_origin(wanted) is Literal:
        return [str(word) for word in get_args(wanted)]
    return [word for part in get_args(wanted) for word in _choices(part)]


def _typed(node: Node, wanted: Any) -> Any:
    """Plain data; `yes` and `on` where a boolean is wanted."""
    text = plain(node)
    if wanted is bool and isinstance(text, str):
        return read_boolean(text, digits=True)
    return text


def _complain(place: Place, what: str, message: str, got: str | None, findings: Findings) -> None:
    reason = message.partition(" - at `")[0].replace("`", "")
    if reason.startswith("Expected "):
        expected = reason.removeprefix("Expected ").split(", got ")[0]
        expected = " or ".join(_WORDS.get(word, word) for word in expected.split(" | "))
        findings.fault(place, what, expected, got)
    else:
        findings.fault(place, f"{what}: {reason}", got=got)


def plain(node: Node) -> Any:
    """A tree as plain text, lists and dicts."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Items):
        return [plain(item) for item in node]
    return {str(key): plain(value) for key, value in node.items()}
