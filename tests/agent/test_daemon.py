import asyncio
import shlex
import signal
import socket
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from agent_process import AgentProcess, marked
from cluster import free_port
from controller_stub import StubController

from dynres.wire.messages import Bye, Refusal, Report

ONE = """\
  - name: one
    interval: {interval}
    probe: {{command: [/bin/sh, -c, "echo {value}"], timeout: 20s}}
    resourcemap: [{{location: [default]}}]
"""
TEXT = """\
  - name: text
    type: string
    interval: 1s
    probe: {command: [/bin/sh, -c, "echo $DYNRES_HOST:$DYNRES_RESOURCES"], timeout: 20s}
    resourcemap: [{location: [default]}]
"""
HANGS = """\
  - name: hangs
    interval: 2s
    probe: {{command: [/bin/sh, -c, "sleep 600 # {marker}"]}}
    resourcemap: [{{location: [default]}}]
"""


def write(home, *resources, agent=""):
    folder = home / "config"
    folder.mkdir(exist_ok=True)
    (folder / "resources.yaml").write_text("resources:\n" + "".join(resources))
    (folder / "agent.yaml").write_text(agent or "{}\n")


def one(value=7, interval="1s"):
    return ONE.format(value=value, interval=interval)


def with_stub(test):
    """An async test of a stub controller and the agent that it starts in `home`."""

    def run(tmp_path):
        agents = []

        async def inner():
            stub = StubController()

            def start(*arguments, **more):
                agents.append(AgentProcess(tmp_path, *arguments, **more))
                return agents[-1]

            try:
                await test(stub, tmp_path, lambda *a, **m: start(*with_controller(stub, a), **m))
            finally:
                stub.close()

        try:
            asyncio.run(inner())
        finally:
            for agent in agents:
                agent.close()

    run.__name__ = test.__name__
    return run


def with_controller(stub, arguments):
    return arguments if "--controller" in arguments else (*arguments, "--controller", stub.endpoint)


@contextmanager
def taken_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@with_stub
async def test_the_agent_registers_reports_and_ends_cleanly(stub, home, start):
    write(home, one(), TEXT)
    agent = start()
    await stub.until(lambda: stub.values.get("one") == 7 and stub.values.get("text") == "h1:text")
    await stub.until(lambda: {"mem", "ut", "r15s"} <= stub.values.keys())
    status = await agent.ask("status")
    assert status["pid"] == agent.pid
    assert len(stub.hellos[0].session) == 16
    assert stub.hellos[0].boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert [c["state"] for c in status["controllers"]] == ["registered"]
    resources = {r["resource"]: r for r in status["resources"]}
    assert (resources["one"]["value"], resources["one"]["state"]) == (7, "fresh")
    probes = {p["probe"]: p for p in status["probes"]}
    assert (probes["one"]["outcome"], probes["one"]["failures"]) == ("ok", 0)
    assert await agent.stop() == 0
    assert await stub.until(lambda: isinstance(stub.messages[-1], Bye))
    assert list((home / "run").iterdir()) == []


@with_stub
async def test_a_constant_value_stays_named_in_runs_and_is_sent_once(stub, home, start):
    write(home, one())
    start()

    def runs_of_one():
        return [run for report in stub.reports for run in report.runs if run.probe == "one"]

    await stub.until(lambda: len(runs_of_one()) >= 3)
    sent = [m for report in stub.reports[1:] for m in report.values if m.resource == "one"]
    assert len(sent) == 1
    assert [r.seq for r in stub.reports] == list(range(1, len(stub.reports) + 1))


@with_stub
async def test_metrics_and_health_are_served(stub, home, start):
    write(home, one())
    stub.refusal = Refusal(code="not_listed", reason="h1 is not in hosts.yaml")
    port = free_port()
    agent = start(metrics=f"127.0.0.1:{port}")
    await stub.until(lambda: stub.hellos)
    await agent.until(lambda: "refused (not_listed)" in agent.said())
    assert await asyncio.to_thread(page, port, "/healthz") == (
        503,
        f"{stub.endpoint}: refused: h1 is not in hosts.yaml\n",
    )
    await agent.stop()
    stub.refusal = None
    start(metrics=f"127.0.0.1:{port}")
    await stub.until(lambda: stub.values.get("one") == 7)
    assert (await asyncio.to_thread(page, port, "/healthz"))[0] == 200
    _, text = await asyncio.to_thread(page, port, "/metrics")
    assert 'dynres_resource_value{resource="one"} 7.0' in text
    assert f'dynres_agent_connected{{controller="{stub.endpoint}"}} 1.0' in text
    assert 'dynres_probe_runs_total{outcome="ok",probe="one"}' in text


@with_stub
async def test_a_reload_brings_new_resources_and_removes_old_ones(stub, home, start):
    write(home, one(), TEXT)
    agent = start()
    await stub.until(lambda: {"one", "text"} <= stub.values.keys())
    write(home, one(value=8))
    assert (await agent.ask("reload"))["reloaded"] is True
    await stub.until(lambda: stub.values.get("one") == 8)
    assert "text" not in stub.values
    status = await agent.ask("status")
    assert "text" not in {r["resource"] for r in status["resources"]}


@with_stub
async def test_a_bad_file_on_reload_leaves_the_last_good_one_in_force(stub, home, start):
    write(home, one())
    agent = start()
    await stub.until(lambda: stub.values.get("one") == 7)
    write(home, one().replace("interval", "intervall"))
    answer = await agent.ask("reload")
    assert answer["error"]["code"] == "config"
    assert "resources.yaml:3:" in answer["error"]["faults"][0]["place"]
    await stub.until(lambda: stub.hellos[-1].refused)
    assert "intervall" in stub.hellos[-1].refused
    runs = len(stub.reports)
    await stub.until(lambda: len(stub.reports) > runs + 1)
    status = await agent.ask("status")
    assert status["config"]["state"] == "refused"
    assert status["config"]["faults"]
    write(home, one(value=9))
    agent.send(signal.SIGHUP)
    await stub.until(lambda: stub.values.get("one") == 9)
    assert stub.hellos[-1].refused is None


@with_stub
async def test_sighup_at_any_instant_also_during_start_never_kills(stub, home, start):
    write(home, one())
    agent = start()
    await agent.until_it_blocks_signals()
    while not stub.values:
        agent.send(signal.SIGHUP)
        await asyncio.sleep(0.005)
    for value in range(10, 20):
        write(home, one(value=value))
        for _ in range(20):
            agent.send(signal.SIGHUP)
    await stub.until(lambda: stub.values.get("one") == 19)
    assert await agent.stop() == 0


def as_its_unit_starts_it():
    """The command before the program in the unit's ExecStart."""
    unit = Path(__file__).parents[2] / "systemd" / "dynres-agent.service"
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    words = shlex.split(line.removeprefix("ExecStart="))
    assert words[-1].endswith("exec /opt/dynres/bin/dynres agent")
    return *words[:-1], words[-1].replace("/opt/dynres/bin/dynres agent", '"$0" "$@"')


@with_stub
async def test_started_by_its_unit_a_sighup_before_the_first_instruction_does_not_kill_either(
    stub, home, start
):
    write(home, one())
    agent = start(under=as_its_unit_starts_it())
    await agent.until_it_blocks_signals("SigIgn")
    while not stub.values:
        agent.send(signal.SIGHUP)
        await asyncio.sleep(0.002)
    write(home, one(value=9))
    agent.send(signal.SIGHUP)  # ignored no longer
    await stub.until(lambda: stub.values.get("one") == 9)
    assert await agent.stop() == 0


@with_stub
async def test_sigterm_during_start_ends_cleanly(stub, home, start):
    write(home, one())
    agent = start()
    await agent.until_it_blocks_signals()
    assert await agent.stop() == 0
    assert not (home / "run").exists() or list((home / "run").iterdir()) == []


@with_stub
async def test_a_file_that_is_refused_at_start_ends_the_agent_with_the_fault(stub, home, start):
    write(home, one().replace("interval", "intervall"))
    agent = start()
    assert await agent.ended() == 2
    assert "resources.yaml:3:5: " in agent.said()


@with_stub
async def test_a_second_agent_for_the_same_host_is_refused(stub, home, start):
    write(home, one())
    first = start()
    await stub.until(lambda: stub.values.get("one") == 7)
    second = start()
    assert await second.ended() == 1
    assert f"another agent for host h1 is running, pid {first.pid}" in second.said()
    assert (await first.ask("status"))["pid"] == first.pid


@with_stub
async def test_a_probe_that_hangs_delays_no_other_probe_and_no_heartbeat(stub, home, start):
    stub.heartbeat = 0.2
    write(home, one(), HANGS.format(marker=uuid4().hex))
    start()
    await stub.until(lambda: any(r.outcome == "timeout" for m in stub.reports for r in m.runs))
    runs = [run for report in stub.reports for run in report.runs if run.probe == "one"]
    assert len(runs) >= 2
    assert len(stub.beats) >= 5
    assert stub.values["hangs"] is None


@with_stub
async def test_after_a_sigkill_nothing_is_left_and_a_new_agent_starts_at_once(stub, home, start):
    marker = uuid4().hex
    write(home, one(), HANGS.format(marker=marker))
    agent = start()
    await agent.until(lambda: marked(marker))
    agent.send(signal.SIGKILL)
    await agent.ended()
    again = start()
    await again.until(lambda: len(marked(marker)) <= 1)
    await stub.until(lambda: len({hello.session for hello in stub.hellos}) == 2)
    await stub.until(lambda: isinstance(stub.messages[-1], Report) and "one" in stub.values)
    assert await again.stop() == 0
    await again.until(lambda: not marked(marker))


@with_stub
async def test_every_probe_ends_with_the_agent_even_by_sigkill(stub, home, start):
    marker = uuid4().hex
    write(home, HANGS.format(marker=marker))
    agent = start()
    await agent.until(lambda: marked(marker))
    agent.send(signal.SIGKILL)
    await agent.ended()
    await agent.until(lambda: not marked(marker), 5.0)


@with_stub
async def test_a_stop_ends_every_probe(stub, home, start):
    marker = uuid4().hex
    write(home, HANGS.format(marker=marker))
    agent = start()
    await agent.until(lambda: marked(marker))
    assert await agent.stop() == 0
    assert marked(marker) == []


@with_stub
async def test_a_controller_that_was_absent_at_the_start_gets_everything_later(stub, home, start):
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    write(home, one())
    agent = start("--controller", endpoint)
    await agent.until(agent.socket.exists)
    while (await agent.ask("status"))["resources"][0]["state"] != "fresh":
        await asyncio.sleep(0.02)
    late = StubController(endpoint)
    try:
        await late.until(lambda: late.values.get("one") == 7)
        assert late.reports[0].full
    finally:
        late.close()


@with_stub
async def test_once_runs_every_probe_once_reports_and_ends(stub, home, start):
    write(home, one(interval="1h"), TEXT)
    agent = start("--once")
    assert await agent.ended() == 0
    await stub.until(lambda: isinstance(stub.messages[-1], Bye))
    assert stub.values["one"] == 7
    assert stub.values["text"] == "h1:text"
    assert list((home / "run").iterdir()) == []


@with_stub
async def test_once_without_a_controller_says_so_with_111(stub, home, start):
    write(home, one())
    agent = start("--once", "--controller", f"tcp://127.0.0.1:{free_port()}")
    assert await agent.ended() == 111
    assert "no controller within 5 s" in agent.said()


@with_stub
async def test_once_refused_by_the_controller_fails_with_its_reason(stub, home, start):
    stub.refusal = Refusal(code="not_listed", reason="h1 is not in hosts.yaml")
    write(home, one())
    agent = start("--once")
    assert await agent.ended() == 1
    assert "h1 is not in hosts.yaml" in agent.said()


@with_stub
async def test_a_metrics_port_that_was_asked_for_and_is_taken_ends_the_agent(stub, home, start):
    write(home, one())
    with taken_port() as port:
        agent = start(metrics=f"127.0.0.1:{port}")
        assert await agent.ended() == 1
        assert f"127.0.0.1:{port}" in agent.said()
        assert "--metrics" in agent.said()


@with_stub
async def test_an_endpoint_or_a_host_name_that_is_none_is_a_usage_error(stub, home, start):
    write(home, one())
    agent = start("--controller", "head:5750")
    assert await agent.ended() == 2
    assert "head:5750: not an endpoint such as tcp://HOST:5750" in agent.said()
    for name in ("../h1", ""):
        agent = start("--host", name)
        assert await agent.ended() == 2
        assert "no host name" in agent.said()
    assert list((home / "run").iterdir()) == []


@with_stub
async def test_a_runtime_folder_that_cannot_be_used_says_what_to_do(stub, home, start):
    write(home, one())
    (home / "run").write_text("")
    agent = start()
    assert await agent.ended() == 1
    assert "DYNRES_RUNTIME" in agent.said()
