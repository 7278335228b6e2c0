"""The requirement language as text: what is read, what is refused and in which column."""

from decimal import Decimal

import pytest
from declared import resource
from hypothesis import given
from hypothesis import strategies as st

from dynres.config.model import Resource
from dynres.controller.condition import (
    COMPARISONS,
    All,
    Any,
    Compare,
    Condition,
    Defined,
    Enough,
    Name,
    Not,
    Number,
    RequirementError,
    Text,
    Truth,
    written,
)
from dynres.controller.meaning import Against, Between, Either, Every
from dynres.controller.parser import DEEPEST, parse
from dynres.controller.requirement import compile_requirement
from dynres.controller.tokens import LONGEST

SCHEMA: dict[str, Resource] = {
    r.name: r
    for r in (
        resource("iris", flags=["shared"]),
        resource("bigmem", type="boolean", order="none"),
        resource("fast", type="boolean", order="none"),
        resource("os", type="string", order="none"),
        resource("arch", type="string", order="none"),
        resource("mem", unit="MB"),
        resource("tmp", unit="GB"),
        resource("it", unit="min"),
        resource("r1m", unit="tasks", order="increasing"),
        resource("plain", order="none"),
    )
}


def meant(text: str) -> object:
    return compile_requirement(text, SCHEMA).meaning


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("mem >= 2", ">=", 2.0),
        ("2 <= mem", ">=", 2.0),
        ("2 == mem", "==", 2.0),
        ("mem >= 1.5 GB", ">=", 1536.0),
        ("mem>=1.5gib", ">=", 1536.0),
        ("mem >= 512K", ">=", 0.5),
        ("it < 1 h", "<", 60.0),
        ("it < 90s", "<", 1.5),
        ("it < 1ms", "<", 0.000017),
        ("mem != -1e3", "!=", -1000.0),
        ("r1m < 3 tasks", "<", 3.0),
        ("iris: 5", ">=", 5.0),
        ("r1m: 0.7", "<=", 0.7),
        ("tmp : 1 TB", ">=", 1024.0),
        ("(iris) > (3)", ">", 3.0),
        ("bigmem", "==", True),
        ("bigmem == false", "==", False),
        ("os != 'el9'", "!=", "el9"),
        (r'os == "a \"b\" \\c"', "==", r'a "b" \c'),
    ],
)
def test_a_condition_compares_in_the_unit_of_the_resource(
    text: str, operator: str, value: object
) -> None:
    found = meant(text)
    assert isinstance(found, Against)
    assert (found.operator, found.value) == (operator, value)


def test_and_is_stronger_than_or_and_not_is_stronger_than_both() -> None:
    found = meant("bigmem || !fast && mem > 1 || iris: 1")
    assert isinstance(found, Either)
    assert isinstance(found.parts[1], Every)
    assert len(found.parts) == 3


def test_two_resources_are_brought_to_one_unit() -> None:
    for text, factors in (("mem > tmp", (1.0, 1024.0)), ("tmp > mem", (1024.0, 1.0))):
        found = meant(text)
        assert isinstance(found, Between)
        assert found.factors == factors
    for text in ("mem > plain", "r1m < plain", "os == arch", "bigmem != fast"):
        assert isinstance(meant(text), Between)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("mem >= 2 && bigmen", 13, "did you mean bigmem"),
        ("defined(bigmen)", 9, "did you mean bigmem"),
        ("os == el9", 7, 'write "el9"'),
        ("mem", 1, "no condition"),
        ("os", 1, "no condition"),
        ("bigmem && 5", 11, "alone is no condition"),
        ("'x' || bigmem", 1, "alone is no condition"),
        ("mem == 'x'", 8, "expected a numeric value"),
        ("mem == bigmem", 8, "which is boolean"),
        ("bigmem == 1", 11, "which is numeric"),
        ("os == 5", 7, "which is numeric"),
        ("5 == os", 6, "which is string"),
        ("os < 'b'", 1, "no order"),
        ("bigmem >= true", 1, "no order"),
        ("plain: 5", 1, "no order"),
        ("os: 5", 1, "expected a numeric value"),
        ("mem: 'x'", 5, "expected a number"),
        ("mem: bigmem", 5, "expected a number"),
        ("mem > 2 h", 7, "h cannot be converted to MB"),
        ("mem > 2 parsec", 7, "parsec"),
        ("iris > 2 GB", 8, "has no unit"),
        ("mem > it", 7, "cannot be converted"),
        ("mem > 1e300 GB", 7, "too large"),
        ("mem > 1e400", 7, "too large"),
        ("mem > 0e-99999999999999999999", 7, "more than six digits"),
        ("mem > 0e99999999999999999999", 7, "more than six digits"),
        ("mem > 010", 7, "leading zero"),
        ("mem > 1_000", 7, "underscore"),
        ("mem > 1,5", 7, "decimal comma"),
        ("mem > 0x10", 7, "not decimal"),
        ("mem > 1.2.3", 7, "is no number"),
        ("mem = 5", 5, "write =="),
        ("mem > 5 & bigmem", 9, "write &&"),
        ("mem > 5 | bigmem", 9, "write ||"),
        ("bigmem and fast", 8, "write &&"),
        ("not bigmem", 5, "expected"),
        ("mem + 5 > 2", 5, "no arithmetic"),
        ("scratch-free > 5", 8, "names have no -"),
        ("1 < mem < 5", 9, "two sides"),
        ("!mem > 5", 1, "write !(mem"),
        ("(mem > 5) == true", 2, "cannot be compared"),
        ("1 < 2", 1, "compares no resource"),
        ("(bigmem", 8, "expected ) for the ( in column 1"),
        ("bigmem)", 7, "expected &&, || or the end"),
        ("mem >", 6, "got the end"),
        ("&& bigmem", 1, "expected a resource"),
        ("os == 'x", 7, "closing"),
        ("os == 'a\x01b'", 7, "control character"),
        ("mem > $x", 7, "unexpected '$'"),
        ("défini", 2, "unexpected"),
        ("defined(5)", 9, "name of a resource"),
        ("defined(mem", 12, "expected )"),
    ],
)
def test_what_means_nothing_is_refused_with_its_column(text: str, column: int, words: str) -> None:
    with pytest.raises(RequirementError) as caught:
        meant(text)
    assert words in str(caught.value)
    assert caught.value.column == column


def test_nesting_and_length_are_bounded() -> None:
    assert meant("(" * DEEPEST + "bigmem" + ")" * DEEPEST) == meant("bigmem")
    for deep in ("(" * 2000 + "bigmem" + ")" * 2000, "!" * 4000 + "bigmem", "!(" * 1000):
        with pytest.raises(RequirementError, match="within each other"):
            parse(deep)
    long = " && ".join(["bigmem"] * 400)
    assert len(long) < LONGEST
    compile_requirement(long, SCHEMA)
    with pytest.raises(RequirementError, match=f"longer than {LONGEST}"):
        parse(long + " " * LONGEST)


def test_true_and_false_mean_a_resource_where_one_is_so_called() -> None:
    odd = {"true": resource("true", type="boolean", order="none"), "defined": SCHEMA["bigmem"]}
    found = compile_requirement("true", odd).meaning
    assert found == Against("true", "==", True, "true")
    assert compile_requirement("!defined || defined(true)", odd).resources == {"true", "bigmem"}


NAMES = st.builds(
    Name, st.sampled_from(sorted(SCHEMA)) | st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
)
NAMES = NAMES.filter(lambda name: name.name not in {"true", "false", "defined"})
UNITS = st.none() | st.sampled_from(
    ["GB", "MiB", "k", "h", "min", "pages/s", "%", "e3", "µs", "°C"]
)
NUMBERS = st.builds(
    Number,
    st.decimals(-(10**9), 10**9, places=3) | st.floats(-1e30, 1e30).map(lambda x: Decimal(repr(x))),
    UNITS,
)
TEXTS = st.builds(Text, st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12))
OPERANDS = NAMES | NUMBERS | TEXTS | st.builds(Truth, st.booleans())
LEAVES = (
    NAMES
    | st.builds(Truth, st.booleans())
    | st.builds(Defined, NAMES)
    | st.builds(Enough, NAMES, NUMBERS)
    | st.builds(Compare, OPERANDS, st.sampled_from(COMPARISONS), OPERANDS)
)


def _grow(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.builds(Not, inner) | st.builds(All, several) | st.builds(Any, several)


CONDITIONS = st.recursive(LEAVES, _grow, max_leaves=12)


@given(CONDITIONS)
def test_reading_what_was_written_gives_the_same_tree(condition: Condition) -> None:
    text = written(condition)
    assert parse(text) == condition
    assert parse(f"  ({text}) ") == condition


@given(st.text(max_size=40) | st.text("()!&|=<> :.'\"0123456789eEm", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        compile_requirement(text, SCHEMA)
    except RequirementError as error:
        assert 1 <= error.column <= len(text) + 2
