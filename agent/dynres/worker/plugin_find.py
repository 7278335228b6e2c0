"""Finds the plugin that a probe names and makes its instance from the probe's options."""

from __future__ import annotations

import sys

from dynres.worker import plugin_entries
from dynres.worker.plugin_entries import EntryPoint

TYPE_CHECKING = False  # for the size of the plugin host
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dynres.probe import Probe


class PluginError(Exception):
    """There is no such plugin, or it does not take these options; the text says what to do."""


hindrance: str | None = None
"""What keeps plugins of others from being loaded here, where something does."""
_remembered: list[EntryPoint] = []


def installed() -> list[EntryPoint]:
    """Every plugin that there is."""
    return _remembered or plugin_entries.entry_points()


def remember() -> None:
    """Go by what is installed now: it cannot be read later."""
    _remembered[:] = plugin_entries.entry_points()


def find(name: str) -> EntryPoint:
    """The entry point of that name. Raises PluginError, naming the ones that are installed."""
    points = installed()
    found = {point.value: point for point in points if point.name == name}
    if len(found) > 1:
        raise PluginError(f"plugin {name}: provided by {' and by '.join(sorted(found))}")
    if not found:
        names = ", ".join(sorted({point.name for point in points})) or "none"
        raise PluginError(f"plugin {name}: not installed; installed are: {names}")
    return next(iter(found.values()))


def _load(point: EntryPoint) -> Any:
    """The object that it stands for. Raises ImportError, AttributeError and what it raises."""
    __import__(point.module)
    found: Any = sys.modules[point.module]
    for attribute in filter(None, point.attribute.split(".")):
        found = getattr(found, attribute)
    return found


def make(name: str, options: Mapping[str, Any]) -> Probe:
    """An instance of the plugin. Raises PluginError, or whatever its module or __init__ raises."""
    try:
        kind = _load(find(name))
    except (ImportError, AttributeError, SyntaxError, PermissionError) as error:
        why = f" ({hindrance})" if hindrance is not None else ""
        raise PluginError(f"plugin {name}: cannot be loaded: {error}{why}") from error
    if not isinstance(kind, type) or not callable(getattr(kind, "read", None)):
        raise PluginError(f"plugin {name}: expected a class with read(), got {kind!r}")
    wanted = _options_type(kind)
    if wanted is None:
        if options:
            raise PluginError(f"options: {name} takes none, got {', '.join(sorted(options))}")
        made: Probe = kind()
        return made
    with_options: Probe = kind(_convert(options, wanted))
    return with_options


def _options_type(kind: type) -> Any:
    """The type of the one argument of `__init__`; None where it takes none."""
    init = kind.__init__  # type: ignore[misc]
    code = getattr(init, "__code__", None)
    if code is None or code.co_argcount < 2:
        return None
    from typing import get_type_hints

    hints = get_type_hints(init)
    return hints.get(code.co_varnames[1], dict)


def _convert(options: Mapping[str, Any], wanted: Any) -> Any:
    """Options as the plugin's own type; what does not fit is a PluginError with its path."""
    import dataclasses

    import msgspec

    if dataclasses.is_dataclass(wanted):
        known = [field.name for field in dataclasses.fields(wanted) if field.init]
        for key in options:
            if key not in known:
                from difflib import get_close_matches

                near = get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
                raise PluginError(f"options: unknown key {key}; {hint}")
    try:
        return msgspec.convert(dict(options), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise PluginError(f"options: {error}") from None
