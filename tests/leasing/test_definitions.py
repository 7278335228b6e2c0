"""Leases where a host's files say something else than the controller's, and where a reload does."""

import asyncio
import time
from decimal import Decimal

import pytest
from handmade import definitions, hello
from serving import serving, until

from dynres.wire.messages import Welcome

pytestmark = pytest.mark.anyio

RESOURCES = """
resources:
  - name: iris
    unit: GB
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all]}
  - name: scratch
    unit: GB
    flags: [consumable]
    resourcemap:
      - {value: 100, location: [default]}
"""
HOSTS = "hosts: [{name: 'h[1-3]'}]\n"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def reasons(view):
    return view.answer, [(lack.resource, lack.reason) for lack in view.shortages]


async def test_a_host_that_defines_a_pool_otherwise_gets_nothing_of_it(
    tmp_path,
):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        same = definitions(made.server._core.configuration)
        agents = {}

        async def says(host, **changed):
            agents[host] = agents.get(host) or made.agent()
            await agents[host].say(hello(host, definitions=same | changed))
            await agents[host].hear(Welcome)

        await says("h1", iris="another unit")
        await says("h2", scratch="another unit")
        clash = ("iris", "unavailable: definition differs on h1")
        one = {"iris": 1}
        assert reasons(await client.acquire("a", ["h1"], one)) == ("wait", [clash])
        assert reasons(await client.acquire("a", ["h2", "h1"], one)) == ("wait", [clash])
        assert reasons(await client.acquire("a", ["h1"], {"iris": 99})) == (
            "never",
            [("iris", "capacity"), clash],
        )
        value = (await client.values(["h1"])).hosts["h1"].values["iris"]
        assert (value.value, value.state, value.reason) == (
            None,
            "unavailable",
            "definition differs",
        )
        # Everything else goes on: the pool elsewhere, and what is defined alike there.
        assert reasons(await client.acquire("b", ["h2", "h3"], one)) == ("granted", [])
        assert reasons(await client.acquire("c", ["h1"], {"scratch": 5})) == ("granted", [])
        own = reasons(await client.acquire("c", ["h2"], {"scratch": 5}))
        assert own == ("wait", [("scratch", "unavailable")])
        # What a running job uses is recorded; what an operator sets counts whatever files say.
        assert (await client.acquire("d", ["h1"], one, running=True)).answer == "granted"
        await client.set("iris", 8, pool="iris", reason="audit", who="me")
        assert (await client.acquire("e", ["h1"], one)).answer == "granted"
        await client.unset("iris", who="me")
        # A waiter's turn comes when the host's files are mended.
        waits = asyncio.create_task(client.acquire("f", ["h1"], one, wait=30))
        await until(lambda: made.server._core.pools.queue)
        await says("h1")
        assert (await waits).answer == "granted"


async def test_another_unit_after_a_reload_reinterprets_nothing_that_is_held(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):

        async def reload(iris, value, scratch="GB"):
            text = RESOURCES.replace("10, loc", f"{value}, loc").replace("unit: GB", iris, 1)
            (tmp_path / "resources.yaml").write_text(text.replace("unit: GB", f"unit: {scratch}"))
            return await client.reload()

        async def held():
            leases = (await client.leases()).leases
            return {(one.job, one.instance): (one.amount, one.unit) for one in leases}

        async def pools():
            listed = (await client.pools()).pools
            return {p.instance: (p.capacity, p.leased, p.free, p.unit) for p in listed if p.leased}

        await client.acquire("a", ["h1"], {"iris": 4, "scratch": 5})
        await client.acquire("b", ["h2"], {"iris": "0.1"})
        # The same thing in another unit: the same amounts, exactly.
        told = await reload("unit: MB", 10240, scratch="MB")
        assert any("holds 4 GB of iris, which is 4096 MB now" in text for text in told)
        assert await held() == {
            ("a", "iris"): (4096, "MB"),
            ("a", "h1"): (5120, "MB"),
            ("b", "iris"): (Decimal("102.4"), "MB"),
        }
        assert (await pools())["iris"] == (10240, Decimal("4198.4"), Decimal("6041.6"), "MB")
        # The reload is answered when it is in force; that it is written down comes a moment later.
        deadline = time.monotonic() + 10
        while len(entries := (await client.history(job="b")).entries) < 2:
            assert time.monotonic() < deadline
        history = [(e.what, e.detail) for e in entries]
        assert history == [("granted", None), ("restated", "102.4 MB now")]
        # Something else by the same name: nobody knows what is held of it, so it stands apart.
        told = await reload("unit: seats", 10)
        assert any("kept as iris in MB, with capacity 0, until they end" in text for text in told)
        assert (await held())["a", "iris in MB"] == (4096, "MB")
        assert (await pools())["iris in MB"] == (0, Decimal("4198.4"), 0, "MB")
        assert (await client.acquire("c", ["h1"], {"iris": 10})).answer == "granted"
        assert [one.job for one in (await client.release("b")).released] == ["b"]
        # And back again: what is held then is charged again; no unit is a unit of its own.
        await reload("", 10)
        assert set(await held()) == {("a", "iris in MB"), ("a", "h1"), ("c", "iris in seats")}
        await reload("unit: GB", 10)
        assert (await held())["a", "iris"] == (4, "GB")
        assert (await pools())["iris"] == (10, 4, 6, "GB")
        assert (await pools())["iris in seats"] == (0, 10, 0, "seats")


async def test_a_unit_that_changed_while_no_controller_served_is_seen_at_the_start(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):
        await client.acquire("a", ["h1"], {"iris": 4, "scratch": 5})
    other = RESOURCES.replace("unit: GB", "unit: MB", 1).replace("10, loc", "10240, loc")
    for _ in range(2):  # it is recorded, so that the next start finds it as it is
        async with serving(tmp_path, other.replace("unit: GB", "unit: rolls"), HOSTS) as (
            _,
            client,
        ):
            leases = (await client.leases()).leases
            assert [(one.instance, one.amount, one.unit) for one in leases] == [
                ("iris", 4096, "MB"),
                ("h1 in GB", 5, "GB"),
            ]
            for _ in range(100):  # nobody has waited for its record
                whats = [e.what for e in (await client.history()).entries]
                if len(whats) > 2:
                    break
            assert whats == ["granted", "granted", "restated", "moved"]


async def test_what_waits_or_is_set_keeps_its_meaning_when_the_unit_changes(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        await client.set("iris", 6, pool="iris", reason="audit", who="me")
        await client.acquire("a", ["h1"], {"iris": 5})
        waits = [
            asyncio.create_task(client.acquire(job, ["h1"], {"iris": 2}, wait=30, request=job))
            for job in ("b", "c")
        ]
        await until(lambda: len(list(made.server._core.pools.queue)) == 2)
        text = RESOURCES.replace("unit: GB", "unit: MB", 1).replace("10, loc", "10240, loc")
        (tmp_path / "resources.yaml").write_text(text)
        await client.reload()
        [iris, *_] = (await client.pools()).pools
        assert (iris.capacity, iris.leased, iris.free) == (6144, 5120, 1024)
        assert {one.amount for one in iris.waiting} == {2048}
        await client.release("a")
        for task in waits:
            view = await task
            assert [(one.amount, one.unit) for one in view.leases] == [(2048, "MB")]
        again = await client.acquire("b", ["h1"], {"iris": "2GB"}, request="b")
        assert again.answer == "granted"
        (tmp_path / "resources.yaml").write_text(text.replace("unit: MB", "unit: seats"))
        told = await client.reload()
        assert any("set by me" in line for line in told)
        [iris, *_] = (await client.pools()).pools
        assert (iris.state, iris.free) == ("unavailable", None)
