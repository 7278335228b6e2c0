"""What a requirement means for declared resources: names found, types checked, units converted.

The result is a tree over resources that can be decided without looking at the schema again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from dynres.config.model import Resource
from dynres.config.near import nearest
from dynres.controller.condition import (
    All,
    Any,
    Compare,
    Comparison,
    Condition,
    Defined,
    Enough,
    Name,
    Not,
    Number,
    Operand,
    Part,
    RequirementError,
    Text,
    Truth,
    written,
)
from dynres.value import Value, ValueType, convert

Schema = Mapping[str, Resource]

_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Known:
    """Whether a condition that needs no resource holds."""

    truth: bool


@dataclass(frozen=True, slots=True)
class Mapped:
    """`defined`: the resource is not absent."""

    resource: str


@dataclass(frozen=True, slots=True)
class Against:
    """A resource compared with a value, in the resource's own unit; `written` is the condition."""

    resource: str
    operator: Comparison
    value: Value
    written: str


@dataclass(frozen=True, slots=True)
class Between:
    """Two resources compared; each is multiplied by its factor first, to be in one unit."""

    left: str
    operator: Comparison
    right: str
    factors: tuple[float, float]
    written: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Not."""

    part: "Meaning"


@dataclass(frozen=True, slots=True)
class Every:
    """And."""

    parts: tuple["Meaning", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Or."""

    parts: tuple["Meaning", ...]


Leaf = Known | Mapped | Against | Between
Meaning = Leaf | Denied | Every | Either


def meaning(condition: Condition, schema: Schema) -> Meaning:
    """What a tree means. Raises RequirementError for unknown names and for types that clash."""
    match condition:
        case All(parts):
            return Every(tuple(meaning(part, schema) for part in parts))
        case Any(parts):
            return Either(tuple(meaning(part, schema) for part in parts))
        case Not(part):
            return Denied(meaning(part, schema))
        case Defined(name):
            return Mapped(_resource(name, schema).name)
        case Enough():
            return _enough(condition, schema)
        case Compare():
            return _compare(condition, schema)
        case Name() | Truth():
            return _alone(condition, schema)


def resources_of(what: Meaning) -> frozenset[str]:
    """Every resource that a requirement asks about."""
    match what:
        case Known():
            return frozenset()
        case Mapped(resource) | Against(resource):
            return frozenset((resource,))
        case Between(left, _, right):
            return frozenset((left, right))
        case Denied(part):
            return resources_of(part)
        case Every(parts) | Either(parts):
            return frozenset[str]().union(*map(resources_of, parts))


def _resource(name: Name, schema: Schema, text: bool = False) -> Resource:
    found = schema.get(name.name)
    if found is None:
        hint = f'write "{name.name}" if it is a text' if text else nearest(name.name, schema)
        raise RequirementError(name.column, f"no resource {name.name[:64]!r} is declared", hint)
    return found


def _alone(condition: Name | Truth, schema: Schema) -> Meaning:
    name = _as_name(condition, schema)
    if isinstance(name, Truth):
        return Known(name.truth)
    resource = _resource(name, schema)
    if resource.type != "boolean":
        hint = f"write {name.name}: 1, {name.name} > 0 or defined({name.name})"
        if resource.type == "string":
            hint = f'write {name.name} == "…" or defined({name.name})'
        raise RequirementError(name.column, f"{name.name} is {resource.type}, no condition", hint)
    return Against(resource.name, "==", True, name.name)


def _as_name(part: Name | Truth, schema: Schema) -> Name | Truth:
    """`true` and `false` mean a resource where one is so called."""
    word = written(part)
    return Name(word, column=part.column) if isinstance(part, Truth) and word in schema else part


def _enough(condition: Enough, schema: Schema) -> Meaning:
    resource = _resource(condition.name, schema)
    _check_types(condition.name, "numeric", resource.type)
    if resource.order == "none":
        what = (
            f"{resource.name} has no order, so `{resource.name}: …` is neither a least nor a most"
        )
        raise RequirementError(condition.column, what, "write >= or <=")
    operator: Comparison = ">=" if resource.order == "decreasing" else "<="
    value = _in_unit(condition.number, resource)
    return Against(resource.name, operator, value, written(condition))


def _compare(condition: Compare, schema: Schema) -> Meaning:
    left, right = (_operand(part, schema) for part in (condition.left, condition.right))
    operator = condition.operator
    first = _look_up(left, right, schema)
    second = _look_up(right, left, schema)
    kind = first.type if isinstance(first, Resource) else _type(left)
    _check_types(right, kind, second.type if isinstance(second, Resource) else _type(right))
    if kind != "numeric" and operator not in {"==", "!="}:
        what = f"a {kind} has no order: {operator} cannot compare it"
        raise RequirementError(condition.column, what, "use == or !=")
    if isinstance(first, Resource) and isinstance(second, Resource):
        factors = _factors(first, second, right)
        return Between(first.name, operator, second.name, factors, written(condition))
    if isinstance(first, Resource):
        return Against(first.name, operator, _constant(right, first), written(condition))
    if isinstance(second, Resource):
        turned = _FLIPPED.get(operator, operator)
        return Against(second.name, turned, _constant(left, second), written(condition))
    what = f"{written(condition)[:60]} compares no resource with anything"
    raise RequirementError(condition.column, what, "write true or false for what is always so")


def _operand(part: Operand, schema: Schema) -> Operand:
    return _as_name(part, schema) if isinstance(part, Truth) else part


def _look_up(part: Operand, other: Operand, schema: Schema) -> Resource | None:
    if not isinstance(part, Name):
        return None
    beside = schema.get(other.name) if isinstance(other, Name) else None
    return _resource(part, schema, text=beside is not None and beside.type == "string")


def _type(part: Operand) -> ValueType:
    if isinstance(part, Number):
        return "numeric"
    return "string" if isinstance(part, Text) else "boolean"


def _check_types(part: Operand, kind: ValueType, got: ValueType) -> None:
    if kind != got:
        hint = "numbers have no quotes" if {kind, got} == {"numeric", "string"} else None
        what = f"expected a {kind} value, got {written(part)[:60]}, which is {got}"
        raise RequirementError(part.column, what, hint)


def _constant(part: Operand, resource: Resource) -> Value:
    match part:
        case Number():
            return _in_unit(part, resource)
        case Text(text):
            return text
        case Truth(truth):
            return truth
        case Name():
            raise TypeError("a name is no constant")


def _in_unit(number: Number, resource: Resource) -> float:
    """The number in the resource's unit; one that is converted is rounded up."""
    if number.unit is None or number.unit == resource.unit:
        return float(number.number) + 0.0
    if resource.unit is None:
        what = f"{resource.name} has no unit, got {written(number)[:60]}"
        raise RequirementError(number.column, what, f"write {number.number}")
    try:
        return float(convert(number.number, number.unit, resource.unit, rounding="up")) + 0.0
    except InvalidOperation as error:
        what = f"{written(number)[:60]} is too large to be converted to {resource.unit}"
        raise RequirementError(number.column, what) from error
    except ValueError as error:
        what = f"{resource.name} is in {resource.unit}: {error}"
        raise RequirementError(number.column, what) from error


def _factors(left: Resource, right: Resource, part: Part) -> tuple[float, float]:
    """What brings two resources to one unit: the larger one is multiplied, which loses nothing."""
    if left.unit == right.unit or left.unit is None or right.unit is None:
        return 1.0, 1.0
    try:
        ratio = convert(Decimal(1), left.unit, right.unit, rounding="up")
        if ratio >= 1:
            return float(ratio), 1.0
        return 1.0, float(convert(Decimal(1), right.unit, left.unit, rounding="up"))
    except ValueError as error:
        what = f"{left.name} is in {left.unit}, {right.name} in {right.unit}: {error}"
        raise RequirementError(part.column, what) from error
