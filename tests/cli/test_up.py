"""`dynres up`: values within seconds, on a terminal and without one, and nothing left behind."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from cluster import dynres, wait_for

FOLDER = Path(__file__).parent / "folder"


@pytest.fixture
def scratch():
    """A short folder for temporary files: a socket's path may have 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="du"))
    yield folder
    left = list(folder.iterdir())
    shutil.rmtree(folder)
    assert left == []


@contextmanager
def started(scratch, folder=FOLDER, **streams):
    """A running `up`, and no process of it afterwards."""
    command = [sys.executable, "-m", "dynres", "up", "--config", str(folder), "--host", "host1"]
    environment = {**os.environ, "TMPDIR": str(scratch), "TERM": "xterm", "PYTHONUNBUFFERED": ""}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
    family: list[psutil.Process] = []
    process.family = family  # who it has started, where the test looks
    try:
        yield process
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


def count_family(process):
    process.family.extend(psutil.Process(process.pid).children(recursive=True))
    assert len(process.family) >= 3  # controller, agent, launcher


def lines_until(process, wanted, seconds=30.0):
    """Lines up to the first after which each of `wanted` was found in one of them."""
    lines, missing, deadline = [], set(wanted), time.monotonic() + seconds
    while missing:
        line = process.stdout.readline()
        assert line, f"ended without {missing}:\n{''.join(lines)}\n{process.communicate()[1]}"
        lines.append(line)
        missing = {text for text in missing if text not in line}
        assert time.monotonic() < deadline, f"not in time: {missing}\n{''.join(lines)}"
    return lines


def test_without_a_terminal_each_value_is_a_line_and_a_signal_ends_it_cleanly(scratch):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(scratch, **pipes) as process:
        lines = lines_until(
            process,
            [
                "host1 room = 7.5 GB (probe room on host1, ",
                "host1 broken = unavailable: ",
                "host1 os = el9 (static resources.yaml:14:",
                "pool iris: 98 of 100 free for host1 (resources.yaml:17:",
                "host1 mem = ",
            ],
        )
        text = "".join(lines)
        count_family(process)
        for page in re.findall(r"http://\S+/metrics", text):
            with urllib.request.urlopen(page, timeout=5) as answer:
                assert b"dynres_" in answer.read()
        assert len(re.findall(r"http://\S+/metrics", text)) == 2
        setting = re.search(r"(DYNRES_CONTROLLER)=(\S+) dynres values", text)
        assert dynres("values", env=dict([setting.groups()])).returncode == 0
        setting = re.search(r"(DYNRES_RUNTIME)=(\S+) dynres status", text)
        assert dynres("status", env=dict([setting.groups()])).returncode == 0
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors


def test_in_a_terminal_it_is_a_live_table_that_ctrl_c_ends(scratch):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    shown = b""

    def read():
        nonlocal shown
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the last writer is gone
            return False
        return True

    def lines():
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).splitlines()

    def seen(*words):
        return any(all(word in line for word in words) for line in lines())

    with started(scratch, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        deadline = time.monotonic() + 30
        while not (seen("host1", "room", "7.5", "GB", "fresh") and seen("iris", "98", "+...")):
            assert read()
            assert time.monotonic() < deadline, "\n".join(lines())
        assert seen("HOST", "RESOURCE", "VALUE", "UNIT", "STATE", "AGE", "SOURCE")
        assert seen("POOL", "CAPACITY", "FREE")
        count_family(process)
        process.send_signal(signal.SIGINT)  # as the terminal does, to the foreground process
        while read():
            pass
        assert process.wait(20) == 0
    os.close(ours)
    assert b"\x1b[?25h" in shown, "the cursor is still hidden"
    assert b"Traceback" not in shown


def test_a_killed_up_takes_its_daemons_with_it_and_the_next_one_sweeps(scratch):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with started(scratch, **pipes) as process:
        lines_until(process, ["room = 7.5"])
        count_family(process)
        process.kill()
        process.wait()
        process.stdout.close()
    assert len(list(scratch.iterdir())) == 1
    with started(scratch, **pipes) as process:
        lines_until(process, ["dynres up"])
        assert len(list(scratch.iterdir())) == 1
        process.terminate()
        assert process.wait(20) == 0
        process.stdout.close()


def test_a_bad_folder_is_shown_with_its_faults_and_the_daemons_exit_code(scratch, tmp_path):
    (tmp_path / "resources.yaml").write_text("resources:\n  - {name: a, typ: numeric}\n")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(scratch, tmp_path, **pipes) as process:
        out, errors = process.communicate(timeout=20)
        assert process.returncode == 2
        assert "resources.yaml:2:15: " in errors
        assert "Traceback" not in errors
        assert out == ""


def test_a_reader_that_goes_away_ends_it(scratch):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(scratch, **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        wait_for(lambda: process.poll() is not None, 20)
        assert process.returncode == 0
        process.stderr.close()


def test_a_daemon_that_dies_ends_it_with_its_name(scratch):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(scratch, **pipes) as process:
        lines_until(process, ["room = 7.5"])
        count_family(process)
        [controller] = [p for p in process.family if "dynres.controller" in p.cmdline()]
        controller.kill()
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "the controller was killed by SIGKILL" in errors
