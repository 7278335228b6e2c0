from itertools import permutations

import pytest

from dynres.config.hosts import AmbiguousError, Names
from dynres.config.names import is_host_name


def test_a_short_and_a_full_name_are_one_host_when_exactly_one_full_name_begins_so() -> None:
    names = Names(["h1.site", "h2"])
    assert names.canonical("h1") == "h1.site"
    assert names.canonical("h1.site") == "h1.site"
    assert names.canonical("h2.site") == "h2"
    assert names.canonical("h2") == "h2"


def test_where_both_are_spelled_the_full_name_counts() -> None:
    for order in permutations(["h1", "h1.site"]):
        assert Names(order).canonical("h1") == "h1.site"


def test_two_full_names_make_the_short_one_an_error_that_names_them() -> None:
    names = Names(["h1.a", "h1.b", "h1"])
    with pytest.raises(AmbiguousError, match=r"h1\.a or h1\.b"):
        names.canonical("h1")
    assert names.canonical("h1.a") == "h1.a"


def test_another_full_name_is_another_host() -> None:
    assert Names(["h1.a"]).canonical("h1.b") is None
    assert Names(["h1", "h1.a"]).canonical("h1.b") is None


def test_a_name_that_only_begins_alike_is_another_host() -> None:
    names = Names(["h1", "h10.site"])
    assert names.canonical("h1") == "h1"
    assert names.canonical("h10") == "h10.site"
    assert names.canonical("h") is None


@pytest.mark.parametrize("word", ["all", "default", "others", "", "a b", "a\n", "x" * 254, "n[1]"])
def test_keywords_and_texts_with_other_characters_are_no_host_names(word: str) -> None:
    assert not is_host_name(word)


def test_names_are_told_by_letters_digits_points_dashes_underscores() -> None:
    assert is_host_name("Node-1_a.Site.example")
