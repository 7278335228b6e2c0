"""Checks what can be checked of a resource whose shape is wrong: one fault hides no other."""

from collections.abc import Iterator
from typing import Any

from dynres.config import locations
from dynres.config.entries import EXPECTED, Scope, read_typed
from dynres.config.scalars import Items, Map, Scalar


def declare_hosts(node: Map, scope: Scope) -> None:
    """Let the hosts that its locations name be known."""
    for entry in _entries(node):
        for key in ("location", "reporter"):
            scope.context.declare(_terms(entry, key))


def check_damaged(node: Map, scope: Scope) -> None:
    """Note the faults of its locations, and of its values where their type is known."""
    name, kind = _text(node, "name"), _text(node, "type") or "numeric"
    flags = set(_terms(node, "flags") or ())
    pool: Any = "global" if "global" in flags else "shared" if "shared" in flags else "per-host"
    for entry in _entries(node):
        terms, value = _terms(entry, "location"), entry.get("value")
        if terms is not None:
            place = entry.place_of("location")
            folded = locations.fold(terms, scope.context, scope=pool, place=place)
            scope.findings.add(folded.faults, folded.warnings)
        readable = isinstance(value, Scalar) and not value.missing
        if isinstance(value, Scalar) and readable and kind in EXPECTED and "interval" not in node:
            what = f"resource {name or '?'}: value"
            read_typed(value, kind, what, scope.findings)  # type: ignore[arg-type]


def _entries(node: Map) -> Iterator[Map]:
    items = node.get("resourcemap")
    for item in items if isinstance(items, Items) else ():
        if isinstance(item, Map):
            yield item


def _terms(node: Map, key: str) -> list[Scalar] | None:
    """The texts of a list; None where it is none, or not of texts alone."""
    items = node.get(key)
    if not isinstance(items, Items):
        return None
    texts = [item for item in items if isinstance(item, Scalar) and not item.missing]
    return texts if len(texts) == len(items) else None


def _text(node: Map, key: str) -> str | None:
    found = node.get(key)
    return found.text if isinstance(found, Scalar) else None
