from pooled import World, ask, consumable, shared

from dynres.controller.proposal import Proposal


def iris(n: float = 4, **keys: object) -> World:
    return World(shared("iris", (n, ("all",)), **keys))


def jobs(world: World) -> list[str]:
    return [p.answer.job for p in world.granted if p.answer]


def test_waiters_are_granted_in_order_of_arrival_by_each_gain():
    world = iris()
    world.acquire("0", iris=4)
    for job in "abc":
        assert world.acquire(job, wait=True, iris=2).waiter is not None
    world.release("0")
    assert jobs(world) == ["a", "b"]
    world.release("a")
    assert jobs(world) == ["a", "b", "c"]
    assert len(world.pools.queue) == 0


def test_those_that_do_not_fit_are_passed_over():
    world = iris()
    world.acquire("0", iris=3)
    world.acquire("big", wait=True, iris=4)
    world.acquire("0b", iris=1)
    world.acquire("small", wait=True, iris=1)
    world.release("0b")
    assert jobs(world) == ["small"]


def test_after_fair_after_nobody_takes_what_the_oldest_is_short_of():
    world = World(shared("iris", (4, ("all",))), shared("other", (4, ("all",))))
    world.acquire("0", iris=2)
    world.acquire("big", wait=True, iris=4)
    world.acquire("late", wait=True, iris=3)
    assert world.answer("plain", iris=1) == "granted"
    world.now += 300
    assert world.reasons("plain2", iris=1) == ["behind big"]
    assert world.reasons("plain2", iris=1, other=1) == ["behind big"]
    assert world.answer("plain3", other=1) == "granted"
    assert world.answer("running", iris=1, running=True) == "granted"
    world.release("running")
    world.release("0")
    assert jobs(world) == []
    world.release("plain")
    assert jobs(world) == ["big"]
    world.release("big")
    assert jobs(world) == ["big", "late"]


def test_the_oldest_keeps_what_it_blocks_until_all_that_it_needs_is_there_at_once():
    world = World(shared("a", (2, ("all",))), shared("b", (2, ("all",))))
    world.acquire("a1", a=2)
    world.acquire("b1", b=2)
    world.acquire("both", wait=True, a=2, b=2)
    world.tick(300)
    world.release("a1")
    assert world.reasons("x", a=1) == ["behind both"]
    world.release("b1")
    assert jobs(world) == ["both"]


def test_a_waiter_that_goes_away_is_removed_and_never_blocks():
    world = iris()
    world.acquire("0", iris=2)
    big = world.acquire("big", wait=True, iris=4).waiter
    world.acquire("small", wait=True, iris=3)
    world.tick(301)
    assert world.reasons("x", iris=1) == ["behind big"]
    assert big is not None
    world.settle_all(world.pools.leave(big, world.at))
    assert world.reasons("x", iris=1) == ["behind small"]
    world.release("0")
    assert jobs(world) == ["small"]
    assert world.answer("x", iris=1) == "granted"


def test_leaving_gives_those_behind_their_turn_at_once():
    world = iris()
    world.acquire("0", iris=2)
    big = world.acquire("big", wait=True, iris=4).waiter
    world.tick(301)
    world.acquire("small", wait=True, iris=2)
    assert jobs(world) == []
    assert big is not None
    world.settle_all(world.pools.leave(big, world.at))
    assert jobs(world) == ["small"]


def test_a_waiter_that_no_release_can_help_blocks_nobody():
    world = World(
        shared("iris", (4, ("all",))), shared("lic", (None, ("all",)), interval=5, measures="total")
    )
    world.measure("lic", 3)
    world.shut.add("h2")
    world.acquire("0", iris=1)
    for job, hosts, needs in (
        ("much", ("h1",), {"lic": 5}),
        ("closed", ("h2",), {"iris": 1}),
    ):
        assert world.acquire(job, *hosts, wait=True, **needs).waiter is not None
    world.tick(301)
    assert world.answer("x", iris=1, lic=1) == "granted"


def test_every_kind_of_gain_wakes():
    world = World(
        shared("iris", (4, ("all",)), flags=["release"]),
        shared("lic", (None, ("all",)), interval=5, measures="total"),
        consumable("gpu", (1, ("default",))),
    )
    world.acquire("0", iris=4, ttl=50)
    world.acquire("suspended", wait=True, iris=4)
    world.settle(world.pools.suspend("local", "0"))
    assert jobs(world) == ["suspended"]
    world.acquire("measured", wait=True, lic=2)
    world.measure("lic", 2)
    assert jobs(world)[1:] == ["measured"]
    world.shut.add("h2")
    world.acquire("opened", "h2", wait=True, gpu=1)
    world.shut.clear()
    world.tick()
    assert jobs(world)[2:] == ["opened"]
    world.acquire("reloaded", wait=True, iris=1)
    world.reload(shared("iris", (5, ("all",)), flags=["release"]))
    assert jobs(world)[3:] == ["reloaded"]


def test_an_expiry_wakes():
    world = iris(1)
    world.acquire("0", iris=1, ttl=50)
    world.acquire("1", wait=True, iris=1)
    world.tick(50)
    assert jobs(world) == ["1"]


def test_a_reload_that_makes_a_waiting_request_impossible_answers_it():
    world = iris()
    world.acquire("0", iris=4)
    world.acquire("never", wait=True, iris=3)
    world.acquire("error", wait=True, iris=1)
    world.reload(shared("iris", (2, ("all",))))
    assert [(p.answer and p.answer.answer) for p in world.granted] == ["never"]
    world.reload(shared("other", (2, ("all",))))
    assert world.granted[-1].error is not None
    assert len(world.pools.queue) == 0


def test_a_failed_commit_leaves_the_waiter_its_place_until_the_next_tick():
    world = iris(1)
    world.acquire("0", iris=1)
    world.acquire("1", wait=True, iris=1)
    world.acquire("2", wait=True, iris=1)
    release = world.pools.release_job("local", "0")
    world.keep(release.changes)
    (grant,) = world.pools.confirm(release, world.at)
    assert world.pools.gained(world.at) == []
    world.pools.rollback(grant)
    assert world.free("iris") == 1
    world.tick()
    assert jobs(world) == ["1"]


def test_the_same_request_asked_again_keeps_its_place_in_the_queue():
    world = iris(1)
    world.acquire("0", iris=1)
    first = world.acquire("1", wait=True, iris=1, request="r").waiter
    world.acquire("2", wait=True, iris=1)
    assert world.acquire("1", wait=True, iris=1, request="r").waiter is first
    assert len(world.pools.queue) == 2
    world.release("0")
    assert jobs(world) == ["1"]


def test_a_plain_retry_of_a_waiting_request_takes_the_place_of_the_waiter():
    world = iris(4)
    world.acquire("0", iris=4)
    waiter = world.acquire("1", wait=True, iris=2, request="r").waiter
    world.acquire("2", wait=True, iris=4)
    world.now += 301
    assert world.reasons("3", iris=1) == ["exhausted"]
    release = world.pools.release_job("local", "0")
    world.keep(release.changes)
    grant: Proposal
    (grant,) = world.pools.confirm(release, world.at)
    assert grant.waiter is waiter
    again = world.pools.acquire(ask("1", iris=2, request="r"), world.at)
    assert again.behind is grant
    world.settle(grant)
    assert world.answer("1", iris=2, request="r") == "granted"
    assert world.free("iris") == 2


def test_who_waits_is_shown_with_amount_and_time():
    world = iris(1)
    world.acquire("0", iris=1)
    world.acquire("1", wait=True, iris=1)
    world.now += 9
    assert [(a.job, n, t) for a, n, t in world.pools.waiting(("iris", "iris"), world.now)] == [
        ("1", 1, 9)
    ]
