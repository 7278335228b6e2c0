"""Who is logged in, and the clock-proof time of the newest activity."""

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dynres_probes import logins, utmp
from dynres_probes.logind import Logind
from dynres_probes.logins import Activity, Logins

LIBC = ctypes.CDLL(None)


def records(path: Path, *entries: tuple[int, str, str, int]) -> str:
    """A utmp as the C library of this machine writes it: (kind, user, terminal, pid) each."""
    path.touch()
    LIBC.utmpxname(os.fsencode(path))
    LIBC.setutxent()
    for number, (kind, user, terminal, pid) in enumerate(entries):
        fields = (kind, pid, terminal.encode(), b"%d" % number, user.encode())
        assert LIBC.pututxline(struct.pack("hi32s4s32s", *fields).ljust(512, b"\0"))
    LIBC.endutxent()
    return str(path)


@pytest.fixture(autouse=True)
def _the_library_reads_the_systems_own_file_again():
    yield
    LIBC.utmpxname(b"/var/run/utmp")


def dead() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    return process.pid


def test_a_terminal_seen_first_is_as_idle_as_the_wall_clock_says():
    activity = Activity()
    activity.look({"/dev/pts/0": 700.0}, wall=1000.0, now=50_000.0)
    assert activity.newest == 49_700.0


def test_a_clock_set_forward_does_not_make_a_busy_terminal_idle():
    activity = Activity()
    activity.look({"/dev/pts/0": 1000.0}, wall=1000.0, now=500.0)
    activity.look({"/dev/pts/0": 1004.0}, wall=9005.0, now=505.0)
    assert activity.newest == 500.0


def test_a_clock_set_back_does_not_make_activity_in_the_future():
    activity = Activity()
    activity.look({"/dev/pts/0": 5000.0}, wall=100.0, now=500.0)
    assert activity.newest == 500.0


def test_an_unused_terminal_grows_idle_whatever_the_wall_clock_does():
    activity = Activity()
    activity.look({"/dev/pts/0": 1000.0}, wall=1000.0, now=500.0)
    activity.look({"/dev/pts/0": 1000.0}, wall=1.0, now=560.0)
    assert activity.newest == 500.0


def test_the_newest_activity_is_remembered_after_the_last_logout():
    activity = Activity()
    activity.look({"/dev/pts/0": 1000.0}, wall=1000.0, now=500.0)
    activity.look({}, wall=1300.0, now=800.0)
    assert activity.newest == 500.0


def test_nobody_was_seen_is_none_and_not_0():
    activity = Activity()
    activity.look({}, wall=1000.0, now=500.0)
    assert activity.newest is None


def test_a_login_record_that_a_crash_left_behind_does_not_count(tmp_path, monkeypatch):
    path = records(tmp_path / "utmp", (7, "ada", "pts/0", os.getpid()), (7, "bob", "pts/1", dead()))
    monkeypatch.setattr(logins, "UTMP", path)
    found = [(login.user, login.terminals) for login in Logins().read()]
    assert found == [("ada", ("/dev/pts/0",))]


def test_utmp_is_read_as_psutil_reads_it(tmp_path):
    longest = "a" * 32
    entries = [(2, "reboot", "~", 0), (7, "ada", "pts/0", 11), (8, "", "pts/1", 12)]
    entries += [(7, longest, "tty" + "1" * 29, 13), (6, "LOGIN", "tty1", 14), (7, "bob", "", 15)]
    path = records(tmp_path / "utmp", *entries)
    expected = [("ada", "pts/0", 11), (longest, "tty" + "1" * 29, 13), ("bob", "", 15)]
    assert utmp.logins(path) == expected
    assert psutil.users()[0][:2] == expected[0][:2]


@pytest.mark.parametrize("size", [None, 7])
def test_records_of_an_unknown_size_are_left_to_psutil(size, tmp_path, monkeypatch):
    path = records(tmp_path / "utmp", (7, "ada", "pts/0", 11))
    monkeypatch.setattr(utmp, "_SIZES", {os.uname().machine: size})
    assert utmp.logins(path) == [("ada", "pts/0", 11)]


def test_a_terminal_that_is_gone_or_a_graphical_display_is_left_out(tmp_path):
    (tmp_path / "tty").touch()
    assert list(logins.last_uses([str(tmp_path / "tty"), "/dev/:0"])) == [str(tmp_path / "tty")]


def test_logind_is_asked_through_its_library():
    if not Path(logins.LOGIND).exists():
        pytest.skip("no systemd-logind on this machine")
    for user, uid, _ in Logind().sessions():
        assert user
        assert uid >= 0


def test_logind_is_not_asked_where_it_knows_no_session(tmp_path, monkeypatch):
    monkeypatch.setattr(logins, "UTMP", str(tmp_path / "none"))
    monkeypatch.setattr(logins, "LOGIND", str(tmp_path))
    monkeypatch.delitem(sys.modules, "dynres_probes.logind", raising=False)
    assert Logins().read() == []
    assert "dynres_probes.logind" not in sys.modules
