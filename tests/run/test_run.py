"""One probe, once, through the Runner and real helper processes."""

import asyncio
import os
import pwd
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hosts import SITE, until

from dynres.config.model import Place, Probe
from dynres.worker import run as run_module
from dynres.worker.outcome import RunResult, RunSpec, speakable
from dynres.worker.run import Runner, clock

PLACE = Place("resources.yaml", 1, 1)
USER = "root" if os.geteuid() == 0 else None
LONG = 30.0


def spec(resources=None, *, name="p", timeout=LONG, trusted=(), **probe):
    probe = {"user": USER} | probe
    return RunSpec(
        probe=Probe(name=name, timeout=timeout, place=PLACE, **probe),
        resources=resources or {"a": "numeric"},
        host="h1",
        path="/usr/bin:/bin",
        trusted_owners=trusted,
    )


@asynccontextmanager
async def runner(tmp_path: Path):
    runner = Runner(str(tmp_path / "agent.sock"), "/usr/bin:/bin", plugin_path=[SITE])
    await runner.start()
    try:
        yield runner
    finally:
        await runner.close()


def one(tmp_path: Path, asked: RunSpec, **more):
    async def main():
        async with runner(tmp_path) as runs:
            return await runs.run(asked, **more)

    return asyncio.run(main())


def test_a_command_gives_its_values_with_the_instant_of_its_start(tmp_path):
    before = clock()
    result = one(tmp_path, spec(command=("echo", "12")))
    assert (result.outcome, result.values, result.exit) == ("ok", {"a": 12.0}, 0)
    assert before <= result.started <= result.started + result.duration <= clock()
    assert result.stdout == ""


def test_a_command_is_looked_up_in_the_configured_path_and_never_through_a_shell(tmp_path):
    result = one(tmp_path, spec({"a": "string"}, command=("echo", "$HOME;ls")))
    assert result.values == {"a": "$HOME;ls"}
    missing = one(tmp_path, spec(command=("no_such_command_here",)))
    assert missing.outcome == "start_error"


def test_a_command_sees_what_it_is_asked_for(tmp_path):
    command = ("/bin/sh", "-c", 'echo "a=$DYNRES_HOST $DYNRES_PROBE $DYNRES_TIMEOUT $X"')
    result = one(tmp_path, spec({"a": "string"}, command=command, env={"X": "y"}))
    assert result.values == {"a": "h1 p 30 y"}


def test_a_failed_command_says_why(tmp_path):
    command = ("/bin/sh", "-c", "echo 12; echo no server >&2; exit 3")
    result = one(tmp_path, spec(command=command))
    assert (result.outcome, result.exit, result.values) == ("failed", 3, {})
    assert result.reason == "exit status 3: no server"


def test_a_command_that_does_not_end_is_a_timeout(tmp_path):
    result = one(tmp_path, spec(command=("sleep", "1000"), timeout=0.3))
    assert result.outcome == "timeout"
    assert result.failure


def test_stdout_is_kept_where_a_person_asked_for_the_run(tmp_path):
    result = one(tmp_path, spec(command=("echo", "12")), keep_stdout=True)
    assert result.stdout == "12\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_probe_never_runs_as_root_unless_it_says_so(tmp_path):
    unsaid = one(tmp_path, spec(command=("id", "-u"), user=None))
    assert unsaid.outcome == "ok", unsaid
    assert unsaid.values["a"] != 0
    said = one(tmp_path, spec(command=("id", "-u"), user="root"))
    assert said.values == {"a": 0}


@pytest.mark.parametrize("where", [{"user": "no-such-user"}, {"trusted": ("no-such-user",)}])
def test_a_user_that_does_not_exist_is_a_start_error_that_names_it(tmp_path, where):
    result = one(tmp_path, spec(command=("echo", "1"), **where))
    assert (result.outcome, result.reason) == ("start_error", "no such user: no-such-user")


def test_a_directory_service_that_does_not_answer_costs_only_that_run(tmp_path, monkeypatch):
    asked = []
    answers = pwd.getpwnam

    def hangs(name):
        if name == "root":  # in the machine's own files
            return answers(name)
        asked.append(name)
        time.sleep(1)  # as a lookup over a dead network does, but ends with the test
        raise KeyError(name)

    monkeypatch.setattr("pwd.getpwnam", hangs)

    async def main():
        async with runner(tmp_path) as runs:
            slow = spec(command=("echo", "1"), user="far", timeout=0.2)
            assert (await runs.run(slow)).outcome == "timeout"
            assert (await runs.run(slow)).outcome == "timeout"
            assert asked.count("far") == 1
            good = spec(name="q", plugin="counter", resources={"count": "numeric"})
            assert (await runs.run(good)).outcome == "ok"

    asyncio.run(main())


def test_a_cancelled_command_is_cancelled_whatever_it_was_doing(tmp_path):
    marker = tmp_path / "started"

    async def main():
        async with runner(tmp_path) as runs:
            command = ("/bin/sh", "-c", f"touch {marker}; exec sleep 1000")
            task = asyncio.create_task(runs.run(spec(command=command)))
            await until(marker.exists)
            runs.cancel("p")
            result = await task
            assert result.outcome == "cancelled"
            assert not result.failure

    asyncio.run(main())


def test_stopping_the_runner_cancels_every_run_in_flight(tmp_path):
    async def main():
        async with runner(tmp_path) as runs:
            tasks = [
                asyncio.create_task(runs.run(spec(name="c", command=("sleep", "1000")))),
                asyncio.create_task(runs.run(spec(name="l", plugin="loop"))),
            ]
            await asyncio.sleep(0)
            await runs.close()
            assert {(await task).outcome for task in tasks} == {"cancelled"}

    asyncio.run(main())


def test_a_plugin_gives_its_values_and_what_it_printed(tmp_path):
    result = one(tmp_path, spec({"count": "numeric"}, plugin="loud"))
    assert (result.outcome, result.values) == ("ok", {"count": 1.0})
    assert result.stderr.startswith("said on stdout\n")


def test_a_plugin_that_fails_says_why_and_where(tmp_path):
    result = one(tmp_path, spec({"count": "numeric"}, plugin="raises"))
    assert (result.outcome, result.reason) == ("failed", "ValueError: no such thing")
    assert "Traceback" in result.stderr


def test_a_plugin_that_does_not_apply_here_is_ok_and_not_here(tmp_path):
    result = one(tmp_path, spec({"count": "numeric"}, plugin="elsewhere"))
    assert (result.outcome, result.not_here, result.values) == ("ok", True, {"count": None})


def test_a_plugin_that_ends_its_process_has_that_exit_status(tmp_path):
    result = one(tmp_path, spec({"count": "numeric"}, plugin="exit"))
    assert (result.outcome, result.exit, result.signal) == ("failed", 3, None)
    crash = one(tmp_path, spec({"count": "numeric"}, plugin="crash"))
    assert (crash.outcome, crash.exit, crash.signal) == ("killed", None, 11)


def test_a_file_was_measured_when_it_was_last_written(tmp_path):
    path = tmp_path / "value"
    path.write_text("a=5\n")
    os.utime(path, (0, time.time() - 100))
    result = one(tmp_path, spec(file=str(path)))
    assert (result.outcome, result.values) == ("ok", {"a": 5.0})
    assert 99 < clock() - result.started < 130
    assert result.duration < 30


def test_a_file_from_the_future_is_not_believed(tmp_path):
    path = tmp_path / "value"
    path.write_text("5\n")
    os.utime(path, (0, time.time() + 3600))
    result = one(tmp_path, spec(file=str(path)))
    assert result.outcome == "failed"
    assert "in the future: a clock is wrong" in result.reason


def test_a_file_that_cannot_be_read_or_is_too_long_says_so(tmp_path):
    missing = one(tmp_path, spec(file=str(tmp_path / "none")))
    assert (missing.outcome, missing.reason) == (
        "failed",
        f"{tmp_path}/none: No such file or directory",
    )
    (tmp_path / "long").write_bytes(b"x" * 101)
    long = one(tmp_path, spec(file=str(tmp_path / "long"), output_limit=100))
    assert (long.outcome, long.reason) == ("output_too_large", "more than 100 bytes")


def test_an_error_of_our_own_fails_that_run_and_never_reaches_the_agent(
    tmp_path, monkeypatch, caplog
):
    def broken(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(run_module, "take_reading", broken)
    result = one(tmp_path, spec({"count": "numeric"}, plugin="counter"))
    assert (result.outcome, result.reason) == ("failed", "internal error: ZeroDivisionError: a bug")
    assert "a bug" in caplog.text


def test_reasons_that_are_not_utf_8_are_written_out():
    odd = {"probe": "p", "outcome": "failed", "started": 1.0, "duration": 0.0}
    result = RunResult(**odd, reason="a\udcff\u00e9", missed={"a": "\udc80"}, why={"b": "\ud800"})
    said = speakable(result)
    assert (said.reason, said.missed, said.why) == (
        "a\\udcff\u00e9",
        {"a": "\\udc80"},
        {"b": "\\ud800"},
    )
    plain = RunResult(**odd)
    assert speakable(plain) is plain
