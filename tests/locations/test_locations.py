import pytest
from declared import listed, location, terms, words

from dynres.config.context import Context, Folded
from dynres.config.locations import Scope, fold, fold_reporters, unquoted
from dynres.config.model import Location, Place

ENTRY = Place("resources.yaml", 7, 3)


@pytest.fixture(name="context")
def _context() -> Context:
    groups = {"eda": ["host1", "node[1-2]"], "front": ["login1"], "mixed": ["login1", "host2"]}
    return listed(["host[1-4]", "node[1-9]", "a.site", "b.x", "b.y"], groups, idle="login1")


def folded(context: Context, *texts: str, scope: Scope = "per-host") -> Folded:
    return fold(terms(*texts), context, scope=scope, place=ENTRY)


def faults(context: Context, *texts: str, scope: Scope = "per-host") -> str:
    return words(folded(context, *texts, scope=scope).faults)


def test_names_ranges_and_groups_give_their_hosts_in_nodeset_order(context: Context) -> None:
    found = location(context, "node9", "@eda", "host[3-4]")
    assert found == Location(hosts=("host1", "host3", "host4", "node1", "node2", "node9"))


def test_an_exclusion_takes_away_what_the_other_terms_give(context: Context) -> None:
    assert location(context, "~node2", "@eda").hosts == ("host1", "node1")
    assert location(context, "@eda", "~node[1-9]").hosts == ("host1",)
    assert location(context, "host1", "node1", "~@eda", "host2").hosts == ("host2",)


def test_all_is_every_worker_host_without_the_exclusions(context: Context) -> None:
    assert location(context, "all") == Location(everyone=True)
    found = location(context, "all", "~@eda")
    assert found == Location(everyone=True, minus=("host1", "node1", "node2"))


def test_all_without_every_declared_worker_ends_up_empty(context: Context) -> None:
    every = ("~host[1-4]", "~node[1-9]", "~a.site", "~b.x", "~b.y")
    assert "ends up empty" in faults(context, "all", *every)
    assert faults(context, "all", *every[:-1]) == ""


def test_default_is_the_rest_on_a_per_host_resource(context: Context) -> None:
    assert location(context, "default") == Location(rest=True)
    assert location(context, "host1", "default", "~host2") == Location(
        hosts=("host1",), rest=True, minus=("host2",)
    )


def test_others_is_the_rest_as_one_pool_and_means_default_with_a_warning_elsewhere(
    context: Context,
) -> None:
    pool = folded(context, "others", scope="shared")
    assert pool.location == Location(rest=True)
    assert pool.warnings == []
    per_host = folded(context, "others")
    assert per_host.location == Location(rest=True)
    assert "means default" in words(per_host.warnings)


def test_default_on_a_shared_resource_is_an_error_that_says_what_to_write(
    context: Context,
) -> None:
    said = faults(context, "default", scope="shared")
    assert "one amount per host is a per-host resource: use flags: [consumable]" in said


@pytest.mark.parametrize("given", [None, [], ["all"]])
def test_global_is_over_all_and_needs_no_location(
    context: Context, given: list[str] | None
) -> None:
    found = fold(None if given is None else terms(*given), context, scope="global", place=ENTRY)
    assert found.location == Location(everyone=True)
    assert found.faults == []


@pytest.mark.parametrize("given", [["host1"], ["all", "~host1"], ["others"]])
def test_global_with_another_location_is_an_error(context: Context, given: list[str]) -> None:
    assert "global" in faults(context, *given, scope="global")


@pytest.mark.parametrize("given", [None, []])
def test_a_missing_or_empty_location_is_an_error(context: Context, given: list[str] | None) -> None:
    found = fold(None if given is None else [], context, scope="per-host", place=ENTRY)
    assert [fault.place for fault in found.faults] == [ENTRY]
    assert "location: [default]" in words(found.faults)


@pytest.mark.parametrize("term", ["host5", "~host5", "node[8-10]", "~node[8-10]"])
def test_an_unknown_host_is_an_error_in_an_exclusion_too(context: Context, term: str) -> None:
    assert "unknown host" in faults(context, "all", term)


@pytest.mark.parametrize("term", ["@edaa", "~@edaa"])
def test_an_unknown_group_is_an_error_in_an_exclusion_too(context: Context, term: str) -> None:
    said = faults(context, "all", term)
    assert "unknown group @edaa" in said
    assert "did you mean @eda?" in said


@pytest.mark.parametrize("term", ["~all", "~default", "~others", "~~host1", "~"])
def test_only_hosts_and_groups_can_be_taken_away(context: Context, term: str) -> None:
    assert "exclusion of" in faults(context, "host1", term)


def test_an_exclusion_alone_is_an_error(context: Context) -> None:
    assert "exclusions only" in faults(context, "~host1")


def test_a_location_whose_exclusions_remove_every_host_it_names_is_an_error(
    context: Context,
) -> None:
    assert "ends up empty" in faults(context, "host1", "~@eda")
    assert faults(context, "all", "~host[1-4]") == ""
    assert faults(context, "default", "~host[1-4]", "~node[1-9]") == ""


def test_a_group_of_no_worker_host_makes_an_empty_location(context: Context) -> None:
    assert "ends up empty" in faults(context, "@front")


def test_all_default_and_others_may_be_empty_at_load() -> None:
    nobody = listed([])
    assert faults(nobody, "all") == faults(nobody, "default") == ""
    assert faults(nobody, "others", scope="shared") == ""


def test_a_host_that_is_no_worker_is_an_error_when_spelled_and_left_out_by_group(
    context: Context,
) -> None:
    assert "worker: false" in faults(context, "login1", "host1")
    assert location(context, "@mixed").hosts == ("host2",)
    assert location(context, "all", "~@mixed").minus == ("host2",)


def test_a_host_named_twice_in_one_entry_is_a_warning(context: Context) -> None:
    for texts in (["host1", "host1"], ["host1", "@eda"], ["node1", "node[1-2]"], ["all", "host1"]):
        found = folded(context, *texts)
        assert found.faults == []
        assert len(found.warnings) == 1, texts
    assert folded(context, "host1", "host2", "~host2", "~host2").warnings == []


def test_a_short_name_means_the_only_full_name_and_two_are_an_error_that_names_them(
    context: Context,
) -> None:
    assert location(context, "a").hosts == ("a.site",)
    assert "b.x or b.y" in faults(context, "b")


@pytest.mark.parametrize(
    ("term", "hint"),
    [
        ("host01", "did you mean host1?"),
        ("eda", 'eda is a group: write "@eda"'),
        ("@host1", "host1 is a host: write it without the @"),
        ("@all", "write all without the @"),
        ("All", "did you mean all?"),
        ("other", "did you mean others?"),
        ("defaults", "did you mean default?"),
        ("node[1-4", "quote it"),
        ("", "quote it"),
        ("~", "quote it"),
    ],
)
def test_a_fault_says_what_was_probably_meant(context: Context, term: str, hint: str) -> None:
    assert hint in faults(context, term)


def test_a_term_that_yaml_reads_as_a_list_is_to_be_quoted() -> None:
    assert "quote it" in str(unquoted(ENTRY, "a list"))


def test_every_fault_of_a_location_is_told_at_its_own_term(context: Context) -> None:
    found = folded(context, "host9", "host1", "@zzz", "x*", "b")
    assert [fault.place.column for fault in found.faults if fault.place] == [1, 3, 4, 5]


def test_many_unknown_hosts_are_one_fault_and_its_text_is_bounded(context: Context) -> None:
    (fault,) = folded(context, "zone[1-150000]").faults
    assert fault.got == "zone[1-100] and 149900 more"


def test_spelled_hosts_are_those_with_a_term_of_their_own(context: Context) -> None:
    found = folded(context, "host1", "host[2-3]", "@eda", "node[7]", "node9", "~node9")
    assert found.spelled == {"host1", "node7"}


def test_without_hosts_yaml_naming_a_host_declares_it() -> None:
    context = Context(None, "controller")
    given = [terms("h2", "h[9-10]", line=4), terms("h2", "~h3", "all", "bad*", line=3)]
    for location_terms in given:
        context.declare(location_terms)
    context.declare(None)
    assert [host.name for host in context.hosts()] == ["h2", "h3", "h9", "h10"]
    assert context.hosts()[0].place == Place("resources.yaml", 3, 1)
    found = fold(given[0], context, scope="per-host", place=ENTRY)
    assert found.location.hosts == ("h2", "h9", "h10")


def test_without_hosts_yaml_the_full_name_counts_wherever_it_stands() -> None:
    context = Context(None, "controller")
    context.declare(terms("h1"))
    context.declare(terms("h1.site"))
    assert [host.name for host in context.hosts()] == ["h1.site"]
    assert location(context, "h1").hosts == ("h1.site",)


def test_without_hosts_yaml_a_group_is_unknown_to_the_controller() -> None:
    assert "declared in hosts.yaml" in faults(Context(None, "controller"), "@eda")


def test_without_hosts_yaml_a_group_is_not_yet_resolved_on_an_agent() -> None:
    context = Context(None, "agent")
    context.declare(terms("h1"))
    assert location(context, "@eda") == Location(unresolved=("@eda",))
    assert location(context, "all", "~@eda").unresolved == ("~@eda",)
    assert location(context, "h1", "~@eda", "@b").unresolved == ("@b", "~@eda")


def test_reporters_keep_their_order_and_may_be_no_workers(context: Context) -> None:
    hosts, found, warnings = fold_reporters(terms("login1", "@eda", "a", "host1"), context)
    assert hosts == ("login1", "host1", "node1", "node2", "a.site")
    assert found == []
    assert "host1 is named twice" in words(warnings)


@pytest.mark.parametrize("term", ["all", "others", "~host1", "host9", "@zzz"])
def test_reporters_are_known_hosts_and_nothing_else(context: Context, term: str) -> None:
    assert len(fold_reporters(terms(term), context)[1]) == 1
