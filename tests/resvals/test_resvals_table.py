"""The table alone: what goes in, what comes out, at which age."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.controller.interned import SLACK, Interned
from dynres.controller.resvals import (
    ABSENT,
    ALWAYS,
    DIFFERS,
    FRESH,
    NO_REPORT,
    STALE,
    UNAVAILABLE,
    Cell,
    Column,
    Origin,
    Resvals,
)

STATIC = Origin("static", place="resources.yaml:3:5")
OWN = Origin("static", place="hosts.yaml:4:7")
PROBE = Origin("probe", "p")
COLUMNS = (
    Column("number", "numeric", 45.0),
    Column("flag", "boolean", 45.0),
    Column("text", "string", 45.0),
    Column("fixed", "numeric", ALWAYS),
)
NUMBER, FLAG, TEXT, FIXED = range(4)


@pytest.fixture
def table() -> Resvals:
    return Resvals(COLUMNS, ("host1", "host2"))


def cell(table: Resvals, host: str, resource: str, now: float) -> Cell:
    found = table.cell(host, resource, now)
    assert found is not None
    return found


def test_a_resource_that_is_not_mapped_to_a_host_has_no_cell(table: Resvals) -> None:
    assert table.cell("host1", "number", 0.0) is None
    assert table.row("host1", 0.0) == {}
    assert table.states(NUMBER, 0.0).tolist() == [ABSENT, ABSENT]


def test_a_measured_value_is_unavailable_until_the_first_report(table: Resvals) -> None:
    table.expect(NUMBER, np.array([0, 1]), PROBE)
    found = cell(table, "host1", "number", 5.0)
    assert (found.state, found.value, found.last, found.reason) == (
        UNAVAILABLE,
        None,
        None,
        NO_REPORT,
    )


@pytest.mark.parametrize(
    ("resource", "column", "value"),
    [("number", NUMBER, 2.5), ("flag", FLAG, False), ("flag", FLAG, True), ("text", TEXT, "el9")],
)
def test_a_value_comes_back_as_it_was_put(
    table: Resvals, resource: str, column: int, value: float | bool | str
) -> None:
    assert table.put(column, 0, value, origin=PROBE, measured=10.0)
    found = cell(table, "host1", resource, 12.0)
    assert found == Cell(FRESH, value, value, None, 10.0, PROBE)
    assert type(found.value) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_comes_back_unchanged(number: float) -> None:
    table = Resvals(COLUMNS, ("host1",))
    table.put(NUMBER, 0, number, origin=PROBE, measured=0.0)
    assert cell(table, "host1", "number", 0.0).value == number


def test_a_value_is_fresh_up_to_its_ttl_and_stale_after_it(table: Resvals) -> None:
    table.put(NUMBER, 0, 7.0, origin=PROBE, measured=100.0)
    assert cell(table, "host1", "number", 145.0).state == FRESH
    late = cell(table, "host1", "number", 145.1)
    assert (late.state, late.value, late.last) == (STALE, None, 7.0)
    assert table.states(NUMBER, 145.1).tolist() == [STALE, ABSENT]
    assert np.isnan(table.numbers(NUMBER, 145.1)).all()


def test_a_declared_value_enters_by_the_same_path_and_never_ages(table: Resvals) -> None:
    table.put(FIXED, np.array([0, 1]), 10.0, origin=STATIC)
    table.put(FIXED, 1, 20.0, origin=OWN)
    replicated, own = (cell(table, h, "fixed", 1e9) for h in ("host1", "host2"))
    assert replicated._replace(origin=OWN, value=20.0, last=20.0) == own
    assert table.numbers(FIXED, 1e9).tolist() == [10.0, 20.0]


def test_a_late_report_never_overwrites_a_newer_one(table: Resvals) -> None:
    table.put(NUMBER, 0, 7.0, origin=PROBE, measured=100.0)
    assert not table.put(NUMBER, 0, 3.0, origin=PROBE, measured=99.0)
    assert not table.put(NUMBER, 0, None, origin=PROBE, measured=99.0, reason="late")
    assert cell(table, "host1", "number", 101.0).value == 7.0


def test_a_repeated_report_changes_nothing(table: Resvals) -> None:
    for _ in range(2):
        assert table.put(NUMBER, 0, 7.0, origin=PROBE, measured=100.0)
    assert cell(table, "host1", "number", 101.0) == Cell(FRESH, 7.0, 7.0, None, 100.0, PROBE)


def test_unavailable_is_never_the_old_value_which_stays_as_last(table: Resvals) -> None:
    table.put(TEXT, 0, "ok", origin=PROBE, measured=100.0)
    table.put(TEXT, 0, None, origin=PROBE, measured=101.0, reason="exit 3")
    found = cell(table, "host1", "text", 102.0)
    assert (found.state, found.value, found.last, found.reason) == (
        UNAVAILABLE,
        None,
        "ok",
        "exit 3",
    )


def test_a_run_renews_what_its_session_reported_except_what_it_missed(table: Resvals) -> None:
    for column in (NUMBER, FLAG):
        table.put(column, 0, 1.0, origin=PROBE, measured=100.0)
    table.touch(0, "p", 130.0, missed={"flag": "no data"}, literal=False)
    table.touch(0, "q", 140.0, missed={}, literal=False)
    assert cell(table, "host1", "number", 150.0).measured == 130.0
    assert cell(table, "host1", "flag", 150.0).measured == 100.0


def test_a_run_of_a_new_session_does_not_renew_what_the_old_one_reported(table: Resvals) -> None:
    table.put(NUMBER, 0, 1.0, origin=PROBE, measured=100.0)
    table.new_session(0)
    table.touch(0, "p", 130.0, missed={}, literal=False)
    assert cell(table, "host1", "number", 131.0).measured == 100.0


def test_a_failed_run_renews_only_what_on_failure_gave(table: Resvals) -> None:
    table.put(NUMBER, 0, 1.0, origin=PROBE, measured=100.0)
    table.put(FLAG, 0, False, origin=Origin("on_failure", "p"), measured=100.0)
    table.touch(0, "p", 130.0, missed={}, literal=True)
    assert cell(table, "host1", "number", 131.0).measured == 100.0
    assert cell(table, "host1", "flag", 131.0).measured == 130.0


def test_a_value_whose_definition_differs_is_unavailable_and_the_rest_counts(
    table: Resvals,
) -> None:
    for column in (NUMBER, FLAG):
        table.put(column, 0, 1.0, origin=PROBE, measured=100.0)
    table.dispute(0, [NUMBER])
    found = cell(table, "host1", "number", 100.0)
    assert (found.state, found.value, found.reason) == (UNAVAILABLE, None, DIFFERS)
    assert table.states(NUMBER, 100.0)[0] == UNAVAILABLE
    assert cell(table, "host1", "flag", 100.0).state == FRESH
    table.dispute(0, [])
    assert cell(table, "host1", "number", 100.0).value == 1.0


def test_an_absent_resource_stays_absent_whatever_differs(table: Resvals) -> None:
    table.dispute(0, [NUMBER])
    assert table.states(NUMBER, 0.0)[0] == ABSENT


def test_a_removed_host_vanishes_and_its_row_serves_another(table: Resvals) -> None:
    table.put(TEXT, 0, "el9", origin=PROBE, measured=100.0)
    table.dispute(0, [TEXT])
    table.remove_host("host1")
    assert table.cell("host1", "text", 100.0) is None
    assert table.add_host("host3") == 0
    assert table.row("host3", 100.0) == {}


def test_the_table_grows_with_hosts_that_come_late(table: Resvals) -> None:
    for number in range(3, 400):
        row = table.add_host(f"host{number}")
        table.put(NUMBER, row, float(number), origin=PROBE, measured=1.0)
    assert len(set(table.rows.values())) == 399
    assert cell(table, "host399", "number", 1.0).value == 399.0
    assert table.add_host("host7") == table.rows["host7"]


def test_strings_are_compared_by_the_number_that_stands_for_them(table: Resvals) -> None:
    table.put(TEXT, 0, "el9", origin=PROBE, measured=1.0)
    table.put(TEXT, 1, "el8", origin=PROBE, measured=1.0)
    assert (table.numbers(TEXT, 1.0) == table.text_code("el9")).tolist() == [True, False]
    assert math.isnan(table.text_code("nobody has it"))


def test_texts_and_reasons_that_nobody_holds_any_more_are_forgotten(table: Resvals) -> None:
    for number in range(5 * SLACK):
        table.put(TEXT, 0, f"at {number}", origin=PROBE, measured=float(number))
        table.put(NUMBER, 1, None, origin=PROBE, measured=float(number), reason=f"line {number}")
    assert cell(table, "host1", "text", 5.0 * SLACK).value == f"at {5 * SLACK - 1}"
    assert cell(table, "host2", "number", 5.0 * SLACK).reason == f"line {5 * SLACK - 1}"
    assert len(table._texts) <= 2 * SLACK
    assert len(table._reasons) <= 2 * SLACK


def test_after_a_reload_what_was_measured_stays_where_it_still_belongs(table: Resvals) -> None:
    table.put(TEXT, 0, "el9", origin=PROBE, measured=100.0)
    table.put(TEXT, 1, "el8", origin=PROBE, measured=100.0)
    table.put(NUMBER, 0, None, origin=PROBE, measured=100.0, reason="exit 3")
    table.put(FLAG, 0, True, origin=PROBE, measured=100.0)
    new = Resvals((Column("number", "numeric", 9.0), Column("text", "string", 45.0)), ("host1",))
    late = new.add_host("host5")
    for row in (0, late):
        new.expect(0, row, PROBE)
        new.expect(1, row, PROBE)
    new.carry(table, ("number", "text"))
    assert cell(new, "host1", "text", 110.0) == Cell(FRESH, "el9", "el9", None, 100.0, PROBE)
    assert cell(new, "host1", "number", 110.0).reason == "exit 3"
    assert cell(new, "host5", "text", 110.0).reason == NO_REPORT
    assert "flag" not in new.row("host1", 110.0)
    assert "host2" not in new.rows


def test_a_resource_that_left_the_mapping_is_not_carried_over(table: Resvals) -> None:
    table.put(NUMBER, 0, 4.0, origin=PROBE, measured=100.0)
    new = Resvals(COLUMNS, ("host1", "host2"))
    new.carry(table, ("number",))
    assert new.row("host1", 100.0) == {}


def test_a_sweep_hands_out_only_codes_that_nobody_holds() -> None:
    interned: Interned[str] = Interned()
    codes = [interned.code(text) for text in "abc"]
    interned.sweep(np.array([codes[1]]))
    assert interned.thing(codes[1]) == "b"
    assert interned.find("a") is None
    assert {interned.code("x"), interned.code("y")} == {codes[0], codes[2]}
    assert interned.code("b") == codes[1]


puts = st.tuples(
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from([None, 0.0, 1.0]),
    st.integers(0, 20),
)


@given(st.lists(puts))
def test_whatever_the_order_of_reports_the_newest_measurement_stands(
    history: list[tuple[int, int, float | None, int]],
) -> None:
    table = Resvals(COLUMNS, [f"host{i}" for i in range(4)])
    newest: dict[tuple[int, int], tuple[int, float | None]] = {}
    for column, row, value, at in history:
        text = f"{value}" if column == TEXT and value is not None else value
        table.put(column, row, text, origin=PROBE, measured=float(at))
        if at >= newest.get((column, row), (-1, None))[0]:
            newest[column, row] = (at, value)
    for (column, row), (at, value) in newest.items():
        found = cell(table, f"host{row}", COLUMNS[column].name, 20.0)
        assert found.measured == at
        assert (found.state == UNAVAILABLE) == (value is None)
