from typing import Any

import msgspec
import pytest
from declared import entry, resource

from dynres.config.definition import digest
from dynres.config.model import Location

BASE = resource("r", unit="GB")


@pytest.mark.parametrize(
    "change",
    [
        {"type": "string"},
        {"unit": None},
        {"unit": "MB"},
        {"unit": "-"},
        {"order": "increasing"},
        {"flags": frozenset({"shared"})},
        {"interval": 5.0},
    ],
)
def test_a_definition_differs_by_type_unit_order_scope_and_source(change: dict[str, Any]) -> None:
    assert digest(msgspec.structs.replace(BASE, **change)) != digest(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"description": "other words"},
        {"flags": frozenset({"consumable", "release"})},
        {"entries": (entry(Location(everyone=True), 5.0),)},
        {"per": "slot"},
    ],
)
def test_nothing_else_makes_a_definition_differ(change: dict[str, Any]) -> None:
    assert digest(msgspec.structs.replace(BASE, **change)) == digest(BASE)


def test_how_often_and_shared_over_how_many_is_no_part_of_a_definition() -> None:
    fast, slow = resource("r", interval=5.0), resource("r", interval=60.0)
    assert digest(fast) == digest(slow)
    shared, everywhere = resource("r", flags=["shared"]), resource("r", flags=["global"])
    assert digest(shared) == digest(everywhere)


def test_a_digest_is_text_that_two_versions_of_the_program_agree_on() -> None:
    assert digest(BASE) == "45f8d2719d56c020"
