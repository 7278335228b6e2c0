"""Each format on cases in folders (NAME.in, NAME.expected) and on noise."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynres.value import STRING_LIMIT, ValueType
from dynres.worker.formats import FORMATS, Parsed, parse
from dynres.worker.pairs import Asked
from dynres.worker.refusals import REFUSED_LIMIT, SHOWN

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.in"))
SEVERAL: dict[str, ValueType] = {"a": "numeric", "b": "boolean", "s": "string"}
UNITS = {"a": "MB"}
FORMS = [None, *FORMATS]


@pytest.mark.parametrize("case", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_an_output_gives_what_its_case_says(case: Path) -> None:
    expected = json.loads(case.with_suffix(".expected").read_text())
    form = None if case.parent.name == "default" else case.parent.name
    asked = Asked(
        resources=expected["resources"],
        names=expected.get("map", {}),
        units=expected.get("units", {}),
        several=expected.get("several", len(expected["resources"]) > 1),
        status=expected.get("status", 0),
        host="h1.example.org",
    )
    parsed = parse(case.read_bytes(), form, asked)
    assert parsed.values == expected["values"]
    assert {n: type(v) for n, v in parsed.values.items()} == {
        n: type(v) for n, v in expected["values"].items()
    }
    assert parsed.missed == expected["missed"]
    assert [[r.name, r.text, r.reason] for r in parsed.refused] == expected["refused"]
    assert parsed.problem == expected["problem"]


def test_every_case_has_both_files() -> None:
    assert len(CASES) > 80
    assert {c.with_suffix("") for c in CASES} == {
        c.with_suffix("") for c in HERE.glob("*/*.expected")
    }


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected one of value, lines, json, .*, got xml"):
        parse(b"1", "xml", Asked(resources={"a": "numeric"}))


def test_a_probe_of_several_never_gives_a_value_under_another_name() -> None:
    one = Asked(resources={"s": "string"}, several=True)
    for output in (b"x=5\n", b'{"x": "5"}'):
        parsed = parse(output, None, one)
        assert parsed.problem == "s: not in the output; the output had 'x'"
    for output in (b"5\n", b"s=5\n", b"x=4\ns=5\n", b'{"x": 4, "s": "5"}'):
        assert parse(output, None, one).values == {"s": "5"}


def check(parsed: Parsed, resources: dict[str, ValueType]) -> None:
    """What holds for whatever a probe prints."""
    assert set(parsed.values) | set(parsed.missed) == set(resources)
    assert not set(parsed.values) & set(parsed.missed)
    assert (parsed.problem is None) == bool(parsed.values)
    assert len(parsed.refused) <= REFUSED_LIMIT + 1
    assert all(len(r.name) <= SHOWN and len(r.text) <= SHOWN for r in parsed.refused)
    types = {"numeric": float, "boolean": bool, "string": str}
    for name, value in parsed.values.items():
        assert value is None or type(value) is types[resources[name]]
        if isinstance(value, str):
            assert len(value.encode()) <= STRING_LIMIT
    for refused in parsed.refused:
        f"{refused.name}{refused.text}{refused.reason}".encode()


lines = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"s", b"x", b""]), st.binary(max_size=30)).map(b"=".join)
).map(b"\n".join)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abs") | st.text(), inner),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from("abs"), trees).map(lambda t: json.dumps(t).encode())
cut = st.tuples(objects, st.integers(0, 200), st.binary(max_size=3)).map(
    lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :]
)


WORDS = (
    b'begin\n|end\n|h1:a:|h1:s:x\n|global:b:1\n|-\n|- x\n|a = 1\n|s = "|\\"|"\n|2 a 1 b 1\n|1 a '
    b"|a=1MB;2;3|'a'=|U |a 1\n|a{|x=\"y\"|}| 1\n|# HELP a\n|,|'|\r\n|0 0 0|:|=|{|\xff|\n"
)
words = st.lists(st.sampled_from([*WORDS.split(b"|"), b"|"]) | st.binary(max_size=4)).map(b"".join)


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)
@given(output=st.binary(max_size=300) | lines | objects | cut | words)
@example(output=b"[" * 100_000)
@example(output=b'{"a":' * 20_000)
@example(output=b'"' * 65_536)
@example(output=b'{"a": "' + b"\\" * 65_536)
@example(output=b"a=" + b"9" * 65_536)
@example(output=b'{"a": ' + b"9" * 65_536 + b"}")
@example(output=b"=\n" * 32_768)
@example(output=b"a=1\n" * 16_384)
@example(output=b"\xef\xbb\xbf" * 1000)
def test_whatever_a_probe_prints_is_judged_and_raises_nothing(
    form: str | None, output: bytes
) -> None:
    several = Asked(resources=SEVERAL, names={"x": "s"}, several=True, units=UNITS, host="h1")
    check(parse(output, form, several), SEVERAL)
    one: dict[str, ValueType] = {"s": "string"}
    check(parse(output, form, Asked(resources=one, status=3)), one)
