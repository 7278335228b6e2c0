"""Becoming the service's user: for good, with what the service has and nothing more."""

import os
import pwd
from pathlib import Path

import pytest

from dynres.cli import service_user
from dynres.cli.service_user import asked_as, become_service_user, service_account

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
NOBODY = pwd.getpwnam("nobody")
SETUID = 1 << 7


def in_a_child(work):
    """What `work` returns in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def held():
    """Users, groups, effective and ambient capabilities of this process."""
    lines = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    masks = tuple(int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapAmb"))
    return set(lines["Uid"].split()), set(lines["Gid"].split()), masks


@pytest.fixture
def everybody(monkeypatch):
    """As if the service's user could execute this Python wherever it lies."""
    monkeypatch.setattr(service_user, "_can_execute_us", lambda: True)


@pytest.mark.parametrize("capabilities", [0, SETUID])
def test_nothing_of_root_is_left_but_the_capabilities_that_the_service_has(everybody, capabilities):
    def become():
        become_service_user(capabilities)
        return held()

    account = service_account()
    want = {str(account.pw_uid)}, {str(account.pw_gid)}, (capabilities,) * 3
    assert in_a_child(become) == repr(want)


def test_the_folder_and_the_mask_are_a_services(everybody):
    def become():
        become_service_user()
        return str(Path.cwd()), os.umask(0), os.environ["USER"]

    assert in_a_child(become) == repr(("/", 0o022, service_account().pw_name))


def test_where_the_service_cannot_execute_us_we_stay_root_and_say_so(monkeypatch, capsys):
    monkeypatch.setattr(service_user, "_can_execute_us", lambda: False)
    monkeypatch.setattr(service_user, "_as_a_service", lambda: None)
    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setenv("USER", "root")
    become_service_user()
    assert os.geteuid() == 0
    assert "cannot execute" in capsys.readouterr().err


def test_a_question_is_asked_as_another_user(tmp_path):
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    assert not asked_as(NOBODY, lambda: os.access(secret, os.R_OK))
    assert asked_as(NOBODY, lambda: os.geteuid() == NOBODY.pw_uid)
    assert os.geteuid() == 0
