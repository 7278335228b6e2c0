"""The launcher ends with the agent, and is replaced when it dies or falls silent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from launching import marked, request, shell, until, until_async, with_launcher

from dynres.worker import pulse
from dynres.worker.launcher_client import LauncherClient, LauncherError
from dynres.worker.starts import MOST_STARTERS

AGENT = str(Path(__file__).with_name("agent_stand_in.py"))


def sleeper(word):
    return shell("setsid sleep 60 & sleep 60", env={"PATH": "/bin:/usr/bin", "M": word})


def test_a_killed_launcher_is_replaced_and_the_other_runs_go_on():
    word = f"mark{uuid4().hex}"

    async def runs(client):
        task = asyncio.create_task(client.run(sleeper(word)))
        await until_async(lambda: len(marked(word)) == 3)
        before = client.pids()
        os.kill(before[0], signal.SIGKILL)
        lost = await task
        assert (lost.status, lost.reason) == ("cancelled", "the launcher ended")
        result = await client.run(shell("echo 5"))
        return result, marked(word), before != client.pids()

    result, left, replaced = with_launcher(runs)
    assert (result.stdout, left, replaced) == (b"5\n", [], True)


def test_a_silent_launcher_is_replaced_within_about_two_seconds():
    word = f"mark{uuid4().hex}"

    async def runs(client):
        task = asyncio.create_task(client.run(sleeper(word)))
        await until_async(lambda: len(marked(word)) == 3)
        before = client.pids()
        os.kill(before[0], signal.SIGSTOP)
        lost = await asyncio.wait_for(task, 10)
        assert lost.status == "cancelled"
        assert lost.reason.startswith(f"the launcher (pid {before[0]}, stopped) was silent")
        result = await client.run(shell("echo 5"))
        return result, marked(word), [pid for pid in before if Path(f"/proc/{pid}").exists()]

    result, left, old = with_launcher(runs)
    assert (result.stdout, left, old) == (b"5\n", [], [])


def test_a_launcher_that_keeps_dying_is_started_again_and_again():
    async def runs(client):
        for _ in range(3):
            assert await until_async(client.pids)
            os.kill(client.pids()[0], signal.SIGKILL)
            await until_async(lambda: not client.pids())
        return await client.run(shell("echo 5"))

    assert with_launcher(runs).stdout == b"5\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_are_meant_for_the_agent_do_not_end_the_launcher(number):
    async def runs(client):
        before = client.pids()
        os.kill(before[0], number)
        result = await client.run(shell("echo 5"))
        return result.stdout, client.pids() == before

    assert with_launcher(runs) == (b"5\n", True)


def test_a_terminals_signals_do_not_reach_the_launcher():
    async def session(client):
        return os.getsid(client.pids()[0]), client.pids()[0]

    sid, pid = with_launcher(session)
    assert sid == pid != os.getsid(0)


def stand_in(agent, word):
    process = subprocess.Popen([sys.executable, AGENT, agent, word], stdout=subprocess.PIPE)
    assert process.stdout is not None
    launcher = int(process.stdout.readline())
    assert until(lambda: len(marked(word)) >= 7)
    return process, launcher


def ended(process):
    process.wait()
    process.stdout.close()


def test_an_agent_killed_by_sigkill_takes_launcher_and_every_probe_with_it():
    word, agent = f"mark{uuid4().hex}", f"test-{uuid4().hex}"
    process, launcher = stand_in(agent, word)
    process.kill()
    ended(process)
    assert until(lambda: not marked(word) and not Path(f"/proc/{launcher}").exists(), 3)


def test_a_new_launcher_first_ends_what_an_earlier_one_left_itself_included():
    word, agent = f"mark{uuid4().hex}", f"test-{uuid4().hex}"
    process, launcher = stand_in(agent, word)
    os.kill(launcher, signal.SIGSTOP)
    process.kill()
    ended(process)
    assert len(marked(word)) >= 7

    async def look(client):
        return marked(word), len(marked(agent))

    left, launchers = with_launcher(look, agent=agent)
    assert left == []
    assert launchers == 1


def test_what_cleared_its_environment_is_swept_by_its_other_mark():
    seconds, agent = f"7{uuid4().int % 10**6:06d}", f"test-{uuid4().hex}"

    async def leave(client):
        cleared = f"env -i /usr/bin/setsid /bin/sleep {seconds}"
        task = asyncio.create_task(client.run(shell(f"{cleared} & sleep 60")))
        await until_async(lambda: any(b"env" not in line for line in lines(marked(seconds))))
        os.kill(client.pids()[0], signal.SIGKILL)
        await task
        left = len(marked(seconds))
        other = LauncherClient(agent)
        await other.start()
        after = marked(seconds)
        await other.close()
        return left, after

    left, after = with_launcher(leave, agent=agent)
    assert after == []
    assert left <= 2


def lines(pids):
    return [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] for pid in pids]


def test_a_launcher_leaves_the_probes_of_another_agent_alone():
    word = f"mark{uuid4().hex}"

    async def runs(client):
        task = asyncio.create_task(client.run(sleeper(word)))
        await until_async(lambda: len(marked(word)) == 3)
        other = LauncherClient(f"test-{uuid4().hex}")
        await other.start()
        left = len(marked(word))
        await other.close()
        task.cancel()
        return left

    assert with_launcher(runs) == 3


def test_close_ends_runs_in_flight_as_cancelled_and_everything_they_started():
    word = f"mark{uuid4().hex}"

    async def runs(client):
        task = asyncio.create_task(client.run(sleeper(word)))
        await until_async(lambda: len(marked(word)) == 3)
        pids = client.pids()
        await client.close()
        late = await client.run(shell("exit 0"))
        return await task, late, marked(word), Path(f"/proc/{pids[0]}").exists()

    result, late, left, there = with_launcher(runs)
    assert (result.status, late.status, left, there) == ("cancelled", "cancelled", [], False)


def test_a_launcher_that_cannot_be_started_is_an_error_with_the_reason(monkeypatch):
    async def start():
        client = LauncherClient("test")
        try:
            await client.start()
        finally:
            await client.close()

    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(LauncherError, match="the launcher does not start: No such file"):
        asyncio.run(start())


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_two_hundred_runs_leak_no_descriptor_thread_or_zombie():
    async def runs(client):
        pid = client.pids()[0]
        scripts = ["exit 0", "exit 1", "setsid sleep 60 &", "kill -9 $$", "yes"]
        asked = [
            *(shell(script, timeout=0.5, output_limit=10) for script in scripts),
            shell("sleep 60", timeout=0.01),
            request("/no/such/file"),
            shell("exit 0", memory=1 << 30),
        ]

        async def many(count):
            for _ in range(count):
                for one in asked:
                    await client.run(one._replace(run=uuid4().hex))

        await many(2)
        before = descriptors(pid), descriptors("self"), len(os.listdir(f"/proc/{pid}/task"))
        await many(200 // len(asked))
        await until_async(lambda: not children_of(pid))
        after = descriptors(pid), descriptors("self"), len(os.listdir(f"/proc/{pid}/task"))
        return before, after, children_of(pid)

    before, after, children = with_launcher(runs)
    assert after[:2] == before[:2]
    assert after[2] <= 1 + MOST_STARTERS
    assert children == []


def children_of(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(entry.name)
    return found


def test_hundreds_of_runs_at_once_all_end_with_their_own_output():
    async def runs(client):
        asked = [request("/bin/echo", str(n), timeout=30.0) for n in range(400)]
        return await asyncio.gather(*(client.run(one) for one in asked))

    results = with_launcher(runs)
    assert Counter(result.status for result in results) == {"exited": 400}
    assert [int(result.stdout) for result in results] == list(range(400))


def test_the_launcher_imports_nothing_that_costs_memory():
    source = "import sys, dynres.worker.launcher; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", source]
    modules = set(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    )
    heavy = {
        "collections",
        "functools",
        "typing",
        "asyncio",
        "socket",
        "threading",
        "re",
        "enum",
        "logging",
        "msgspec",
        "zmq",
    }
    assert modules & heavy == set()


def test_a_launcher_that_has_nothing_to_do_is_not_even_woken_up(monkeypatch):
    monkeypatch.setattr(pulse, "LOOK", 0.05)

    def switches(pid):
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    async def idle(client):
        heard = []
        stream = client.run(shell("echo 1; exec sleep 60", stream=True), heard.append)
        task = asyncio.create_task(stream)
        await until_async(lambda: b"1\n" in heard)
        pid = client.pids()[0]
        for _ in range(20):  # at first it is asked, and is still at what it did before
            before = switches(pid)
            await asyncio.sleep(0.5)  # ten looks
            if switches(pid) == before:
                break
        task.cancel()
        return switches(pid) - before

    assert with_launcher(idle) == 0


def test_an_agent_that_was_held_up_does_not_blame_its_launcher(monkeypatch):
    monkeypatch.setattr(pulse, "LOOK", 0.0)
    monkeypatch.setattr(pulse, "PATIENCE", 0.1)

    async def holds_up(client):
        before = client.pids()
        for _ in range(4):
            await client.run(shell("exit 0"))  # it has run since it answered, so it is asked
            time.sleep(0.4)  # noqa: ASYNC251  (it is the loop that is held up)
            await asyncio.sleep(0)
        await client.run(shell("exit 0"))
        return before == client.pids()

    assert with_launcher(holds_up)


def test_the_pipes_of_streams_that_nobody_takes_any_more_are_closed():
    async def cancels(client):
        before = len(os.listdir("/proc/self/fd"))
        for n in range(5):
            stream = shell("echo 1; sleep 60", run=f"stream-{n}", stream=True)
            task = asyncio.create_task(client.run(stream, lambda _: None))
            await asyncio.sleep(0.01 * n)
            task.cancel()
            await asyncio.wait({task})
        await until_async(lambda: not marked("stream-"))
        await client.run(shell("exit 0"))
        return len(os.listdir("/proc/self/fd")) - before

    assert with_launcher(cancels) == 0


def test_a_run_that_waits_for_its_launcher_can_be_cancelled():
    async def runs(client):
        os.kill(client.pids()[0], signal.SIGKILL)
        await until_async(lambda: not client.pids())
        task = asyncio.create_task(client.run(shell("sleep 60", run="early")))
        await asyncio.sleep(0)
        client.cancel("early")
        return await asyncio.wait_for(task, 5)

    result = with_launcher(runs)
    assert (result.status, result.reason) == ("cancelled", "cancelled")
