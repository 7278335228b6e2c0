"""Messages of the feed become lines: gaps, unknown records, and values that are any text."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.wire.codec import WireError
from dynres.wire.feed import (
    Header,
    Held,
    Told,
    host_record,
    message,
    pool_record,
    read_message,
    record,
    resource_record,
    value_record,
)
from dynres.wire.lines import AnyLine, Lines, Lost, Pool, Snapshot, ValueChange

RESOURCES = (
    resource_record(0, "mem", "numeric", "decreasing", "GB"),
    resource_record(1, "big", "boolean", "none", None),
    resource_record(2, "os", "string", "none", None),
)


def begun() -> Lines:
    lines = Lines()
    lines.start()
    (snapshot,) = lines.take(
        message(Header(5, 1), [record("snapshot", "1.5"), *RESOURCES, record("complete")])
    )
    assert isinstance(snapshot, Snapshot)
    return lines


def test_a_gap_is_told_once_and_nothing_more_is_believed() -> None:
    lines = begun()
    told = host_record("h", "up", closed=False, satisfies=True)
    (lost,) = lines.take(message(Header(5, 3), [told]))
    assert isinstance(lost, Lost)
    assert lost.reason == "expected message 2, got 3"
    assert lines.broken
    assert lines.take(message(Header(5, 4), [])) == []
    lines.start()
    found = lines.take(message(Header(6, 1), [record("snapshot", "2"), record("complete")]))
    assert [(line.epoch, line.seq) for line in found] == [(6, 3)]


def test_records_and_fields_that_are_not_known_are_passed_over() -> None:
    lines = begun()
    told = value_record("h", 0, "mem", Told("fresh", 2.5, None)) + "\tmore\tfields"
    (line,) = lines.take(message(Header(5, 2), ["future\tthing", told]))
    assert isinstance(line, ValueChange)
    assert line.value == 2.5


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"other\t1\t1\t1\n", b"dynres-feed\t1\tx\t1\n", b"dynres-feed\t1\n"]
)
def test_what_is_no_message_is_an_error(body: bytes) -> None:
    with pytest.raises(WireError):
        read_message(body)


@pytest.mark.parametrize(
    "told", ["value\th\t9\tmem\tfresh\t1\t", "host\th", "snapshot\tx", "lease\tl"]
)
def test_a_record_that_cannot_be_read_is_an_error(told: str) -> None:
    with pytest.raises(WireError, match="cannot be read"):
        begun().take(message(Header(5, 2), [told]))


TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    TEXT,
    st.lists(st.none() | st.decimals(0, 9 * 10**12, places=6), min_size=4, max_size=4),
)
def test_every_value_and_amount_comes_back_unchanged(
    number: float, text: str, reason: str, amounts: list[Decimal | None]
) -> None:
    lines = begun()
    records = [
        value_record("h", 0, "mem", Told("fresh", number, None)),
        value_record("h", 1, "big", Told("fresh", True, None)),
        value_record("h", 2, "os", Told("fresh", text, None)),
        value_record("h", 2, "os", Told("unavailable", None, reason)),
        pool_record("a b", 0, "mem", Told("fresh", number, None), Held(*amounts)),
    ]
    found: list[AnyLine] = lines.take(message(Header(5, 2), records))
    values = [line.value for line in found if isinstance(line, ValueChange | Pool)]
    assert values == [number, True, text, None, number]
    assert found[3].reason == (reason or None)  # type: ignore[union-attr]
    pool = found[4]
    assert isinstance(pool, Pool)
    assert pool.instance == "a_b"
    assert [pool.capacity, pool.leased, pool.reserve, pool.free] == amounts
