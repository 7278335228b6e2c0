"""Who measures a shared instance: turns, hand-over, no flapping, over a clock of the test's own."""

from collections.abc import Iterator
from typing import Literal

from handmade import run
from hypothesis import given, settings
from hypothesis import strategies as st

from dynres.config.model import Place
from dynres.controller.distribution import Instance
from dynres.controller.shared import FAILURES, GRACE, LONGEST_ROUND, Shared, SharedTable

HOSTS = ("h1", "h2", "h3", "h4")
INTERVAL = 5
HAND_OVER = 10
Kind = Literal["good", "fails", "not here"]


def instance(name: str = "lic") -> Instance:
    place = Place("resources.yaml", 1, 1)
    return Instance("lic", name, place, True, None, None, None, None, 0, None)


class Layout:
    """One shared instance that all hosts may measure, in order; or several of one resource."""

    def __init__(self, *names: str) -> None:
        self.instances = [instance(name) for name in names or ("lic",)]

    def pools(self) -> Iterator[Instance]:
        yield from self.instances

    def reporters(self, instance: Instance) -> tuple[str, ...]:
        return HOSTS


class World:
    """Hosts that are up or lost, whose probes are good or not, and the table that chooses."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.table = SharedTable(Layout(*names), self.now)
        self.up: set[str] = set()
        self.kinds: dict[str, Kind] = dict.fromkeys(HOSTS, "good")
        self.bad_runs = 0
        self.changes: list[tuple[str | None, str | None]] = []
        self.unserved = 0.0
        """Seconds for which somebody could measure and nobody did."""

    @property
    def shared(self) -> Shared:
        return next(iter(self.table))

    def obstacle(self, host: str, _resource: str) -> str | None:
        return None if host in self.up else "lost"

    def come(self, host: str, *reporting: str) -> None:
        before = self.shared.reporter
        self.up.add(host)
        self.table.new_session(host)
        self.table.arrived(host, reporting, self.now, self.obstacle)
        self.look(before)

    def go(self, host: str) -> None:
        self.up.discard(host)

    def look(self, before: str | None) -> None:
        """What must hold whenever somebody may have been designated."""
        after = self.shared.reporter
        if after != before:
            self.changes.append((before, after))
            if before is not None and self.now - 1000.0 > GRACE:
                done = self.bad_runs >= FAILURES or self.kinds[before] == "not here"
                assert before not in self.up or done, "it flapped"
            self.bad_runs = 0
        duties = [host for host in HOSTS if self.table.duty(host, "lic", "lic")]
        assert duties == ([] if after is None else [after])

    def second(self) -> None:
        self.now += 1.0
        before = self.shared.reporter
        changed = self.table.elect(self.now, self.obstacle)
        after = self.shared.reporter
        assert changed == ({before, after} - {None} if before != after else set())
        self.look(before)
        assert after is None or after in self.up
        self.unserved = self.unserved + 1.0 if after is None and self.up else 0.0
        assert self.unserved <= HAND_OVER
        if after is not None and (self.now % INTERVAL == 0 or before != after):
            self.measure(after)

    def measure(self, host: str) -> None:
        kind, shared = self.kinds[host], self.shared
        good = kind == "good"
        value = self.now if good else None
        taken = self.table.put(
            shared, value, self.now, probe="p", reason="did not work", keep=not good
        )
        assert taken
        outcome = "failed" if kind == "fails" else "ok"
        ended = run("p", outcome=outcome, not_here=kind == "not here", reason="did not work")
        self.table.ran(host, ended, failed=kind == "fails", again=False)
        self.bad_runs = 0 if good else self.bad_runs + 1

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.second()


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(HOSTS)),
        st.tuples(st.just("go"), st.sampled_from(HOSTS)),
        st.tuples(st.sampled_from(["good", "fails", "not here"]), st.sampled_from(HOSTS)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(EVENTS)
def test_one_agent_measures_whatever_happens_and_nobody_takes_it_from_a_good_one(events):
    world = World()
    for what, which in events:
        if what == "come":
            world.come(which)
        elif what == "go":
            world.go(which)
        elif what == "wait":
            world.wait(which)
        else:
            world.kinds[which] = what
    world.wait(LONGEST_ROUND + 3 * INTERVAL * len(HOSTS))
    good = {host for host in world.up if world.kinds[host] == "good"}
    if good:
        assert world.shared.reporter in good
        assert world.now - world.shared.measured <= 2 * INTERVAL
    elif world.up:
        assert world.shared.reporter in world.up


def settled(*hosts: str) -> World:
    """A controller that has run for a while, and hosts that came in that order."""
    world = World()
    world.wait(20)
    for host in hosts:
        world.come(host)
    return world


def test_a_lost_reporter_is_replaced_at_the_next_look_by_the_first_that_is_up():
    world = settled("h3", "h2", "h4")
    assert world.shared.reporter == "h3"
    world.go("h3")
    world.second()
    assert world.shared.reporter == "h2"
    world.come("h3")
    world.come("h1")
    world.wait(100)
    assert world.shared.reporter == "h2"


def test_one_failed_run_is_forgiven_and_two_in_a_row_are_not():
    world = settled("h1", "h2")
    world.wait(10)
    world.kinds["h1"] = "fails"
    world.wait(INTERVAL)
    assert (world.shared.reporter, world.shared.failures) == ("h1", 1)
    world.kinds["h1"] = "good"
    world.wait(INTERVAL)
    assert (world.shared.reporter, world.shared.failures) == ("h1", 0)
    world.kinds["h1"] = "fails"
    world.wait(2 * INTERVAL + 1)
    assert world.shared.reporter == "h2"


def test_not_here_hands_over_at_once():
    world = settled()
    world.kinds["h1"] = "not here"
    for host in ("h1", "h2"):
        world.come(host)
    world.measure("h1")
    world.second()
    assert world.shared.reporter == "h2"


def test_when_all_fail_each_has_its_turn_and_they_start_over_more_and_more_slowly():
    world = settled("h1", "h2", "h3")
    world.kinds.update(h1="fails", h2="fails", h3="fails")
    world.changes.clear()
    world.wait(4000)
    order = [after for _, after in world.changes]
    assert order[:6] == ["h2", "h3", "h1", "h2", "h3", "h1"]
    assert 4 <= len(order) / 3 <= 20
    world.kinds["h2"] = "good"
    world.wait(LONGEST_ROUND + 6 * INTERVAL)
    assert world.shared.reporter == "h2"
    world.wait(2000)
    assert world.shared.reporter == "h2"


def test_the_only_reporter_goes_on_although_it_fails():
    world = settled("h1")
    world.kinds["h1"] = "fails"
    world.changes.clear()
    world.wait(600)
    assert world.changes == []
    world.kinds["h1"] = "good"
    world.wait(INTERVAL)
    assert world.shared.measured >= world.now - INTERVAL


def test_a_newcomer_has_its_turn_at_once_while_all_others_fail():
    world = settled("h1", "h2")
    world.kinds.update(h1="fails", h2="fails")
    world.wait(200)
    world.come("h4")
    world.wait(HAND_OVER)
    assert world.shared.reporter == "h4"


def test_the_value_of_another_host_counts_until_its_ttl_when_the_next_one_cannot_measure():
    world = settled("h1")
    world.wait(10)
    value, measured = world.shared.last, world.shared.measured
    world.kinds["h2"] = "fails"
    world.come("h2")
    world.go("h1")
    world.wait(12)
    shared = world.shared
    assert (shared.reporter, shared.reason) == ("h2", None)
    assert (shared.last, shared.measured) == (value, measured)


def test_in_the_first_seconds_the_order_counts_and_an_agent_that_measures_already_before_it():
    world = World()
    world.come("h3")
    world.come("h2")
    assert world.shared.reporter == "h2"
    world.come("h4", "lic/lic")
    assert world.shared.reporter == "h4"
    world.come("h1")
    assert world.shared.reporter == "h4"


def test_a_reporter_that_is_lost_in_the_first_seconds_does_not_take_it_back():
    world = World()
    world.come("h1")
    world.come("h2")
    world.second()
    world.go("h1")
    world.second()
    assert world.shared.reporter == "h2"
    world.come("h1")
    assert world.shared.reporter == "h2"


def test_one_host_may_measure_several_instances_of_a_resource():
    world = World("lic", "other")
    world.come("h1")
    assert world.table.duties("h1") == ("lic/lic", "lic/other")
    assert [shared.reporter for shared in world.table] == ["h1", "h1"]


def test_every_change_of_reporter_is_told_with_its_reason():
    world = settled("h1", "h2")
    world.go("h1")
    world.second()
    world.kinds["h2"] = "fails"
    world.come("h3")
    world.wait(3 * INTERVAL)
    told = [(m.before, m.after, m.why) for m in world.table.moves]
    assert told == [(None, "h1", None), ("h1", "h2", "lost"), ("h2", "h3", "did not work")]
