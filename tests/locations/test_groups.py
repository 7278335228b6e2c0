from declared import Text, terms, words

from dynres.config.hostfile import HostFile, Row, read_hosts
from dynres.config.model import HostValue, Place


def read(rows: list[Row], **groups: list[str]) -> HostFile:
    pairs = [(Text(name, 50), terms(*members, line=50)) for name, members in groups.items()]
    return read_hosts(rows, pairs)


def names(made: HostFile) -> list[str]:
    return [host.name for host in made.hosts]


def test_a_row_with_ranges_declares_each_host_with_the_values() -> None:
    value = HostValue(resource="quota", value=20.0, place=Place("hosts.yaml", 3, 9))
    made = read([Row(Text("node[9-11]"), values=(value,)), Row(Text("host1", 2))])
    assert made.faults == []
    assert names(made) == ["host1", "node9", "node10", "node11"]
    assert made.hosts[1].values == made.hosts[3].values == (value,)


def test_a_host_declared_twice_is_an_error_with_both_places() -> None:
    made = read([Row(Text("node[1-4]", 1)), Row(Text("node[3-5]", 2)), Row(Text("node3", 3))])
    assert [str(f.place) for f in made.faults] == ["resources.yaml:2:1", "resources.yaml:3:1"]
    assert "node[3-4]" in made.faults[0].what
    assert "resources.yaml:1:1" in words(made.faults)


def test_a_short_name_beside_its_full_name_is_the_same_host_twice() -> None:
    made = read([Row(Text("h1", 1)), Row(Text("h1.site", 2))])
    assert "one host" in words(made.faults)
    made = read([Row(Text("h1", 1)), Row(Text("h1.a", 2)), Row(Text("h1.b", 3))])
    assert "h1.a or h1.b" in words(made.faults)


def test_a_keyword_as_a_hosts_or_a_groups_name_is_refused() -> None:
    for word in ("all", "default", "others"):
        made = read([Row(Text(word))], **{word: []})
        assert len(made.faults) == 2
        assert made.hosts == ()
        assert made.groups == {}


def test_a_resource_twice_for_one_host_is_an_error() -> None:
    values = [HostValue(resource="q", value=1.0, place=Place("h", line, 1)) for line in (2, 3)]
    made = read([Row(Text("h1"), values=tuple(values))])
    assert str(made.faults[0].place) == "h:3:1"
    assert "h:2:1" in str(made.faults[0])


def test_a_host_that_is_no_worker_has_no_values() -> None:
    value = HostValue(resource="q", value=1.0, place=Place("h", 2, 1))
    made = read([Row(Text("login1"), worker=False, values=(value,))])
    assert "worker: false" in words(made.faults)


def test_groups_nest_in_any_order() -> None:
    rows = [Row(Text("node[1-9]"))]
    made = read(rows, c=["@b", "node9"], a=["node[1-2]"], b=["@a", "node[2-3]"], none=[])
    assert made.faults == []
    assert made.groups["c"] == ("node1", "node2", "node3", "node9")
    assert made.groups["none"] == ()


def test_a_chain_of_many_groups_is_no_problem() -> None:
    groups = {f"g{i}": [f"@g{i + 1}"] for i in range(5000)}
    made = read([Row(Text("h1"))], **groups, g5000=["h1"])
    assert made.faults == []
    assert made.groups["g0"] == ("h1",)


def test_groups_in_a_cycle_are_an_error_that_names_the_cycle_once() -> None:
    made = read([Row(Text("h1"))], a=["@b"], b=["@c"], c=["@b", "h1"], d=["@d"], above=["@a", "h1"])
    assert [fault.got for fault in made.faults] == ["@b -> @c -> @b", "@d -> @d"]


def test_an_unknown_group_or_host_in_a_group_is_an_error_with_a_near_miss() -> None:
    made = read([Row(Text("host1"))], eda=["@ebd", "hosst1"], edb=[])
    assert "unknown group @ebd" in words(made.faults)
    assert "did you mean @edb?" in words(made.faults)
    assert "did you mean host1?" in words(made.faults)


def test_a_short_name_in_a_group_means_the_full_one() -> None:
    made = read([Row(Text("h1.site"))], eda=["h1"])
    assert made.groups["eda"] == ("h1.site",)


def test_keywords_and_exclusions_have_no_place_in_a_group() -> None:
    made = read([Row(Text("h1"))], eda=["all", "~h1", "~@x", "h*"])
    assert len(made.faults) == 4
