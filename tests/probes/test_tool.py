"""Programs that probes run: bounded, ended in time, and with all that they started."""

import os
import shlex
import time
from pathlib import Path
from uuid import uuid4

import pytest
from agent_process import marked

from dynres.probe import ProbeError
from dynres_probes import tool


def shell(text: str, seconds: float = 10.0, limit: int = 1000) -> tool.Finished:
    return tool.run(("/bin/sh", "-c", text), seconds, limit)


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 5
    while marked(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not marked(marker)


def test_output_and_exit_status_are_handed_over():
    assert shell("echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
    assert shell("kill -9 $$").status == -9


def test_a_tool_is_ended_in_time_with_all_that_it_started_also_in_sessions_of_their_own():
    marker = uuid4().hex
    sleep = f"sleep 600 # {marker}"
    nested = shlex.quote(f"{sleep}\n:")
    began = time.monotonic()
    with pytest.raises(ProbeError, match=r"/bin/sh: did not end within 0.5 s"):
        shell(f"setsid sh -c {nested} & sh -c {nested} & sh -c {nested}", 0.5)
    assert time.monotonic() - began < 20
    assert gone(marker)


def test_what_a_tool_leaves_in_the_background_ends_with_it():
    marker = uuid4().hex
    nested = shlex.quote(f"sleep 600 # {marker}\n:")
    done = shell(f"setsid sh -c {nested} & echo done")
    assert done == (0, "done\n", "")
    assert gone(marker)


def test_a_flood_is_ended_at_the_limit():
    with pytest.raises(ProbeError, match="more than 1000 bytes of output"):
        shell("yes")


def test_a_flood_of_messages_harms_nothing_and_its_end_is_kept():
    done = shell("yes message | head -c 1000000 >&2; echo last >&2; echo out")
    assert done.stdout == "out\n"
    assert done.stderr.endswith("last\n")
    assert len(done.stderr) <= tool.STDERR_KEPT


def test_no_run_leaves_a_descriptor_or_a_zombie():
    before = len(os.listdir("/proc/self/fd"))
    for text in ("true", "exit 1", "yes", "sleep 600"):
        try:
            shell(text, 0.2)
        except ProbeError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
    children = Path("/proc/self/task").glob("*/children")
    assert [pid for path in children for pid in path.read_text().split() if _zombie(pid)] == []


def _zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def test_a_program_that_is_none_is_told_apart():
    with pytest.raises(FileNotFoundError, match="/nowhere/tool: no such program"):
        tool.run(("/nowhere/tool",), 1.0)
    with pytest.raises(ProbeError, match="/etc/passwd: not an executable file"):
        tool.run(("/etc/passwd",), 1.0)


def test_the_pipes_of_a_tool_block_as_any_program_expects():
    done = shell("yes | head -c 700000", limit=800_000)
    assert (done.status, len(done.stdout), done.stderr) == (0, 700_000, "")
