import asyncio

import pytest
from agent_loop import changed, configuration, in_loop, resource, running
from controller_stub import StubController

from dynres.config.faults import Fault
from dynres.config.result import LoadResult
from dynres.worker import reload
from dynres.worker.options import AgentOptions
from dynres.worker.reload import Changes, Reloader

A, B = resource("a"), resource("b")


class Files:
    """Stands for the folder: what the next reading of it gives."""

    def __init__(self):
        self.result = LoadResult()
        self.readings = 0

    async def result_of(self):
        self.readings += 1
        result = self.result
        await asyncio.sleep(0)
        return result


@pytest.fixture
def files(monkeypatch):
    made = Files()

    class Reading:
        def __init__(self, _folder):
            pass

        async def result(self):
            return await made.result_of()

    monkeypatch.setattr(reload, "Reader", Reading)
    return made


def reloader(agent, tmp_path, **options):
    given = AgentOptions(config=tmp_path, **options)
    return Reloader(tmp_path, agent, Changes(given, agent).apply)


def test_requests_that_come_together_share_one_reading(files, tmp_path):
    async def check():
        files.result = LoadResult(configuration=configuration(A))
        async with running(configuration(A)) as (agent, _):
            made = reloader(agent, tmp_path)
            serving = asyncio.create_task(made.serve())
            for _ in range(50):
                made.request()
            answers = await asyncio.gather(*(made.reload() for _ in range(10)))
            assert answers == [{"reloaded": True, "warnings": []}] * 10
            assert files.readings <= 2
            serving.cancel()

    asyncio.run(check())


def test_a_request_during_a_reading_is_answered_by_a_reading_that_began_after_it(files, tmp_path):
    async def check():
        files.result = LoadResult(configuration=configuration(A))
        async with running(configuration(A)) as (agent, _):
            made = reloader(agent, tmp_path)
            serving = asyncio.create_task(made.serve())
            made.request()
            while not files.readings:
                await asyncio.sleep(0)
            files.result = LoadResult(configuration=configuration(A, B))
            await made.reload()
            assert agent.plan.specs.keys() == {"a", "b"}
            serving.cancel()

    asyncio.run(check())


def test_faults_leave_everything_as_it_is_and_are_told(files, tmp_path):
    async def check():
        fault = Fault(place=None, what="no", expected="yes", got="no")
        files.result = LoadResult(faults=(fault, fault))
        async with running(configuration(A)) as (agent, _):
            made = reloader(agent, tmp_path)
            serving = asyncio.create_task(made.serve())
            answer = await made.reload()
            assert answer["error"]["code"] == "config"
            assert answer["error"]["faults"] == [fault.as_json()] * 2
            assert agent.hello().refused == "no: expected yes, got no (and 1 more)"
            assert agent.plan.specs.keys() == {"a"}
            assert made.faults == (fault, fault)
            files.result = LoadResult(configuration=configuration(A, B))
            assert "error" not in await made.reload()
            assert agent.hello().refused is None
            assert made.faults == ()
            serving.cancel()

    asyncio.run(check())


def test_what_takes_effect_only_at_a_restart_is_said(tmp_path):
    async def check():
        async with running(configuration(A)) as (agent, _):
            changes = Changes(AgentOptions(config=tmp_path, controllers=("ipc:///x",)), agent)
            warnings = changes.apply(configuration(A, host="h2", metrics="127.0.0.1:1"))
            assert warnings == [
                "agent.yaml: host h2 takes effect at a restart",
                "agent.yaml: metrics 127.0.0.1:1 takes effect at a restart",
            ]

    asyncio.run(check())


def test_the_command_line_wins_over_agent_yaml(tmp_path):
    async def check():
        async with running(configuration(A)) as (agent, _):
            given = AgentOptions(
                config=tmp_path, host="h1", metrics="x:1", controllers=("ipc:///x",)
            )
            changed_files = configuration(
                A, host="h2", metrics="127.0.0.1:1", controllers=("ipc:///y",)
            )
            assert Changes(given, agent).apply(changed_files) == []
            assert agent.links.keys() == {"ipc:///x"}

    asyncio.run(check())


@in_loop
async def test_new_controllers_in_agent_yaml_are_connected_and_old_ones_left(stub):
    other = StubController()
    try:
        async with running(configuration(A), stub.endpoint) as (agent, _):
            await stub.until(lambda: stub.values)
            changes = Changes(AgentOptions(config="/x"), agent)
            changes.apply(configuration(A, controllers=(other.endpoint,)))
            await other.until(lambda: other.values == {"a": 1.0})
            assert agent.links.keys() == {other.endpoint}
    finally:
        other.close()


@in_loop
async def test_max_running_follows_the_files(stub):
    many = [resource(f"r{i}") for i in range(8)]
    async with running(configuration(*many, max_running=2), stub.endpoint) as (agent, runs):
        runs.hold = asyncio.Event()
        await changed(agent, lambda: agent.links[stub.endpoint].registered)
        assert agent.timetable.running == 2
        agent.reconfigure(configuration(*many, max_running=5))
        assert agent.timetable.running == 5
