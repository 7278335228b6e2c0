"""Overrides and closed hosts: they beat every source, are durable, and end when they should."""

import asyncio
import json

import pytest
from handmade import definitions, hello
from serving import HandMadeAgent, serving, until

from dynres.client import ClientError
from dynres.config.load import load
from dynres.wire.messages import Assign, Measured, Report, Run, Welcome
from dynres.wire.views import to_builtins

pytestmark = pytest.mark.anyio

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all]}
  - name: temp
    unit: C
    interval: 1s
    ttl: 100s
    probe: {command: [/bin/true], timeout: 1s}
    resourcemap: [{location: [default]}]
  - name: lic
    flags: [shared]
    measures: total
    interval: 1s
    ttl: 100s
    probe: {command: [/bin/false], timeout: 1s}
    resourcemap: [{location: [all], reporter: [h1, h2]}]
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
"""
HOSTS = "hosts: [{name: 'h[1-3]'}]\n"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def served(folder):
    return serving(folder, RESOURCES, HOSTS)


def shown(view):
    return json.loads(json.dumps(to_builtins(view)))


async def arrive(made, folder, host) -> HandMadeAgent:
    agent = made.agent()
    configuration = load(folder, "controller").configuration
    await agent.say(hello(host, definitions=definitions(configuration)))
    await agent.hear(Welcome)
    return agent


def report(seq, **values):
    measured = tuple(
        Measured(resource=n, probe=n, age=0.1, value=v, instance="lic" if n == "lic" else None)
        for n, v in values.items()
    )
    runs = tuple(Run(probe=n, outcome="ok", age=0.1, duration=0.1) for n in values)
    return Report(seq=seq, full=True, runs=runs, values=measured)


async def value(client, host, resource):
    view = await client.values([host], [resource])
    return shown(view)["hosts"][host]["values"][resource]


async def test_an_override_beats_a_measured_value_which_stays_visible(tmp_path):
    async with served(tmp_path) as (made, client):
        agent = await arrive(made, tmp_path, "h1")
        await agent.say(report(1, temp=41.0))
        table = made.server._core.table
        await until(lambda: table.cell("h1", "temp", 0.0).last == 41)
        await client.set("temp", "50", hosts=["h1"], reason="sensor drifts", who="ann")
        seen = await value(client, "h1", "temp")
        assert (seen["value"], seen["state"], seen["reported"]) == (50, "fresh", 41)
        source = seen["source"]
        assert (source["kind"], source["who"], source["why"]) == (
            "override",
            "ann",
            "sensor drifts",
        )
        assert source["since"].endswith("Z")
        await agent.say(report(2, temp=43.0))
        await until(lambda: table.below("h1", "temp", 0.0).last == 43)
        assert (await value(client, "h1", "temp"))["value"] == 50
        assert (await client.hosts(where="temp > 45")).hosts == ("h1",)
        await client.unset("temp", hosts=["h1"])
        seen = await value(client, "h1", "temp")
        assert (seen["value"], seen["source"]["kind"], seen["reported"]) == (43, "probe", None)


async def test_an_override_of_a_pool_is_what_can_be_granted(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.set("iris", 3, pool="iris", reason="audit", who="ann")
        answer = await client.acquire("7", ["h1"], {"iris": 4})
        assert (answer.answer, answer.shortages[0].reason) == ("wait", "overridden")
        assert (await client.acquire("7", ["h1"], {"iris": 3})).answer == "granted"
        pool = shown(await client.pools())["pools"][0]
        assert (pool["capacity"], pool["free"], pool["reported"]) == (3, 0, 10)
        assert pool["override"]["why"] == "audit"
        assert (await value(client, "h1", "iris"))["source"]["kind"] == "override"
        await client.set("iris", None, pool="iris", reason="audit", who="ann")
        answer = await client.acquire("8", ["h1"], {"iris": 1})
        assert (answer.answer, answer.shortages[0].reason) == ("wait", "overridden")
        await client.unset("iris")
        assert (await client.acquire("8", ["h1"], {"iris": 1})).answer == "granted"


async def test_an_override_ends_by_itself_and_wakes_who_waits(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.set("iris", 0, pool="iris", reason="audit", lasts=0.3)
        answer = await client.acquire("7", ["h1"], {"iris": 4}, wait=20)
        assert answer.answer == "granted"
        whats = [(e.what, e.by) for e in (await client.history(pool="iris")).entries]
        assert ("unset", None) in whats
        [unset] = [e for e in (await client.history()).entries if e.what == "unset"][-1:]
        assert unset.detail == "its time is over"


async def test_an_override_survives_a_reload_and_a_restart(tmp_path):
    async with served(tmp_path) as (_, client):
        await client.set("os", "el8", hosts=["h1", "h2"], reason="old image")
        await client.close_hosts(["h3"], reason="broken fan")
        await client.reload()
        assert (await value(client, "h1", "os"))["value"] == "el8"
    async with served(tmp_path) as (_, client):
        assert (await value(client, "h2", "os"))["value"] == "el8"
        assert (await value(client, "h3", "os"))["value"] == "el9"
        detail = (await client.hosts(hosts=["h3"], all_hosts=True)).details["h3"]
        assert detail.closed
        assert detail.why_closed is not None
        assert "broken fan" in detail.why_closed


async def test_a_closed_host_gets_no_grant_keeps_its_leases_and_is_left_out(tmp_path):
    async with served(tmp_path) as (made, client):
        for host in ("h1", "h2"):
            await arrive(made, tmp_path, host)
        await client.acquire("7", ["h1"], {"iris": 1})
        await client.close_hosts(["h1"], reason="fan")
        answer = await client.acquire("8", ["h1"], {"iris": 1})
        assert (answer.answer, answer.shortages[0].reason) == ("wait", "closed")
        assert len((await client.leases()).leases) == 1
        assert (await client.hosts(where="os == 'el9'")).hosts == ("h2",)
        assert (await client.hosts(where="os == 'el9'", all_hosts=True)).hosts == ("h1", "h2", "h3")
        await client.open_hosts(["h1"])
        assert (await client.acquire("8", ["h1"], {"iris": 1})).answer == "granted"


async def test_a_closed_reporter_hands_over(tmp_path):
    async with served(tmp_path) as (made, client):
        first = await arrive(made, tmp_path, "h1")
        second = await arrive(made, tmp_path, "h2")
        shared = next(iter(made.server._core.shared))
        await until(lambda: shared.reporter == "h1")
        await client.close_hosts(["h1"], reason="fan")
        await until(lambda: shared.reporter == "h2")
        assert "lic/lic" in (await second.hear(Assign)).measure
        assert "lic/lic" not in (await first.hear(Assign)).measure
        while not (entries := (await client.history(host="h2")).entries):
            pass  # it is written within a tick
        assert [(e.what, e.resource) for e in entries] == [("reporter", "lic")]


async def test_a_measurement_wakes_who_waits_for_it(tmp_path):
    async with served(tmp_path) as (made, client):
        agent = await arrive(made, tmp_path, "h1")
        await agent.say(report(1, lic=2.0))
        answer = await client.acquire("7", ["h1"], {"lic": 4})
        assert answer.answer == "wait"
        signs = []
        waiter = asyncio.create_task(
            client.acquire("7", ["h1"], {"lic": 4}, wait=30, on_wait=signs.append)
        )
        await until(lambda: signs)
        await agent.say(report(2, lic=9.0))
        assert (await waiter).answer == "granted"


async def test_what_no_override_can_be_is_refused_with_what_to_do(tmp_path):
    async with served(tmp_path) as (_, client):
        for change, what in (
            (client.set("iris", 1, hosts=["h1"], reason="x"), "is shared"),
            (client.set("temp", 1, pool="temp", reason="x"), "per host"),
            (client.set("iris", -1, pool="iris", reason="x"), "negative"),
            (client.set("temp", "warm", hosts=["h1"], reason="x"), "numeric"),
            (client.set("iris", 1, pool="iriss", reason="x"), "iris"),
            (client.set("iris", 1, pool="iris", reason=" "), "reason"),
            (client.close_hosts(["h9"], reason="x"), "no host"),
            (client.forget_hosts(["h3"]), "declared"),
        ):
            with pytest.raises(ClientError, match=what):
                await change
        assert (await client.history()).entries == ()
