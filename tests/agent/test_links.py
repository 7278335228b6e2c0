import asyncio
import logging
from unittest import mock

import pytest
from agent_loop import changed, configuration, in_loop, resource, running
from controller_stub import StubController

from dynres.config.model import Location
from dynres.wire.messages import OLDEST, VERSION, Alive, Assign, Bye, Problem, Refusal, SendAll
from dynres.worker import controllers
from dynres.worker.status import health

A, B = resource("a"), resource("b")


@in_loop
async def test_the_agent_says_hello_and_answers_the_welcome_with_a_full_report(stub):
    async with running(configuration(A, B), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0, "b": 1.0})
        hello = stub.hellos[0]
        assert (hello.host, hello.oldest, hello.newest) == ("h1", OLDEST, VERSION)
        assert hello.definitions.keys() == {"a", "b"}
        assert (hello.machine_id, hello.boot_id, hello.session) == ("machine", "boot", "session")
        assert stub.reports[0].full
        assert [r.seq for r in stub.reports] == list(range(1, len(stub.reports) + 1))
        assert all(not r.full for r in stub.reports[1:])
        assert health(agent)[0]
    assert await stub.until(lambda: isinstance(stub.messages[-1], Bye))


@in_loop
async def test_constant_values_stay_named_in_runs_and_are_not_repeated(stub):
    async with running(configuration(resource("a", interval=0.2)), stub.endpoint):
        await stub.until(lambda: sum(len(r.runs) for r in stub.reports) >= 5)
        assert sum(len(r.values) for r in stub.reports) == 1


@in_loop
async def test_runs_that_end_together_go_into_one_report(stub):
    many = [resource(f"r{i}") for i in range(50)]
    async with running(configuration(*many, max_running=50), stub.endpoint):
        await stub.until(lambda: len(stub.values) == 50)
        assert len(stub.reports) <= 3


@in_loop
async def test_a_full_report_comes_on_request(stub):
    async with running(configuration(A), stub.endpoint):
        await stub.until(lambda: stub.values == {"a": 1.0})
        seen = len(stub.reports)
        stub.say(SendAll(within=0.05))
        await stub.until(lambda: len(stub.reports) > seen)
        assert stub.reports[-1].full
        assert stub.reports[-1].seq == stub.reports[-2].seq + 1


@in_loop
async def test_heartbeats_echo_the_stamp_and_alive_is_answered_at_once(stub):
    stub.heartbeat = 0.1
    async with running(configuration(A), stub.endpoint):
        await stub.until(lambda: len(stub.beats) >= 2)
        stub.stamp(2000.0)
        await stub.until(lambda: stub.beats[-1].echo.stamp == 2000.0)
    stub.heartbeat = 60.0
    async with running(configuration(A), stub.endpoint):
        await stub.until(lambda: len(stub.hellos) == 2 and stub.reports[-1].full)
        seen = len(stub.beats)
        stub.say(Alive())
        await stub.until(lambda: len(stub.beats) > seen)


@in_loop
async def test_a_silent_controller_is_greeted_again_and_health_says_so(stub):
    stub.heartbeat = 0.1
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.hellos)
        stub.answers = False
        await changed(agent, lambda: not health(agent)[0])
        await stub.until(lambda: len(stub.hellos) >= 3)
        stub.answers = True
        await changed(agent, lambda: health(agent)[0])


@in_loop
async def test_a_controller_that_never_answers_is_logged_once(_stub):
    said = asyncio.Queue()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.put_nowait(record.getMessage())
    nowhere = "tcp://127.0.0.1:1"
    controllers.log.addHandler(handler)
    try:
        with mock.patch.object(controllers, "ANSWER_TIME", 0.05):
            async with running(configuration(A), nowhere) as (agent, _), asyncio.timeout(10):
                assert await said.get() == f"{nowhere}: no controller answers yet"
                assert agent.links[nowhere].state == "connecting"
    finally:
        controllers.log.removeHandler(handler)
    assert said.empty()


@in_loop
async def test_a_refusal_is_told_with_its_reason_and_tried_again(stub):
    stub.refusal = Refusal(code="not_listed", reason="h1 is not in hosts.yaml: add it")
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await changed(agent, lambda: agent.links[stub.endpoint].state == "refused")
        assert health(agent) == (
            False,
            f"{stub.endpoint}: refused: h1 is not in hosts.yaml: add it",
        )
        stub.refusal = None
        agent.links[stub.endpoint].greet()
        await stub.until(lambda: stub.values == {"a": 1.0})
        assert health(agent)[0]


@in_loop
async def test_a_forgotten_session_is_begun_again_at_once(stub):
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0})
        stub.say(Refusal(code="unknown", reason="say hello first"))
        await stub.until(lambda: len(stub.hellos) == 2, seconds=5.0)
        await changed(agent, lambda: health(agent)[0])


@in_loop
async def test_the_reason_of_a_refusal_stays_when_a_late_message_is_refused_too(stub):
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0})
        stub.say(Refusal(code="replaced", reason="h1 has another agent now"))
        stub.say(Refusal(code="unknown", reason="say hello first"))
        stub.say(Alive())
        await changed(agent, lambda: agent.links[stub.endpoint].state == "refused")
        await stub.until(lambda: stub.beats)
        assert health(agent) == (False, f"{stub.endpoint}: refused: h1 has another agent now")


@in_loop
async def test_a_refusal_is_no_longer_told_when_the_controller_is_not_there(stub):
    stub.refusal = Refusal(code="not_listed", reason="h1 is not in hosts.yaml: add it")
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await changed(agent, lambda: agent.links[stub.endpoint].state == "refused")
        stub.close()
        await changed(agent, lambda: agent.links[stub.endpoint].state == "connecting")
        assert health(agent) == (False, f"{stub.endpoint}: not reachable")


def test_a_refused_agent_asks_again_by_itself(monkeypatch):
    monkeypatch.setattr(controllers, "AFTER_REFUSAL", 0.05)

    @in_loop
    async def check(stub):
        stub.refusal = Refusal(code="version", reason="too old")
        async with running(configuration(A), stub.endpoint):
            await stub.until(lambda: len(stub.hellos) >= 3)

    check()


def test_a_hello_without_an_answer_is_said_again(monkeypatch):
    monkeypatch.setattr(controllers, "ANSWER_TIME", 0.1)

    @in_loop
    async def check(stub):
        stub.answers = False
        async with running(configuration(A), stub.endpoint) as (agent, _):
            await stub.until(lambda: stub.hellos)
            assert health(agent) == (False, f"{stub.endpoint}: does not answer the hello")
            await stub.until(lambda: len(stub.hellos) >= 3)

    check()


@in_loop
async def test_the_welcome_has_the_last_word_on_what_is_measured(stub):
    shared = resource("licences", shared=True)
    unresolved = resource("later", location=Location(unresolved=("@eda",)))
    stub.measure = ("licences/licences", "later", "not_mine", "a/b", "licences")
    async with running(configuration(A, shared, unresolved), stub.endpoint) as (agent, runs):
        await stub.until(lambda: stub.values == {"licences": 1.0, "later": 1.0})
        assert agent.plan.specs.keys() == {"licences", "later"}
        assert agent.hello().reporting == ("licences/licences",)
        assert set(runs.ran) <= {"a", "licences", "later"}
        stub.say(Assign(measure=("a",)))
        await stub.until(lambda: "a" in stub.values)
        assert agent.plan.specs.keys() == {"a"}
        assert set(agent.latest.readings()) == {"a"}


@in_loop
async def test_what_several_controllers_want_is_measured_once_and_told_to_each(stub):
    other = StubController()
    try:
        stub.measure, other.measure = ("a",), ("a", "b")
        async with running(configuration(A, B), stub.endpoint, other.endpoint) as (_, runs):
            await other.until(lambda: other.values == {"a": 1.0, "b": 1.0})
            await stub.until(lambda: stub.values == {"a": 1.0})
            assert sorted(set(runs.ran)) == ["a", "b"]
            assert len(runs.ran) <= 3
    finally:
        other.close()


@in_loop
async def test_a_reload_says_hello_again_and_runs_new_probes_at_once(stub):
    async with running(configuration(A), stub.endpoint) as (agent, runs):
        await stub.until(lambda: stub.values == {"a": 1.0})
        agent.reconfigure(configuration(A, B))
        await stub.until(lambda: stub.values == {"a": 1.0, "b": 1.0})
        assert len(stub.hellos) == 2
        assert stub.hellos[0].session == stub.hellos[1].session
        assert stub.hellos[1].definitions.keys() == {"a", "b"}
        assert runs.ran == ["a", "b"]


@in_loop
async def test_a_removed_resource_vanishes_and_its_run_in_flight_changes_nothing(stub):
    async with running(configuration(A, B), stub.endpoint) as (agent, runs):
        runs.hold = asyncio.Event()
        await changed(agent, lambda: agent.links[stub.endpoint].registered)
        agent.reconfigure(configuration(A))
        assert runs.cancelled == ["b", "b"]
        runs.hold.set()
        await stub.until(lambda: "a" in stub.values)
        assert "b" not in stub.values
        assert agent.latest.reading("b") is None


@in_loop
async def test_a_reload_between_start_and_run_of_a_probe_starts_nothing(stub):
    async with running(configuration(A, B), stub.endpoint) as (agent, runs):
        agent.reconfigure(configuration(A))  # before the loop has come to the first runs
        await stub.until(lambda: stub.values == {"a": 1.0})
        assert runs.ran == ["a"]
        assert agent.timetable.running == 0


@in_loop
async def test_a_refused_configuration_is_told_to_the_controller(stub):
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0})
        agent.refuse("resources.yaml:1:1: unknown key")
        await stub.until(lambda: len(stub.hellos) == 2)
        assert stub.hellos[1].refused == "resources.yaml:1:1: unknown key"
        assert "unknown key" in health(agent)[1]


@in_loop
async def test_what_was_not_taken_of_a_report_is_remembered(stub):
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0})
        stub.say(Problem(refused={"a": "not mapped to h1"}))
        stub.say(Alive())
        await stub.until(lambda: stub.beats)
        assert agent.links[stub.endpoint].problems == {"a": "not mapped to h1"}


@in_loop
async def test_a_message_that_cannot_be_read_changes_nothing(stub):
    async with running(configuration(A), stub.endpoint) as (agent, _):
        await stub.until(lambda: stub.values == {"a": 1.0})
        stub._listener.send(stub.peer, b"\xc1 nonsense")
        stub.say(Alive())
        await stub.until(lambda: stub.beats)
        assert agent.links[stub.endpoint].registered


def test_a_controller_that_was_absent_at_the_start_gets_everything_when_it_appears(tmp_path):
    async def check():
        endpoint = f"ipc://{tmp_path}/controller"
        async with running(configuration(A), endpoint) as (agent, _):
            await changed(agent, lambda: agent.latest.reading("a") is not None)
            assert health(agent) == (False, f"{endpoint}: not reachable")
            stub = StubController(endpoint)
            await stub.until(lambda: stub.values == {"a": 1.0})
            stub.close()
            await changed(agent, lambda: not health(agent)[0])
            again = StubController(endpoint)
            await again.until(lambda: again.values == {"a": 1.0})
            assert again.reports[0].full
            assert again.hellos[0].session == agent.hello().session
            again.close()

    asyncio.run(check())


@pytest.mark.parametrize("kept", [True, False])
def test_links_follow_the_list_of_controllers(kept):
    @in_loop
    async def check(stub):
        other = StubController()
        try:
            async with running(configuration(A), stub.endpoint) as (agent, _):
                await stub.until(lambda: stub.values)
                agent.connect([stub.endpoint, other.endpoint] if kept else [other.endpoint])
                await other.until(lambda: other.values == {"a": 1.0})
                assert (stub.endpoint in agent.links) is kept
                assert len(stub.hellos) == 1
        finally:
            other.close()

    check()
