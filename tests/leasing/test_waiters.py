"""Waiters that go away, disks that fill up, and instances that a reload takes away."""

import asyncio
from decimal import Decimal

import pytest
from serving import serving, until

from dynres.client import ClientError
from dynres.controller.ledger_base import LedgerUnwritableError
from dynres.wire.codec import encode
from dynres.wire.leasing import Acquire, Need, Seat
from dynres.wire.link import Requester
from dynres.wire.requests import Call

pytestmark = pytest.mark.anyio

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: ["h[1-2]"], name: left}
      - {value: 20, location: [others], name: right}
"""
HOSTS = "hosts: [{name: 'h[1-4]'}]\n"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def waiting(job: str, amount: int) -> bytes:
    request = Acquire(
        job=job, needs=(Need("iris", Decimal(amount)),), seats=(Seat("h1"),), wait=100.0
    )
    return encode(Call(id=job, request=request))


async def queue(client):
    return [one.job for one in (await client.pools()).pools[0].waiting]


async def test_a_waiter_whose_client_disconnects_does_not_block_the_queue(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        await client.acquire("1", ["h1"], {"iris": 10})
        gone = Requester([made.client_endpoint])
        signs: list[bytes] = []

        def ask() -> None:
            # An interim sign ends it, as a client that dies while it waits.
            gone.request(waiting("gone", 10), 20, interim=lambda body: bool(signs.append(body)))

        await asyncio.to_thread(ask)
        assert len(signs) == 1
        assert await queue(client) == ["gone"]
        second = asyncio.create_task(client.acquire("2", ["h1"], {"iris": 10}, wait=30))
        await until(lambda: len(made.server._leasing._turns) == 2)
        gone.close()
        await client.release("1")
        assert (await second).answer == "granted"
        assert await queue(client) == []
        assert [one.job for one in (await client.leases()).leases] == ["2"]


async def test_a_waiter_that_is_gone_leaves_the_queue_without_any_release(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        await client.acquire("1", ["h1"], {"iris": 10})
        gone = Requester([made.client_endpoint])
        await asyncio.to_thread(lambda: gone.request(waiting("gone", 10), 20))
        assert await queue(client) == ["gone"]
        gone.close()
        await until(lambda: len(made.server._leasing._turns) == 0)
        assert await queue(client) == []


async def test_who_has_waited_fair_after_of_the_file_is_next_a_reload_included(tmp_path):
    settings = tmp_path / "controller.yaml"
    settings.write_text("fair_after: 30d\n")
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        await client.acquire("1", ["h1"], {"iris": 6})
        oldest = asyncio.create_task(client.acquire("2", ["h1"], {"iris": 10}, wait=30))
        await until(lambda: len(made.server._leasing._turns) == 1)
        assert (await client.acquire("3", ["h1"], {"iris": 1})).answer == "granted"
        settings.write_text("fair_after: 1ms\n")
        await client.reload()
        refused = await client.acquire("4", ["h1"], {"iris": 1})
        assert (refused.answer, refused.shortages[0].reason) == ("wait", "behind 2")
        await client.release("3")
        await client.release("1")
        assert (await oldest).answer == "granted"


async def test_while_the_disk_is_full_nothing_is_granted_and_it_recovers_by_itself(
    tmp_path, monkeypatch
):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        ledger = made.server._ledger
        [lease] = (await client.acquire("1", ["h1"], {"iris": 4})).leases
        full = LedgerUnwritableError("ledger.db: the disk is full")
        with monkeypatch.context() as patched:
            patched.setattr(ledger, "_commit", lambda group: full)
            for attempt in (
                client.acquire("2", ["h1"], {"iris": 1}, request="r"),
                client.release("1"),
                client.close_hosts(["h1"], reason="x"),
            ):
                with pytest.raises(ClientError, match="disk is full") as caught:
                    await attempt
                assert caught.value.code == "ledger"
            [pool, _] = (await client.pools(holders=True)).pools
            assert (pool.leased, pool.free) == (4, 6)
            assert made.server._leasing.fault == str(full)
            assert "nothing can be granted" in made.server._health().reason
        assert (await client.acquire("2", ["h1"], {"iris": 1}, request="r")).answer == "granted"
        assert [one.lease for one in (await client.release("1")).released] == [lease.lease]
        assert made.server._leasing.fault is None


async def test_a_waiter_outlasts_a_full_disk(tmp_path, monkeypatch):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        await client.acquire("1", ["h1"], {"iris": 10})
        waiter = asyncio.create_task(client.acquire("2", ["h1"], {"iris": 3}, wait=30))
        await until(lambda: len(made.server._leasing._turns) == 1)
        real = made.server._ledger._commit
        failures = []

        def commit(changes):
            if b'"t":"grant"' in changes and len(failures) < 2:
                failures.append(changes)
                return LedgerUnwritableError("the disk is full")
            return real(changes)

        monkeypatch.setattr(made.server._ledger, "_commit", commit)
        await client.release("1")
        assert (await waiter).answer == "granted"
        assert len(failures) == 2


async def test_a_reload_says_where_leases_of_a_lost_instance_went(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):
        await client.acquire("1", ["h1"], {"iris": 4})
        await client.acquire("2", ["h3"], {"iris": 5})
        one = "resources: [{name: iris, flags: [shared], resourcemap: [{value: 8, "
        (tmp_path / "resources.yaml").write_text(one + "location: [h1, h2], name: mid}]}]")
        said = await client.reload()
        assert any("1 lease is now at mid" in text for text in said)
        assert any("instance right is gone; 1 lease is kept" in text for text in said)
        mid, right = (await client.pools(holders=True)).pools
        assert (mid.instance, mid.leased, mid.free) == ("mid", 4, 4)
        assert (right.instance, right.capacity, right.leased) == ("right", 0, 5)
        assert right.overcommitted
        await client.release("2")
        assert [pool.instance for pool in (await client.pools()).pools] == ["mid"]


async def test_a_ttl_is_full_again_after_a_restart(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):
        await client.acquire("1", ["h1"], {"iris": 4}, ttl=3000)
        [before] = (await client.leases()).leases
    async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):
        [after] = (await client.leases()).leases
        assert after.lease == before.lease
        assert after.since == before.since
        assert after.expires is not None
        assert before.expires is not None
        assert after.expires > before.expires
        again = await client.acquire("2", ["h1"], {"iris": 7})
        assert again.answer == "wait"
