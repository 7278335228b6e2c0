from dynres.config.model import (
    AgentSettings,
    Configuration,
    Entry,
    Host,
    Location,
    Place,
    Probe,
    Resource,
)
from dynres.worker.plan import Declaration

P = Place("resources.yaml", 1, 1)
EVERYWHERE = Location(rest=True)


def entry(location=EVERYWHERE, **more):
    return Entry(location=location, place=P, **more)


def resource(name, *entries, probe="p", interval=30.0, **more):
    return Resource(
        name=name, interval=interval, ttl=90.0, probe=probe, entries=entries, place=P, **more
    )


def probe(name="p", **more):
    return Probe(name=name, command=("/bin/true",), timeout=5.0, place=P, **more)


def declared(*resources, host="h1", probes=None, hosts=(), **agent):
    probes = (probe(),) if probes is None else probes
    hosts = tuple(h if isinstance(h, Host) else Host(name=h, place=P) for h in hosts)
    configuration = Configuration(
        resources=resources, probes=probes, hosts=hosts, agent=AgentSettings(**agent)
    )
    return Declaration(configuration, host)


def test_a_host_measures_what_its_own_files_map_to_it():
    own = declared(
        resource("everywhere", entry()),
        resource("mine", entry(Location(hosts=("h1",)))),
        resource("theirs", entry(Location(hosts=("h2",)))),
        resource("nowhere"),
    )
    assert own.own_measure() == {"everywhere", "mine"}


def test_a_group_that_cannot_be_resolved_means_not_yet():
    own = declared(resource("r", entry(Location(unresolved=("@eda",)))))
    assert own.own_measure() == frozenset()
    assert own.allowed(frozenset({"r"})) == {"r"}


def test_a_shared_resource_is_measured_only_when_a_controller_says_so():
    own = declared(resource("r", entry(Location(everyone=True)), flags=frozenset({"shared"})))
    assert own.own_measure() == frozenset()
    assert own.shared({"r/r"}) == ("r/r",)
    assert set(own.plan(own.allowed({"r/r"})).specs) == {"p"}
    assert own.allowed({"r", "other/r"}) == frozenset()


def pools(*entries, **more):
    """A shared resource that login1 measures, by the inline probe `lic`."""
    made = resource("lic", *entries, probe="lic", flags=frozenset({"shared"}), **more)
    return declared(made, host="login1", probes=(probe("lic"),))


def asking(port):
    return probe("lic", env={"LM_LICENSE_FILE": port})


def test_one_host_measures_two_pools_each_with_the_options_of_its_entry():
    own = pools(
        entry(Location(hosts=("h1",)), name="a", probe=asking("1@lic")),
        entry(Location(hosts=("h2",)), name="b", probe=asking("2@lic")),
    )
    plan = own.plan(own.allowed({"lic/a", "lic/b"}))
    ports = {name: spec.probe.env["LM_LICENSE_FILE"] for name, spec in plan.specs.items()}
    assert ports == {"lic/a": "1@lic", "lic/b": "2@lic"}
    assert {name: rule.probe for name, rule in plan.rules.items()} == {
        "lic/a": "lic/a",
        "lic/b": "lic/b",
    }
    assert all(spec.resources == {"lic": "numeric"} for spec in plan.specs.values())


def test_one_run_serves_all_pools_whose_entries_do_not_change_the_probe():
    own = pools(entry(Location(hosts=("h1",)), name="a"), entry(Location(hosts=("h2",)), name="b"))
    plan = own.plan({"lic/a", "lic/b"})
    assert set(plan.specs) == {"lic"}
    assert set(plan.rules) == {"lic/a", "lic/b"}


def test_an_instance_is_known_by_the_id_that_both_sides_give_it():
    own = pools(
        entry(Location(hosts=("h1", "h2")), instance="h[1-2]", probe=asking("1@lic")),
        entry(Location(hosts=("h3",)), instance="h3", probe=asking("2@lic")),
    )
    assert own.plan({"lic/h3"}).specs["lic/h3"].probe.env == {"LM_LICENSE_FILE": "2@lic"}


def test_without_groups_the_only_entry_that_can_be_meant_is_meant():
    own = pools(
        entry(Location(unresolved=("@eda",)), probe=asking("1@lic")),
        entry(Location(hosts=("h3",)), name="b", probe=asking("2@lic")),
    )
    assert own.plan({"lic/h[1-2]"}).specs["lic/h[1-2]"].probe.env == {"LM_LICENSE_FILE": "1@lic"}


def test_where_several_entries_can_be_meant_none_is_guessed():
    own = pools(
        entry(Location(unresolved=("@eda",)), probe=asking("1@lic")),
        entry(Location(unresolved=("@cae",)), probe=asking("2@lic")),
    )
    plan = own.plan({"lic/h[1-2]"})
    assert not plan.specs
    assert "give each entry a name" in plan.untold["lic/h[1-2]"]


def test_the_agent_takes_commands_only_from_its_own_files():
    static = Resource(name="s", entries=(entry(value=1.0),), place=P)
    own = declared(resource("r", entry()), static)
    assert own.allowed(frozenset({"r", "s", "unknown"})) == {"r"}


def test_a_host_that_is_no_worker_measures_nothing_by_itself():
    own = declared(
        resource("r", entry()), host="login1", hosts=(Host(name="login1", worker=False, place=P),)
    )
    assert own.own_measure() == frozenset()


def test_a_short_name_and_the_full_name_are_one_host():
    named = resource("r", entry(Location(hosts=("h1.x",))))
    assert declared(named, host="h1", hosts=("h1.x",)).own_measure() == {"r"}
    short = resource("r", entry(Location(hosts=("h1",))))
    assert declared(short, host="h1.x", hosts=("h1",)).own_measure() == {"r"}
    both = declared(short, host="h1", hosts=("h1.x", "h1.y"))
    assert both.own_measure() == {"r"}


def test_a_probe_is_asked_only_for_the_resources_that_this_host_must_report():
    own = declared(
        resource("a", entry()),
        resource("b", entry(Location(hosts=("h2",))), type="string"),
        resource("c", entry(), type="string"),
    )
    plan = own.plan(own.own_measure())
    assert plan.specs["p"].resources == {"a": "numeric", "c": "string"}
    assert set(plan.rules) == {"a", "c"}


def test_a_probe_runs_when_the_first_of_its_resources_is_due():
    own = declared(resource("a", entry(), interval=30.0), resource("b", entry(), interval=10.0))
    assert own.plan(own.own_measure()).cadences["p"].interval == 10.0


def test_the_probe_of_the_entry_that_covers_the_host_replaces_the_resources():
    other = probe("r", env={"DIR": "/scratch2"})
    own = declared(
        resource("r", entry(), entry(Location(hosts=("h1",)), probe=other), probe="r"),
        probes=(probe("r"),),
    )
    assert own.plan(own.own_measure()).specs["r"].probe == other


def test_only_what_makes_a_probe_another_one_changes_its_definition():
    def definition(**more):
        probes = (probe(**{k: v for k, v in more.items() if k != "path"}),)
        agent = {k: v for k, v in more.items() if k == "path"}
        own = declared(resource("r", entry()), probes=probes, **agent)
        return own.plan(own.own_measure()).cadences["p"].definition

    assert definition() == definition(retry=3.0) == definition(recheck=5.0)
    assert definition() != definition(env={"A": "b"})
    assert definition() != definition(path="/opt/bin")


def test_the_load_indices_run_at_once():
    load = Probe(name="load", plugin="load", timeout=5.0, place=P)
    own = declared(resource("ut", entry(), probe="load", interval=5.0), probes=(load,))
    assert own.plan(own.own_measure()).cadences["load"].at_once
