"""How much of an instance there is, and how much of it is free; exact decimals throughout."""

from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final, NamedTuple

from dynres.config.model import Resource
from dynres.controller.distribution import Instance
from dynres.value import AMOUNT_DIGITS, AMOUNT_LIMIT, Value, format_number

NOTHING: Final = Decimal(0)
_PLACES: Final = Decimal("0.000001")
_DOWN: Final = Context(prec=AMOUNT_DIGITS, rounding=ROUND_FLOOR)
_WIDE: Final = Context(prec=40, rounding=ROUND_FLOOR)


class Amounts(NamedTuple):
    """What an instance holds; None: not known now, so nothing of it can be granted."""

    capacity: Decimal | None
    reserve: Decimal
    leased: Decimal
    free: Decimal | None
    overcommitted: bool


def amount_fault(value: Value) -> str | None:
    """Why a measured value cannot be an amount; None where it can."""
    if isinstance(value, bool | str):
        return "not a number"
    if value < 0:
        return "negative"
    return "9e12 or more" if value >= AMOUNT_LIMIT else None


def measured_amount(value: float) -> Decimal:
    """A measured number as an amount: rounded down at the 6th place and the 15th digit."""
    exact = Decimal(format_number(value))
    return _DOWN.plus(exact.quantize(_PLACES, context=_WIDE)).normalize(_DOWN)


def amounts(
    resource: Resource,
    instance: Instance,
    fresh: Value | None,
    leased: Decimal = NOTHING,
    unseen: Decimal = NOTHING,
) -> Amounts:
    """What is free of a leasable instance. `fresh` is its measured value, None while not fresh.

    `unseen` counts with `measures: free`: what is leased but not in the measurement yet.
    """
    number = measured_amount(fresh) if isinstance(fresh, float) else None
    capacity, usable = _measure(resource, instance, number)
    reserve = _reserve(instance, capacity if capacity is not None else number)
    if usable is None:
        return Amounts(capacity, reserve, leased, None, False)
    left = usable - reserve
    if not (instance.dynamic and resource.measures == "free"):
        left -= leased
    else:  # the number already excludes what our jobs use, once it shows
        left -= unseen
        if capacity is not None:
            left = min(left, capacity - reserve - leased)
    over = capacity is not None and leased > capacity
    return Amounts(capacity, reserve, leased, max(left, NOTHING), over)


def _measure(
    resource: Resource, instance: Instance, number: Decimal | None
) -> tuple[Decimal | None, Decimal | None]:
    """Capacity, and what of it others leave; None for what is not known."""
    declared = instance.capacity
    if not instance.dynamic:
        return declared, declared
    if resource.measures == "external":
        if declared is None or number is None:
            return declared, None
        return declared, declared - number
    if resource.measures == "free":
        return declared, number
    bounded = number if number is None or declared is None else min(number, declared)
    return bounded, bounded


def _reserve(instance: Instance, base: Decimal | None) -> Decimal:
    if instance.reserve is not None:
        return instance.reserve
    if instance.reserve_percent is not None and base is not None:
        part = base * instance.reserve_percent / 100
        return part.quantize(_PLACES, context=_WIDE).normalize()
    return NOTHING
