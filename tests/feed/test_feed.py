"""The feed without sockets: snapshot, changes, filters, slow and silent subscribers."""

from decimal import Decimal
from pathlib import Path

import pytest
from followed import Followed, Follower
from handmade import Bench, configured, measured, run

from dynres.controller.changes import Closed
from dynres.controller.feed import CHUNK
from dynres.controller.proposal import Instant
from dynres.wire.codec import WireError
from dynres.wire.feed import FEED_SILENCE, LeaseTold
from dynres.wire.lines import Host, LeaseChange, Lost, Pool, Snapshot, ValueChange

RESOURCES = """
resources:
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
  - name: scratch
    unit: GB
    interval: 10s
    flags: [consumable]
    measures: total
    probe: {command: [/bin/s]}
    resourcemap: [{location: [default], reserve: 1}]
  - {name: iris, flags: [shared], resourcemap: [{value: 100, reserve: 2, location: [h1, h2]}]}
  - name: lic
    flags: [shared]
    interval: 10s
    measures: external
    probe: {command: [/bin/l]}
    resourcemap: [{capacity: 50, location: [h1, h2], reporter: [h1]}]
"""
HOSTS = 'hosts: [{name: "h[1-3]"}, {name: login1, worker: false}]'


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    made = Followed(Bench(configured(tmp_path, RESOURCES, HOSTS)))
    made.bench.hello(b"1", "h1")
    made.bench.report(
        b"1", 1, measured("scratch", 10.0), measured("lic", 8.0, instance="lic"), full=True
    )
    return made


def start(followed: Followed, where: str = "") -> Follower:
    follower = followed.follow(where)
    followed.turn()
    return follower


def test_first_comes_a_snapshot_with_all_that_xce_collects(followed: Followed) -> None:
    follower = start(followed)
    (snapshot,) = follower.new()
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.epoch, snapshot.seq, snapshot.at) == (7, 1, 1e9)
    assert set(snapshot.hosts) == {"h1", "h2", "h3"}
    h1 = snapshot.hosts["h1"]
    assert (h1.state, h1.closed, h1.pools) == ("up", False, {"iris": "iris", "lic": "lic"})
    assert snapshot.hosts["h3"].pools == {}
    assert (h1.values["os"].value, h1.values["scratch"].value) == ("el9", 9.0)
    assert snapshot.hosts["h2"].values["scratch"].reason == "no report yet"
    indices = {resource.name: resource.index for resource in snapshot.resources}
    assert (indices["os"], indices["lic"]) == (0, 3)
    pools = {pool.resource: pool for pool in snapshot.pools}
    assert (pools["iris"].value, pools["iris"].free, pools["iris"].reserve) == (98, 98, 2)
    assert (pools["lic"].value, pools["lic"].capacity) == (42, 50)


def test_then_only_what_has_changed_comes(followed: Followed) -> None:
    follower = start(followed)
    follower.new()
    followed.turn()
    followed.bench.report(b"1", 2, runs=[run("scratch"), run("lic")])
    followed.turn()
    assert follower.new() == []
    followed.bench.report(b"1", 3, measured("scratch", 11.0), measured("lic", 9.0, instance="lic"))
    followed.turn()
    value, pool = follower.new()
    assert isinstance(value, ValueChange)
    assert (value.host, value.resource, value.index, value.value) == ("h1", "scratch", 1, 10.0)
    assert (value.unit, value.state, value.seq) == ("GB", "fresh", 2)
    assert isinstance(pool, Pool)
    assert (pool.value, pool.seq) == (41, 3)
    followed.bench.report(b"1", 4, measured("scratch", None, reason="not mounted"))
    followed.turn()
    (value,) = follower.new()
    assert isinstance(value, ValueChange)
    assert (value.value, value.state, value.reason) == (None, "unavailable", "not mounted")


def test_a_value_that_goes_stale_by_time_is_a_change_and_so_is_its_return(
    followed: Followed,
) -> None:
    follower = start(followed)
    follower.new()
    bench = followed.bench
    bench.now += 30.0
    bench.beat(b"1")
    followed.beat()
    followed.turn()
    assert follower.new() == []
    bench.now += 0.1
    followed.turn()
    value, pool = follower.new()
    assert isinstance(value, ValueChange)
    assert isinstance(pool, Pool)
    assert (value.resource, value.state, value.value) == ("scratch", "stale", None)
    assert value.reason == "older than its ttl of 30s"
    assert (pool.resource, pool.state, pool.free) == ("lic", "stale", None)
    bench.report(b"1", 2, runs=[run("scratch"), run("lic")])
    followed.turn()
    states = [line.state for line in follower.new() if isinstance(line, ValueChange | Pool)]
    assert states == ["fresh", "fresh"]


def test_a_host_comes_and_goes_with_the_requirement(followed: Followed) -> None:
    follower = start(followed, "scratch >= 5 GB && lic: 40")
    (snapshot,) = follower.new()
    assert isinstance(snapshot, Snapshot)
    assert set(snapshot.hosts) == {"h1"}
    bench = followed.bench

    def told() -> list[tuple[str, bool] | tuple[str, object]]:
        followed.turn()
        return [
            (line.host, line.satisfies) if isinstance(line, Host) else (line.resource, line.value)
            for line in follower.new()
            if isinstance(line, Host | ValueChange | Pool)
            and getattr(line, "resource", "") not in {"r15s", "r1m", "r15m", "ut", "pg", "io"}
            and getattr(line, "resource", "") not in {"ls", "it", "tmp", "swp", "mem"}
        ]

    bench.report(b"1", 2, measured("scratch", 2.0))
    assert told() == [("h1", False)]
    bench.report(b"1", 3, measured("scratch", 3.0))
    assert told() == []
    bench.report(b"1", 4, measured("scratch", 7.0))
    assert told() == [("h1", True), ("os", "el9"), ("scratch", 6.0)]
    bench.report(b"1", 5, measured("lic", 20.0, instance="lic"))
    assert told() == [("h1", False), ("lic", 30.0)]
    bench.report(b"1", 6, measured("lic", 10.0, instance="lic"))
    assert told() == [("h1", True), ("os", "el9"), ("scratch", 6.0), ("lic", 40.0)]
    bench.core.operators.closed["h1"] = Closed("repair", "root", 0.0)
    bench.now += 0.6
    assert told() == [("h1", False)]


def test_a_host_that_is_not_up_satisfies_nothing_but_is_there_without_a_requirement(
    followed: Followed,
) -> None:
    every, some = start(followed), start(followed, 'os == "el9"')
    every.new()
    assert set(some.hosts) == {"h1"}
    some.new()
    followed.bench.hello(b"2", "h2")
    followed.turn()
    assert set(some.hosts) == {"h1", "h2"}
    (line,) = [line for line in every.new() if isinstance(line, Host)]
    assert (line.host, line.state) == ("h2", "up")
    followed.bench.bye(b"1")
    followed.bench.now += 0.6
    followed.turn()
    assert set(some.hosts) == {"h2"}
    assert every.hosts["h1"].state == "unreachable"


def test_a_host_that_joins_late_and_one_that_is_forgotten(tmp_path: Path) -> None:
    everywhere = RESOURCES.replace(", reporter: [h1]", "").replace("[h1, h2]", "[others]")
    bench = Bench(configured(tmp_path, everywhere), rule="open")
    followed = Followed(bench)
    follower = start(followed)
    assert follower.hosts == {}
    bench.hello(b"9", "h9")
    followed.turn()
    assert follower.hosts["h9"].pools == {"iris": "iris", "lic": "lic"}
    assert follower.hosts["h9"].values["os"].value == "el9"
    bench.bye(b"9")
    bench.now += bench.core.configuration.controller.forget_after + 60
    followed.beat()
    follower.new()
    bench.core.tick(bench.now)
    bench.core.tick(bench.now)
    followed.turn()
    (gone,) = [line for line in follower.new() if isinstance(line, Host)]
    assert (gone.host, gone.state, gone.satisfies) == ("h9", None, False)
    bench.hello(b"8", "h8")
    followed.turn()
    assert set(follower.hosts) == {"h8"}


def test_a_slow_subscriber_is_told_that_it_has_lost_changes_and_gets_a_snapshot(
    followed: Followed,
) -> None:
    slow, quick = start(followed), start(followed)
    slow.new()
    slow.slow = True
    for number in range(100):
        followed.bench.report(b"1", 2 + number, measured("scratch", float(number)))
        followed.turn()
    subscriber = followed.feed._subscribers[slow.peer]
    assert not subscriber._todo
    assert not subscriber._unsent
    assert sum(isinstance(line, ValueChange) for line in quick.new()) == 100
    slow.slow = False
    followed.bench.now += 0.3
    followed.turn()
    lost, snapshot = slow.new()
    assert isinstance(lost, Lost)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.hosts["h1"].values["scratch"].value == 98.0
    assert (lost.seq, snapshot.seq) == (2, 3)
    followed.bench.report(b"1", 102, measured("scratch", 5.0))
    followed.turn()
    assert slow.hosts["h1"].values["scratch"].value == 4.0


def test_a_silent_subscriber_is_forgotten_and_then_nothing_is_followed(followed: Followed) -> None:
    follower = start(followed)
    other = start(followed)
    followed.bench.now += FEED_SILENCE - 1
    followed.feed.receive(other.peer, b"dynres-feed\t1\tbeat", followed.bench.now)
    followed.bench.now += 2
    followed.turn()
    assert followed.feed.count == 1
    messages = len(follower.messages)
    followed.bench.report(b"1", 2, measured("scratch", 1.0))
    followed.turn()
    assert len(follower.messages) == messages
    followed.bench.now += FEED_SILENCE + 1
    followed.turn()
    assert followed.feed.count == 0
    assert followed.bench.core.table.journal is None


def test_a_quiet_feed_beats(followed: Followed) -> None:
    follower = start(followed)
    before = len(follower.messages)
    for _ in range(12):
        followed.bench.now += 1
        followed.bench.beat(b"1")
        followed.beat()
        followed.turn()
    assert len(follower.messages) - before == 2


def test_changes_while_a_large_snapshot_is_under_way_come_once_more(tmp_path: Path) -> None:
    bench = Bench(configured(tmp_path, RESOURCES, 'hosts: [{name: "h[1-800]"}]'))
    followed = Followed(bench)
    for n in range(1, 801):
        bench.hello(b"%d" % n, f"h{n}")
        bench.report(b"%d" % n, 1, measured("scratch", float(n)), full=True)
    follower = followed.follow()
    followed.feed.turn(bench.now)
    assert follower.lines == []
    assert max(map(len, follower.messages)) < 2 * CHUNK
    bench.report(b"1", 2, measured("scratch", 5000.0))
    bench.report(b"800", 2, measured("scratch", 6000.0))
    bench.bye(b"2")
    followed.turn()
    (snapshot,) = follower.new()
    assert isinstance(snapshot, Snapshot)
    values = {host: known.values["scratch"].value for host, known in snapshot.hosts.items()}
    assert (values["h1"], values["h800"], values["h799"]) == (4999.0, 5999.0, 798.0)
    assert len(values) == 800


def test_after_a_reload_everybody_gets_a_new_snapshot(followed: Followed, tmp_path: Path) -> None:
    every, some = start(followed), start(followed, "iris: 5")
    every.new()
    bench = followed.bench
    text = RESOURCES.replace("name: iris", "name: synth").replace("value: el9", "value: el10")
    bench.core.reload(configured(tmp_path, text, HOSTS), "listed", bench.now)
    core = bench.core
    core.pools.configure(core.resources, core.distribution, Instant(bench.now, 0.0))
    followed.turn()
    (snapshot,) = every.new()
    assert isinstance(snapshot, Snapshot)
    assert snapshot.hosts["h1"].values["os"].value == "el10"
    assert some.refused == ("the requirement is refused: column 1: no resource 'iris' is declared")
    assert followed.feed.count == 1
    bench.report(b"1", 2, measured("scratch", 3.0))
    followed.turn()
    assert every.hosts["h1"].values["scratch"].value == 2.0


def test_what_is_held_changes_what_is_free(followed: Followed) -> None:
    core = followed.bench.core
    follower = start(followed, "iris: 90")
    assert set(follower.hosts) == {"h1"}
    leased = {"iris": Decimal(10), "scratch": Decimal("2.5")}
    before = core.amounts

    def amounts(instance, fresh):
        found = before(instance, fresh)
        held = leased[instance.resource]
        return found._replace(leased=held, free=None if found.free is None else found.free - held)

    core.amounts = amounts  # type: ignore[method-assign]
    for name in leased:
        instance = core.distribution.instance_for(name, "h1")
        assert instance is not None
        core.held(instance)
    follower.new()
    followed.turn()
    gone, pool = follower.new()
    assert isinstance(gone, Host)
    assert not gone.satisfies
    assert isinstance(pool, Pool)
    assert (pool.free, pool.leased, pool.value) == (88, 10, 88.0)
    leased["iris"] = Decimal(0)
    instance = core.distribution.instance_for("iris", "h1")
    assert instance is not None
    core.held(instance)
    followed.turn()
    assert follower.hosts["h1"].values["scratch"].value == 6.5


def test_leases_are_in_the_snapshot_and_come_when_they_are_granted_and_end(
    followed: Followed,
) -> None:
    one = LeaseTold("l1", "local", "12[7]", "iris", "iris", Decimal("2.5"), "h1", "2026-11-30")
    followed.leases["l1"] = one
    follower = start(followed, "os == 'nothing'")
    (snapshot,) = follower.new()
    assert isinstance(snapshot, Snapshot)
    (lease,) = snapshot.leases
    assert (lease.lease, lease.job, lease.amount) == ("l1", "12[7]", Decimal("2.5"))
    assert lease.ended is None
    followed.feed.lease(one._replace(ended="job"), followed.bench.now)
    (ended,) = follower.new()
    assert isinstance(ended, LeaseChange)
    assert (ended.ended, ended.expires, ended.suspended) == ("job", None, False)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected dynres-feed"),
        (b"dynres-feed\t1\tdance", "expected watch or beat"),
        (b"dynres-feed\t9\twatch\t", "speaks dynres-feed 1"),
        (b"\xff\xfe", "expected dynres-feed"),
        (b"\x81\xa1t\xa5hello", "expected dynres-feed"),
    ],
)
def test_what_is_no_request_is_refused_in_words(
    followed: Followed, body: bytes, words: str
) -> None:
    follower = followed.followers[b"x"] = Follower(b"x", "")
    with pytest.raises(WireError, match=words):
        followed.feed.receive(b"x", body, followed.bench.now)
    assert follower.refused is not None
    assert followed.feed.count == 0


def test_a_requirement_that_means_nothing_is_refused_with_its_column(followed: Followed) -> None:
    follower = followed.follow("os == el9")
    assert follower.refused is not None
    assert "column 7" in follower.refused
    assert followed.feed.count == 0


def test_a_beat_of_one_who_follows_nothing_is_answered(followed: Followed) -> None:
    follower = followed.followers[b"x"] = Follower(b"x", "")
    followed.feed.receive(b"x", b"dynres-feed\t1\tbeat", followed.bench.now)
    assert "send watch first" in (follower.refused or "")
