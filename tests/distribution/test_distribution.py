from decimal import Decimal

import pytest
from declared import configuration, entry, host, listed, location, resource

from dynres.config.context import Context
from dynres.config.locations import fold
from dynres.config.model import Location, Place
from dynres.controller.distribution import Distribution, Instance, distribute


@pytest.fixture(name="context")
def _context() -> Context:
    return listed(["host[1-4]"], {"eda": ["host[1-2]"]}, idle="login1")


def values(found: Distribution, name: str) -> dict[str, object]:
    return {host: a.value for a in found.static(name) for host in a.hosts}


def only(found: Distribution, name: str) -> Instance:
    (instance,) = found.pools(name)
    return instance


def test_each_host_of_a_per_host_entry_gets_its_own_instance_with_that_value(
    context: Context,
) -> None:
    where = location(context, "@eda")
    found = distribute(configuration(context, resource("r", entry(where, 100.0))))
    assert values(found, "r") == {"host1": 100.0, "host2": 100.0}
    assert found.value_for("r", "host1") == (100.0, Place("resources.yaml", 1, 9))
    assert found.value_for("r", "host3") is None
    assert list(found.pools()) == []


def test_default_is_the_value_for_the_hosts_that_no_other_entry_covers(context: Context) -> None:
    made = resource(
        "r",
        entry(location(context, "default"), "el9", 1),
        entry(location(context, "host2"), "el8", 2),
        type="string",
    )
    found = distribute(configuration(context, made))
    assert values(found, "r") == {"host1": "el9", "host2": "el8", "host3": "el9", "host4": "el9"}


def test_a_host_that_the_rest_excludes_has_no_value(context: Context) -> None:
    made = resource("r", entry(location(context, "default", "~host[2-4]"), 1.0))
    found = distribute(configuration(context, made))
    assert values(found, "r") == {"host1": 1.0}
    assert found.join("host5")
    assert values(found, "r") == {"host1": 1.0, "host5": 1.0}


def test_a_value_of_hosts_yaml_wins_over_a_covering_entry_and_over_default(
    context: Context,
) -> None:
    hosts = [host("host1", line=1, r=20.0), host("host2", line=2, r=30.0), host("host3")]
    made = resource(
        "r",
        entry(location(context, "@eda"), 5.0, 1),
        entry(location(context, "default"), 1.0, 2),
    )
    found = distribute(configuration(hosts, made))
    assert values(found, "r") == {"host1": 20.0, "host2": 30.0, "host3": 1.0}
    assert found.value_for("r", "host1") == (20.0, Place("hosts.yaml", 1, 1))


def test_a_value_of_hosts_yaml_maps_a_host_that_no_entry_covers() -> None:
    found = distribute(configuration([host("host1", r=20.0), host("host2")], resource("r")))
    assert values(found, "r") == {"host1": 20.0}


def test_hosts_of_one_row_share_one_assignment() -> None:
    hosts = [host("host1", r=20.0), host("host2", r=20.0)]
    (assignment,) = distribute(configuration(hosts, resource("r"))).static("r")
    assert assignment.hosts == ("host1", "host2")


def test_a_shared_entry_is_one_instance_for_its_whole_location(context: Context) -> None:
    made = resource("r", entry(location(context, "@eda", scope="shared"), 100.0), flags=["shared"])
    found = distribute(configuration(context, made))
    instance = only(found, "r")
    assert instance.capacity == Decimal(100)
    assert found.members(instance) == ("host1", "host2")
    assert found.instance_for("r", "host2") is instance
    assert found.instance_for("r", "host3") is None
    assert values(found, "r") == {}
    assert found.value_for("r", "host1") is None


def test_two_entries_with_one_host_each_are_two_amounts(context: Context) -> None:
    made = resource(
        "r",
        entry(location(context, "host1", scope="shared"), 100.0, 1),
        entry(location(context, "host2", scope="shared"), 100.0, 2),
        flags=["shared"],
    )
    found = distribute(configuration(context, made))
    assert [found.members(i) for i in found.pools()] == [("host1",), ("host2",)]


def test_others_is_one_pool_over_the_hosts_that_no_other_entry_covers(context: Context) -> None:
    made = resource(
        "r",
        entry(location(context, "others", scope="shared"), 30.0, 1),
        entry(location(context, "@eda", scope="shared"), 50.0, 2),
        flags=["shared"],
    )
    found = distribute(configuration(context, made))
    rest, named = found.pools("r")
    assert found.members(rest) == ("host3", "host4")
    assert found.members(named) == ("host1", "host2")


def test_hosts_that_join_later_are_in_all_others_and_default_at_once(context: Context) -> None:
    own = resource("own", entry(location(context, "default"), 1.0))
    everyone = resource("pool", entry(Location(everyone=True), 9.0), flags=["global"])
    measured = resource("load", entry(location(context, "default")), interval=5.0)
    found = distribute(configuration(context, own, everyone, measured))
    pool = only(found, "pool")
    assert found.join("host10")
    assert found.hosts == ("host1", "host2", "host3", "host4", "host10")
    assert values(found, "own")["host10"] == 1.0
    assert found.members(pool)[-1] == "host10"
    assert found.measured_by("host10") == ("load",)
    assert found.measured("load")[-1] == "host10"


def test_a_pools_capacity_does_not_change_when_hosts_join(context: Context) -> None:
    made = resource("r", entry(Location(everyone=True), 9.0), flags=["shared"])
    found = distribute(configuration(context, made))
    before = only(found, "r")
    found.join("host10")
    assert only(found, "r") is before


def test_a_known_host_does_not_join_again_under_any_of_its_names(context: Context) -> None:
    found = distribute(configuration(context))
    assert not found.join("host1")
    assert not found.join("host1.site")
    assert not found.join("login1")
    assert found.canonical("host1.site") == "host1"
    assert found.join("host9.site")
    assert not found.join("host9")
    assert found.canonical("host9") == "host9.site"


def test_a_host_that_is_no_worker_is_member_of_nothing(context: Context) -> None:
    own = resource("own", entry(location(context, "default"), 1.0))
    pool = resource("pool", entry(Location(everyone=True), 9.0), flags=["shared"])
    load = resource("load", entry(location(context, "default")), interval=5.0)
    found = distribute(configuration(context, own, pool, load), ["login1"])
    assert "login1" not in found.hosts
    assert found.value_for("own", "login1") is None
    assert found.instance_for("pool", "login1") is None
    assert found.measured_by("login1") == ()


def test_who_measures_a_per_host_resource_is_settled_by_its_locations(context: Context) -> None:
    one = resource("one", entry(location(context, "host1", "host3")), interval=5.0)
    two = resource("two", entry(location(context, "all", "~host1")), interval=5.0)
    pool = resource("pool", entry(Location(everyone=True)), interval=5.0, flags=["shared"])
    found = distribute(configuration(context, one, two, pool))
    assert found.measured_by("host1") == ("one",)
    assert found.measured_by("host3") == ("one", "two")
    assert found.measured("one") == ("host1", "host3")
    assert found.measured("pool") == ()


def test_reporters_are_the_declared_ones_in_their_order_else_the_members(context: Context) -> None:
    where = location(context, "host3", "@eda", scope="shared")
    keys = {"interval": 5.0, "flags": ["shared"]}
    named = resource("named", entry(where, reporters=("login1", "host3")), **keys)
    default = resource("default_", entry(where), **keys)
    everyone = resource("everyone", entry(Location(everyone=True)), **keys)
    static = resource("static", entry(where, 5.0), flags=["shared"])
    found = distribute(configuration(context, named, default, everyone, static), ["host5"])
    assert found.reporters(only(found, "named")) == ("login1", "host3")
    assert found.reporters(only(found, "default_")) == ("host1", "host2", "host3")
    assert found.reporters(only(found, "everyone"))[-1] == "host5"
    assert found.reporters(only(found, "static")) == ()


def test_a_measured_instance_has_only_the_capacity_that_is_declared(context: Context) -> None:
    where = location(context, "@eda", scope="shared")
    bare = resource("bare", entry(where), interval=5.0, flags=["shared"])
    bound = resource("bound", entry(where, capacity=Decimal(7)), interval=5.0, flags=["shared"])
    found = distribute(configuration(context, bare, bound))
    assert only(found, "bare").capacity is None
    assert only(found, "bound").capacity == 7
    assert only(found, "bare").dynamic


def test_a_consumable_per_host_instance_is_a_pool_with_one_member(context: Context) -> None:
    hosts = [host("host1", r=20.0), host("host2"), host("host3")]
    made = resource("r", entry(location(context, "@eda"), 10.0), flags=["consumable"])
    found = distribute(configuration(hosts, made))
    one, two = found.leasable()
    assert (one.id, one.capacity, found.members(one)) == ("host1", 20, ("host1",))
    assert (two.id, two.capacity, found.members(two)) == ("host2", 10, ("host2",))
    assert one.place.file == "hosts.yaml"
    assert found.instance_for("r", "host3") is None
    assert list(found.pools()) == []


def test_only_numbers_of_which_more_is_freer_can_be_leased(context: Context) -> None:
    where = location(context, "@eda", scope="shared")
    rising = resource("rising", entry(where, 1.0), order="increasing", flags=["shared"])
    text = resource("text", entry(where, "x"), type="string", order="none", flags=["shared"])
    plain = resource("plain", entry(where, 1.0))
    found = distribute(configuration(context, rising, text, plain))
    assert list(found.leasable()) == []
    assert [i.resource for i in found.pools()] == ["rising", "text"]
    assert found.instance_for("plain", "host1") is None


def test_an_amount_is_exactly_the_one_that_was_written(context: Context) -> None:
    where = location(context, "host1", scope="shared")
    made = resource(
        "r", entry(where, 0.1, capacity=Decimal("0.10"), reserve=Decimal(1)), flags=["shared"]
    )
    instance = only(distribute(configuration(context, made)), "r")
    assert str(instance.capacity) == "0.10"
    assert instance.reserve == 1


def test_an_only_pool_is_known_by_its_resource_and_several_by_name_or_folded_location(
    context: Context,
) -> None:
    def ids(*texts: str, name: str | None = None) -> list[str]:
        entries = [entry(location(context, t, scope="shared"), 1.0) for t in texts]
        if name:
            entries.append(entry(location(context, "host4", scope="shared"), 1.0, name=name))
        made = resource("r", *entries, flags=["shared"])
        return [i.id for i in distribute(configuration(context, made)).pools()]

    assert ids("@eda") == ["r"]
    assert ids(name="big") == ["big"]
    assert ids("@eda", "others", name="big") == ["host[1-2]", "others", "big"]
    assert ids("all", name="x") == ["all", "x"]


def test_a_folded_location_names_its_exclusions(context: Context) -> None:
    terms_of = location(context, "all", "~@eda", scope="shared")
    made = resource(
        "r", entry(terms_of, 1.0), entry(location(context, "host1"), 2.0), flags=["shared"]
    )
    assert next(distribute(configuration(context, made)).pools()).id == "all,~host[1-2]"


def test_a_named_per_host_instance_is_known_by_its_name_when_it_has_one_host(
    context: Context,
) -> None:
    made = resource(
        "r",
        entry(location(context, "host1"), 1.0, name="first"),
        entry(location(context, "host[2-3]"), 1.0, name="rest"),
        flags=["consumable"],
    )
    found = distribute(configuration(context, made))
    assert [i.id for i in found.leasable()] == ["first", "host2", "host3"]


def test_one_layout_serves_every_resource_that_is_on_all_hosts(context: Context) -> None:
    many = [resource(f"r{i}", entry(Location(everyone=True), 1.0)) for i in range(3)]
    found = distribute(configuration(context, *many))
    tuples = {id(a.hosts) for r in many for a in found.static(r.name)}
    assert len(tuples) == 1


def test_a_group_that_is_not_resolved_yet_covers_nobody_yet() -> None:
    context = Context(None, "agent")
    place = Place("resources.yaml", 1, 1)
    unresolved = fold([], context, scope="global", place=place).location
    assert unresolved == Location(everyone=True)
    made = resource(
        "r",
        entry(Location(unresolved=("@eda",)), 1.0),
        entry(Location(everyone=True, unresolved=("~@b",)), 2.0),
        entry(Location(rest=True), 3.0),
    )
    found = distribute(configuration([host("h1")], made))
    assert values(found, "r") == {"h1": 3.0}
