"""Following the feed over real sockets: the client library, restarts, the command, and C."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import cluster, free_port
from handmade import definitions, hello, measured, report
from serving import HandMadeAgent, Serving, serving, until

from dynres.client import AsyncClient, Client, RequestRefusedError, UnreachableError
from dynres.config.load import load
from dynres.wire.lines import AnyLine, Host, Lost, Snapshot, ValueChange
from dynres.wire.link import LinkError, Listener, beside

ROOT = Path(__file__).parents[2]
RESOURCES = """
resources:
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
  - name: scratch
    unit: GB
    interval: 10s
    probe: {command: [/bin/s]}
    resourcemap: [{location: [default]}]
  - {name: iris, flags: [shared], resourcemap: [{value: 100, reserve: 2, location: [h1, h2]}]}
"""
HOSTS = 'hosts: [{name: "h[1-3]"}]'


async def register(server: Serving, folder: Path, host: str) -> HandMadeAgent:
    agent = server.agent()
    known = definitions((await asyncio.to_thread(load, folder, "controller")).configuration)
    await agent.say(hello(host, definitions=known))
    return agent


async def next_of(lines: AsyncIterator[AnyLine], kind: type[Any]) -> Any:
    async with asyncio.timeout(20):
        async for line in lines:
            if isinstance(line, kind):
                return line
    raise AssertionError("the feed has ended")


def test_the_client_follows_hosts_as_they_come_and_go(tmp_path: Path) -> None:
    async def go() -> None:
        async with serving(tmp_path, RESOURCES, HOSTS) as (server, client):
            agent = await register(server, tmp_path, "h1")
            async with contextlib.aclosing(client.watch("scratch >= 5 GB")) as lines:
                snapshot = await next_of(lines, Snapshot)
                assert snapshot.hosts == {}
                await agent.say(report(1, measured("scratch", 7.0), full=True))
                came = await next_of(lines, Host)
                assert (came.host, came.satisfies, came.pools) == ("h1", True, {"iris": "iris"})
                await agent.say(report(2, measured("scratch", 6.0)))
                async with asyncio.timeout(20):
                    async for line in lines:
                        if isinstance(line, ValueChange) and line.value == 6.0:
                            break
                await agent.say(report(3, measured("scratch", 1.0)))
                assert not (await next_of(lines, Host)).satisfies
                # Other calls go on meanwhile.
                assert (await client.hosts(where="scratch >= 5 GB")).hosts == ()

    asyncio.run(go())


def test_a_client_that_follows_comes_back_to_a_controller_that_was_started_again(
    tmp_path: Path,
) -> None:
    port = free_port()

    async def go() -> None:
        lines: list[AnyLine] = []

        async def follow(client: AsyncClient) -> None:
            async for line in client.watch():
                lines.append(line)  # noqa: PERF401 (each as it comes)

        async with AsyncClient(f"tcp://127.0.0.1:{port}", timeout=20) as client:
            async with serving(tmp_path, RESOURCES, HOSTS, client_port=port):
                task = asyncio.create_task(follow(client))
                await until(lambda: lines)
            async with serving(tmp_path, RESOURCES, HOSTS, client_port=port):
                await until(lambda: len(lines) >= 3, 40)
            task.cancel()
            await asyncio.wait([task])
        assert [type(line) for line in lines[:3]] == [Snapshot, Lost, Snapshot]
        assert [line.seq for line in lines[:3]] == [1, 2, 3]
        assert lines[0].epoch != lines[2].epoch

    asyncio.run(go())


def test_following_fails_at_its_beginning_only() -> None:
    async def go() -> None:
        async with AsyncClient(f"tcp://127.0.0.1:{free_port()}", timeout=0.3) as client:
            with pytest.raises(UnreachableError):
                await anext(client.watch())

    asyncio.run(go())
    with Client(f"tcp://127.0.0.1:{free_port()}") as client, pytest.raises(UnreachableError):
        next(client.watch(timeout=0.3))


def test_a_requirement_that_means_nothing_is_refused_by_every_verb(tmp_path: Path) -> None:
    async def go() -> None:
        async with serving(tmp_path, RESOURCES, HOSTS) as (_, client):
            for ask in (
                client.hosts(where="scrath > 5"),
                client.explain("h1", "os", where="scrath > 5"),
                anext(client.watch("scrath > 5")),
            ):
                with pytest.raises(RequestRefusedError, match=r"column 1.*did you mean") as caught:
                    await ask
                assert caught.value.code == "requirement"

    asyncio.run(go())


def test_where_the_feed_is_follows_from_where_the_controller_was_reached() -> None:
    assert beside("tcp://head:5751", "tcp://0.0.0.0:5752") == "tcp://head:5752"
    assert beside("tcp://[::1]:5751", "tcp://[::]:9") == "tcp://[::1]:9"
    assert beside("ipc:///run/x", "tcp://0.0.0.0:5752") == "tcp://127.0.0.1:5752"
    assert beside("tcp://head:5751", "ipc:///run/feed") == "ipc:///run/feed"


def test_a_port_that_nobody_named_and_that_is_taken_is_replaced(tmp_path: Path) -> None:
    async def go() -> None:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(LinkError):  # whoever has it: it is taken
                taken = Listener("tcp://127.0.0.1:5752", lambda *_: None)
                stack.callback(taken.close)
            async with serving(tmp_path, RESOURCES, HOSTS, feed_port=None) as (server, client):
                assert not server.server.feed.endswith(":5752")
                async with contextlib.aclosing(client.watch()) as lines:
                    await next_of(lines, Snapshot)

    asyncio.run(go())


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Any]:
    with cluster(ROOT / "examples/xce", tmp_path, controller="registration: open\n") as made:
        made.start_controller()
        made.start_agent("host1")
        yield made


def started(command: list[str], env: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(process: "subprocess.Popen[str]") -> Iterator[str]:
    """Lines as they come; the process is killed when they do not."""
    watchdog = threading.Timer(40, process.kill)
    watchdog.start()
    assert process.stdout is not None
    try:
        # Not from the file itself: it would be closed in the end.
        yield from iter(process.stdout.readline, "")
    finally:
        watchdog.cancel()


def test_watch_prints_json_lines_until_its_reader_goes_or_it_is_interrupted(example: Any) -> None:
    command = [sys.executable, "-m", "dynres", "watch", "--where", 'bigmem && os == "el9"']
    with started(command, example.env) as process:
        kinds = set()
        for text in lines_of(process):
            line = json.loads(text)
            kinds.add(line["kind"])
            values = {**line.get("hosts", {}).get("host1", {}).get("values", {}), **line}
            if line.get("resource") == "scratch_free" or "scratch_free" in values:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "snapshot" in kinds
    with started([*command[:4]], example.env) as process:
        next(lines_of(process))
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(20) == 0
    done = example.call("watch", "--where", "bigmen", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "requirement"


@pytest.mark.skipif(
    not shutil.which("gcc") or not Path("/usr/include/zmq.h").exists(),
    reason="needs gcc and libzmq3-dev",
)
def test_the_example_in_c_prints_host_resource_and_value(example: Any, tmp_path: Path) -> None:
    build = tmp_path / "build"
    shutil.copytree(ROOT / "examples/xce", build)
    subprocess.run(["make", "-s", "-C", build], check=True, timeout=60)
    with Client(example.env["DYNRES_CONTROLLER"]) as client:
        endpoint = client._feed(10)
    with started([str(build / "follow"), endpoint, "scratch_free >= 0 && bigmem"], {}) as process:
        seen: set[str] = set()
        wanted = {"host1 os el9", "host1 bigmem true", "host1 iris 98", "complete"}
        for text in lines_of(process):
            seen.add(text.rstrip())
            if wanted <= seen and any(line.startswith("host1 scratch_free ") for line in seen):
                break
        example.daemons["host1"].stop()
        for text in lines_of(process):
            if text == "host1 gone\n":
                break
        process.terminate()
        assert process.wait(20) == 0
    refused = subprocess.run(
        [build / "follow", endpoint, "bigmen"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert refused.returncode == 1
    assert "did you mean bigmem" in refused.stderr
