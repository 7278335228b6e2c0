"""Locations against a plain-set reading of the rules, in every order."""

from collections.abc import Sequence

from declared import Text, entry, listed, resource
from hypothesis import given
from hypothesis import strategies as st

from dynres.config.consistency import check_overlaps
from dynres.config.covers import Cover
from dynres.config.locations import fold
from dynres.config.model import Place

HOSTS = [f"h{number}" for number in range(1, 7)]
GROUPS = {"a": ["h1", "h2", "login"], "b": ["h[2-4]"], "front": ["login"]}
CONTEXT = listed(["h[1-6]"], GROUPS, idle="login")

NAMED = {f"h{n}": {f"h{n}"} for n in range(1, 7)} | {
    "h[1-3]": {"h1", "h2", "h3"},
    "h[5-6]": {"h5", "h6"},
    "@a": {"h1", "h2"},
    "@b": {"h2", "h3", "h4"},
    "@front": set[str](),
}
GIVES = [*NAMED, "all", "default"]
TERMS = st.lists(st.sampled_from([*GIVES, *(f"~{name}" for name in NAMED)]), min_size=1, max_size=4)
ENTRIES = st.lists(TERMS, min_size=1, max_size=4)

Entries = Sequence[Sequence[str]]


def given_by(texts: Sequence[str]) -> tuple[set[str], bool, bool, set[str]] | None:
    """Named hosts, whether `all`, whether the rest, excluded hosts; None where it is an error."""
    taken: set[str] = set().union(*(NAMED[t[1:]] for t in texts if t[0] == "~"))
    named: set[str] = set().union(*(NAMED[t] for t in texts if t in NAMED))
    everyone, rest = "all" in texts, "default" in texts
    if everyone:
        named = set()
    if not (named - taken or everyone or rest):
        return None
    return named - taken, everyone, rest and not everyone, taken


def reading(entries: Entries) -> dict[str, set[int]] | None:
    """Host -> the entries that cover it, by the rules read as sets; None where it is an error."""
    read = [given_by(texts) for texts in entries]
    wholes = [one for one in read if one is not None]
    if len(wholes) < len(read):
        return None
    if sum(one[1] for one in wholes) > 1 or sum(one[2] for one in wholes) > 1:
        return None
    covers = {
        host: {
            index
            for index, (named, everyone, _, taken) in enumerate(wholes)
            if host in named or (everyone and host not in taken)
        }
        for host in [*HOSTS, "late"]
    }
    if any(len(found) > 1 for found in covers.values()):
        return None
    for index, (_, _, rest, taken) in enumerate(wholes):
        for host, found in covers.items():
            if rest and not found and host not in taken:
                found.add(index)
    return covers


def built(entries: Entries) -> dict[str, int | None] | None:
    """Host -> the entry that covers it, by the product; None where it has faults."""
    made = []
    faults = []
    for line, texts in enumerate(entries, start=1):
        terms = [Text(text, line, column) for column, text in enumerate(texts, start=1)]
        place = Place("resources.yaml", line, 9)
        folded = fold(terms, CONTEXT, scope="per-host", place=place)
        faults += folded.faults
        made.append(entry(folded.location, float(line), line))
    faults += check_overlaps("r", made, CONTEXT.names)
    if faults:
        return None
    cover = Cover(resource("r", *made))
    return {host: cover.index_for(host) for host in [*HOSTS, "late"]}


@given(ENTRIES)
def test_a_location_covers_what_the_rules_say_and_each_host_is_in_one_instance_at_most(
    entries: Entries,
) -> None:
    expected, found = reading(entries), built(entries)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert {h: set() if i is None else {i} for h, i in found.items()} == expected


@given(st.data(), ENTRIES)
def test_the_result_never_depends_on_the_order_of_terms_or_entries(
    data: st.DataObject, entries: Entries
) -> None:
    order = data.draw(st.permutations(range(len(entries))))
    mixed = [data.draw(st.permutations(entries[index])) for index in order]
    first, second = built(entries), built(mixed)
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        again = {h: None if i is None else order[i] for h, i in second.items()}
        assert again == first


@given(st.data(), TERMS)
def test_a_folded_location_is_the_same_for_every_order_of_its_terms(
    data: st.DataObject, texts: Sequence[str]
) -> None:
    mixed = data.draw(st.permutations(texts))
    place = Place("resources.yaml", 1, 1)
    one, two = (
        fold([Text(t) for t in given], CONTEXT, scope="per-host", place=place)
        for given in (texts, mixed)
    )
    assert one.location == two.location
    assert one.spelled == two.spelled
    assert {f.what for f in one.faults} == {f.what for f in two.faults}
    assert {f.what for f in one.warnings} == {f.what for f in two.warnings}
