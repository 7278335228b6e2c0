"""Batches of plain numbers are read in one go, and say what reading them one by one would say."""

import shutil
import sysconfig
from array import array
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynres.worker import plain_numbers
from dynres.worker.numbers import Numbers
from dynres.worker.pairs import Asked
from dynres.worker.records import Records

ASKED = Asked(
    resources={"a": "numeric", "b": "numeric", "c": "numeric", "d": "numeric", "e": "boolean"},
    names={"x": "d"},
    several=True,
    host="h1",
)
LIMIT = 3000
NAMES = (b"a", b"b", b"c", b"x")
ODD = (
    b"1e400|-1e-400|1e-400|-0|-0.0|0e0|+1|01|1.|.5|1,5|1,|,|[1]|[|]|{}|nan|NaN|inf|Infinity|null|-|"
    b'true|"1"|1_0|0x10|1 2| 1|1 |\t1\t|1\r| | \r|1;|1=2|=|1\xff|\xef\xbb\xbf1|1\x0b|1\x00|'
    b"0e9999999|-0E+9999999|1e-9999999|1e9999999|0e0000000005|1E5|1e+5|9007199254740993|0.1|1.7976931348623157e308|4.9e-324|123456789012345678901234567890|1e5e5"
).split(b"|")
FIGURES = "0123456789" * 3 + ".eE+-"
texts = st.one_of(
    st.integers(-(10**20), 10**20).map(lambda n: b"%d" % n),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: repr(x).encode()),
    st.text(FIGURES, max_size=30).map(str.encode),
    st.sampled_from(ODD),
)
batches = st.lists(st.tuples(*[texts] * len(NAMES)), min_size=1, max_size=4)


COMPILED = plain_numbers.read_plain


@pytest.fixture(params=["as installed", "without C"], autouse=True, scope="module")
def reader(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without C":
            patch.setattr(plain_numbers, "read_plain", None)
        yield


def line_by_line(text):
    """What a reader says that never saw a batch of numbers before: it has no short way."""
    records = Records("lines", ASKED, LIMIT)
    records.feed(b"\n")
    return records.feed(text)


def after_plain_batches():
    """A reader that has learned what its stream prints."""
    records = Records("lines", ASKED, LIMIT)
    for _ in range(2):
        assert not isinstance(records.feed(printed([b"1"] * len(NAMES))).values, Numbers)
    return records


def same(batch, other):
    """Whether two batches say the same, down to the sign of a zero."""
    shown = [
        ({n: repr(v) for n, v in b.values.items()}, b.missed, b.records, b.refusals, b.refused)
        for b in (batch, other)
    ]
    return shown[0] == shown[1]


def printed(values):
    return b"".join(b"%b=%b\n" % pair for pair in zip(NAMES, values, strict=True))


@settings(deadline=None)
@given(batches)
@example([(text, b"1", b"2", b"3") for text in ODD])
def test_a_batch_says_the_same_whether_it_is_read_at_once_or_line_by_line(several):
    records = after_plain_batches()
    for values in several:
        assert same(records.feed(printed(values)), line_by_line(printed(values)))


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=8), st.sampled_from([b"a=1\n", b"=", b"\n", b"b=2"]))))
@example([b"a\n1=b=2\nc=3\nx=4\n"])
@example([b"a=1\nb=2\nc=3\nx=4\na=5\n"])
@example([b"a=1\nb=2\n\nc=3\nx=4\n"])
@example([b"b=1\na=2\nc=3\nx=4\n"])
@example([b"a=1\nb=2\nc=3\n"])
@example([b"a=1\nb=2\nc=3\nx=4\nd=5\n"])
@example([b"a=1\nc=3\nb=2\nx=4\n"])
@example([b"a=1\nb=2\nb=3\nx=4\n"])
@example([b'a=1,"b":2\nb=2\nc=3\nx=4\n'])
@example([b"a=1\n\\u0062=2\nc=3\nx=4\n"])
@example([b"a=1\nb\xff=2\nc=3\nx=4\n"])
@example([b"a=1\nb=2}\nc=3\nx=4\n"])
@example([b"a=1\nb==2\nc=3\nx=4\n"])
@example([b"a=1\nb\nc=3\nx=4=4\n"])
@example([b"a:1=1\nb=2\nc=3\nx=4\n"])
@example([b"a=" + b"1" * 1100 + b"\nb=2\nc=3\nx=4\n"])
@example([b"a=" + b" " * 1100 + b"1\nb=2\nc=3\nx=4\n"])
@example([b"a=" + b"1" * 3100 + b"\nb=2\nc=3\nx=4\n"])
@example([b"a=1\nb=2\nc=3\nx=" + b"0" * 1100 + b"\n"])
def test_whatever_comes_says_the_same_as_line_by_line(parts):
    text = b"".join(parts) + b"\n"
    records = after_plain_batches()
    assert same(records.feed(text), line_by_line(text))


@pytest.mark.parametrize("text", [b"7", b"-7", b"0.25", b"1e3", b" 7\r", b"-0"])
def test_plain_numbers_in_the_order_of_the_last_batch_are_read_at_once(text):
    records = after_plain_batches()
    first, second = (records.feed(printed([text] * 4)).values for _ in range(2))
    assert isinstance(first, Numbers)
    assert first.names is second.names
    assert first == {"a": float(text), "b": float(text), "c": float(text), "d": float(text)}
    assert "-0.0" not in repr(first.numbers)


def test_what_is_refused_in_a_plain_batch_is_told_with_it():
    records = after_plain_batches()
    batch = records.feed(printed([b"2"] * 4) + b"z" * 3100)
    assert (batch.refusals, batch.values["d"]) == (1, 2.0)


def test_another_order_and_a_part_of_the_names_are_read_too():
    records = Records("lines", ASKED, LIMIT)
    orders = (b"a=1\nb=2\nc=3\n", b"b=3\na=4\nc=3\n", b"a=3\nb=4\nb=5\n", b"a=7\n", b"e=on\na=8\n")
    for text in (text for text in orders for _ in range(3)):
        assert same(records.feed(text), line_by_line(text))


def test_it_is_compiled_where_there_is_a_compiler():
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    assert (COMPILED is not None) == (shutil.which(compiler) is not None and headers.exists())


decimals = st.builds(
    lambda digits, places, sign: (
        sign + f"{Decimal(digits).scaleb(-min(places, len(str(digits)))):f}"
    ),
    st.integers(0, 10**15 - 1),
    st.integers(0, 14),
    st.sampled_from(["", "-"]),
)


@pytest.mark.skipif(COMPILED is None, reason="there is no C compiler here")
@given(st.lists(decimals, min_size=1, max_size=5))
@example(["0"])
@example(["-0", "-0.0"])
@example(["999999999999999", "0.99999999999999", "123456789.01234"])
def test_what_c_reads_is_the_nearest_double(numbers):
    text = "\n".join(f"n{place}={number}" for place, number in enumerate(numbers))
    names = "\n".join(f"n{place}" for place in range(len(numbers)))
    read = COMPILED(text.encode(), names.encode(), len(numbers))
    assert list(map(repr, array("d", read))) == [repr(float(number) + 0.0) for number in numbers]


@pytest.mark.skipif(COMPILED is None, reason="there is no C compiler here")
@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        (b"", b"a", 1),
        (b"a", b"a", 1),
        (b"a=", b"a", 1),
        (b"a=-", b"a", 1),
        (b"a=1\n", b"a", 1),
        (b"a=1", b"ab", 1),
        (b"ab=1", b"a", 1),
        (b"a=1\nb=2", b"a", 1),
        (b"a=1", b"a\nb", 2),
        (b"a=1\nb=2", b"a", 2),
        (b"a=1\nb=2", b"a\nb", 3),
        (b"a=1", b"", 0),
        (b"a=1", b"a", 2**60),
        (b"a=1", b"", 1),
        (b"a=1\0", b"a", 1),
    ],
)
def test_what_is_no_plain_batch_is_left_to_python(text, names, count):
    assert COMPILED(text, names, count) is None
