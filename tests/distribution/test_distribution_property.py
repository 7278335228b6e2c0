"""Precedence and late hosts, over random declarations."""

from collections.abc import Sequence

from declared import configuration, entry, host, location, resource
from declared import listed as known
from hypothesis import assume, given
from hypothesis import strategies as st

from dynres.config.consistency import check_overlaps
from dynres.config.covers import Cover
from dynres.config.model import Configuration, Host, Resource
from dynres.controller.distribution import Distribution, distribute

DECLARED = [f"h{number}" for number in range(1, 6)]
LATE = ["h0", "h12", "a", "h2x"]
CONTEXT = known(DECLARED, {"g": ["h1", "h2"], "k": ["h[3-5]"]})

PARTS = ["h1", "h2", "h3", "h[4-5]", "@g", "@k", "all", "default"]
ENTRIES = st.lists(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=2).map(tuple), max_size=3, unique=True
)
MINUS = st.lists(st.sampled_from(["~h1", "~h4", "~@g"]), max_size=1)
OWN = st.dictionaries(st.sampled_from(DECLARED), st.floats(0, 9).map(float), max_size=3)
HOSTS = st.lists(st.sampled_from(LATE), unique=True)


@st.composite
def resources(draw: st.DrawFn, name: str) -> Resource:
    """A resource of any scope and source, without a host in two instances."""
    flags = draw(st.sampled_from([[], ["shared"], ["consumable"]]))
    interval = draw(st.sampled_from([None, 5.0]))
    entries = []
    for line, parts in enumerate(draw(ENTRIES), start=1):
        texts = ["others" if flags == ["shared"] and p == "default" else p for p in parts]
        wide = any(text in {"all", "default", "others"} for text in texts)
        texts += draw(MINUS) if wide else []
        where = location(CONTEXT, *texts, scope="shared" if "shared" in flags else "per-host")
        value = float(line * 10) if interval is None else None
        entries.append(entry(where, value, line))
    assume(not check_overlaps(name, entries))
    return resource(name, *entries, flags=flags, interval=interval)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    made = [draw(resources("r1")), draw(resources("r2"))]
    own = {r.name: draw(OWN) for r in made if r.interval is None and not r.shared}
    hosts: list[Host] = []
    for line, name in enumerate(DECLARED, start=1):
        given_here = {r: values[name] for r, values in own.items() if name in values}
        hosts.append(host(name, line=line, **given_here))
    return configuration(hosts, *made)


def everything(found: Distribution) -> dict[str, object]:
    """All that a distribution says, laid out for comparison."""
    names = [resource.name for resource in found.configuration.resources]
    pools = list(found.pools())
    return {
        "hosts": found.hosts,
        "static": {name: sorted(found.static(name), key=lambda a: a.place) for name in names},
        "values": {(name, h): found.value_for(name, h) for name in names for h in found.hosts},
        "measured": {name: found.measured(name) for name in names},
        "own": {h: found.measured_by(h) for h in found.hosts},
        "instances": {(n, h): found.instance_for(n, h) for n in names for h in found.hosts},
        "leasable": list(found.leasable()),
        "pools": [(pool, found.members(pool), found.reporters(pool)) for pool in pools],
    }


@given(configurations(), st.data())
def test_a_late_host_gets_what_it_would_have_had_from_the_start(
    made: Configuration, data: st.DataObject
) -> None:
    late = data.draw(HOSTS)
    early = data.draw(st.integers(0, len(late)))
    found = distribute(made, late[:early])
    everything(found)  # whatever was asked before may not be what is answered after
    for name in late[early:]:
        assert found.join(name)
    assert everything(found) == everything(distribute(made, data.draw(st.permutations(late))))


@given(configurations(), HOSTS)
def test_each_host_has_at_most_one_instance_of_a_resource(
    made: Configuration, late: Sequence[str]
) -> None:
    found = distribute(made, late)
    for declared in made.resources:
        static = [h for a in found.static(declared.name) for h in a.hosts]
        shared = [h for i in found.pools(declared.name) for h in found.members(i)]
        leased = [h for i in found.leasable(declared.name) for h in found.members(i)]
        for hosts in (static, shared, leased, found.measured(declared.name)):
            assert len(hosts) == len(set(hosts))
        assert not (static and shared)
        ids = [i.id for i in found.leasable(declared.name)]
        assert len(ids) == len(set(ids))


@given(configurations(), HOSTS)
def test_hosts_yaml_wins_over_a_covering_entry_and_that_over_the_rest(
    made: Configuration, late: Sequence[str]
) -> None:
    found = distribute(made, late)
    own = {(v.resource, h.name): v.value for h in made.hosts for v in h.values}
    for declared in made.resources:
        if declared.dynamic or declared.shared:
            continue
        named = {h: e.value for e in declared.entries for h in e.location.hosts}
        wide = [e for e in declared.entries if e.location.everyone]
        rest = [e for e in declared.entries if e.location.rest]
        for name in found.hosts:
            expected = own.get((declared.name, name), named.get(name))
            for one in wide + rest:
                if expected is None and name not in one.location.minus:
                    expected = one.value
            value = found.value_for(declared.name, name)
            assert (value.value if value else None) == expected


@given(configurations(), HOSTS)
def test_an_entry_is_found_for_a_host_alone_as_in_the_whole_distribution(
    made: Configuration, late: Sequence[str]
) -> None:
    found = distribute(made, late)
    for declared in made.resources:
        cover = Cover(declared)
        for index in range(len(declared.entries)):
            alone = tuple(h for h in found.hosts if cover.index_for(h) == index)
            assert found.covered(declared.name, index) == alone
        own = {h.name for h in made.hosts for v in h.values if v.resource == declared.name}
        for assignment in found.static(declared.name):
            for name in set(assignment.hosts) - own:
                covering = cover.entry_for(name)
                assert covering is not None
                assert (covering.value, covering.place) == assignment[:2]


@given(configurations(), st.data())
def test_precedence_never_depends_on_the_order_of_entries_or_hosts(
    made: Configuration, data: st.DataObject
) -> None:
    mixed = configuration(
        data.draw(st.permutations(made.hosts)),
        *(
            resource(
                r.name,
                *data.draw(st.permutations(r.entries)),
                flags=r.flags,
                interval=r.interval,
            )
            for r in made.resources
        ),
    )
    one, two = distribute(made), distribute(mixed)
    for declared in made.resources:
        for name in one.hosts:
            assert one.value_for(declared.name, name) == two.value_for(declared.name, name)
            first, second = (d.instance_for(declared.name, name) for d in (one, two))
            assert (first and first.id) == (second and second.id)
            assert (first and first.capacity) == (second and second.capacity)
    assert one.hosts == two.hosts
