"""When a run is over, what counts of its output, and how it is ended."""

import asyncio
import signal
import time
from uuid import uuid4

import pytest
from launching import (
    CLEARED,
    launch,
    marked,
    request,
    shell,
    sleep_time,
    until,
    with_launcher,
)


def test_stdout_and_exit_status_come_back_as_they_are():
    result = launch(shell("printf 'a\\nb'; echo why >&2; exit 0"))
    assert (result.status, result.exit, result.stdout, result.stderr) == (
        "exited",
        0,
        b"a\nb",
        b"why\n",
    )
    assert result.reason is None


@pytest.mark.parametrize("status", [1, 97, 126, 127, 255])
def test_each_exit_status_is_told(status):
    result = launch(shell(f"echo good; exit {status}"))
    assert (result.status, result.exit, result.stdout) == ("exited", status, b"good\n")


def test_death_by_a_signal_is_told_with_its_number():
    result = launch(shell("kill -SEGV $$"))
    assert (result.status, result.signal, result.exit) == ("signalled", signal.SIGSEGV, None)
    assert result.reason == "ended by signal 11"


def test_the_started_instant_and_the_duration_are_told():
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    result = launch(shell("sleep 0.1"))
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= result.started <= after
    assert 0.1 <= result.duration <= after - before


def test_a_probe_that_sleeps_past_its_timeout_is_ended_by_sigterm():
    result = launch(shell("trap 'echo term; exit 0' TERM; sleep 60 & wait", timeout=0.3))
    assert (result.status, result.exit, result.stdout) == ("timeout", 0, b"term\n")
    assert result.reason == "did not end within 0.3 s"


def test_a_probe_that_ignores_sigterm_is_killed_after_the_grace():
    word = f"mark{uuid4().hex}"
    result = launch(shell(f"trap '' TERM; sleep 60; : {word}; sleep 60", timeout=0.2))
    assert (result.status, result.signal) == ("timeout", signal.SIGKILL)
    assert 1.2 <= result.duration < 5
    assert not marked(word)


def test_a_probe_that_stops_itself_is_killed():
    result = launch(shell("kill -STOP $$; sleep 60", timeout=0.2))
    assert (result.status, result.signal) == ("timeout", signal.SIGKILL)


def test_a_background_child_that_keeps_stdout_open_does_not_turn_success_into_a_timeout():
    word = f"mark{uuid4().hex}"
    result = launch(shell("sleep 60 & echo 7; exit 0", env={"PATH": "/bin:/usr/bin", "M": word}))
    assert (result.status, result.exit, result.stdout) == ("exited", 0, b"7\n")
    assert result.duration < 5
    assert not marked(word)


LEAVINGS = {
    "a background child": "sleep 60 &",
    "a child of its own session": "setsid sleep 60 &",
    "a double fork with setsid": "setsid sh -c 'setsid sleep 60 & setsid sleep 61 & exit 0'",
    "a tree below a daemon": "setsid sh -c '(setsid sh -c \"sleep 60; :\" & sleep 61; :) & wait' &",
    "one that ignores signals": "(trap '' TERM HUP INT; sleep 60; sleep 60) &",
}


@pytest.mark.parametrize("script", LEAVINGS.values(), ids=LEAVINGS)
@pytest.mark.parametrize("end", ["exit 0", "exit 3", "sleep 60"])
def test_whatever_a_run_leaves_is_killed_however_it_ends(script, end):
    word = f"mark{uuid4().hex}"
    env = {"PATH": "/bin:/usr/bin", "M": word}

    async def run_and_look(client):
        result = await client.run(shell(f"{script}\n{end}", timeout=0.5, env=env))
        return result, marked(word)

    result, left = with_launcher(run_and_look)
    assert result.status == ("timeout" if end == "sleep 60" else "exited")
    assert left == []


UNMARKED = "env -i /usr/bin/prlimit --rttime=unlimited /usr/bin/setsid"


def test_an_orphan_that_cleared_its_environment_is_killed_with_its_own_run():
    seconds = sleep_time()

    async def run_both(client):
        other = asyncio.create_task(client.run(shell("sleep 60", run="other")))
        result = await client.run(shell(f"{CLEARED} /bin/sleep {seconds} & sleep 0.1"))
        left = marked(seconds)
        client.cancel("other")
        await other
        return result.status, left

    assert with_launcher(run_both) == ("exited", [])


def test_an_orphan_without_either_mark_is_killed_when_no_run_could_own_it():
    seconds = sleep_time()

    async def run_both(client):
        other = asyncio.create_task(client.run(shell("sleep 1")))
        result = await client.run(shell(f"{UNMARKED} /bin/sleep {seconds} & sleep 0.1"))
        assert result.status == "exited"
        assert (await other).status == "exited"
        return await asyncio.to_thread(until, lambda: not marked(seconds))

    assert with_launcher(run_both)


def test_starts_at_the_same_time_do_not_mix_up_whose_orphans_are_whose():
    kept, killed = sleep_time(), sleep_time()

    async def runs(client):
        keeps = shell(f"({CLEARED} /bin/sleep {kept} &); sleep 60", run="keeps")
        others = [
            client.run(shell(f"{CLEARED} /bin/sleep {killed} & sleep 0.1")) for _ in range(20)
        ]
        task = asyncio.create_task(client.run(keeps))
        await asyncio.gather(*others)
        seen = len(marked(kept)), len(marked(killed))
        client.cancel("keeps")
        await task
        return seen, marked(kept)

    (alive, left), after = with_launcher(runs)
    assert alive >= 1
    assert (left, after) == (0, [])


def test_what_a_run_left_does_not_take_the_children_of_another_with_it():
    async def run_both(client):
        other = asyncio.create_task(
            client.run(shell("(setsid sh -c 'sleep 0.6; echo kept' &) ; sleep 1"))
        )
        for _ in range(5):
            await client.run(shell("setsid sleep 60 & exit 0"))
        return await other

    assert with_launcher(run_both).stdout == b"kept\n"


def test_endless_output_is_too_large_and_never_more_than_the_limit_is_kept():
    result = launch(shell("yes", output_limit=1000))
    assert (result.status, len(result.stdout)) == ("too_large", 1000)
    assert result.reason == "more than 1000 bytes on stdout"


def test_a_short_output_over_the_limit_is_too_large_even_after_a_good_end():
    assert launch(shell("printf 12345; exit 0", output_limit=4)).status == "too_large"
    assert launch(shell("printf 1234; exit 0", output_limit=4)).status == "exited"


def test_a_megabyte_on_stderr_before_one_line_on_stdout_blocks_nothing():
    result = launch(shell("head -c 1000000 /dev/zero >&2; echo end >&2; echo 5"))
    assert (result.status, result.stdout) == ("exited", b"5\n")
    assert len(result.stderr) == 4096
    assert result.stderr.endswith(b"\0end\n")


def test_a_closed_stdout_does_not_end_the_run():
    result = launch(shell("exec >&- 2>&-; sleep 0.2; exit 4"))
    assert (result.status, result.exit) == ("exited", 4)


def test_a_cancelled_run_ends_at_once_with_all_it_started():
    word = f"mark{uuid4().hex}"
    asked = shell(f"setsid sleep 60 & sleep 60; : {word}", env={"PATH": "/bin:/usr/bin", "M": word})

    async def cancel(client):
        task = asyncio.create_task(client.run(asked))
        await asyncio.to_thread(until, lambda: len(marked(word)) >= 3)
        client.cancel(asked.run)
        client.cancel("never was")
        return await task, marked(word)

    result, left = with_launcher(cancel)
    assert (result.status, left) == ("cancelled", [])


def test_a_task_that_is_cancelled_takes_its_run_with_it():
    word = f"mark{uuid4().hex}"

    async def cancel(client):
        task = asyncio.create_task(client.run(shell(f"sleep 60; : {word}")))
        await asyncio.to_thread(until, lambda: marked(word))
        task.cancel()
        return await asyncio.to_thread(until, lambda: not marked(word))

    assert with_launcher(cancel)


def test_bytes_that_are_no_text_come_back_unchanged():
    assert launch(shell("printf '\\377\\000\\r\\n'")).stdout == b"\xff\0\r\n"


def test_a_name_without_a_slash_is_looked_up_in_the_path_of_its_environment():
    assert launch(request("echo", "5")).stdout == b"5\n"
