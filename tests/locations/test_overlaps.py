import pytest
from declared import entry, host, listed, location, resource, words

from dynres.config.consistency import check_host_values, check_overlaps
from dynres.config.context import Context
from dynres.config.locations import Scope
from dynres.config.model import Place


@pytest.fixture(name="context")
def _context() -> Context:
    return listed(["host[1-9]"], {"eda": ["host1", "host2"]})


def overlaps(context: Context, *entries: list[str], scope: Scope = "shared") -> str:
    made = [
        entry(location(context, *texts, scope=scope), 1.0, line)
        for line, texts in enumerate(entries, start=1)
    ]
    found = check_overlaps("r", made)
    assert found == check_overlaps("r", made[::-1])
    return words(found)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["host1"], ["host[1-2]"]),
        (["@eda"], ["host2", "host3"]),
        (["@eda"], ["all"]),
        (["all", "~host1"], ["host1", "host2"]),
    ],
)
def test_a_host_in_two_instances_is_an_error_with_both_places(
    context: Context, one: list[str], two: list[str]
) -> None:
    for scope in ("shared", "per-host"):
        said = overlaps(context, one, two, scope=scope)  # type: ignore[arg-type]
        assert said.startswith("resources.yaml:2:9: host")
        assert "resources.yaml:1:9" in said


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["host1"], ["host2"]),
        (["@eda"], ["others"]),
        (["@eda"], ["all", "~@eda"]),
        (["all", "~host1"], ["others"]),
    ],
)
def test_instances_without_a_common_host_are_fine(
    context: Context, one: list[str], two: list[str]
) -> None:
    assert overlaps(context, one, two) == ""


def test_two_entries_for_all_or_for_the_rest_are_an_error(context: Context) -> None:
    assert "for all" in overlaps(context, ["all", "~host1"], ["all", "~host2"])
    assert "for default or others" in overlaps(context, ["others"], ["host1"], ["others"])
    assert "for default or others" in overlaps(context, ["default"], ["default"], scope="per-host")


def test_each_pair_of_entries_is_one_fault_however_many_hosts_they_share(context: Context) -> None:
    said = overlaps(context, ["host[1-9]"], ["host[2-9]"], ["host9"])
    assert said.splitlines()[0].startswith("resources.yaml:2:9: host[2-9] in two instances")
    assert len(said.splitlines()) == 2


def test_entries_of_one_name_and_entries_named_like_another_host_are_errors(
    context: Context,
) -> None:
    one, two = location(context, "host1"), location(context, "host2")
    twice = [entry(one, 1.0, 1, name="a"), entry(two, 1.0, 2, name="a")]
    assert "named a" in words(check_overlaps("r", twice))
    alike = [entry(one, 1.0, 1, name="host2"), entry(two, 1.0, 2, name="b")]
    assert "named like a host" in words(check_overlaps("r", alike, context.names))
    own = [entry(one, 1.0, 1, name="host1"), entry(two, 1.0, 2)]
    assert check_overlaps("r", own, context.names) == []


def test_a_hosts_yaml_value_for_a_dynamic_or_a_shared_resource_is_an_error_with_both_places(
    context: Context,
) -> None:
    measured = resource("m", interval=5.0)
    pool = resource("p", flags=["shared"])
    found = check_host_values([measured, pool], [host("host1", m=1.0, p=2.0)], {})
    assert len(found) == 2
    for fault in found:
        assert fault.place is not None
        assert fault.place.file == "hosts.yaml"
        assert "resources.yaml:1:5" in str(fault)


def test_a_differing_value_beside_an_entry_that_spells_out_that_very_host_is_an_error(
    context: Context,
) -> None:
    spelled = resource("r", entry(location(context, "host1", "host[2-3]"), 5.0, 4))
    by_place = {Place("resources.yaml", 4, 9): frozenset({"host1"})}
    assert (
        check_host_values([spelled], [host("host1", r=5.0), host("host2", r=6.0)], by_place) == []
    )
    (fault,) = check_host_values([spelled], [host("host1", r=6.0)], by_place)
    assert "resources.yaml:4:9" in str(fault)
    assert check_host_values([], [host("host1", r=6.0)], by_place) == []
