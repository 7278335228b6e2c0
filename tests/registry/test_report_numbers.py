"""Numbers within a session, and instants out of ages."""

import pytest
from handmade import hello, report
from hypothesis import given
from hypothesis import strategies as st

from dynres.controller.registry import Accepted, Registry
from dynres.controller.session import Session, measured_at
from dynres.wire.messages import Echo


@pytest.fixture
def session() -> Session:
    (effect,) = Registry("listed", ("host1",), 1e6).hello(b"a", "", hello("host1"), 100.0)
    assert isinstance(effect, Accepted)
    return effect.session


def test_the_first_report_must_be_a_full_one(session: Session) -> None:
    assert session.take(report(1)) == "gap"
    assert not session.complete


def test_reports_in_order_are_taken(session: Session) -> None:
    assert session.take(report(1, full=True)) == "taken"
    assert session.take(report(2)) == "taken"
    assert session.complete


def test_a_missing_number_is_a_gap_until_a_full_report_comes(session: Session) -> None:
    session.take(report(1, full=True))
    assert session.take(report(3)) == "gap"
    assert session.take(report(4)) == "gap"
    assert session.take(report(5, full=True)) == "taken"
    assert session.take(report(6)) == "taken"


@pytest.mark.parametrize("full", [True, False])
def test_a_late_or_repeated_report_is_told_by_its_number(session: Session, full: bool) -> None:
    session.take(report(7, full=True))
    assert session.take(report(7, full=full)) == "late"
    assert session.take(report(3, full=full)) == "late"
    assert session.complete


def test_without_an_echo_a_value_is_as_old_as_it_was_when_it_came() -> None:
    assert measured_at(None, 2.0, 100.0) == 98.0


def test_a_report_that_waited_in_a_buffer_is_as_old_as_it_is() -> None:
    stamp_came, sent_at, received = 50.0, 53.0, 93.0
    echo = Echo(stamp=50.0, since=sent_at - stamp_came)
    assert measured_at(echo, 2.0, received) == sent_at - 2.0


def test_a_stamp_of_another_clock_never_makes_a_value_younger_than_its_receipt() -> None:
    assert measured_at(Echo(stamp=1e9, since=0.0), 2.0, 100.0) == 98.0


delay = st.floats(0, 1000)


@given(stamp_delay=delay, since=delay, wait=delay, age=delay)
def test_an_instant_is_never_later_than_the_true_one(
    stamp_delay: float, since: float, wait: float, age: float
) -> None:
    stamp = 10_000.0
    sent_at = stamp + stamp_delay + since
    true = sent_at - age
    estimate = measured_at(Echo(stamp=stamp, since=since), age, sent_at + wait)
    assert estimate <= true + 1e-6
    assert true - estimate <= stamp_delay + 1e-6
