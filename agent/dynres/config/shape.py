"""Holds a tree against a model: its faults name the place in the file and what was meant."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dynres.config.faults import Fault
from dynres.config.findings import SHOWN_FAULTS, Findings
from dynres.config.model import Place
from dynres.config.near import closest, nearest
from dynres.config.scalars import Items, Map, Node, Scalar
from dynres.config.schema import PARTS, Entry, Probe
from dynres.config.types import describe

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], node: Node, owner: str, findings: Findings) -> M | None:
    """`node` as `model`; None, and the faults noted, where it is not. `owner` begins them.

    An unknown key hides no other fault: the tree is mended (the key becomes the one that was
    probably meant, or goes) and read on.
    """
    try:
        return model.model_validate(node)
    except ValidationError as error:
        if error.error_count() > SHOWN_FAULTS:
            findings.fault(node.place, owner, "what it may hold", f"{error.error_count()} faults")
            return None
        details = error.errors(include_url=False, include_input=False)
    unknown = [detail for detail in details if detail["type"] == "extra_forbidden"]
    findings.add([_fault(detail, model, node, owner) for detail in unknown or details])
    if not unknown:
        return None
    for detail in unknown:
        _mend(_path(detail), model, node)
    return validate(model, node, owner, findings)


def mapping(node: Node | None, owner: str, findings: Findings) -> Map | None:
    """`node` when it is a mapping; else None, with a fault."""
    if isinstance(node, Map):
        return node
    if node is not None:
        findings.fault(node.place, owner, "a mapping", describe(node))
    return None


def _path(detail: ErrorDetails) -> list[int | str]:
    """The way to the fault, through keys and items of the file alone."""
    return [part for part in detail["loc"] if part not in PARTS and part != "[key]"]


def _mend(loc: list[int | str], model: type[BaseModel], root: Node) -> None:
    parent, _ = _walk(root, loc[:-1])
    if isinstance(parent, Map):
        name = str(loc[-1])
        parent.mend(name, closest(name, _model_at(model, loc[:-1]).model_fields))


def _fault(detail: ErrorDetails, model: type[BaseModel], root: Node, owner: str) -> Fault:
    loc = _path(detail)
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown(loc, model, root, owner)
    if kind == "missing":
        parent, _ = _walk(root, loc[:-1])
        return Fault(
            place=parent.place, what=f"{owner}: key {loc[-1]} is missing", expected=f"{loc[-1]}: …"
        )
    node, place = _walk(root, loc)
    if detail["loc"][-1:] == ("[key]",):
        place = _key_place(root, loc)
    keys = [part for part in loc if isinstance(part, str)]
    what = f"{owner}: {keys[-1]}" if keys else owner
    if kind == "dynres":
        context = detail.get("ctx", {})
        return Fault(
            place=place,
            what=what,
            expected=context.get("expected"),
            got=context.get("got"),
            hint=context.get("hint"),
        )
    expected = "a list" if kind == "list_type" else "a mapping"
    hint = None
    if kind == "list_type" and isinstance(node, Scalar) and not node.missing:
        hint = f"write [{node.text}]" if node.plain else f'write ["{node.text}"]'
        if keys[-1:] == ["command"]:
            hint = f"write [{', '.join(node.text.split())}]"
    return Fault(place=place, what=what, expected=expected, got=describe(node), hint=hint)


def _unknown(loc: list[int | str], model: type[BaseModel], root: Node, owner: str) -> Fault:
    name = str(loc[-1])
    known = list(_model_at(model, loc[:-1]).model_fields)
    return Fault(
        place=_key_place(root, loc),
        what=f"{owner}: unknown key {name!r}",
        expected="one of " + ", ".join(known),
        got=name,
        hint=nearest(name, known) or _elsewhere(name, known),
    )


def _elsewhere(name: str, known: list[str]) -> str | None:
    """Where a key belongs that is right one level below."""
    if "probe" in known and name in Probe.model_fields:
        return f"it belongs into the probe: probe: {{{name}: …}}"
    if "resourcemap" in known and name in Entry.model_fields:
        return f"it belongs into an entry of resourcemap: - {{{name}: …}}"
    return None


def _walk(root: Node, loc: Sequence[int | str]) -> tuple[Node, Place]:
    """The node that `loc` leads to, as far as the tree goes, and its place."""
    node = root
    for part in loc:
        below: Node | None = None
        if isinstance(node, Map) and isinstance(part, str):
            below = node.get(part)
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node):
            below = node[part]
        node = node if below is None else below
    return node, node.place


def _key_place(root: Node, loc: Sequence[int | str]) -> Place:
    parent, place = _walk(root, loc[:-1])
    key = parent.key(str(loc[-1])) if isinstance(parent, Map) else None
    return key.place if key is not None else place


def _model_at(model: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel]:
    for part in loc:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            model = next(_models(field.annotation), model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
