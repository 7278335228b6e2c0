"""Releases, expiry, renewals, suspension, reconcile, reboots, measured capacities, reloads."""

from decimal import Decimal

import pytest
from pooled import World, consumable, leased, shared

from dynres.controller.lease import PoolsError


def iris(n: float = 4, **keys: object) -> World:
    return World(shared("iris", (n, ("all",)), **keys))


def test_a_release_by_job_lease_or_host_gives_back_what_it_names():
    world = iris(10)
    world.acquire("1", "h1", "h2", iris="1/host")
    world.acquire("2", "h1", iris=2)
    ids = [lease.id for lease in world.leases("1")]
    assert world.settle(world.pools.release_leases(ids[:1], "local")).released == ("1-1",)
    assert world.free("iris") == 7
    assert world.settle(world.pools.release_host("h2", "local")).released == (ids[1],)
    assert world.release("2", host="h9") == ()
    assert world.release("2", host="h1") == ("1-3",)
    assert world.free("iris") == 10


def test_releasing_what_was_released_or_a_job_without_leases_succeeds_with_nothing():
    world = iris()
    world.acquire("1", iris=1)
    for _ in range(2):
        world.release("1")
        assert world.settle(world.pools.release_leases(["1-1"], "local")).released == ()
        assert world.release("never seen") == ()
        world.crash()


def test_an_unknown_lease_or_anothers_is_an_error_and_changes_nothing():
    world = iris()
    world.acquire("1", iris=1, owner="a")
    world.acquire("2", iris=1, owner="b")
    for ids, code in ((["1-2", "1-1"], "not_owner"), (["1-2", "1-77"], "unknown_lease")):
        with pytest.raises(PoolsError) as caught:
            world.pools.release_leases(ids, "b")
        assert caught.value.code == code
    assert world.free("iris") == 2
    assert world.release("1", owner="b") == ()
    assert world.settle(world.pools.release_host("h1", "b")).released == ("1-2",)
    world.crash()
    with pytest.raises(PoolsError, match="not a's but b's"):
        world.pools.release_leases(["1-2"], "a")


def test_an_operator_may_end_anyones_lease():
    world = iris()
    world.acquire("1", iris=1, owner="a")
    proposal = world.pools.release_host("h1", None, cause="operator", by="root")
    assert [(c.cause, c.by, c.owner) for c in proposal.changes] == [("operator", "root", "a")]


def test_a_lease_that_is_not_renewed_expires_and_one_that_is_does_not():
    world = iris()
    world.acquire("1", iris=1, ttl=60)
    world.acquire("2", iris=1, ttl=60)
    world.acquire("3", iris=1)
    world.tick(40)
    world.settle(world.pools.renew("local", "2", world.at))
    world.tick(20)
    assert [lease.job for lease in world.leases()] == ["2", "3"]
    world.tick(40)
    assert [lease.job for lease in world.leases()] == ["3"]
    with pytest.raises(PoolsError, match="holds nothing"):
        world.pools.renew("local", "2", world.at)
    world.tick(1e6)
    assert world.pools.renew("local", "3", world.at).behind is None
    assert len(world.leases()) == 1


def test_after_a_start_every_lease_has_its_full_ttl_again_whatever_the_wall_clock_says():
    world = iris()
    world.acquire("1", iris=1, ttl=60)
    world.crash(later=1e6)
    world.tick(59)
    assert len(world.leases()) == 1
    world.tick(1)
    assert not world.leases()


def test_an_expiry_whose_commit_fails_is_tried_again():
    world = iris()
    world.acquire("1", iris=1, ttl=60)
    world.now += 61
    (expiry,) = world.pools.tick(world.at)
    assert world.pools.tick(world.at) == []
    world.pools.rollback(expiry)
    assert world.free("iris") == 3
    world.tick()
    assert world.free("iris") == 4


def test_suspend_gives_back_what_has_the_flag_and_resume_takes_it_again_or_waits():
    world = World(shared("iris", (4, ("all",)), flags=["release"]), shared("disk", (4, ("all",))))
    world.acquire("1", iris=3, disk=3)
    world.settle(world.pools.suspend("local", "1"))
    assert (world.free("iris"), world.free("disk")) == (4, 1)
    assert [lease.suspended for lease in world.leases("1")] == [True, False]
    world.acquire("2", iris=2)
    world.crash()
    waits = world.settle(world.pools.resume("local", "1", world.at)).answer
    assert waits and (waits.answer, waits.shortages[0].asked) == ("wait", 3)
    assert world.free("iris") == 2
    world.release("2")
    resumed = world.settle(world.pools.resume("local", "1", world.at)).answer
    assert resumed and (resumed.answer, world.free("iris")) == ("granted", 1)
    again = world.settle(world.pools.resume("local", "1", world.at)).answer
    assert again and (again.answer, again.leases, world.free("iris")) == ("granted", (), 1)
    world.release("1")
    assert (world.free("iris"), world.free("disk")) == (4, 4)


def test_a_suspended_lease_that_is_released_gives_nothing_back_twice():
    world = iris(4, flags=["release"])
    world.acquire("1", iris=3)
    world.settle(world.pools.suspend("local", "1"))
    world.acquire("2", iris=4)
    world.release("1")
    assert world.free("iris") == 0


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_a_suspension_or_resumption_that_is_not_durable_has_not_happened(verb: str):
    world = iris(4, flags=["release"])
    world.acquire("1", iris=3)
    if verb == "resume":
        world.settle(world.pools.suspend("local", "1"))
        world.pools.rollback(world.pools.resume("local", "1", world.at))
    else:
        world.pools.rollback(world.pools.suspend("local", "1"))
    assert world.free("iris") == (4 if verb == "resume" else 1)
    assert world.leases()[0].suspended is (verb == "resume")


def test_reconcile_releases_the_owners_older_leases_of_jobs_that_are_not_in_the_list():
    world = iris(10)
    world.acquire("1", iris=1)
    world.acquire("2", iris=1)
    world.acquire("1", iris=1, owner="other")
    world.now += 100
    world.acquire("3", iris=1)
    world.now += 10

    def reconcile(*jobs: str, **keys: bool) -> tuple[str, ...]:
        allow = keys.get("allow_empty", False)
        made = world.pools.reconcile("local", jobs, 30, allow_empty=allow, at=world.at)
        return world.settle(made).released

    with pytest.raises(PoolsError, match="--allow-empty"):
        reconcile()
    assert reconcile("2", "unheard of") == ("1-1",)
    world.crash()
    assert reconcile(allow_empty=True) == ("1-2",)
    assert [(x.owner, x.job) for x in world.leases()] == [("other", "1"), ("local", "3")]


def test_a_lost_or_rebooted_host_frees_nothing_but_its_older_leases_are_marked():
    world = iris()
    world.boots["h1"] = "boot-a"
    world.acquire("1", iris=1)
    world.acquire("2", "h2", iris=1)
    world.boots["h1"] = "boot-b"
    world.acquire("3", iris=1)
    world.settle(world.pools.booted("h1", "boot-b"))
    assert world.pools.booted("h1", "boot-b").changes == ()
    world.crash()
    notes = {lease.job: lease.note for lease in world.leases()}
    assert notes == {"1": "host_rebooted", "2": None, "3": None}
    assert world.free("iris") == 1


def test_capacity_below_what_is_held_sets_overcommitted_and_revokes_nothing():
    world = iris(10)
    world.acquire("1", iris=4)
    world.acquire("2", iris=4)
    world.reload(shared("iris", (5, ("all",))))
    assert (world.free("iris"), world.over("iris"), len(world.leases())) == (0, True, 2)
    assert world.reasons("3", iris=1) == ["exhausted"]
    world.release("1")
    assert (world.free("iris"), world.over("iris")) == (1, False)


def test_a_host_that_moves_to_another_pool_leaves_its_leases_where_they_were_taken():
    world = World(shared("iris", (4, ("h1", "h2")), (4, ("h3",))))
    world.acquire("1", "h1", iris=3)
    assert world.reload(shared("iris", (4, ("h1", "h2")), (4, ("h3",)))) == []
    named = shared("iris", (4, ("h2",)), (4, ("h1", "h3")))
    old = world.leases()[0].instance
    said = world.reload(named)
    assert old == "h[1-2]"
    assert said == ["iris: instance h[1-2] is gone; 1 lease is now at h[1,3]"]
    assert (world.free("iris", "h2"), world.free("iris", "h3")) == (4, 1)
    world.crash()
    assert leased(world.pools) == {("iris", "h[1,3]"): Decimal(3)}
    world.release("1")
    assert world.free("iris", "h3") == 4


def test_a_host_that_moves_between_instances_that_stay_moves_no_lease():
    def two(first: tuple[str, ...], second: tuple[str, ...]):
        made = shared("iris", (4, first), (4, second))
        entries = [e.__class__(**{**{f: getattr(e, f) for f in e.__struct_fields__}, "name": n})
                   for e, n in zip(made.entries, ("a", "b"), strict=True)]  # fmt: skip
        return made.__class__(
            **{**{f: getattr(made, f) for f in made.__struct_fields__}, "entries": tuple(entries)}
        )

    world = World(two(("h1", "h2"), ("h3",)))
    world.acquire("1", "h1", iris=3)
    assert world.reload(two(("h2",), ("h1", "h3"))) == []
    assert (world.free("iris", "h2"), world.free("iris", "h1")) == (1, 4)


def test_leases_of_an_instance_that_is_gone_stay_listed_with_capacity_0_until_they_end():
    world = World(shared("iris", (4, ("h1",))), consumable("gpu", (2, ("default",))))
    world.acquire("1", iris=3, gpu=1)
    said = world.reload(shared("other", (4, ("h1",))), hosts=("h2",))
    assert len(said) == 2
    assert all("1 lease is kept, with capacity 0" in text for text in said)
    assert {pool.key: pool.amounts(None)[:4] for pool in world.pools.orphans()} == {
        ("iris", "iris"): (0, 0, 3, 0),
        ("gpu", "h1"): (0, 0, 1, 0),
    }
    world.crash()
    assert len(world.leases()) == 2
    world.release("1")
    assert list(world.pools.orphans()) == []
    assert ("iris", "iris") not in world.pools.grounds.pools


def test_an_instance_that_comes_back_has_its_leases_again():
    world = World(shared("iris", (4, ("h1",))))
    world.acquire("1", iris=3)
    world.reload(shared("other", (4, ("h1",))))
    world.reload(shared("iris", (4, ("h1",))))
    assert world.free("iris") == 1


# what a probe measures


def measured(how: str, capacity: float | None = None, **keys: object) -> World:
    return World(shared("lic", (capacity, ("all",)), interval=5.0, measures=how, **keys))


def test_of_a_measured_total_free_is_what_is_not_leased():
    world = measured("total")
    world.measure("lic", 10)
    world.acquire("1", lic=4)
    assert world.free("lic") == 6
    world.measure("lic", 3)
    assert (world.free("lic"), world.over("lic")) == (0, True)


def test_of_external_use_free_is_capacity_less_both():
    world = measured("external", 10)
    world.measure("lic", 3)
    world.acquire("1", lic=4)
    assert (world.free("lic"), world.reasons("2", lic=4)) == (3, ["exhausted"])
    world.release("1")
    assert world.free("lic") == 7


def test_of_measured_free_only_what_the_measurement_cannot_show_yet_is_taken_off():
    world = measured("free", settle=30.0)
    world.measure("lic", 10)
    world.acquire("1", lic=4)
    assert world.free("lic") == 6
    world.now += 20
    world.measure("lic", 10)
    world.acquire("2", lic=1)
    assert world.free("lic") == 5
    world.now += 15
    world.measure("lic", 6)
    assert world.free("lic") == 5
    world.now += 15
    world.measure("lic", 5)
    assert world.free("lic") == 5
    world.release("1")
    assert world.free("lic") == 5
    world.measure("lic", 9)
    assert world.free("lic") == 9


def test_measured_free_with_a_capacity_never_exceeds_what_is_not_leased():
    world = measured("free", 10, settle=30.0)
    world.measure("lic", 10)
    world.acquire("1", lic=8)
    world.now += 100
    world.measure("lic", 10)
    assert world.free("lic") == 2


def test_an_older_instant_brings_back_what_a_newer_one_had_shown():
    world = measured("free", settle=10.0)
    world.measure("lic", 10)
    first = world.now
    world.now += 5
    world.acquire("1", lic=4)
    world.measure("lic", 10, at=world.now + 20)
    assert world.free("lic") == 10
    world.measure("lic", 10, at=first)
    assert world.free("lic") == 6


def test_after_a_start_all_that_is_held_counts_until_a_measurement_can_show_it():
    world = measured("free", settle=30.0)
    world.measure("lic", 10)
    world.acquire("1", lic=4)
    world.now += 100
    world.measure("lic", 6)
    world.crash()
    assert world.free("lic") == 2
    world.now += 31
    world.measure("lic", 6)
    assert world.free("lic") == 6
