"""Leases where a host's files say something else than the controller's, and where a reload does."""

import asyncio

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
