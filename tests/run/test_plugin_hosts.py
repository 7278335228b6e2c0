"""Which host a probe runs in: shared with the well-behaved, or its own once it broke one."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from blockbuster import blockbuster_ctx
from hosts import LONG, PATH, SITE, alive, job, run, until

from dynres.worker import pulse
from dynres.worker.plugin_client import Job, PluginHosts


def count(answer: Any) -> float:
    assert answer.status == "ok", answer
    return float(answer.payload[0][2])


def test_a_plugin_keeps_its_instance_from_run_to_run() -> None:
    async def body(hosts: PluginHosts) -> None:
        assert [count(await hosts.run(job("counter"))) for _ in range(3)] == [1, 2, 3]
        assert len(hosts.pids) == 1

    run(body)


def test_two_probes_of_one_plugin_have_an_instance_each() -> None:
    async def body(hosts: PluginHosts) -> None:
        assert count(await hosts.run(job("counter", probe="a"))) == 1
        assert count(await hosts.run(job("counter", probe="b", step=10))) == 10
        assert count(await hosts.run(job("counter", probe="a"))) == 2

    run(body)


def test_options_are_read_as_the_plugins_own_type_whatever_yaml_made_of_them() -> None:
    async def body(hosts: PluginHosts) -> None:
        assert count(await hosts.run(job("counter", step="2", start="1.5"))) == 3.5

    run(body)


def test_changed_options_make_a_new_instance_and_unchanged_ones_keep_it() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        assert count(await hosts.run(job("counter", step=5))) == 5
        assert count(await hosts.run(job("counter", step=5))) == 10
        hosts.forget("counter")
        assert count(await hosts.run(job("counter", step=5))) == 5

    run(body)


def test_a_plugin_that_blocks_does_not_delay_another(tmp_path: Path) -> None:
    async def body(hosts: PluginHosts) -> None:
        slow = asyncio.create_task(hosts.run(job("gate", folder=str(tmp_path))))
        await until(lambda: any(tmp_path.iterdir()))
        assert count(await hosts.run(job("counter"))) == 1
        assert not slow.done()
        (tmp_path / "open").touch()
        assert count(await slow) == 1

    run(body)


@pytest.mark.parametrize(
    ("rogue", "timeout"),
    [("exit", LONG), ("sleep", 0.5), ("loop", 0.5), ("regex", 1.8), ("leak_threads", LONG)],
)
def test_a_run_in_flight_when_another_breaks_the_host_is_tried_once_more(
    rogue: str, timeout: float, tmp_path: Path
) -> None:
    async def body(hosts: PluginHosts) -> None:
        good = asyncio.create_task(hosts.run(job("gate", folder=str(tmp_path))))
        await until(lambda: any(tmp_path.iterdir()))
        bad = asyncio.create_task(hosts.run(job(rogue, timeout=timeout)))
        await until(lambda: len(list(tmp_path.iterdir())) == 2)  # it runs again, elsewhere
        (tmp_path / "open").touch()
        assert count(await good) == 1
        assert (await bad).status in {"failed", "timeout"}
        assert hosts.apart == (rogue,)

    run(body)


def test_a_probe_that_broke_a_host_never_costs_the_others_their_state_again() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("exit"))
        await hosts.run(job("counter"))
        for times in range(2, 5):
            assert (await hosts.run(job("exit"))).status == "failed"
            assert count(await hosts.run(job("counter"))) == times

    run(body)


def test_a_probe_set_apart_gets_another_chance_when_its_options_change() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("exit", probe="p"))
        assert hosts.apart == ("p",)
        await hosts.run(job("counter", probe="p"))
        assert hosts.apart == ()
        assert len(hosts.pids) == 1

    run(body)


def test_a_host_killed_from_outside_is_replaced() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (old,) = hosts.pids
        os.kill(old, signal.SIGKILL)
        await until(lambda: old not in hosts.pids)
        assert count(await hosts.run(job("counter"))) == 1
        assert old not in hosts.pids

    run(body)


def test_a_cancelled_run_is_cancelled_at_once_and_keeps_the_instance(tmp_path: Path) -> None:
    async def body(hosts: PluginHosts) -> None:
        gate = job("gate", folder=str(tmp_path))
        task = asyncio.create_task(hosts.run(gate))
        await until(lambda: any(tmp_path.iterdir()))
        hosts.cancel("gate")
        assert (await task).status == "cancelled"
        after = asyncio.create_task(hosts.run(gate))
        (tmp_path / "open").touch()
        assert count(await after) == 2  # the first run ended on its own, before this one
        assert hosts.apart == ()

    run(body)


def test_stopping_ends_runs_in_flight_as_cancelled_and_leaves_no_host() -> None:
    async def body(hosts: PluginHosts) -> None:
        hosts.start()
        task = asyncio.create_task(hosts.run(job("loop", timeout=LONG)))
        await asyncio.sleep(0)
        await hosts.close()
        assert (await task).status == "cancelled"
        assert (await hosts.run(job("counter"))).status == "cancelled"

    run(body)


def test_a_file_is_read_in_a_plugin_host_with_its_age(tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_bytes(b"12\n")
    os.utime(path, (1000, path.stat().st_mtime - 100))

    async def body(hosts: PluginHosts) -> None:
        answer = await hosts.run(Job(probe="f", timeout=LONG, file=str(path), limit=10))
        content, age = answer.payload
        assert content == b"12\n"
        assert 99 < age < 200
        big = await hosts.run(Job(probe="g", timeout=LONG, file="/proc/self/status", limit=10))
        assert len(big.payload[0]) == 11

    run(body)


def test_a_fifo_that_nobody_writes_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    async def body(hosts: PluginHosts) -> None:
        path = str(tmp_path / "fifo")
        answer = await hosts.run(Job(probe="f", timeout=LONG, file=path, limit=10))
        assert (answer.status, answer.reason) == ("failed", f"{path}: not a regular file")

    run(body)


def test_a_plugin_host_has_only_its_own_descriptors_and_a_built_environment() -> None:
    os.environ["NOTIFY_SOCKET"] = "/nowhere"
    read, write = os.pipe()
    os.set_inheritable(read, True)

    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (pid,) = hosts.pids
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert {e.split(b"=")[0] for e in environment.split(b"\0") if e} == {
            b"PATH", b"LANG", b"LC_ALL", b"HOME", b"USER"
        }  # fmt: skip
        fds = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        assert fds == {0, 1, 2, 3}
        assert os.getsid(pid) == pid

    try:
        run(body)
    finally:
        del os.environ["NOTIFY_SOCKET"]
        os.close(read)
        os.close(write)


AGENT = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from hosts import PATH, SITE, job
from dynres.worker.plugin_client import PluginHosts
async def main():
    hosts = PluginHosts(PATH, [SITE])
    task = asyncio.create_task(hosts.run(job({plugin!r})))
    while not hosts.pids:
        await asyncio.sleep(0.01)
    await hosts.run(job("counter"))
    print(*hosts.pids, flush=True)
    await task
asyncio.run(main())
"""


@pytest.mark.parametrize("plugin", ["sleep", "loop"])
def test_when_the_agent_is_killed_its_plugin_hosts_end_within_a_second(plugin: str) -> None:
    async def main() -> None:
        code = AGENT.format(tests=str(Path(__file__).parent), plugin=plugin)
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
        )
        assert agent.stdout is not None
        pids = [int(pid) for pid in (await agent.stdout.readline()).split()]
        assert pids
        agent.kill()
        await agent.wait()
        await until(lambda: not any(map(alive, pids)), limit=1.0)

    asyncio.run(main())


def test_nothing_in_the_life_of_plugin_hosts_blocks_the_event_loop() -> None:
    async def body(hosts: PluginHosts) -> None:
        with blockbuster_ctx("dynres"):
            assert count(await hosts.run(job("counter"))) == 1
            assert (await hosts.run(job("exit"))).status == "failed"
            assert (await hosts.run(job("sleep", timeout=0.1))).status == "timeout"
            assert count(await hosts.run(job("counter"))) == 1
            await hosts.close()

    run(body)


def test_a_host_that_hangs_while_no_job_runs_is_noticed_within_two_seconds_and_replaced() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (old,) = hosts.pids
        os.kill(old, signal.SIGSTOP)
        await until(lambda: hosts.pids and old not in hosts.pids, limit=2.5)
        new = hosts.pids
        assert count(await hosts.run(job("counter"))) == 1
        assert (hosts.pids, hosts.apart) == (new, ())

    run(body)


def test_a_thread_that_holds_the_interpreter_lock_after_its_run_costs_the_others_their_state_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "LOOK", 0.2)

    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        (old,) = hosts.pids
        await hosts.run(job("lock_holder", gate=str(tmp_path / "go")))
        (tmp_path / "go").touch()
        await until(lambda: hosts.pids and old not in hosts.pids)
        assert hosts.apart == ("lock_holder",)
        assert count(await hosts.run(job("counter"))) == 1
        await hosts.run(job("lock_holder", timeout=0.3, gate=str(tmp_path / "go")))
        assert count(await hosts.run(job("counter"))) == 2

    run(body)


def sleepers(seconds: str) -> list[str]:
    return [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and f"sleep\0{seconds}\0".encode() in command_line(entry)
    ]


def command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("cleared", [False, True], ids=["marked", "environment cleared"])
def test_what_a_run_of_a_plugin_made_a_daemon_ends_with_that_run(cleared: bool) -> None:
    seconds = f"6{uuid4().int % 10**6:06d}"

    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        daemon = job("daemon", seconds=seconds, cleared=cleared)
        assert (await hosts.run(daemon)).status == "ok"
        assert sleepers(seconds) == []
        (pid,) = hosts.pids
        assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""  # reaped as well
        assert count(await hosts.run(job("counter"))) == 2

    run(body)


def test_a_daemon_that_could_be_of_several_runs_ends_with_the_last_of_them(tmp_path: Path) -> None:
    seconds = f"6{uuid4().int % 10**6:06d}"

    async def body(hosts: PluginHosts) -> None:
        other = asyncio.create_task(hosts.run(job("gate", folder=str(tmp_path))))
        await until(lambda: any(tmp_path.iterdir()))
        assert (await hosts.run(job("daemon", seconds=seconds))).status == "ok"
        assert (await hosts.run(job("counter"))).status == "ok"
        await until(lambda: len(sleepers(seconds)) == 1)
        (tmp_path / "open").touch()
        assert (await other).status == "ok"
        await until(lambda: not sleepers(seconds))

    run(body)


def test_a_child_that_a_plugin_keeps_from_run_to_run_is_left_to_it() -> None:
    seconds = f"6{uuid4().int % 10**6:06d}"

    async def body(hosts: PluginHosts) -> None:
        kept = job("daemon", seconds=seconds, kept=True)
        for _ in range(2):
            assert (await hosts.run(kept)).status == "ok"
            (await hosts.run(job("counter")))
        assert len(sleepers(seconds)) == 1
        for pid in map(int, sleepers(seconds)):
            os.kill(pid, signal.SIGKILL)

    run(body)


def test_an_agent_that_was_held_up_does_not_blame_its_plugin_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "LOOK", 0.0)
    monkeypatch.setattr(pulse, "PATIENCE", 0.1)

    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("lock_holder", gate=str(tmp_path / "never")))
        (before,) = hosts.pids  # has a thread left: so it is asked at each look
        for _ in range(4):
            time.sleep(0.4)  # noqa: ASYNC251  (it is the loop that is held up)
            await asyncio.sleep(0)
        await hosts.run(job("counter"))
        assert hosts.pids == [before]

    run(body)


def test_what_a_host_says_after_it_was_given_up_changes_nothing() -> None:
    async def body() -> None:
        watch = pulse.Watch()
        hosts = PluginHosts(PATH, [SITE], watch=watch)
        await hosts.run(job("counter"))
        (host,) = hosts._hosts
        host.break_off("not needed", "another")
        host._take(("done", 1, "ok", None, b"", [], False, False))
        host._take(("ready",))
        assert watch._pulses == set()
        await hosts.close()

    asyncio.run(body())
