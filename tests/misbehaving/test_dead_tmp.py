"""A real agent whose /tmp does not answer: it costs that load index, and nothing else."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from agent_process import AgentProcess
from controller_stub import StubController
from hung_files import hung_files

from dynres.config.builtin import NAMES

BENEATH = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.unshare(0x20000) == 0                                   # CLONE_NEWNS
assert libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) == 0  # private
assert libc.mount(os.fsencode(sys.argv[1]), b"/tmp", None, 0x1000, None) == 0  # bind
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes another command, whose /tmp is the first argument."""


@pytest.fixture
def home():
    """A folder that is not in /tmp."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="dynres-dead-tmp-"))
    (folder / "config").mkdir()
    (folder / "config/resources.yaml").write_text("resources: []\n")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_tmp_that_does_not_answer_costs_only_its_load_index(home):
    async def run(dead):
        stub = StubController()
        under = (sys.executable, "-c", BENEATH, str(dead))
        agent = AgentProcess(home, "--controller", stub.endpoint, "--once", under=under)
        try:
            assert await agent.ended() == 0
            await stub.until(lambda: stub.values.keys() >= NAMES)
            values = {name: stub.values[name] for name in NAMES}
        finally:
            agent.close()
            stub.close()
        return {name for name, value in values.items() if value is None}, agent.said()

    with hung_files(home / "dead") as dead:
        missing, said = asyncio.run(run(dead.folder))
    assert missing == {"tmp", "ut", "io"}, said  # rates have no first sample
