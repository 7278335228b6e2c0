"""Records: what a stream says does not depend on how its bytes come, and never raises."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynres.worker.pairs import Asked
from dynres.worker.records import Records

SEVERAL = Asked(
    resources={"a": "numeric", "b": "boolean", "s": "string"},
    names={"x": "s"},
    several=True,
    host="h1",
)
ONE = Asked(resources={"a": "numeric"}, host="h1")
FORMS = [None, "lines", "json", "elim", "load_sensor", "startd_cron"]
LIMIT = 64
WORDS = (
    b"begin\n|end\n|h1:a:1\n|h1:s:x\n|global:b:1\n|-\n|- x\n|a = 1\n|2 a 1 b 1\n|1 a 2\n"
    b"|a=1\n|a=2\n|b=on\n|b=\n|s=\xff\n|banner\n|x=5\n|q=5\n|\r\n|\n|7\n|5"
    b'|{"a": 3}\n|{"b": true, "s": 1}\n|s = "y"\n'
)
words = st.lists(st.sampled_from([*WORDS.split(b"|"), b"z" * 70]) | st.binary(max_size=3)).map(
    b"".join
)


def read(form, asked, *chunks):
    """What all batches together say, and what was counted."""
    records = Records(form, asked, LIMIT)
    values, count, refusals = {}, 0, 0
    for chunk in chunks:
        batch = records.feed(chunk)
        assert not set(batch.values) & set(batch.missed)
        assert set(batch.values) | set(batch.missed) <= set(asked.resources)
        assert len(batch.refused) <= 52
        assert len(records._rest) <= LIMIT
        values.update(batch.values)
        count, refusals = count + batch.records, refusals + batch.refusals
    return values, count, refusals


@pytest.mark.parametrize("form", [*FORMS, "value"])
@settings(deadline=None)
@given(text=words, cuts=st.lists(st.integers(0, 200)))
def test_how_the_bytes_come_does_not_change_what_they_say(form, text, cuts):
    for asked in (ONE,) if form == "value" else (ONE, SEVERAL):
        places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
        chunks = [text[a:b] for a, b in pairwise(places)]
        in_pieces, _, _ = read(form, asked, *chunks)
        at_once, _, _ = read(form, asked, text)
        # In one piece a bad value after a good one is the newest; what is good in both is the same.
        common = at_once.keys() & in_pieces.keys()
        assert {n: at_once[n] for n in common} == {n: in_pieces[n] for n in common}
        assert at_once.keys() <= in_pieces.keys()


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)
@given(text=st.binary(max_size=200))
@example(text=b"y\n" * 32_768)
@example(text=b"begin\n" * 10_000)
@example(text=b"a" * 100_000)
@example(text=b'{"a": ' * 10_000)
@example(text=b"a = 1\n" * 10_000)
@example(text=b"h1:a:1\n" * 5_000)
def test_no_bytes_raise_anything(form, text):
    for asked in (ONE, SEVERAL):
        read(form, asked, text, b"\n", text)


def test_of_a_thousand_records_the_newest_counts_and_all_are_counted():
    text = b"".join(b"a=%d\nb=1\n" % n for n in range(1000))
    assert read("lines", SEVERAL, text) == ({"a": 999.0, "b": True}, 2000, 0)
    elim = b"".join(b"2 a %d b off\n" % n for n in range(1000))
    assert read("elim", SEVERAL, elim) == ({"a": 999.0, "b": False}, 1000, 0)
    lines = b"".join(json.dumps({"a": n}).encode() + b"\n" for n in range(1000))
    assert read("json", SEVERAL, lines) == ({"a": 999.0}, 1000, 0)
    bare = b"".join(b"%d\n" % n for n in range(1000))
    assert read("value", ONE, bare) == ({"a": 999.0}, 1000, 0)


def test_a_line_over_the_limit_is_refused_wherever_it_is_cut():
    long = b"a=" + b"1" * 100 + b"\n"
    for cut in range(len(long) + 1):
        values, _, refusals = read("lines", SEVERAL, long[:cut], long[cut:], b"b=on\n")
        assert (values, refusals) == ({"b": True}, 1)


def test_a_record_of_several_lines_over_the_limit_is_refused_and_the_next_is_read():
    lines = b"h1:s:abcdefgh\n" * 10
    text = b"begin\n" + lines + b"end\nbegin\nh1:a:2\nend\n"
    values, count, refusals = read("load_sensor", SEVERAL, text)
    assert (values, count, refusals) == ({"a": 2.0}, 2, 1)
    text = b's = "abcdefghij"\n' * 10 + b"-\na = 2\n-\n"
    assert read("startd_cron", SEVERAL, text) == ({"a": 2.0}, 1, 1)


def test_the_default_choice_is_made_line_by_line():
    text = b'banner\n{"a": 1, "b": true}\ns=x\n{"a": 2}\n'
    assert read(None, SEVERAL, text) == ({"a": 2.0, "b": True, "s": "x"}, 3, 1)
    assert read(None, ONE, b"1\na=2\n") == ({"a": 2.0}, 2, 0)


def test_a_byte_order_mark_counts_at_the_start_only():
    assert read("value", ONE, b"\xef\xbb", b"\xbf4\n")[0] == {"a": 4.0}
    assert read("value", ONE, b"4\n\xef\xbb\xbf5\n") == ({"a": 4.0}, 1, 1)


def test_the_newest_bad_value_is_a_failure_of_its_resource():
    batch = Records("lines", SEVERAL, LIMIT).feed(b"a=1\na=1,5\n")
    assert (batch.values, batch.missed) == ({}, {"a": "decimal comma? use a point"})
