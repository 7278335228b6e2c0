import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from dynres.config import hosts
from dynres.config.hosts import TERM_LIMIT, TermError, expand, fold, sort_hosts
from dynres.config.names import host_key


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("host1", ["host1"]),
        ("no", ["no"]),
        ("10", ["10"]),
        ("node[1-4,9]", ["node1", "node2", "node3", "node4", "node9"]),
        ("node[009-011]", ["node009", "node010", "node011"]),
        ("n[0-10/5]x", ["n0x", "n5x", "n10x"]),
        ("r[1-2]n[1-2].site", ["r1n1.site", "r1n2.site", "r2n1.site", "r2n2.site"]),
        ("n[2,1,2]", ["n1", "n2"]),
    ],
)
def test_a_term_is_a_name_with_ranges_as_nodeset_reads_them(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("node*", "wildcard"),
        ("node?", "wildcard"),
        ("a b", "blank"),
        ("a\tb", "blank"),
        ("a!b", "operator !"),
        ("a&b", "operator &"),
        ("a^b", "operator ^"),
        ("a,b", "comma"),
        ("n[1-2],m", "comma"),
        ("@eda", "@ inside"),
        ("n[1-4", "do not pair"),
        ("n1-4]", "do not pair"),
        ("n[[1]]", "do not pair"),
        ("n[]", "no range"),
        ("n[-3]", "no range"),
        ("n[1-]", "no range"),
        ("n[a-b]", "no range"),
        ("n[ 1-2]", "no range"),
        ("n[1-9/0]", "backwards"),
        ("n[9-1]", "backwards"),
        ("n[01-100]", "differently"),
        ("n[1-2][3-4]", "bracket"),
        ("n[1-4/2]7", "steps"),
        ("nö1", "character ö"),
        ("n٣", "character"),
        ("n\n", "blank"),
        ("n\x00", "U+0000"),
        ("%s", "character %"),
        ("a" * 254, "253"),
        ("a" * 253 + "[1-2]", "253"),
    ],
)
def test_anything_else_in_a_term_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(TermError, match=why.replace("^", r"\^").replace("+", r"\+")):
        expand(text)


@pytest.mark.parametrize(
    "text", ["n[1-200001]", "n[1-1000]m[1-201]", "n[1-99999999999999999999999]", "n[1-9]" * 99]
)
def test_a_term_over_the_limit_is_refused_before_it_is_expanded(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "NodeSet", None)
    with pytest.raises(TermError, match=f"more than {TERM_LIMIT}"):
        expand(text)


def test_a_term_at_the_limit_is_taken() -> None:
    assert len(expand("n[1-200000]")) == TERM_LIMIT


def test_group_sources_of_the_machine_are_off() -> None:
    with pytest.raises(TermError):
        expand("@*")
    assert fold(["n2", "n1"]) == "n[1-2]"


NAMES = st.from_regex(r"[a-c]{0,2}[0-9]{1,3}([.-][a-c]{1,2})?|[a-c]{1,3}", fullmatch=True)


@given(st.sets(NAMES, max_size=12))
def test_hosts_are_sorted_as_nodeset_sorts(names: set[str]) -> None:
    expected = [str(name) for name in NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP)]
    assert sort_hosts(names) == expected
    assert sorted(names, key=host_key) == expected


@given(st.sets(st.from_regex(r"r[0-9]{1,2}n[0-9]{1,2}", fullmatch=True), max_size=12))
def test_names_with_several_numbers_are_sorted_as_nodeset_sorts(names: set[str]) -> None:
    expected = [str(name) for name in NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP)]
    assert sort_hosts(names) == expected
    assert sorted(sorted(names, key=host_key)) == sorted(expected)


def test_the_sort_key_agrees_with_nodeset_on_a_whole_product_of_ranges() -> None:
    names = expand("rack[1-3]node[8-11]")
    shuffled = sorted(names, reverse=True)
    assert sorted(shuffled, key=host_key) == names
