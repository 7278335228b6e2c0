"""What every ledger does, whichever engine stands behind: each test runs over all of them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from memory_ledger import MemoryLedger, MemoryStore

from dynres.controller.changes import (
    HISTORY_KEPT,
    REMEMBERED,
    AnyChange,
    Closed,
    CloseHost,
    End,
    Event,
    Grant,
    OpenHost,
    Override,
    SetOverride,
    UnsetOverride,
    Update,
)
from dynres.controller.history import HistoryAsk
from dynres.controller.lease import Lease
from dynres.controller.ledger import FOLD_AFTER, SqliteLedger
from dynres.controller.ledger_base import Ledger, LedgerError

NOW = 1_800_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


Make = Callable[[], Ledger]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Make]:
    opened: list[Ledger] = []
    store = MemoryStore()

    def again() -> Ledger:
        """A new ledger on what the one before has kept."""
        for ledger in opened:
            ledger.close()
        opened.clear()
        sqlite = request.param == "sqlite"
        made = SqliteLedger(tmp_path, wall=clock) if sqlite else MemoryLedger(store, clock)
        opened.append(made)
        return made

    yield again
    for ledger in opened:
        ledger.close()


def commit(ledger: Ledger, *changes: AnyChange) -> None:
    told: list[LedgerError | None] = []
    done = threading.Event()

    def settle(error: LedgerError | None) -> None:
        told.append(error)
        done.set()

    ledger.submit(changes, settle)
    assert done.wait(20)
    assert told == [None]


def lease(n: int, job: str = "7", **keys: object) -> Lease:
    made = Lease(f"1-{n}", "alice", job, "iris", "iris", Decimal("0.04"), "h1", NOW)
    return Lease(**{**{f: getattr(made, f) for f in made.__struct_fields__}, **keys})  # type: ignore[arg-type]


def grant(*leases: Lease, request: str | None = None) -> Grant:
    return Grant("alice", leases[0].job if leases else "7", leases, request, "iris=0.04 on h1")


def end(one: Lease, cause: str = "job") -> End:
    return End(
        one.id, one.owner, one.job, one.resource, one.instance, one.host, one.amount, cause  # type: ignore[arg-type]
    )  # fmt: skip


def update(one: Lease, **keys: object) -> Update:
    known = (one.id, one.owner, one.job, one.resource, one.instance, one.host, one.amount)
    return Update(*known, **keys)  # type: ignore[arg-type]


def test_what_was_committed_is_there_at_the_next_start(make: Make):
    ledger = make()
    assert ledger.load().leases == {}
    first, second = lease(1, ttl=5.0, boot_id="b", slots=4, running=True), lease(2, "12[7]")
    commit(ledger, grant(first, request="r"), grant(second))
    state = make().load()
    assert state.leases == {"1-1": first, "1-2": second}
    known = state.requests["alice", "7", "r"]
    assert (known.at, known.asked, known.leases) == (NOW, "iris=0.04 on h1", ("1-1",))


def test_each_kind_of_change_is_kept(make: Make):
    ledger = make()
    ledger.load()
    override = Override("iris", None, "broken", "root", NOW, instance="iris", lasts=60.0)
    other = Override("tmp", 5.0, "test", "root", NOW, hosts=("h1", "h2"))
    closed = Closed("disk", "root", NOW)
    one, two = lease(1), lease(2)
    changes: Sequence[AnyChange] = (
        grant(one, two),
        update(one, suspended=True),
        update(one, note="host_rebooted"),
        update(two, moved="iris2"),
        SetOverride("iris/iris", override),
        SetOverride("tmp@", other),
        CloseHost("h1", closed),
        CloseHost("h2", closed),
    )
    commit(ledger, *changes)
    for _ in range(2):
        ledger = make()
        state = ledger.load()
        assert state.leases == {
            "1-1": lease(1, suspended=True, note="host_rebooted"),
            "1-2": lease(2, instance="iris2"),
        }
        assert state.overrides == {"iris/iris": override, "tmp@": other}
        assert state.closed == {"h1": closed, "h2": closed}
    commit(
        ledger, end(two), update(one, suspended=False), update(two, note="too late"),
        UnsetOverride("tmp@", "tmp"), OpenHost("h1", "root"),
    )  # fmt: skip
    for _ in range(2):
        state = make().load()
        assert state.leases == {"1-1": lease(1, note="host_rebooted")}
        assert (list(state.overrides), list(state.closed)) == (["iris/iris"], ["h2"])
        assert {k: (e.owner, e.at) for k, e in state.ended.items()} == {"1-2": ("alice", NOW)}


def test_each_start_has_a_larger_epoch(make: Make):
    epochs = [make().epoch for _ in range(3)]
    assert epochs == sorted(set(epochs))


def test_request_ids_and_ended_leases_are_remembered_for_seven_days(make: Make, clock: Clock):
    ledger = make()
    ledger.load()
    for day in range(12):
        clock.now = NOW + day * 86400
        commit(ledger, grant(lease(day), request=f"r{day}"), end(lease(day)))
    clock.now = NOW + 11 * 86400 + 3600
    state = make().load()
    state.forget(clock.now - REMEMBERED)
    assert sorted(key[2] for key in state.requests) == ["r10", "r11", "r5", "r6", "r7", "r8", "r9"]
    assert sorted(state.ended) == sorted(f"1-{day}" for day in range(5, 12))


def test_no_changes_at_all_are_answered_too(make: Make):
    ledger = make()
    ledger.load()
    commit(ledger)


def test_changes_of_many_requests_are_kept_in_the_order_of_submission(make: Make):
    ledger = make()
    ledger.load()
    many = FOLD_AFTER // 2 + 100
    left = threading.Semaphore(0)
    faults: list[LedgerError] = []

    def done(error: LedgerError | None) -> None:
        if error is not None:
            faults.append(error)
        left.release()

    for n in range(many):
        one = lease(n)
        ledger.submit((grant(one, request=str(n)),), done)
        ledger.submit((update(one, suspended=True),), done)
        if n % 3:
            ledger.submit((end(one),), done)
    for _ in range(many * 2 + sum(n % 3 > 0 for n in range(many))):
        assert left.acquire(timeout=20)
    assert faults == []
    expected = {f"1-{n}": lease(n, suspended=True) for n in range(0, many, 3)}
    state = make().load()
    assert state.leases == expected
    assert len(state.requests) == many
    assert make().load().leases == expected


def test_history_tells_what_happened_to_a_pool_a_job_or_a_host(make: Make, clock: Clock):
    ledger = make()
    ledger.load()
    one, two = lease(1), lease(2, 'a "job" é', host="h2", resource="gpu", instance="h2")
    commit(ledger, grant(one), grant(two))
    clock.now += 10
    commit(ledger, end(one, "ttl"), Event("wait", "alice", "9", "iris", "iris", detail="exhausted"))
    clock.now += 10
    override = Override("iris", 5.0, "test", "root", NOW, instance="iris")
    commit(ledger, SetOverride("k", override), CloseHost("h2", Closed("disk", "root", NOW)))

    def told(**keys: object) -> list[tuple[float, str, str | None, str | None]]:
        found = ledger.history(HistoryAsk(**keys))  # type: ignore[arg-type]
        return [(e.at - NOW, e.what, e.job, e.detail) for e in found]

    released = (10, "released", "7", "ttl")
    waited = (10, "wait", "9", "exhausted")
    assert told(job="7") == [(0, "granted", "7", None), released]
    assert told(job='a "job" é') == [(0, "granted", 'a "job" é', None)]
    assert told(host="h2") == [(0, "granted", 'a "job" é', None), (20, "closed", None, "disk")]
    changed = (20, "set", None, "5: test")
    assert told(pool="iris")[1:] == [released, waited, changed]
    assert told(pool="gpu/h2", owner="alice") == [(0, "granted", 'a "job" é', None)]
    assert told(since=NOW + 15)[0] == changed
    assert told(limit=2) == [changed, (20, "closed", None, "disk")]


def test_history_is_kept_for_thirty_days(make: Make, clock: Clock):
    ledger = make()
    ledger.load()
    commit(ledger, grant(lease(1)))
    clock.now += HISTORY_KEPT - 60
    assert len(ledger.history(HistoryAsk())) == 1
