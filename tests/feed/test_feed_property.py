"""Whatever happens, who applies the feed has what the views show, and nothing of other hosts."""

from followed import Followed, Follower
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed import ACTIONS, Action, Mixed

from dynres.controller.answers import Answers
from dynres.controller.placement import Placement

WHERE = (
    "",
    "bigmem",
    "!bigmem && busy < 3",
    "iris: 50 || lic: 10",
    'role == "el9" || site == role',
    "ready && space > 2",
    "up",
)


def expected_hosts(mixed: Mixed, where: str) -> set[str]:
    workers = set(mixed.core.table.rows)
    if not where:
        return workers
    placement = Placement(mixed.core)
    return set(placement.find(placement.requirement(where), mixed.now).hosts) & workers


def check(mixed: Mixed, follower: Follower) -> None:
    """What the follower knows is what the views show."""
    answers = Answers(mixed.core, mixed.now)
    assert set(follower.hosts) == expected_hosts(mixed, follower.where)
    for host, known in follower.hosts.items():
        shown = answers.values_of(host, mixed.core.configuration.resources)
        assert (known.state, known.closed) == (shown.state, shown.closed)
        for name, view in shown.values.items():
            resource = mixed.core.resources[name]
            if not resource.shared:
                told = known.values[name]
                assert (told.value, told.state) == (view.value, view.state), (host, name)
                if view.state != "stale":  # why it is stale may change without it
                    assert told.reason == view.reason, (host, name)
                continue
            pool = follower.pools[name, known.pools[name]]
            own = known.values.get(name)
            if own is not None and own.state != "absent":
                assert (own.state, view.state) == ("unavailable", "unavailable")
            else:
                assert (pool.value, pool.state) == (view.value, view.state), (host, name)
        assert set(known.pools) == {n for n in shown.values if mixed.core.resources[n].shared}
    for view in answers.pools():
        if len(view.members) > 0 and (view.resource, view.instance) in follower.pools:
            pool = follower.pools[view.resource, view.instance]
            for name in ("capacity", "leased", "reserve", "free", "overcommitted"):
                assert getattr(pool, name) == getattr(view, name)


@settings(max_examples=70, deadline=None)
@given(
    st.lists(st.tuples(ACTIONS, st.booleans(), st.integers(0, 9)), max_size=30),
    st.lists(st.sampled_from(WHERE), min_size=1, max_size=3),
)
def test_who_follows_has_what_the_views_show(
    steps: list[tuple[Action, bool, int]], where: list[str]
) -> None:
    mixed = Mixed()
    followed = Followed(mixed)
    followers = [followed.follow(text) for text in where]
    for action, turn, slow in steps:
        followed.beat()
        action(mixed)
        followed.beat()
        for number, follower in enumerate(followers):
            follower.slow = slow == number
        if turn:
            followed.turn()
    followers.append(followed.follow(where[0]))
    for follower in followers:
        follower.slow = False
    mixed.now += 0.6  # the next look at who is up, and the next try with who was slow
    followed.beat()
    followed.turn()
    followed.turn()
    for follower in followers:
        check(mixed, follower)
        assert [line.seq for line in follower.lines] == list(range(1, len(follower.lines) + 1))
        assert {line.epoch for line in follower.lines} == {7}
