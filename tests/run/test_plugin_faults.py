"""Whatever a plugin does costs it its own run, and says why."""

import asyncio
import time

import pytest
from hosts import alive, job, run, until

from dynres.worker.plugin_client import PluginHosts


@pytest.mark.parametrize("plugin", ["loop", "regex", "sleep", "endless_reading"])
def test_a_plugin_that_does_not_end_is_a_timeout_and_its_host_is_replaced(plugin: str) -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (old,) = hosts.pids
        answer = await hosts.run(job(plugin, timeout=0.3))
        assert answer.status == "timeout"
        assert answer.reason == "no answer within 0.3 s"
        await until(lambda: not alive(old))
        assert (await hosts.run(job("counter"))).payload == [("count", "number", 1.0)]

    run(body)


def test_a_plugin_that_ends_its_process_has_failed_with_that_status() -> None:
    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job("exit"))
        assert (answer.status, answer.code) == ("failed", 3)
        assert answer.reason == "it ended the plugin host with exit status 3"

    run(body)


def test_a_plugin_that_crashes_its_process_is_killed_and_stderr_says_where() -> None:
    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job("crash"))
        assert (answer.status, answer.code) == ("killed", -11)
        assert b"Segmentation fault" in answer.said

    run(body)


def test_a_plugin_that_closes_the_socket_to_the_agent_is_noticed_at_once() -> None:
    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job("close_all"))
        assert answer.status in {"killed", "failed"}
        assert answer.blame == "this"

    run(body)


def test_what_a_plugin_prints_goes_to_its_run_and_never_into_the_protocol() -> None:
    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job("loud"))
        assert answer.status == "ok"
        assert answer.said == b"said on stdout\nsaid on stderr\nbytes \xff\n"
        flood = await hosts.run(job("flood"))
        assert flood.status == "ok"
        assert len(flood.said) == 4096
        assert len(hosts.pids) == 1

    run(body)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        ("raises", "ValueError: no such thing"),
        ("quits", "SystemExit: enough"),
        ("interrupts", "KeyboardInterrupt"),
        ("says_why", "the licence server does not answer"),
        ("no_mapping", "read() returned int, expected a mapping of names to values"),
        ("bad_init", "RuntimeError: no device"),
    ],
)
def test_whatever_a_plugin_raises_is_its_failure_and_the_host_stays(
    plugin: str, reason: str
) -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        answer = await hosts.run(job(plugin))
        assert (answer.status, answer.reason) == ("failed", reason)
        assert (await hosts.run(job("counter"))).payload == [("count", "number", 2.0)]

    run(body)


def test_an_exception_leaves_its_traceback_in_the_runs_stderr() -> None:
    async def body(hosts: PluginHosts) -> None:
        said = (await hosts.run(job("raises"))).said.decode()
        assert "rogue_probes.py" in said
        assert said.endswith("ValueError: no such thing\n")

    run(body)


def test_a_plugin_that_leaks_threads_loses_its_run_and_its_threads() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (old,) = hosts.pids
        answer = await hosts.run(job("leak_threads"))
        assert answer.status == "failed"
        assert answer.reason is not None
        assert answer.reason.endswith("threads of plugins are left")
        assert hosts.apart == ("leak_threads",)
        await until(lambda: not alive(old))

    run(body)


def test_the_child_of_a_plugin_ends_with_its_host() -> None:
    pids = []

    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job("child"))
        pids.append(int(answer.payload[0][2]))
        assert alive(pids[0])

    run(body)
    asyncio.run(until(lambda: not alive(pids[0])))


@pytest.mark.parametrize(
    ("plugin", "options", "reason"),
    [
        ("nothing", {}, "plugin nothing: not installed; installed are: bad_init, child,"),
        ("counter", {"stepp": 2}, "options: unknown key stepp; did you mean step?"),
        ("counter", {"zzz": 2}, "options: unknown key zzz; known are: step, start"),
        ("counter", {"step": "x"}, "options: Expected `int`, got `str` - at `$.step`"),
        ("gate", {}, "options: Object missing required field `folder`"),
        ("loop", {"x": 1}, "options: loop takes none, got x"),
        ("not_a_class", {}, "plugin not_a_class: expected a class with read(), got 5"),
        ("no_module", {}, "plugin no_module: cannot be loaded: No module named 'not_there_probes'"),
        ("twice", {}, "plugin twice: provided by rogue_probes:Counter and by rogue_probes:Loop"),
    ],
)
def test_a_plugin_that_cannot_be_made_says_what_to_do(
    plugin: str, options: dict[str, object], reason: str
) -> None:
    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(job(plugin, **options))
        assert answer.status == "start_error"
        assert (answer.reason or "").startswith(reason)

    run(body)


def test_the_event_loop_goes_on_while_a_plugin_holds_the_interpreter_lock() -> None:
    async def body(hosts: PluginHosts) -> None:
        hosts.start()
        task = asyncio.create_task(hosts.run(job("regex", timeout=0.5)))
        longest, last = 0.0, time.monotonic()
        while not task.done():
            await asyncio.sleep(0.01)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        assert longest < 0.5

    run(body)
