"""The children of `dynres up` and its folder: nothing outlives it."""

import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest
from cluster import wait_for

from dynres.cli import scratch
from dynres.cli.children import Child
from dynres.cli.scratch import free_ports, scratch_folder, sweep


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module that a child can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(text):
        (tmp_path / "sample_daemon.py").write_text(textwrap.dedent(text))
        return "sample_daemon"

    return make


def start(module, *arguments, lines=None):
    def keep(name, text):
        if lines is not None:
            lines.append((name, text))

    return Child("sample", module, arguments, {}, keep)


def test_a_child_gets_its_arguments_and_its_stderr_is_heard(module):
    lines = []
    child = start(
        module("import sys; print(*sys.argv[1:], file=sys.stderr)"), "--a", "b", lines=lines
    )
    wait_for(lambda: child.ended is not None)
    child.stop()
    assert lines == [("sample", "--a b")]
    assert list(child.lines) == ["--a b"]


def test_a_child_is_asked_to_end_and_its_exit_status_is_known(module):
    source = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        print("ready", file=sys.stderr, flush=True)
        signal.pause()
    """
    ready, say = os.pipe()
    child = Child("sample", module(source), (), {}, lambda *_: os.write(say, b"."))
    os.read(ready, 1)
    assert child.ended is None
    child.stop()
    assert child.ended == 3
    os.close(ready)
    os.close(say)


def test_a_child_ends_when_its_parent_is_killed(module, tmp_path):
    daemon = module("import signal, sys; print('up', file=sys.stderr, flush=True); signal.pause()")
    parent = f"""
        import os, sys
        from dynres.cli.children import Child
        child = Child("sample", {daemon!r}, (), {{}}, lambda *_: os.write(1, b"."))
        print(child._process.pid, flush=True)
        sys.stdin.read()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    said = b""
    while b"." not in said or b"\n" not in said:
        said += os.read(process.stdout.fileno(), 64)
    child = os.pidfd_open(int(said.replace(b".", b"")))
    process.kill()
    process.communicate()
    try:
        assert select.select([child], [], [], 10)[0], "the child has outlived its parent"
    finally:
        os.close(child)


def test_a_child_takes_signals_although_its_parent_waits_for_them(module):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        child = start(module("import signal; signal.pause()"))
        child.stop()
        assert child.ended == -signal.SIGTERM
        signal.sigtimedwait({signal.SIGCHLD}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_folder_is_gone_afterwards_and_one_that_a_killed_run_left_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "dynres-up-left"
    left.mkdir()
    (left / "lock").touch()
    with scratch_folder() as folder:
        assert not left.exists()
        assert folder.stat().st_mode & 0o777 == 0o700
        sweep(tmp_path)
        assert folder.exists(), "a folder in use was swept"
    assert list(tmp_path.iterdir()) == []


def test_free_ports_are_all_different():
    ports = free_ports(4)
    assert len(set(ports)) == 4
    assert all(1024 < port < 65536 for port in ports)


def test_where_there_are_too_few_free_ports_that_is_an_error_and_no_endless_search(monkeypatch):
    monkeypatch.setattr(scratch, "_first_of_the_kernel", lambda: 0)
    monkeypatch.setattr(scratch, "_TRIES", 3)
    with pytest.raises(OSError, match="fewer than 4 free ports in 10000-10999"):
        free_ports(4)
