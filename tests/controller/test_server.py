"""The controller over real sockets: agents made by hand, requests, reloads, and hostile bytes."""

import asyncio
import logging
import random
import resource
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import zmq
from handmade import definitions, hello, measured, report
from serving import HandMadeAgent, Serving, serving, until

from dynres.client import AsyncClient, RequestRefusedError
from dynres.wire.codec import encode, from_controller
from dynres.wire.messages import (
    Alive,
    Assign,
    Beat,
    Bye,
    Problem,
    Refusal,
    SendAll,
    Stamp,
    Welcome,
)

RESOURCES = """
resources:
  - {name: temp, interval: 1, ttl: 2s, probe: {command: [/bin/t], timeout: 1s},
     resourcemap: [{location: [default]}]}
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
  - {name: lic, flags: [shared], resourcemap: [{value: 30, location: [others]}]}
"""
HOSTS = "hosts: [{name: host1}, {name: host2}]"
Test = Callable[[Serving, AsyncClient], Coroutine[Any, Any, None]]


def over(folder: Path, test: Test, hosts: str | None = HOSTS) -> None:
    async def go() -> None:
        async with serving(folder, RESOURCES, hosts) as (server, client):
            await test(server, client)

    asyncio.run(go())


async def registered(server: Serving, host: str, session: str = "s1") -> HandMadeAgent:
    agent = server.agent()
    core = server.server._core
    ours = definitions(core.configuration)
    await agent.say(hello(host, session, definitions=ours))
    await agent.hear(Welcome)
    return agent


def page(server: Serving, path: str) -> tuple[int, str]:
    with urllib.request.urlopen(f"http://{server.server.page}{path}", timeout=10) as answer:
        return answer.status, answer.read().decode()


def test_hello_welcome_report_and_the_value_is_there(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = await registered(server, "host1")
        await agent.say(report(1, measured("temp", 3.0, 0.5), full=True))
        await until(lambda: server.server._core.registry.session("host1").seq == 1)  # type: ignore[union-attr]
        view = (await client.values(["host1"], ["temp", "os"])).hosts["host1"]
        assert list(view.values) == ["temp", "os"]
        assert view.values["temp"].value == 3.0
        assert view.values["os"].value == "el9"
        assert view.state == "up"
        assert (await client.hosts()).hosts == ("host1",)

    over(tmp_path, test)


def test_a_value_goes_stale_by_itself(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = await registered(server, "host1")
        await agent.say(report(1, measured("temp", 3.0), full=True))
        while True:
            shown = (await client.values(["host1"])).hosts["host1"].values["temp"]
            if shown.state == "stale":
                break
            await asyncio.sleep(0.02)
        assert (shown.value, shown.last) == (None, 3.0)

    over(tmp_path, test)


def test_refusals_reach_the_agent_with_their_reason(tmp_path: Path) -> None:
    async def test(server: Serving, _: AsyncClient) -> None:
        agent = server.agent()
        await agent.say(hello("elsewhere"))
        assert (await agent.hear(Refusal)).code == "not_listed"
        await agent.say(hello("host1", oldest=7, newest=8))
        assert (await agent.hear(Refusal)).code == "version"
        await agent.say(Beat())
        assert (await agent.hear(Refusal)).code == "unknown"

    over(tmp_path, test)


def test_a_missing_report_is_asked_for_and_what_is_not_taken_is_answered(tmp_path: Path) -> None:
    async def test(server: Serving, _: AsyncClient) -> None:
        agent = await registered(server, "host1")
        await agent.say(report(1, measured("os", "el7"), full=True))
        assert set((await agent.hear(Problem)).refused) == {"os"}
        await agent.say(report(3))
        await agent.hear(SendAll)

    over(tmp_path, test)


def test_stamps_come_by_themselves(tmp_path: Path) -> None:
    async def test(server: Serving, _: AsyncClient) -> None:
        agent = await registered(server, "host1")
        first = (await agent.hear(Stamp)).stamp
        assert first > 0

    over(tmp_path, test)


def test_a_second_agent_is_refused_when_the_first_answers(tmp_path: Path) -> None:
    async def test(server: Serving, _: AsyncClient) -> None:
        first = await registered(server, "host1")
        second = server.agent()
        await second.say(hello("host1", "s2"))
        await first.hear(Alive)
        await first.say(Beat())
        refusal = await second.hear(Refusal)
        assert refusal.code == "host_taken"
        assert refusal.reason.count("127.0.0.1") == 2

    over(tmp_path, test)


def test_a_silent_first_agent_is_replaced(tmp_path: Path) -> None:
    async def test(server: Serving, _: AsyncClient) -> None:
        first = await registered(server, "host1")
        await registered(server, "host1", "s2")
        assert (await first.hear(Refusal)).code == "replaced"

    over(tmp_path, test)


def test_a_restarted_agent_is_back_at_once(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        (await registered(server, "host1")).close()
        await registered(server, "host1", "s2")
        assert (await client.hosts()).hosts == ("host1",)

    over(tmp_path, test)


def test_an_agent_that_ends_is_unreachable_at_once(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = await registered(server, "host1")
        await agent.say(Bye())
        core = server.server._core
        await until(lambda: core.registry.state("host1", 0.0) == "unreachable")
        assert (await client.hosts(all_hosts=True)).details["host1"].state == "unreachable"

    over(tmp_path, test)


def test_a_late_joiner_is_in_all_others_and_default_at_once(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = server.agent()
        ours = definitions(server.server._core.configuration)
        await agent.say(hello("late", definitions=ours))
        welcome = await agent.hear(Welcome)
        assert "temp" in welcome.measure
        values = (await client.values(["late"])).hosts["late"].values
        assert values["os"].value == "el9"
        assert values["lic"].value == 30

    over(tmp_path, test, hosts=None)


@pytest.mark.parametrize("seed", range(3))
def test_malformed_bytes_of_an_agent_are_counted_and_change_nothing(
    tmp_path: Path, seed: int
) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = await registered(server, "host1")
        noise = random.Random(seed)
        for size in (0, 1, 7, 100, 5000):
            await agent.say(noise.randbytes(size))
        await agent.say(b"\x81\xa1t\xa5hello")
        await agent.say(report(1, measured("temp", 3.0), full=True))
        await until(lambda: server.server._core.registry.session("host1").seq == 1)  # type: ignore[union-attr]
        assert (await client.hosts()).hosts == ("host1",)
        _, text = await asyncio.to_thread(page, server, "/metrics")
        assert 'dynres_reports_total{result="malformed"} 6.0' in text
        assert 'dynres_reports_total{result="taken"} 1.0' in text

    over(tmp_path, test)


def test_malformed_bytes_of_a_client_are_answered(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        from dynres.wire.link import Requester
        from dynres.wire.requests import Failure, read_result

        def ask() -> list[Failure]:
            requester = Requester([server.client_endpoint])
            bodies = (b"", b"\xc1", b"\x82\xa2id\xa17\xa7request\x81\xa1t\xa5dance")
            results = [read_result(requester.request(body, 10)) for body in bodies]
            requester.close()
            assert [r.id for r in results] == ["", "", "7"]
            return [r.answer for r in results if isinstance(r.answer, Failure)]

        assert [f.code for f in await asyncio.to_thread(ask)] == ["usage"] * 3
        assert (await client.hosts()).hosts == ()

    over(tmp_path, test)


def test_a_good_reload_is_in_force_and_asks_every_agent_again(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        agent = await registered(server, "host1")
        await agent.say(report(1, measured("temp", 3.0), full=True))
        changed = RESOURCES.replace("el9", "el10")
        (tmp_path / "resources.yaml").write_text(changed)
        await client.reload()
        assert "temp" in (await agent.hear(Assign)).measure
        assert (await agent.hear(SendAll)).within == 5.0
        values = (await client.values(["host1"])).hosts["host1"].values
        assert values["os"].value == "el10"
        assert values["temp"].last == 3.0

    over(tmp_path, test)


def test_a_reload_tells_the_warnings_of_the_files(tmp_path: Path) -> None:
    async def test(_: Serving, client: AsyncClient) -> None:
        (tmp_path / "controller.yaml").write_text("log_level: debug\n")
        (tmp_path / "resources.yaml").write_text(f"{RESOURCES}\n  - {{name: nowhere}}\n")
        assert "nowhere: no host has it" in (await client.reload())[0]
        assert logging.getLogger("dynres").level == logging.DEBUG

    level = logging.getLogger("dynres").level
    try:
        over(tmp_path, test)
    finally:
        logging.getLogger("dynres").setLevel(level)


def test_a_refused_reload_leaves_the_last_good_one_in_force_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        (tmp_path / "resources.yaml").write_text(RESOURCES.replace("interval: 1,", "intervall: 1,"))
        with pytest.raises(RequestRefusedError) as caught:
            await client.reload()
        assert caught.value.code == "config"
        (fault, *_) = caught.value.faults
        assert str(fault["place"]).startswith("resources.yaml:3:")
        assert "interval" in str(fault["hint"])
        values = (await client.values(["host1"])).hosts["host1"].values
        assert values["os"].value == "el9"
        _, text = await asyncio.to_thread(page, server, "/metrics")
        assert 'dynres_config_reloads_total{result="refused"} 1.0' in text
        status, text = await asyncio.to_thread(page, server, "/healthz")
        assert status == 200
        assert "the last reload was refused" in text

    over(tmp_path, test)
    assert "the last good one stays in force" in caplog.text


def test_a_hangup_reloads(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        (tmp_path / "resources.yaml").write_text(RESOURCES.replace("el9", "el10"))
        server.hangup.set()
        core = server.server._core
        before = core.configuration
        await until(lambda: core.configuration is not before)
        values = (await client.values(["host1"], ["os"])).hosts["host1"].values
        assert values["os"].value == "el10"

    over(tmp_path, test)


def test_unknown_names_are_refused_with_a_near_miss(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        with pytest.raises(RequestRefusedError, match="did you mean host1") as caught:
            await client.values(["hots1"])
        assert caught.value.code == "unknown_host"
        with pytest.raises(RequestRefusedError, match="did you mean lic") as caught:
            await client.explain("host1", "licc")
        assert caught.value.code == "unknown_resource"

    over(tmp_path, test)


def test_pools_and_sentences_come_over_the_wire(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        (pool,) = (await client.pools()).pools
        assert (pool.resource, pool.capacity, pool.members) == ("lic", 30, ("host1", "host2"))
        explanation = await client.explain("host1", "os")
        assert explanation.sentences[0] == "os on host1 is el9 (fresh)."

    over(tmp_path, test)


def many_agents(endpoint: str, count: int, ours: dict[str, str]) -> int:
    """So many connections that say hello, are welcomed, and report; how many were welcomed."""
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 10)
    sockets = [context.socket(zmq.DEALER) for _ in range(count)]
    welcomed = 0
    try:
        for number, socket in enumerate(sockets):
            socket.linger = 0
            socket.rcvtimeo = 20_000
            socket.connect(endpoint)
            socket.send(encode(hello(f"n{number}", definitions=ours)))
        for number, socket in enumerate(sockets):
            welcomed += isinstance(from_controller(socket.recv()), Welcome)
            socket.send(encode(report(1, measured("temp", float(number)), full=True)))
        for socket in sockets:
            socket.send(encode(report(1)))  # late by its number: counted when all was heard
    finally:
        context.destroy(linger=1000)
    return welcomed


def test_a_thousand_agents_register_and_report(tmp_path: Path) -> None:
    async def test(server: Serving, client: AsyncClient) -> None:
        core = server.server._core
        ours = definitions(core.configuration)
        assert await asyncio.to_thread(many_agents, server.agent_endpoint, 1000, ours) == 1000
        await until(lambda: sum(session.seq for session in core.registry.sessions()) == 1000)
        view = await client.values(resources=["temp"])
        assert list(view.hosts) == [f"n{number}" for number in range(1000)]
        assert [h.values["temp"].last for h in view.hosts.values()] == list(range(1000))

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        over(tmp_path, test, hosts=None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
