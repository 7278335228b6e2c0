"""What a plugin returns is judged value by value, by the same rules as printed text."""

import asyncio
from decimal import Decimal
from fractions import Fraction

import numpy as np
from hosts import job, plugin_hosts
from hypothesis import given
from hypothesis import strategies as st

from dynres.config.model import Place, Probe
from dynres.worker.outcome import RunSpec
from dynres.worker.plugin_run import items
from dynres.worker.plugin_values import take_reading


def spec(resources, *, several=False, names=None):
    probe = Probe(name="p", plugin="x", timeout=1.0, map=names or {}, place=Place("f", 1, 1))
    return RunSpec(probe=probe, resources=resources, several=several, host="h", path="/bin")


def taken(reading, resources, **more):
    return take_reading(items(reading), spec(resources, **more))


def test_every_odd_value_is_refused_with_its_reason_and_good_neighbours_are_taken():
    async def read():
        async with plugin_hosts() as hosts:
            return (await hosts.run(job("odd"))).payload

    types = {
        "count": "numeric", "nan": "numeric", "big": "numeric", "text": "string",
        "flag": "boolean", "surrogate": "string", "bell": "string", "long": "string",
        "good": "numeric", "word": "string", "yes": "boolean", "none": "numeric",
        "absent": "numeric",
    }  # fmt: skip
    parsed, not_here = take_reading(asyncio.run(read()), spec(types))
    assert parsed.values == {"good": 2.5, "word": "el9", "yes": True, "none": None}
    assert parsed.missed == {
        "count": "expected a number, got list",
        "nan": "not a finite number",
        "big": "not a finite number",
        "text": "expected a string, got number",
        "flag": "expected a boolean, got number",
        "surrogate": "control character U+D800",
        "bell": "control character U+0007",
        "long": "longer than 1024 bytes",
        "absent": "not in the output",
    }
    reasons = {r.name: r.reason for r in parsed.refused}
    assert reasons["unasked"] == reasons["7"] == "not asked of this probe on this host"
    assert not not_here


def test_the_only_value_of_a_plugin_that_feeds_one_resource_is_that_resources():
    assert taken({"free": 5.0}, {"scratch": "numeric"})[0].values == {"scratch": 5.0}


def test_every_kind_of_number_is_a_number():
    types = dict.fromkeys("abcd", "numeric")
    parsed, _ = taken({"a": Decimal("1.5"), "b": Fraction(1, 2), "c": np.int64(3), "d": 4}, types)
    assert parsed.values == {"a": 1.5, "b": 0.5, "c": 3.0, "d": 4.0}
    parsed, _ = taken({"a": Decimal("NaN"), "b": np.array([1, 2]), "c": 1j, "d": b"1"}, types)
    assert parsed.missed == {
        "a": "not a finite number",
        "b": "expected a number, got ndarray",
        "c": "expected a number, got complex",
        "d": "expected a number, got bytes",
    }


def test_a_plugin_that_feeds_several_never_gives_a_value_under_another_name():
    parsed, _ = taken({"b": 5.0}, {"a": "numeric"}, several=True)
    assert parsed.values == {}
    assert parsed.problem == "a: not in the output; the output had 'b'"


def test_map_renames_what_the_plugin_calls_a_thing():
    parsed, _ = taken({"x": 1, "y": 2}, {"a": "numeric", "y": "numeric"}, names={"x": "a"})
    assert parsed.values == {"a": 1.0, "y": 2.0}


def test_an_empty_reading_is_no_data():
    assert taken({}, {"a": "numeric"})[0].problem == "no data: read() returned nothing"


def test_not_here_for_all_that_was_asked_means_that_the_probe_does_not_apply():
    async def read():
        async with plugin_hosts() as hosts:
            return (await hosts.run(job("elsewhere"))).payload

    payload = asyncio.run(read())
    parsed, not_here = take_reading(payload, spec({"count": "numeric"}))
    assert (parsed.values, not_here) == ({"count": None}, True)
    parsed, not_here = take_reading(payload, spec({"count": "numeric", "a": "numeric"}))
    assert (parsed.values, not_here) == ({"count": None}, False)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "s", "x"]) | st.text() | st.integers(),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    )
)
def test_whatever_a_plugin_returns_is_judged_and_raises_nothing(reading):
    types = {"a": "numeric", "b": "boolean", "s": "string"}
    parsed, _ = taken(reading, types)
    assert set(parsed.values) | set(parsed.missed) == set(types)
    assert (parsed.problem is None) == bool(parsed.values)


def test_a_plugin_says_why_a_value_is_unavailable_and_a_pair_of_anything_else_is_refused():
    reading = {"pg": (None, "a rate needs a second sample"), "io": None, "odd": (1.0, "x")}
    parsed, _ = taken(reading, dict.fromkeys(reading, "numeric"))
    assert parsed.values == {"pg": None, "io": None}
    assert parsed.why == {"pg": "a rate needs a second sample"}
    assert parsed.missed == {"odd": "expected a number, got tuple"}
