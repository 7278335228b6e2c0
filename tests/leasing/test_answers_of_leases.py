"""The verbs of leases against a controller in the test's own loop: shapes, order, waiting."""

import asyncio
import json
import time
import urllib.request
from decimal import Decimal

import pytest
from serving import serving, until

from dynres.client import Client, ClientError
from dynres.wire.views import to_builtins

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


RESOURCES = """
resources:
  - name: iris
    flags: [shared, release]
    resourcemap:
      - {value: 10, location: [all]}
  - name: scratch
    unit: GB
    flags: [consumable]
    resourcemap:
      - {value: 100, location: [default]}
  - name: site
    type: string
    resourcemap:
      - {value: here, location: [default]}
"""
HOSTS = "hosts: [{name: 'h[1-4]'}]\ngroups: {some: ['h[2-3]']}\n"


def served(folder):
    return serving(folder, RESOURCES, HOSTS)


def shown(view):
    return json.loads(json.dumps(to_builtins(view)))


async def test_an_acquire_is_answered_in_the_shape_that_scripts_rely_on(tmp_path):
    async with served(tmp_path) as (_, client):
        granted = shown(await client.acquire("7", ["h1"], {"iris": 2}, ttl=60))
        [lease] = granted.pop("leases")
        assert granted == {"answer": "granted", "owner": "local", "job": "7", "shortages": []}
        assert list(lease) == ["lease", "resource", "instance", "amount", "host", "expires", "unit"]
        assert (lease["resource"], lease["instance"], lease["amount"]) == ("iris", "iris", 2)
        assert lease["host"] == "h1"
        assert lease["expires"].endswith("Z")
        wait = shown(await client.acquire("8", ["h1"], {"iris": 9}))
        assert wait["answer"] == "wait"
        assert wait["leases"] == []
        assert wait["shortages"] == [
            {
                "resource": "iris",
                "instance": "iris",
                "asked": 9,
                "free": 8,
                "capacity": 10,
                "reason": "exhausted",
                "unit": None,
            }
        ]
        never = shown(await client.acquire("8", ["h1"], {"iris": 11}))
        assert (never["answer"], never["shortages"][0]["reason"]) == ("never", "capacity")


async def test_leases_pools_and_values_show_what_is_held(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.acquire("7", ["h1"], {"iris": "2.5", "scratch": "512MB"}, owner="slurm")
        [first, second] = shown(await client.leases())["leases"]
        assert list(first) == [
            *("lease", "owner", "job", "resource", "instance", "amount", "host"),
            *("since", "expires", "suspended", "note", "unit"),
        ]
        assert (first["owner"], first["amount"], second["amount"]) == ("slurm", 2.5, 0.5)
        [iris, scratch, *_] = shown(await client.pools(holders=True))["pools"]
        assert (iris["leased"], iris["free"], iris["overcommitted"]) == (2.5, 7.5, False)
        [holder] = iris["holders"]
        assert list(holder) == ["owner", "job", "lease", "amount", "host", "since", "expires"]
        assert (scratch["instance"], scratch["free"]) == ("h1", 99.5)
        values = shown(await client.values(["h1"], ["iris", "scratch"]))["hosts"]["h1"]["values"]
        assert (values["iris"]["value"], values["scratch"]["value"]) == (7.5, 99.5)
        assert (await client.pools()).pools[0].holders is None


async def test_the_same_request_takes_once_and_is_released_once(tmp_path):
    async with served(tmp_path) as (_, client):
        first = await client.acquire("7", ["h1"], {"iris": 2}, request="a")
        again = await client.acquire("7", ["h1"], {"iris": 2}, request="a")
        assert first.leases == again.leases
        with pytest.raises(ClientError, match="was used before"):
            await client.acquire("7", ["h1"], {"iris": 3}, request="a")
        assert len((await client.release("7")).released) == 1
        assert (await client.release("7")).released == ()
        assert (await client.acquire("7", ["h1"], {"iris": 2}, request="a")).answer == "released"


async def test_another_owners_lease_and_an_unknown_one_are_errors(tmp_path):
    async with served(tmp_path) as (_, client):
        [lease] = (await client.acquire("7", ["h1"], {"iris": 2})).leases
        for owner, name, code in (
            ("bob", lease.lease, "not_owner"),
            ("local", "9-9", "unknown_lease"),
        ):
            with pytest.raises(ClientError) as caught:
                await client.release(lease=name, owner=owner)
            assert caught.value.code == code
        assert len((await client.leases()).leases) == 1
        released = await client.release(host="h1", owner=None, who="root")
        assert [one.lease for one in released.released] == [lease.lease]
        [*_, last] = (await client.history()).entries
        assert (last.what, last.detail, last.by) == ("released", "operator", "root")


async def test_a_waiter_is_answered_when_its_turn_comes(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.acquire("7", ["h1"], {"iris": 10})
        signs = []
        waiter = asyncio.create_task(
            client.acquire("8", ["h1"], {"iris": 4}, wait=30, on_wait=signs.append)
        )
        await until(lambda: signs)
        assert signs[0].view.shortages[0].reason == "exhausted"
        [pool, *_] = shown(await client.pools())["pools"]
        [waiting] = pool["waiting"]
        assert list(waiting) == ["owner", "job", "amount", "for"]
        await client.release("7")
        assert (await waiter).answer == "granted"


async def test_a_waiter_whose_time_is_over_is_told_to_wait(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.acquire("7", ["h1"], {"iris": 10})
        answer = await client.acquire("8", ["h1"], {"iris": 4}, wait=0.1)
        assert (answer.answer, answer.shortages[0].reason) == ("wait", "exhausted")
        assert (await client.pools()).pools[0].waiting == ()


async def test_a_waiter_that_is_asked_again_waits_once_and_both_are_answered(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.acquire("7", ["h1"], {"iris": 10})
        signs = []

        def ask():
            return asyncio.create_task(
                client.acquire("8", ["h1"], {"iris": 4}, wait=30, request="r", on_wait=signs.append)
            )

        waiters = [ask(), ask()]
        await until(lambda: len(signs) >= 2)
        assert len((await client.pools()).pools[0].waiting) == 1
        await client.release("7")
        first, second = await asyncio.gather(*waiters)
        assert first.leases == second.leases
        assert (await client.pools()).pools[0].leased == 4


async def test_suspend_gives_back_what_can_be_given_back_and_resume_takes_it_again(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.acquire("7", ["h1"], {"iris": 6, "scratch": 5})
        [given] = (await client.suspend("7")).released
        assert (given.resource, given.suspended) == ("iris", True)
        await client.acquire("8", ["h1"], {"iris": 6})
        assert (await client.resume("7")).answer == "wait"
        await client.release("8")
        assert (await client.resume("7")).answer == "granted"
        assert [one.suspended for one in (await client.leases(job="7")).leases] == [False, False]


async def test_reconcile_releases_older_leases_of_jobs_that_are_gone(tmp_path):
    async with served(tmp_path) as (_, client):
        for job in ("1", "2"):
            await client.acquire(job, ["h1"], {"iris": 1})
        await client.acquire("3", ["h1"], {"iris": 1}, owner="other")

        assert (await client.reconcile([], time.time() - 100, allow_empty=True)).released == ()
        with pytest.raises(ClientError, match="allow-empty"):
            await client.reconcile([], time.time())
        gone = await client.reconcile(["2"], time.time())
        assert [one.job for one in gone.released] == ["1"]


async def test_a_lease_expires_unless_it_is_renewed(tmp_path):
    async with served(tmp_path) as (serving, client):
        await client.acquire("7", ["h1"], {"iris": 1}, ttl=0.2)
        await client.acquire("8", ["h1"], {"iris": 1}, ttl=60)
        assert (await client.renew("8")).renewed[0].expires is not None
        pools = serving.server._core.pools
        await until(lambda: sum(1 for _ in pools.leases()) == 1)
        [left] = (await client.leases()).leases
        assert left.job == "8"
        with pytest.raises(ClientError) as caught:
            await client.renew("7")
        assert caught.value.code == "unknown_lease"
        details = [e.detail for e in (await client.history(job="7")).entries]
        assert details == [None, "ttl"]


async def test_answers_of_a_batch_come_in_the_order_of_the_requests(tmp_path):
    async with served(tmp_path) as (serving, _):

        def work():
            with Client(serving.client_endpoint, timeout=20) as client, client.batch() as batch:
                taken = [batch.acquire(f"j{n}", ["h1"], {"iris": 1}) for n in range(300)]
                answers = [one.result().answer for one in taken]
                for n in range(300):
                    batch.release(f"j{n}")
                return answers, len(list(batch))

        answers, count = await asyncio.to_thread(work)
        assert answers == ["granted"] * 10 + ["wait"] * 290
        assert count == 600


async def test_a_defined_value_that_is_no_amount_is_refused(tmp_path):
    async with served(tmp_path) as (_, client):
        for need, what in (
            ({"iris": Decimal("-1")}, "negative"),
            ({"iris": Decimal("NaN")}, "finite"),
            ({"iris": "0.1234567"}, "decimal places"),
            ({"site": 1}, "cannot be held"),
            ({"irs": 1}, "did you mean iris"),
        ):
            with pytest.raises((ClientError, ValueError), match=what):
                await client.acquire("7", ["h1"], need)
        assert (await client.acquire("7", ["h1"], {"iris": 0})).answer == "granted"
        assert (await client.leases()).leases == ()


async def test_metrics_show_pools_and_what_was_answered(tmp_path):

    async with served(tmp_path) as (serving, client):
        await client.acquire("7", ["h1"], {"iris": 4})
        await client.acquire("8", ["h1"], {"iris": 7})
        address = f"http://{serving.server.page}/metrics"

        def page():
            with urllib.request.urlopen(address, timeout=10) as answer:
                return answer.read().decode()

        text = await asyncio.to_thread(page)
        assert 'dynres_pool_leased{pool="iris",resource="iris"} 4.0' in text
        assert 'dynres_pool_free{pool="iris",resource="iris"} 6.0' in text
        assert 'dynres_pool_waiting{pool="iris",resource="iris"} 0.0' in text
        assert 'dynres_lease_operations_total{answer="granted",verb="acquire"} 1.0' in text
        assert 'dynres_lease_operations_total{answer="wait",verb="acquire"} 1.0' in text
