import asyncio
import os
import time
from pathlib import Path

import pytest

from dynres.worker import files
from dynres.worker.files import Reader

GOOD = """\
resources:
  - {name: r, interval: 10s, probe: {command: [/bin/echo, "1"]}, resourcemap: [{location: [all]}]}
"""


def read(folder, within=30.0):
    async def inner():
        return await Reader(folder).result(within)

    return asyncio.run(inner())


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_a_valid_folder_gives_its_configuration(tmp_path):
    (tmp_path / "resources.yaml").write_text(GOOD)
    result = read(tmp_path)
    assert result.faults == ()
    assert result.configuration.resource("r").interval == 10.0
    assert children() == []


def test_a_faulty_folder_gives_every_fault_with_its_place(tmp_path):
    (tmp_path / "resources.yaml").write_text(GOOD.replace("interval", "intervall"))
    result = read(tmp_path)
    assert result.configuration is None
    assert "resources.yaml:2:" in str(result.faults[0])
    assert "intervall" in " ".join(map(str, result.faults))


def test_a_folder_that_is_not_there_is_a_fault(tmp_path):
    result = read(tmp_path / "nowhere")
    assert result.configuration is None
    assert "nowhere" in " ".join(map(str, result.faults))


def interpreter(tmp_path, text):
    """An executable in the place of Python, which does what `text` says."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_reader_that_hangs_is_ended_within_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(files.sys, "executable", interpreter(tmp_path, "exec sleep 600"))
    begun = time.monotonic()
    result = read(tmp_path, within=0.3)
    assert "could not be read within 0.3 s" in str(result.faults[0])
    assert time.monotonic() - begun < 10
    assert children() == []


@pytest.mark.parametrize(
    ("does", "says"), [("exit 3", "exit status 3"), ("echo nonsense", "exit status 0")]
)
def test_a_reader_that_does_not_do_its_job_is_a_fault(tmp_path, monkeypatch, does, says):
    monkeypatch.setattr(files.sys, "executable", interpreter(tmp_path, does))
    result = read(tmp_path)
    assert says in str(result.faults[0])


def test_a_configuration_without_bound_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files.sys, "executable", interpreter(tmp_path, "exec cat /dev/zero"))
    monkeypatch.setattr(files, "RESULT_LIMIT", 1 << 20)
    assert "too large" in str(read(tmp_path).faults[0])
    assert children() == []


def test_a_stop_while_reading_ends_the_reader_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files.sys, "executable", interpreter(tmp_path, "exec sleep 600"))

    async def inner():
        task = asyncio.create_task(Reader(tmp_path).result())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(inner())
    assert children() == []
