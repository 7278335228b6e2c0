"""Start errors say what a person can act on."""

import asyncio
import errno
import os

import pytest
from launching import launch, launch_without, request, shell, with_launcher

from dynres.worker.start_errors import explain


def script(folder, text, mode=0o755):
    path = folder / "probe"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def refused_start(asked):
    result = launch(asked)
    assert (result.status, result.exit, result.signal) == ("start_error", None, None)
    return result.reason


def test_no_such_file(tmp_path):
    assert refused_start(request(f"{tmp_path}/none")) == f"no such file: {tmp_path}/none"


def test_no_such_program_in_path():
    asked = request("no-such-program", env={"PATH": "/usr/bin:/bin"})
    assert refused_start(asked) == "no such program in PATH (/usr/bin:/bin): no-such-program"


def test_a_path_that_is_not_absolute(tmp_path):
    assert refused_start(request("./probe")) == "not an absolute path: ./probe"


def test_not_executable(tmp_path):
    path = script(tmp_path, b"#!/bin/sh\n", 0o644)
    assert refused_start(request(path)) == f"not executable (mode 0644; chmod +x): {path}"


def test_a_folder(tmp_path):
    assert refused_start(request(str(tmp_path))) == f"a folder, not a program: {tmp_path}"


def test_no_interpreter_line(tmp_path):
    path = script(tmp_path, b"echo 5\n")
    assert refused_start(request(path)) == (
        f"no `#!` line, and not a program of this machine: {path}"
    )


def test_an_empty_file_has_no_interpreter_line(tmp_path):
    assert refused_start(request(script(tmp_path, b""))).startswith("no `#!` line")


def test_crlf_in_the_interpreter_line(tmp_path):
    path = script(tmp_path, b"#!/bin/sh\r\necho 5\r\n")
    assert refused_start(request(path)) == (
        f"interpreter `/bin/sh\\r` not found: {path} has CRLF line ends; save it with LF"
    )


def test_an_interpreter_that_is_not_there(tmp_path):
    path = script(tmp_path, b"#! /opt/none/perl -w\n")
    assert refused_start(request(path)) == (
        f"interpreter `/opt/none/perl` not found: the `#!` line of {path} names it"
    )


def test_a_program_that_stays_open_for_writing_is_busy(tmp_path):
    path = script(tmp_path, b"#!/bin/sh\n")
    with open(path, "ab"):
        assert refused_start(request(path)).startswith("text file busy")


def test_a_program_that_is_busy_for_a_moment_is_tried_again(tmp_path):
    path = script(tmp_path, b"#!/bin/sh\necho 5\n")

    async def run(client):
        with open(path, "ab"):
            task = asyncio.create_task(client.run(request(path)))
            await asyncio.sleep(0.05)
        return await task

    assert with_launcher(run).stdout == b"5\n"


def test_an_argument_list_that_is_too_long():
    assert refused_start(request("/bin/true", "x" * 200_000)).startswith("argument list too long")


def test_a_nul_in_an_argument():
    assert "NUL" in refused_start(request("/bin/true", "a\0b"))


def test_a_working_folder_that_is_not_there(tmp_path):
    asked = request("/bin/true", cwd=f"{tmp_path}/gone")
    assert refused_start(asked) == f"the working folder does not exist: {tmp_path}/gone"


def test_a_working_folder_that_is_a_file(tmp_path):
    path = script(tmp_path, b"")
    assert refused_start(request("/bin/true", cwd=path)) == (
        f"the working folder is not a folder: {path}"
    )


def test_a_user_that_does_not_exist():
    assert refused_start(shell("id", user="no-such-user")) == "no such user: no-such-user"


@pytest.mark.skipif(os.geteuid() != 0, reason="changing user needs root")
def test_another_user_runs_it_with_its_groups_only():
    result = launch(shell("id -un; id -G; ls -l /proc/self/fd | wc -l", user="nobody"))
    name, groups, _ = result.stdout.decode().splitlines()
    assert (name, groups) == ("nobody", "65534")


def test_another_user_is_refused_with_what_is_missing():
    user = "nobody" if os.geteuid() == 0 else "root"
    result = launch_without("setuid,setgid,kill", shell("id", user=user))
    assert (result.status, result.reason) == (
        "start_error",
        f"cannot run probes as {user}: Operation not permitted"
        " (the agent needs CAP_SETUID, CAP_SETGID and CAP_KILL, or to be root)",
    )


def test_too_many_processes():
    error = OSError(errno.EAGAIN, "again", "/bin/true")
    assert explain(error, "/bin/true", "/").startswith("too many processes")
