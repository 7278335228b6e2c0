from decimal import Decimal

import pytest
from pooled import World, ask, consumable, declare, shared

from dynres.controller.lease import Ask, Need, PoolsError, Seat


def iris(n: float = 4, **keys: object) -> World:
    return World(shared("iris", (n, ("all",)), **keys))


def test_what_fits_is_granted_and_taken():
    world = iris()
    answer = world.acquire("1", iris=3).answer
    assert answer and answer.answer == "granted"
    assert [(x.resource, x.instance, x.amount, x.host) for x in answer.leases] == [
        ("iris", "iris", Decimal(3), "h1")
    ]
    assert world.free("iris") == 1


def test_an_exhausted_pool_is_wait_and_the_shortage_is_named():
    world = iris()
    world.acquire("1", iris=3)
    answer = world.acquire("2", iris=2).answer
    assert answer and answer.answer == "wait"
    (short,) = answer.shortages
    assert (short.resource, short.instance, short.asked, short.free, short.capacity) == (
        "iris", "iris", 2, 1, 4,
    )  # fmt: skip
    assert short.reason == "exhausted"


def test_never_is_only_said_against_what_files_declare():
    world = World(
        shared("iris", (4, ("h1", "h2"))),
        shared("lic", (None, ("all",)), interval=5.0, measures="total"),
        shared("ext", (10, ("all",)), interval=5.0, measures="external"),
    )
    world.measure("lic", 3)
    world.measure("ext", 4)
    assert world.reasons("1", iris=5) == ["capacity"]
    assert world.answer("1", "h3", iris=1) == "never"
    assert world.answer("1", "nowhere", iris=1) == "never"
    assert (world.answer("1", lic=5), world.reasons("1", lic=5)) == ("wait", ["measured"])
    assert (world.answer("1", ext=7), world.reasons("1", ext=7)) == ("wait", ["measured"])
    assert world.answer("1", ext=11) == "never"


def test_a_request_is_all_or_nothing_and_names_every_shortage():
    world = World(shared("iris", (4, ("all",))), consumable("gpu", (2, ("default",))))
    world.acquire("1", "h2", gpu=1)
    answer = world.acquire("2", "h1", "h2", iris=5, gpu=2).answer
    assert answer and answer.answer == "never"
    assert [(s.resource, s.instance, s.reason) for s in answer.shortages] == [
        ("iris", "iris", "capacity"),
        ("gpu", "h2", "exhausted"),
    ]
    assert (world.free("iris"), world.free("gpu", "h1"), world.free("gpu", "h2")) == (4, 2, 1)


@pytest.mark.parametrize("state", ["stale", "unavailable"])
def test_a_capacity_that_is_not_fresh_grants_nothing(state: str):
    world = World(shared("lic", (None, ("all",)), interval=5.0, measures="total"))
    world.measure("lic", 10)
    world.measure("lic", None, state=state)
    assert (world.answer("1", lic=1), world.reasons("1", lic=1)) == ("wait", [state])


def test_an_override_is_wait_with_that_word_even_beyond_what_files_declare():
    world = iris()
    world.measure("iris", 2, overridden=True)
    assert (world.answer("1", iris=2), world.reasons("2", iris=5)) == ("granted", ["overridden"])
    world.measure("iris", None, overridden=True)
    assert world.reasons("2", iris=1) == ["overridden"]
    world.measure("iris", 9, overridden=True)
    assert world.answer("2", iris=7) == "granted"


def test_a_closed_host_gets_no_grant_but_running_jobs_are_recorded():
    world = iris()
    world.shut.add("h1")
    assert world.reasons("1", iris=1) == ["closed"]
    assert world.reasons("1", "h2", "h1", iris=1) == ["closed"]
    assert world.answer("1", "h2", iris=1) == "granted"
    assert world.answer("2", iris=1, running=True) == "granted"


def test_the_same_request_asked_again_returns_the_same_leases():
    world = iris()
    first = world.acquire("1", iris=1, request="r")
    again = world.acquire("1", iris="1.0", request="r")
    assert again.answer == first.answer
    assert (again.changes, world.free("iris")) == ((), 3)
    world.crash(later=6 * 86400)
    assert world.acquire("1", iris=1, request="r").answer == first.answer


def test_a_request_id_is_another_one_for_another_job_or_owner():
    world = iris()
    for job, owner in (("1", "a"), ("2", "a"), ("1", "b"), ("1[1]", "b")):
        assert world.answer(job, iris=1, request="r", owner=owner) == "granted"
    assert world.free("iris") == 0


def test_a_request_id_reused_with_other_amounts_is_an_error():
    world = iris()
    world.acquire("1", iris=1, request="r")
    for other in ({"iris": 2}, {"iris": "1/host"}):
        with pytest.raises(PoolsError, match=r"used before, for iris=1/job on h1; now iris"):
            world.acquire("1", request="r", **other)
    with pytest.raises(PoolsError):
        world.acquire("1", "h2", iris=1, request="r")


def test_a_request_asked_again_after_its_release_is_released_and_never_a_new_grant():
    world = iris()
    world.acquire("1", iris=1, request="r")
    world.release("1")
    for _ in range(2):
        assert world.answer("1", iris=1, request="r") == "released"
        world.crash()
    assert world.free("iris") == 4


def test_request_ids_are_remembered_for_seven_days():
    world = iris()
    world.acquire("1", iris=1, request="r")
    world.release("1")
    world.tick(7 * 86400 - 1)
    assert world.answer("1", iris=1, request="r") == "released"
    world.tick(2)
    assert world.answer("1", iris=1, request="r") == "granted"


def test_amounts_are_exact_decimals():
    world = World(shared("frac", (1, ("all",))))
    for n in range(25):
        assert world.answer(str(n), frac="0.04") == "granted"
    assert (world.free("frac"), world.answer("x", frac="0.000001")) == (0, "wait")
    for n in range(25):
        world.release(str(n))
    assert world.free("frac") == 1


def test_zero_is_a_no_op_even_of_what_is_exhausted():
    world = iris()
    world.acquire("1", iris=4)
    proposal = world.acquire("2", iris=0)
    assert proposal.answer and (proposal.answer.answer, proposal.answer.leases) == ("granted", ())
    assert world.answer("2", iris=0, request="z") == world.answer("2", iris=0, request="z")


@pytest.mark.parametrize(
    "amount", ["-1", "NaN", "Infinity", "-Infinity", "0.0000001", "9e12", "1234567890.123456"]
)
def test_what_is_no_amount_is_an_error_and_changes_nothing(amount: str):
    world = iris()
    with pytest.raises(PoolsError) as caught:
        world.acquire("1", iris=amount)
    assert caught.value.code == "usage"
    assert not world.leases()


def test_a_sum_of_more_than_fifteen_digits_is_an_error():
    world = World(shared("bytes", (8_999_999_999_999, ("all",))))
    world.acquire("1", bytes=8_000_000_000_000)
    with pytest.raises(PoolsError, match="15 significant digits"):
        world.acquire("2", bytes="0.000001")
    with pytest.raises(PoolsError, match="9e12"):
        world.acquire("2", bytes=8_000_000_000_000, running=True)


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        ({"iriss": 1}, r"no resource 'iriss' is known .*iris"),
        ({"label": 1}, "cannot be held"),
        ({}, "nothing is asked for"),
    ],
)
def test_what_cannot_be_asked_for_is_an_error(needs: dict[str, int], text: str):
    world = World(shared("iris", (4, ("all",))), declare("label", [(1, ("default",))]))
    with pytest.raises(PoolsError, match=text):
        world.acquire("1", **needs)


def test_a_resource_asked_for_twice_no_host_or_no_slot_is_an_error():
    world = iris()
    need = Need("iris", Decimal(1))
    seats = (Seat("h1"),)
    for wrong in (
        Ask(job="1", needs=(need, need), seats=seats),
        Ask(job="1", needs=(need,), seats=()),
        Ask(job="1", needs=(need,), seats=(Seat("h1", 0),)),
    ):
        with pytest.raises(PoolsError):
            world.pools.acquire(wrong, world.at)


def test_units_are_converted_and_rounded_up():
    world = World(consumable("scratch", (10, ("default",)), unit="GB"))
    need = Need("scratch", Decimal("1.5"), None, "MB")
    answer = world.pools.acquire(Ask(job="1", needs=(need,), seats=(Seat("h1"),)), world.at).answer
    assert answer and [x.amount for x in answer.leases] == [Decimal("0.001465")]
    wrong = Ask(job="1", needs=(Need("scratch", Decimal(1), None, "s"),), seats=(Seat("h1"),))
    with pytest.raises(PoolsError, match="converted"):
        world.pools.acquire(wrong, world.at)


def test_per_job_charges_once_per_host_once_a_host_per_slot_once_a_slot():
    world = World(shared("iris", (100, ("all",))))
    seats = [("h1", 4), ("h2", 8)]
    world.acquire("job", *seats, iris=2)
    assert world.free("iris") == 98
    world.acquire("host", *seats, iris="2/host")
    assert world.free("iris") == 94
    world.acquire("slot", *seats, iris="2/slot")
    assert world.free("iris") == 70
    assert [(x.host, x.amount) for x in world.leases("slot")] == [("h1", 8), ("h2", 16)]


def test_a_per_host_resource_is_charged_on_each_host():
    world = World(consumable("gpu", (4, ("default",))))
    world.acquire("1", "h1", ("h2", 2), gpu="1/slot")
    assert (world.free("gpu", "h1"), world.free("gpu", "h2"), world.free("gpu", "h3")) == (3, 2, 4)


def test_a_request_may_narrow_the_policy_but_not_widen_it():
    world = World(shared("iris", (100, ("all",)), per="slot"))
    with pytest.raises(PoolsError, match="narrow"):
        world.acquire("1", iris="2/job")


def test_per_job_over_hosts_of_two_pools_is_an_error_that_says_what_to_write():
    world = World(shared("iris", (4, ("h1",)), (4, ("h2",))), consumable("gpu", (4, ("all",))))
    with pytest.raises(PoolsError, match=r"iris=2/host"):
        world.acquire("1", "h1", "h2", iris=2)
    assert world.answer("1", "h1", "h2", iris="2/host") == "granted"


def test_a_host_named_twice_is_one_host_with_the_slots_of_both():
    world = World(shared("iris", (100, ("all",))))
    world.acquire("1", ("h1", 2), ("h1", 3), iris="1/slot")
    assert [(x.slots, x.amount) for x in world.leases()] == [(5, 5)]


def test_what_running_jobs_use_is_recorded_past_capacity_and_nothing_new_is_granted():
    world = iris(2)
    assert world.answer("1", iris=5, running=True) == "granted"
    assert (world.over("iris"), world.free("iris")) == (True, 0)
    assert world.reasons("2", iris=1) == ["exhausted"]
    world.release("1")
    assert (world.over("iris"), world.free("iris")) == (False, 2)


@pytest.mark.parametrize("keys", [{"reserve": Decimal(2)}, {"reserve_percent": Decimal(20)}])
def test_a_reserve_is_never_leased(keys: dict[str, Decimal]):
    world = World(shared("iris", (10, ("all",)), **keys))
    assert world.free("iris") == 8
    assert world.reasons("1", iris=9) == ["capacity"]
    assert world.answer("1", iris=8) == "granted"
    assert world.reasons("2", iris=1) == ["exhausted"]


def test_a_late_host_draws_on_the_pool_at_once_and_adds_nothing_to_it():
    world = World(shared("iris", (4, ("all",))), consumable("gpu", (2, ("default",))))
    assert world.answer("1", "h9", iris=1) == "never"
    world.layout.join("h9")
    world.pools.joined()
    assert world.answer("1", "h9", iris=1, gpu=2) == "granted"
    assert (world.free("iris"), world.free("gpu", "h9")) == (3, 0)


def test_answers_that_were_not_granted_are_noted_once_however_often_one_asks():
    world = iris(1)
    world.acquire("1", iris=1)
    for _ in range(5):
        world.acquire("2", iris=1)
    world.acquire("2", iris=2)
    assert [(e.what, e.job, e.detail) for e in world.events] == [
        ("wait", "2", "exhausted"),
        ("never", "2", "capacity"),
    ]


def test_between_decision_and_durability_nobody_else_can_take_the_same_units():
    world = iris(1)
    proposal = world.pools.acquire(ask("1", iris=1), world.at)
    assert world.answer("2", iris=1) == "wait"
    assert not world.leases()
    world.pools.rollback(proposal)
    assert (world.free("iris"), world.pools.grounds.pools["iris", "iris"].held) == (1, {})
    assert world.answer("2", iris=1) == "granted"


def test_a_release_gives_back_only_once_it_is_durable():
    world = iris(1)
    world.acquire("1", iris=1)
    release = world.pools.release_job("local", "1")
    assert world.answer("2", iris=1) == "wait"
    assert world.pools.release_job("local", "1").behind is release
    world.pools.rollback(release)
    assert (world.free("iris"), len(world.leases())) == (0, 1)
    assert world.release("1") == ("1-1",)


def test_a_retry_while_the_first_is_on_its_way_is_decided_after_it():
    world = iris()
    first = world.pools.acquire(ask("1", iris=1, request="r"), world.at)
    assert world.pools.acquire(ask("1", iris=1, request="r"), world.at).behind is first
    assert world.pools.release_job("local", "1").behind is first
    world.settle(first)
    assert world.acquire("1", iris=1, request="r").answer == first.answer
