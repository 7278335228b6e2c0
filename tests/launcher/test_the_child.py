"""What a probe's process gets, and what it never gets."""

import asyncio
import os
from uuid import uuid4

import pytest
from launching import ENV, launch, launch_without, marked, request, shell, with_launcher


def lines(asked):
    result = launch(asked)
    assert result.status == "exited", result
    return result.stdout.decode().splitlines()


def test_it_has_the_environment_it_was_given_and_the_two_marks_only():
    names = {line.partition("=")[0] for line in lines(request("/usr/bin/env"))}
    assert names == {*ENV, "DYNRES_AGENT", "DYNRES_RUN"}


def test_an_environment_of_the_agent_never_reaches_it(monkeypatch):
    for name in ("NOTIFY_SOCKET", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LISTEN_FDS"):
        monkeypatch.setenv(name, "/nowhere")
    assert not any("/nowhere" in line for line in lines(request("/usr/bin/env")))


def test_it_has_descriptors_0_to_2_only_and_stdin_is_dev_null():
    source = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    listed, stdin = lines(shell(f'/usr/bin/python3 -S -c "{source}"; readlink /proc/self/fd/0'))
    assert listed == "['0', '1', '2', '3']"  # 3: the folder that is being listed
    assert stdin == "/dev/null"


def test_an_inheritable_descriptor_of_the_agent_is_not_inherited():
    reading, writing = os.pipe()
    try:
        os.set_inheritable(writing, True)
        assert lines(request("/bin/ls", "/proc/self/fd")) == ["0", "1", "2", "3"]
    finally:
        os.close(reading)
        os.close(writing)


def test_signals_have_default_dispositions_and_none_is_blocked():
    status = dict(line.split(":\t") for line in lines(request("/bin/cat", "/proc/self/status")))
    internal = 1 << 31 | 1 << 32  # 32 and 33 belong to the C library, which always hands them on so
    assert int(status["SigIgn"], 16) & ~internal == int(status["SigBlk"], 16) == 0


def test_it_is_a_session_and_a_group_of_its_own_in_folder_root_with_umask_022():
    pid, session, group, folder, mask = " ".join(
        lines(shell("echo $$; ps -o sid=,pgid= -p $$; pwd; umask"))
    ).split()
    assert pid == session == group
    assert (folder, mask) == ("/", "0022")


def test_its_working_folder_is_the_one_asked_for(tmp_path):
    assert lines(shell("pwd", cwd=str(tmp_path))) == [str(tmp_path)]


def test_memory_is_taken_from_probes_before_the_agent():
    with open("/proc/self/oom_score_adj") as file:
        ours = int(file.read())
    assert int(lines(request("/bin/cat", "/proc/self/oom_score_adj"))[0]) == min(1000, ours + 200)


def test_limits_hold_from_the_first_instruction_on():
    asked = shell("nice; ulimit -v; ulimit -t", nice=3, memory=200 << 20, cpu=1.5)
    assert lines(asked) == [str(os.getpriority(os.PRIO_PROCESS, 0) + 3), "204800", "2"]


def test_limits_of_one_run_are_not_those_of_another():
    async def both(client):
        await client.run(shell("exit 0", nice=3, memory=200 << 20, cpu=1))
        return await client.run(shell("nice; ulimit -v; ulimit -t"))

    nice = str(os.getpriority(os.PRIO_PROCESS, 0))
    assert with_launcher(both).stdout.decode().split() == [nice, "unlimited", "unlimited"]


def test_a_probe_over_its_processor_time_is_ended():
    result = launch(shell("while :; do :; done", cpu=1))
    assert result.status == "signalled"


def test_a_start_error_under_limits_is_the_same_as_without():
    result = launch(request("/no/probe", memory=100 << 20))
    assert (result.status, result.reason) == ("start_error", "no such file: /no/probe")


def test_a_limit_that_is_not_allowed_is_refused():
    result = launch_without("sys_nice", shell("exit 0", nice=-5))
    assert result.status == "start_error"
    assert "nice: -5" in (result.reason or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_limits_and_errors_hold_for_another_user_too():
    async def runs(client):
        return [
            await client.run(shell("ulimit -v; id -un", user="nobody", memory=100 << 20)),
            await client.run(shell("exit 0", user="nobody", nice=-5)),
        ]

    first, second = with_launcher(runs)
    assert first.stdout == b"102400\nnobody\n"
    assert second.status == "start_error"
    assert second.reason == "`nice: -5` is not allowed here (Permission denied)"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_a_probe_that_forks_without_end_is_bounded_by_processes_and_nothing_of_it_stays():
    seconds = f"6{uuid4().int % 10**6:06d}"
    script = f"i=0; while [ $i -lt 40 ]; do sleep {seconds} & i=$((i+1)); echo $i; done"

    async def runs(client):
        result = await client.run(shell(script, user="nobody", processes=6))
        return result.stdout.split(), result.stderr, marked(seconds)

    started, said, left = with_launcher(runs)
    assert 1 <= len(started) <= 10  # this user may have other processes that end meanwhile
    assert b"fork" in said
    assert left == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_processes_cannot_be_held_for_root_and_is_refused_with_what_to_do():
    result = launch(shell("exit 0", processes=10))
    assert result.status == "refused"
    assert "`user:`" in (result.reason or "")


def test_many_probes_under_limits_at_once_do_not_mix_them_up():
    async def runs(client):
        asked = [shell("ulimit -v", memory=n << 20, run=f"r{n}") for n in range(100, 140)]
        return await asyncio.gather(*(client.run(one) for one in asked))

    results = with_launcher(runs, agent=f"test-{uuid4().hex}")
    assert [int(r.stdout) for r in results] == [n * 1024 for n in range(100, 140)]
