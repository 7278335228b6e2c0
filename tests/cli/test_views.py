"""What a person sees of the tables, from views made by hand."""

from decimal import Decimal
from io import StringIO

import pytest
from rich.console import Console

from dynres.cli.hosts import hosts_table
from dynres.cli.live import Changes, Screen, fitting, pool_line, value_line
from dynres.cli.output import fault_line, printable
from dynres.cli.pools import amount_text, bar, pools_table
from dynres.cli.table import INDENT, Cell, Table, fits, plain_lines, rich_table
from dynres.cli.values import COLUMNS, values_table
from dynres.cli.watching import pools_screen
from dynres.cli.words import age_text, run_time_text, source_text, value_text
from dynres.config.faults import Fault
from dynres.config.model import Place
from dynres.wire.views import (
    AgentView,
    ConfigView,
    HostDetail,
    HostsView,
    HostView,
    PoolsView,
    PoolView,
    Source,
    ValuesView,
    ValueView,
)

PROBED = Source(kind="probe", probe="dynres1", reporter="host1")
STATIC = Source(kind="static", place="resources.yaml:22:9")


def value(now, state="fresh", *, last=None, reason=None, age=1.2, source=PROBED, unit=None):
    return ValueView(
        value=now,
        last=now if last is None else last,
        unit=unit,
        state=state,
        reason=reason,
        age=age,
        source=source,
    )


def one_host(**values):
    detail = {"state": "up", "closed": False, "agent": None, "config": None}
    return ValuesView(at="2026-11-30T10:00:00Z", hosts={"host1": HostView(**detail, values=values)})


def pool(**changes):
    what = {
        "resource": "iris",
        "unit": None,
        "members": ("host1", "host2"),
        "capacity": Decimal(100),
        "reported": None,
        "leased": Decimal(0),
        "reserve": Decimal(2),
        "free": Decimal(98),
        "overcommitted": False,
        "state": "fresh",
        "age": None,
        "reporter": None,
        "instance": "iris",
        "source": "resources.yaml:31:9",
        "holders": None,
        "waiting": (),
    }
    return PoolView(**(what | changes))


def test_only_a_fresh_value_is_shown_as_a_value_and_the_older_one_as_last():
    table = values_table(
        one_host(
            new=value(7.0, unit="GB"),
            old=value(None, "stale", last=7.5, reason="ttl 10s exceeded", age=61.0),
            none=value(None, "unavailable", reason="exit status 1", age=None),
        )
    )
    rows = {
        row[1].text: dict(zip(COLUMNS, (cell.text for cell in row), strict=True))
        for row in table.rows
    }
    assert (rows["new"]["VALUE"], rows["new"]["LAST"], rows["new"]["UNIT"]) == ("7", "-", "GB")
    assert (rows["old"]["VALUE"], rows["old"]["LAST"], rows["old"]["AGE"]) == ("-", "7.5", "1m1s")
    assert rows["old"]["REASON"] == "ttl 10s exceeded"
    assert (rows["none"]["VALUE"], rows["none"]["STATE"]) == ("-", "unavailable")
    assert rows["none"]["REASON"] == "exit status 1"


def test_a_view_has_the_same_columns_whatever_is_in_it():
    assert values_table(one_host()).columns == values_table(one_host(a=value("x"))).columns
    assert next(iter(plain_lines(values_table(one_host())))).split() == list(COLUMNS)


@pytest.mark.parametrize(
    ("number", "text"),
    [(7.0, "7"), (0.1, "0.1"), (1e15, "1000000000000000"), (1 / 3, "0.3333333333333333")],
)
def test_numbers_are_shown_without_loss(number, text):
    assert value_text(number) == text
    assert float(text) == number


def test_an_empty_string_and_one_that_looks_like_none_differ_from_no_value():
    assert value_text("") == '""'
    assert value_text("-") == '"-"'
    assert value_text(None) == "-"
    assert value_text(True) == "true"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0s"),
        (1.26, "1.3s"),
        (59.6, "1m"),
        (812.4, "13m32s"),
        (3700, "1h2m"),
        (90000, "1d1h"),
    ],
)
def test_ages_are_durations(seconds, text):
    assert age_text(seconds) == text


def test_a_run_time_keeps_its_fractions():
    assert [run_time_text(t) for t in (None, 0.0, 0.00321, 1.256)] == ["-", "0s", "3.2ms", "1.26s"]


def test_a_source_says_where_the_value_comes_from():
    assert source_text(PROBED) == "probe dynres1 on host1"
    assert source_text(PROBED, "host1") == "probe dynres1"
    assert source_text(PROBED, "host2") == "probe dynres1 on host1"
    assert source_text(STATIC) == "static resources.yaml:22:9"
    fallback = Source(kind="on_failure", probe="p", reporter="h")
    assert source_text(fallback) == "on_failure probe p on h"
    assert source_text(Source(kind="pool")) == "pool"


def test_plain_text_is_aligned_and_nothing_is_cut_off():
    long = "x" * 1024
    table = Table(
        ("NAME", "N"), [(Cell("a"), Cell("10")), (Cell(long), Cell("5"))], frozenset({"N"})
    )
    head, first, second = plain_lines(table)
    assert head == "NAME".ljust(1024) + "   N"
    assert first == "a".ljust(1024) + "  10"
    assert second == long + "   5"


def drawn(what, width):
    terminal = Console(width=width, height=30, file=StringIO(), color_system=None)
    terminal.print(what)
    return terminal.file.getvalue().splitlines()


def test_a_terminal_folds_long_columns_and_tears_no_heading_and_no_number_apart():
    columns = ("RESOURCE", "CAPACITY", "REASON")
    table = Table(columns, [(Cell("iris"), Cell("100"), Cell("not measured for a long time"))])
    assert fits(table, 40)
    lines = drawn(rich_table(table), 40)
    assert lines[0].split() == list(columns)
    assert lines[1].split()[:2] == ["iris", "100"]
    assert len(lines) == 3


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 200])
def test_no_terminal_is_too_narrow_for_a_column_a_word_or_a_number(width):
    columns = ("LEASE", "JOB", "AMOUNT", "SINCE", "EXPIRES", "STATE")
    since = "2026-11-30T10:00:00.123Z"
    rows = [
        (Cell("1-1"), Cell("4711"), Cell("2 GB"), Cell(since), Cell("-"), Cell("suspended")),
        (Cell("1-2"), Cell("12[7]"), Cell("100.000001"), Cell(since), Cell(since), Cell("held")),
    ]
    table = Table(columns, rows, frozenset({"AMOUNT"}))
    lines = drawn(rich_table(table), width)
    whole = " ".join(" ".join(lines).split())
    assert all(len(line.rstrip()) <= width for line in lines)
    for number, name in enumerate(columns):
        assert name in whole
        if width >= INDENT + len("EXPIRES ") + len(since):
            assert all(row[number].text in whole for row in rows if row[number].text != "-")
    if width == 200:
        assert len(lines) == 1 + len(rows)
    if width == 60:
        assert lines[1:3] == ["1-1    4711         2 GB  " + since, "    STATE suspended"]


@pytest.mark.parametrize("width", [80, 110, 200])
def test_watched_pools_have_whole_headings_and_bars_on_every_terminal(width):
    lines = drawn(pools_screen(PoolsView(pools=(pool(),)), width), width)
    assert {"CAPACITY", "LEASED", "FREE", "USE"} <= set(lines[0].split())
    assert "+........." in lines[1]


def test_what_a_probe_says_cannot_drive_the_terminal():
    assert printable("red \x1b[31m\n") == "red \\x1b[31m\\n"
    table = Table(("A",), [(Cell("\x1b]0;title\x07"),)])
    assert "\x1b" not in "".join(plain_lines(table))


def test_hosts_show_state_agent_uptime_and_how_their_files_compare():
    def detail(config, **changes):
        what = {"state": "up", "closed": False, "agent": AgentView(version="0.1.0", uptime=812.4)}
        return HostDetail(**(what | changes), config=config)

    details = {
        "a": detail(ConfigView(same=True, differs=(), refused=None)),
        "b": detail(ConfigView(same=False, differs=("iris", "mem"), refused=None)),
        "c": detail(ConfigView(same=False, differs=(), refused="resources.yaml:1:1: empty")),
        "d": detail(None, state="never", agent=None),
    }
    table = hosts_table(HostsView(hosts=tuple(details), unknown=(), details=details))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["a", "up", "0.1.0", "13m32s", "same"],
        ["b", "up", "0.1.0", "13m32s", "differs: iris, mem"],
        ["c", "up", "0.1.0", "13m32s", "refused: resources.yaml:1:1: empty"],
        ["d", "never", "-", "-", "-"],
    ]


def test_pools_fold_their_members_and_show_exact_amounts():
    [row] = pools_table(PoolsView(pools=(pool(capacity=Decimal("100.50")),))).rows
    cells = [cell.text for cell in row]
    assert cells[:4] == ["iris", "iris", "host[1-2]", "100.5"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [("100", "100"), ("0.040000", "0.04"), ("1E+3", "1000"), ("0", "0"), (None, "-")],
)
def test_amounts_are_exact(amount, text):
    assert amount_text(None if amount is None else Decimal(amount)) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"free": Decimal(100)}, ".........."),
        ({"free": Decimal(49), "leased": Decimal(51)}, "######...."),
        ({"free": Decimal(0), "leased": Decimal(98)}, "##########"),
        ({"free": Decimal(40), "leased": Decimal(10)}, "#+++++...."),
        ({"free": Decimal(0), "overcommitted": True}, "overcommitted"),
        ({"free": None}, "-"),
        ({"capacity": None, "free": Decimal(3)}, "-"),
        ({"capacity": Decimal(0), "free": Decimal(0)}, "-"),
    ],
)
def test_the_bar_never_shows_more_free_than_there_is(changes, text):
    assert bar(pool(**changes)).text == text


def test_lines_say_each_value_when_it_appears_and_when_it_changes():
    changes = Changes()
    nothing = PoolsView(pools=())

    def lines(settled=False, **values):
        return list(changes.lines(one_host(**values), nothing, settled=settled))

    missing = value(None, "unavailable", reason="not yet", age=None)
    assert lines(a=missing) == []
    assert lines(a=value(7.0, unit="GB")) == ["host1 a = 7 GB (probe dynres1 on host1, 1.2s old)"]
    assert lines(a=value(7.0, unit="GB", age=2.0)) == []
    assert lines(a=value(8.0, unit="GB", age=0.0)) == [
        "host1 a = 8 GB (probe dynres1 on host1, 0s old)"
    ]
    assert lines(settled=True, a=missing) == [
        "host1 a = unavailable: not yet (probe dynres1 on host1)"
    ]


def test_a_line_for_a_static_value_names_its_file_and_a_pool_its_members():
    static = value("el9", age=None, source=STATIC)
    assert value_line("host1", "os", static) == "host1 os = el9 (static resources.yaml:22:9)"
    assert pool_line(pool()) == "pool iris: 98 of 100 free for host[1-2] (resources.yaml:31:9)"


def test_the_live_view_shows_as_many_values_as_fit_and_always_the_pools():
    many = one_host(**{f"r{number}": value(float(number)) for number in range(100)})
    for height in (12, 24, 60, 200):
        terminal = Console(width=80, height=height, file=StringIO(), color_system=None)
        terminal.print(fitting(terminal, ["head"], many, PoolsView(pools=(pool(),)), ["a: note"]))
        lines = terminal.file.getvalue().splitlines()
        assert len(lines) < height
        assert len(lines) >= min(height - 1, 100)
        assert sum(line.startswith("iris ") for line in lines) == 1
        assert lines[-1] == "a: note"


def test_a_log_line_below_the_live_view_never_takes_two_lines():
    terminal = Console(width=40, height=30, file=StringIO(), color_system=None)
    note = "agent: " + "x" * 100
    terminal.print(fitting(terminal, [], one_host(a=value(1.0)), PoolsView(pools=()), [note]))
    lines = terminal.file.getvalue().splitlines()
    assert lines[-1].startswith("agent: xxx")
    assert len(lines[-1]) <= 40


def test_what_goes_as_it_should_is_not_noted_below_the_live_view():
    display = Screen([])
    for line in ("INFO: registered", "2026-11-30 10:00:00,1 INFO x", "DEBUG y", "WARNING: z", "w"):
        display.log("agent", line)
    assert list(display._notes) == ["agent: WARNING: z", "agent: w"]


def test_a_fault_reads_the_same_from_its_json_as_from_its_own_text():
    place = Place("resources.yaml", 3, 5)
    for fault in (
        Fault(
            place=place, what="unknown key", expected="interval", got="intervall", hint="spelling"
        ),
        Fault(place=None, what="no such folder"),
        Fault(place=place, what="wrong type", got="a list"),
    ):
        assert fault_line(fault.as_json()) == str(fault)
