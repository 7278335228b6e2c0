"""Streaming probes: each rule with a real process."""

import os
import signal
from pathlib import Path

from msgspec.structs import replace
from streaming import spec, streaming

from dynres.worker.run import clock
from dynres.worker.sample import sample


def gone(pid):
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@streaming
async def test_records_count_when_they_arrive_and_the_newest_wins(site, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    site.run(spec(f"echo 1; echo 2; read x < {fifo}; echo 3; sleep 60"))
    await site.until(lambda: site.value() == 2.0)
    before = clock()
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, b"\n")
    await site.until(lambda: site.value() == 3.0)
    os.close(fd)
    assert site.latest.reading("a").measured >= before
    assert site.state().starts == 1
    assert site.state().records == 3


@streaming
async def test_a_record_that_names_some_resources_leaves_the_others_as_they_are(site, tmp_path):
    both = {"a": "numeric", "b": "numeric"}
    site.run(spec("echo a=1; echo b=2; sleep 0.3; echo a=3; sleep 60", resources=both))
    await site.until(lambda: site.value("a") == 3.0)
    assert site.value("b") == 2.0
    assert site.failures() == []


@streaming
async def test_banner_lines_are_refused_and_counted_and_not_fatal(site, tmp_path):
    both = {"a": "numeric", "b": "numeric"}
    script = "echo welcome; echo version=7; echo; echo a=1 ; echo b=2; sleep 60"
    site.run(spec(script, resources=both, format="lines"))
    await site.until(lambda: site.value("b") == 2.0)
    assert site.state().refusals == 2
    assert site.state().starts == 1
    assert site.failures() == []


@streaming
async def test_a_line_over_the_limit_is_refused_and_the_next_is_read(site, tmp_path):
    site.run(spec("head -c 71680 /dev/zero | tr '\\0' 7; echo; echo 5; sleep 60", ttl=60.0))
    await site.until(lambda: site.value() == 5.0)
    assert site.state().refusals == 1
    assert "more than 65536 bytes" in str([r.refused for r in site.results])


@streaming
async def test_half_a_line_then_silence_is_no_record_and_is_restarted_at_the_ttl(site, tmp_path):
    site.run(spec("printf 42; sleep 60", ttl=1.0))
    await site.until(lambda: site.results)
    first = site.results[0]
    assert (first.outcome, first.reason) == ("timeout", "no record for 1s (ttl)")
    assert site.value() is None
    await site.until(lambda: site.state().starts == 2)


@streaming
async def test_a_stream_that_says_nothing_good_for_its_ttl_is_restarted(site, tmp_path):
    site.run(spec("while :; do echo nonsense; sleep 0.1; done", format="lines", ttl=1.0))
    await site.until(lambda: site.state().starts == 2)
    assert [r.outcome for r in site.results] == ["timeout"]
    assert site.state().refusals > 3


@streaming
async def test_a_stream_that_closed_its_stdout_or_stopped_itself_is_restarted(site, tmp_path):
    closed = spec("echo 1; exec >&-; sleep 60", name="closed", ttl=1.0)
    stopped = spec("echo 1; kill -STOP $$", name="stopped", resources={"b": "numeric"}, ttl=1.0)
    site.run(closed, stopped)
    await site.until(lambda: all(site.state(n).starts == 2 for n in ("closed", "stopped")))
    assert {r.probe: r.outcome for r in site.failures()} == {
        "closed": "timeout",
        "stopped": "timeout",
    }


@streaming
async def test_bad_bytes_cost_their_own_value_only(site, tmp_path):
    three = {"a": "numeric", "s": "string", "t": "string"}
    script = r"printf '\357\273\277a=1\r\ns=\377\nt=x\000y\n'; printf 't=good\r\n'; sleep 60"
    site.run(spec(script, resources=three))
    await site.until(lambda: site.value("t") == "good")
    assert site.value("a") == 1.0
    assert site.value("s") is None
    assert site.latest.reading("s").reason == "not UTF-8"


@streaming
async def test_what_was_not_complete_when_it_ended_does_not_count(site, tmp_path):
    site.run(spec("echo 1; printf 2"))
    await site.until(site.failures)
    assert site.value() == 1.0
    assert site.failures()[0].reason == "it ended by itself (exit status 0)"


@streaming
async def test_a_stream_that_ends_by_itself_is_a_failure_and_is_started_again(site, tmp_path):
    site.run(spec("echo 1; echo sorry >&2; exit 3"))
    await site.until(lambda: site.state().starts == 2)
    failed = site.failures()[0]
    assert (failed.outcome, failed.exit, failed.reason) == ("failed", 3, "exit status 3: sorry")


@streaming
async def test_a_stream_that_cannot_be_started_says_why(site, tmp_path):
    asked = spec("echo 1")
    site.run(replace(asked, probe=replace(asked.probe, command=("/nonexistent/elim",))))
    await site.until(site.failures)
    assert site.failures()[0].outcome == "start_error"


@streaming
async def test_a_flooding_stream_neither_grows_memory_nor_delays_another_probe(site, tmp_path):
    flood = spec("yes; sleep 60", name="flood", resources={"f": "numeric"}, format="lines")
    errors = spec("yes >&2", name="errors", resources={"e": "numeric"})
    site.run(flood, errors, spec("while :; do echo 1; sleep 0.1; done"))
    await site.until(lambda: site.state("flood").refusals > 200_000, 60)
    (launcher,) = site.runner._launcher.pids()
    assert resident(launcher) < 40 << 20
    once = spec("echo a=7", name="once", mode="once", timeout=30.0)
    result = await site.runner.run(once)
    assert result.values == {"a": 7.0}
    assert result.duration < 5.0
    seen = site.state().records
    await site.until(lambda: site.state().records > seen + 3)


@streaming
async def test_a_changed_stream_starts_when_the_old_one_is_gone(site, tmp_path):
    slow = "trap 'sleep 0.3; exit' TERM; echo $$; while :; do sleep 0.05; done"
    site.run(spec(slow))
    await site.until(site.value)
    old = int(site.value())
    site.run(spec(slow + "; true"))
    await site.until(lambda: site.value() != old)
    assert gone(old)
    assert site.failures() == []


@streaming
async def test_a_reload_leaves_an_unchanged_stream_running(site, tmp_path):
    stays, goes = (
        spec("echo $$; sleep 60"),
        spec("echo $$; sleep 60", name="g", resources={"g": "numeric"}),
    )
    site.run(stays, goes)
    await site.until(lambda: site.value() and site.value("g"))
    pid, other = site.state().pid, site.state("g").pid
    for _ in range(20):
        site.run(stays)
    await site.until(lambda: gone(other))
    assert site.state().pid == pid
    assert not gone(pid)


@streaming
async def test_the_end_is_sigterm_then_sigkill_for_everything_it_left(site, tmp_path):
    left = tmp_path / "left"
    script = (
        f"setsid sh -c 'trap \"\" TERM; echo $$ > {left}; while :; do sleep 1; done' & "
        "trap '' TERM; while :; do echo 1; sleep 0.1; done"
    )
    site.run(spec(script))
    await site.until(lambda: site.value() == 1.0 and left.exists() and left.read_text().strip())
    pid = site.state().pid
    site.run()
    await site.streams.end()
    assert gone(pid)
    await site.until(lambda: gone(int(left.read_text())))


@streaming
async def test_a_launcher_that_died_costs_a_stream_its_life_and_no_second_copy_runs(site, tmp_path):
    site.run(spec("echo $$; sleep 60"))
    await site.until(site.value)
    old = int(site.value())
    os.kill(site.runner._launcher.pids()[0], signal.SIGKILL)
    await site.until(lambda: site.value() != old)
    assert gone(old)
    assert site.failures()[0].outcome in {"killed", "start_error"}


SENSOR = """
while read line; do
  case $line in quit) echo quit > {0}; exit;; esac
  echo begin; echo "h1:a:$((n=n+1))"; echo end
done
"""


@streaming
async def test_a_load_sensor_is_asked_every_interval_and_told_to_quit(site, tmp_path):
    said = tmp_path / "said"
    site.run(spec(SENSOR.format(said), format="load_sensor", interval=0.2))
    await site.until(lambda: (site.value() or 0) >= 3)
    assert site.state().starts == 1
    pid = site.state().pid
    await site.streams.end()
    assert gone(pid)
    assert said.read_text() == "quit\n"
    assert site.failures() == []


@streaming
async def test_a_load_sensor_that_does_not_answer_in_time_is_restarted(site, tmp_path):
    script = "read line; echo begin; echo h1:a:1; echo end; read line; echo begin; sleep 60"
    site.run(spec(script, format="load_sensor", interval=0.2, timeout=0.5))
    await site.until(lambda: site.state().starts == 2)
    assert [(r.outcome, r.reason) for r in site.failures()] == [
        ("timeout", "no answer within 500ms")
    ]
    assert site.value() == 1.0


@streaming
async def test_an_answer_is_as_old_as_its_request(site, tmp_path):
    script = "while read line; do sleep 0.5; echo begin; echo h1:a:1; echo end; done"
    site.run(spec(script, format="load_sensor", interval=60.0))
    await site.until(lambda: site.value() == 1.0)
    (result,) = site.results
    assert result.duration >= 0.5


@streaming
async def test_an_elim_that_is_not_here_is_asked_again_after_a_reload_only(site, tmp_path):
    here = tmp_path / "here"
    script = f'test -e {here} && echo "1 a 1" || exit $ELIM_ABORT_VALUE; sleep 60'
    site.run(spec(script, format="elim"))
    await site.until(lambda: site.results)
    (result,) = site.results
    assert (result.outcome, result.not_here, result.exit) == ("ok", True, 97)
    assert site.latest.reading("a").reason.startswith("not here")
    here.touch()
    site.run(spec(script, format="elim"), recheck=True)
    await site.until(lambda: site.value() == 1.0)
    assert site.state().starts == 2


@streaming
async def test_an_elim_finds_what_lsf_would_tell_it(site, tmp_path):
    names = {"resources": {"res": "string", "master": "string"}, "map": {"r": "res", "m": "master"}}
    site.run(
        spec('echo "2 r ${LSF_RESOURCES%% *} m $LSF_MASTER"; sleep 60', format="elim", **names)
    )
    await site.until(lambda: site.value("master"))
    assert (site.value("res"), site.value("master")) == ("r", "N")


@streaming
async def test_a_startd_cron_stream_gives_a_record_at_each_dash(site, tmp_path):
    script = "echo A=1; echo -; echo A=2; echo '- update:true'; echo A=3; sleep 60"
    site.run(spec(script, format="startd_cron"))
    await site.until(lambda: site.value() == 2.0)
    assert site.state().records == 2


@streaming
async def test_a_sample_ends_a_stream_after_its_first_good_record(site, tmp_path):
    script = "echo banner; echo $$; trap 'exit 0' TERM; while :; do sleep 0.05; done"
    result = await sample(site.runner, spec(script))
    assert result.outcome == "ok"
    assert gone(int(result.values["a"]))
    assert result.stdout.startswith("banner\n")
    assert [r.text for r in result.refused] == ["banner"]


@streaming
async def test_a_sample_of_a_stream_without_a_good_record_ends_at_its_timeout(site, tmp_path):
    result = await sample(site.runner, spec("echo x; sleep 60", timeout=0.5))
    assert (result.outcome, result.reason) == ("timeout", "no good record within 500ms")
    ended = await sample(site.runner, spec("echo sorry >&2; exit 3"))
    assert (ended.outcome, ended.exit, ended.stderr) == ("failed", 3, "sorry\n")


@streaming
async def test_a_sample_of_a_load_sensor_asks_once(site, tmp_path):
    said = tmp_path / "said"
    result = await sample(site.runner, spec(SENSOR.format(said), format="load_sensor"))
    assert result.values == {"a": 1.0}
    assert said.read_text() == "quit\n"
