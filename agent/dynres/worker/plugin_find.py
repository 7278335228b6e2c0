"""Finds the plugin that a probe names and makes its instance from the probe's options."""

import dataclasses
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import metadata
from typing import Any, Final, cast, get_type_hints

import msgspec

from dynres.probe import Probe

GROUP: Final = "dynres.probes"


class PluginError(Exception):
    """There is no such plugin, or it does not take these options; the text says what to do."""


hindrance: str | None = None
"""What keeps plugins of others from being loaded here, where something does."""
_remembered: list[metadata.EntryPoint] = []


def installed() -> list[metadata.EntryPoint]:
    """Every plugin that there is."""
    return _remembered or list(metadata.entry_points(group=GROUP))


def remember() -> None:
    """Go by what is installed now: it cannot be read later."""
    _remembered[:] = metadata.entry_points(group=GROUP)


def find(name: str) -> metadata.EntryPoint:
    """The entry point of that name. Raises PluginError, naming the ones that are installed."""
    points = installed()
    found = {point.value: point for point in points if point.name == name}
    if len(found) > 1:
        raise PluginError(f"plugin {name}: provided by {' and by '.join(sorted(found))}")
    if not found:
        names = ", ".join(sorted({point.name for point in points})) or "none"
        raise PluginError(f"plugin {name}: not installed; installed are: {names}")
    return next(iter(found.values()))


def make(name: str, options: Mapping[str, Any]) -> Probe:
    """An instance of the plugin. Raises PluginError, or whatever its module or __init__ raises."""
    try:
        kind = find(name).load()
    except (ImportError, AttributeError, SyntaxError, PermissionError) as error:
        why = f" ({hindrance})" if hindrance is not None else ""
        raise PluginError(f"plugin {name}: cannot be loaded: {error}{why}") from error
    if not isinstance(kind, type) or not callable(getattr(kind, "read", None)):
        raise PluginError(f"plugin {name}: expected a class with read(), got {kind!r}")
    wanted = _options_type(kind)
    if wanted is None:
        if options:
            raise PluginError(f"options: {name} takes none, got {', '.join(sorted(options))}")
        return cast(Probe, kind())
    return cast(Probe, kind(_convert(options, wanted)))


def _options_type(kind: type) -> Any:
    """The type of the one argument of `__init__`; None where it takes none."""
    init = kind.__init__  # type: ignore[misc]
    code = getattr(init, "__code__", None)
    if code is None or code.co_argcount < 2:
        return None
    hints = get_type_hints(init)
    return hints.get(code.co_varnames[1], dict)


def _convert(options: Mapping[str, Any], wanted: Any) -> Any:
    """Options as the plugin's own type; what does not fit is a PluginError with its path."""
    if dataclasses.is_dataclass(wanted):
        known = [field.name for field in dataclasses.fields(wanted) if field.init]
        for key in options:
            if key not in known:
                near = get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
                raise PluginError(f"options: unknown key {key}; {hint}")
    try:
        return msgspec.convert(dict(options), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise PluginError(f"options: {error}") from None
