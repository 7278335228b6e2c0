"""What is free of an instance, without and with leases, for each way of measuring."""

from decimal import Decimal
from typing import Any

import pytest
from declared import resource
from hypothesis import given
from hypothesis import strategies as st

from dynres.config.model import Place
from dynres.controller.amounts import amount_fault, amounts, measured_amount
from dynres.controller.distribution import Instance

PLACE = Place("resources.yaml", 1, 1)


def instance(**keys: Any) -> Instance:
    fields: dict[str, Any] = {
        "resource": "r",
        "id": "r",
        "place": PLACE,
        "dynamic": True,
        "value": None,
        "capacity": None,
        "reserve": None,
        "reserve_percent": None,
        "entry": 0,
        "host": None,
    }
    return Instance(**(fields | keys))


def free(measures: str | None, fresh: float | None, leased: int = 0, **keys: Any) -> Any:
    made = resource("r", flags=("shared",), measures=measures)
    return amounts(made, instance(**keys), fresh, Decimal(leased))


def test_of_a_static_amount_what_is_neither_reserved_nor_leased_is_free() -> None:
    found = free(None, 100.0, 30, dynamic=False, capacity=Decimal(100), reserve=Decimal(2))
    assert (found.capacity, found.free, found.overcommitted) == (100, 68, False)


def test_a_percentage_is_taken_of_the_capacity() -> None:
    found = free(None, None, dynamic=False, capacity=Decimal(50), reserve_percent=Decimal(10))
    assert (found.reserve, found.free) == (5, 45)


def test_a_capacity_lowered_below_what_is_held_is_overcommitted_with_nothing_free() -> None:
    found = free(None, None, 30, dynamic=False, capacity=Decimal(20))
    assert (found.free, found.overcommitted) == (0, True)


@pytest.mark.parametrize(
    ("measures", "capacity", "leased", "expected"),
    [
        ("total", None, 0, (40, 40)),
        ("total", None, 30, (40, 10)),
        ("free", None, 0, (None, 40)),
        ("free", 50, 0, (50, 40)),
        ("free", 50, 30, (50, 20)),
        ("external", 100, 0, (100, 60)),
        ("external", 100, 30, (100, 30)),
    ],
)
def test_what_is_free_follows_what_the_probe_measures(
    measures: str, capacity: int | None, leased: int, expected: tuple[int | None, int]
) -> None:
    declared = None if capacity is None else Decimal(capacity)
    found = free(measures, 40.0, leased, capacity=declared)
    assert (found.capacity, found.free) == expected


@pytest.mark.parametrize("measures", ["total", "free", "external"])
def test_a_capacity_that_is_not_fresh_has_nothing_to_grant(measures: str) -> None:
    assert free(measures, None, capacity=Decimal(100)).free is None


@given(st.floats(0, 9e12, exclude_max=True))
def test_a_measured_amount_is_rounded_down_to_six_places_and_fifteen_digits(value: float) -> None:
    amount = measured_amount(value)
    assert amount <= Decimal(value).normalize() or Decimal(repr(value)) >= amount
    assert amount <= Decimal(repr(value))
    _, digits, exponent = amount.as_tuple()
    assert isinstance(exponent, int)
    assert -exponent <= 6
    assert len(digits) <= 15
    assert Decimal(repr(value)) - amount <= max(Decimal("0.000001"), amount * Decimal("1e-14"))


@pytest.mark.parametrize(
    ("value", "why"),
    [(0.0, None), (-0.5, "negative"), (9e12, "9e12 or more"), ("7", "not a number")],
)
def test_what_cannot_be_an_amount_says_why(value: float | str, why: str | None) -> None:
    assert amount_fault(value) == why
