"""`dynres agent --once` with streams: each has its time for a record, and none holds it up."""

import asyncio

from agent_process import AgentProcess
from controller_stub import StubController

FILES = """\
resources:
  - name: streamed
    interval: 1s
    ttl: 10m
    probe:
      mode: stream
      timeout: 2s
      command: [/bin/sh, -c, "echo 5; exec sleep 600"]
    resourcemap: [{location: [default]}]
  - name: silent
    interval: 1s
    ttl: 10m
    probe: {mode: stream, timeout: 2s, command: [/bin/sh, -c, "exec sleep 600"]}
    resourcemap: [{location: [default]}]
  - name: fails
    interval: 1h
    probe: {command: [/bin/false]}
    resourcemap: [{location: [default]}]
"""


def test_a_stream_that_stays_silent_ends_with_its_timeout_and_not_with_its_ttl(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/resources.yaml").write_text(FILES)

    async def run():
        stub = StubController()
        agent = AgentProcess(tmp_path, "--controller", stub.endpoint, "--once")
        try:
            assert await agent.ended() == 0
            await stub.until(lambda: stub.values.get("streamed") == 5)
            assert stub.values["fails"] is None
            assert stub.values.get("silent") is None
            assert "probe silent: no record within 2 s" in agent.said()
        finally:
            agent.close()
            stub.close()

    asyncio.run(run())
