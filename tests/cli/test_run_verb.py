"""`dynres run`: waits its turn, passes signals and the exit status on, and releases."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cluster import wait_for
from standing import standing

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 2, location: [all]}
"""
HOSTS = "hosts: [{name: h1}]\n"
RUN = ("run", "--host", "h1", "--need", "iris=2")


pytestmark = pytest.mark.xdist_group("run verb")  # one controller for all of them


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with standing(tmp_path_factory.mktemp("standing"), RESOURCES, HOSTS) as made:
        yield made


def leases(here):
    return json.loads(here.call("leases", "--json").stdout)["leases"]


def test_the_exit_status_of_the_command_is_passed_on_and_nothing_stays_held(here):
    done = here.call(*RUN, "--job", "j1", "--", "sh", "-c", 'echo "$DYNRES_JOB"; exit 7')
    assert (done.returncode, done.stdout) == (7, "j1\n")
    done = here.call(*RUN, "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert leases(here) == []


def test_a_command_that_cannot_be_started_gives_what_a_shell_gives(here):
    assert here.call(*RUN, "--", "/no/such/command").returncode == 127
    assert here.call(*RUN, "--", "/etc").returncode == 126
    assert leases(here) == []


def test_what_can_never_be_had_is_69_and_what_is_not_had_in_time_75(here):
    never = here.call("run", "--host", "h1", "--need", "iris=3", "--", "true")
    assert (never.returncode, "capacity" in never.stderr) == (69, True)
    here.call("acquire", "--job", "other", "--host", "h1", "--need", "iris=1")
    late = here.call(*RUN, "--wait", "200ms", "--", "true")
    assert late.returncode == 75
    assert "waiting for iris" in late.stderr
    assert "iris: 2 asked, 1 of 2 free: exhausted" in late.stderr
    here.call("release", "--job", "other")
    away = here.call(*RUN, "--controller", "tcp://127.0.0.1:1", "--", "true")
    assert away.returncode == 111


def test_it_waits_its_turn_and_says_so(here):
    here.call("acquire", "--job", "other", "--host", "h1", "--need", "iris=1")
    process = here.begin(*RUN, "--", "sh", "-c", "echo runs")
    assert process.stderr is not None
    assert "waiting for iris" in process.stderr.readline()
    here.call("release", "--job", "other")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "runs\n")
    assert "granted after" in err


def test_a_run_that_is_ended_while_it_waits_leaves_the_queue(here):
    here.call("acquire", "--job", "other", "--host", "h1", "--need", "iris=1")
    process = here.begin(*RUN, "--", "true")
    assert process.stderr is not None
    assert "waiting for iris" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130

    def gone():
        pools = json.loads(here.call("pools", "--json").stdout)["pools"]
        return pools[0]["waiting"] == []

    wait_for(gone)
    here.call("release", "--job", "other")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_signals_reach_the_command(here, number):
    trap = f'trap "echo got; exit 5" {number.value}; echo ready; while :; do sleep 0.05; done'
    process = here.begin(*RUN, "--", "sh", "-c", trap)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (5, "got\n")
    assert leases(here) == []


def test_a_stopped_run_stops_and_goes_on(here):
    loop = "echo $$; while :; do sleep 0.05; done"
    process = here.begin(*RUN, "--", "sh", "-c", loop)
    assert process.stdout is not None
    child = int(process.stdout.readline())

    def state(pid):
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(child) == "T" and state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state(child) != "T" and state(process.pid) != "T")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_run_that_is_killed_is_freed_by_its_ttl(here):
    process = here.begin(*RUN, "--ttl", "1s", "--", "sh", "-c", "echo $$; exec sleep 60")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_for(lambda: leases(here) == [])
    os.kill(child, signal.SIGKILL)
    process.communicate()


def test_a_lease_is_renewed_as_long_as_the_command_runs(here):
    process = here.begin(*RUN, "--ttl", "900ms", "--", "sh", "-c", "echo ready; exec sleep 3")
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    [lease] = leases(here)
    assert process.wait(30) == 0
    assert time.monotonic() - began > 2
    _, err = process.communicate()
    assert err == ""
    entries = json.loads(here.call("history", "--json", "--since", "1m").stdout)["entries"]
    causes = [e["detail"] for e in entries if e["lease"] == lease["lease"]]
    assert causes == [None, "job"]


def test_after_an_expiry_it_takes_the_lease_again_and_says_so(here):
    process = here.begin(*RUN, "--ttl", "900ms", "--job", "again", "--", "sleep", "60")
    [first] = wait_for(lambda: leases(here))
    here.call("release", "--lease", first["lease"])
    [second] = wait_for(lambda: leases(here))
    assert second["lease"] != first["lease"]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert "taken again" in err
    assert process.returncode == 128 + signal.SIGTERM
    assert leases(here) == []


def test_without_a_stdout_it_runs_all_the_same(here):
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "dynres"]
    command = [*shell, *RUN, "--controller", here.endpoint, "--", "sh", "-c", "exit 5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (5, "")
