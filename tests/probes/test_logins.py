"""Who is logged in, and the clock-proof time of the newest activity."""

import os
from collections import namedtuple

import psutil
import pytest

from dynres_probes import logins
from dynres_probes.logind import Logind
from dynres_probes.logins import Activity, Login, Logins

Entry = namedtuple("Entry", "name terminal pid")


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
    (tmp_path / "utmp").touch()
    monkeypatch.setattr(logins, "UTMP", tmp_path / "utmp")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    entries = [Entry("ada", "pts/0", os.getpid()), Entry("bob", "pts/1", child)]
    monkeypatch.setattr(psutil, "users", lambda: entries)
    assert Logins().read() == [Login("ada", ("/dev/pts/0",))]


def test_a_terminal_that_is_gone_or_a_graphical_display_is_left_out(tmp_path):
    (tmp_path / "tty").touch()
    assert list(logins.last_uses([str(tmp_path / "tty"), "/dev/:0"])) == [str(tmp_path / "tty")]


def test_logind_is_asked_through_its_library():
    if not logins.LOGIND.exists():
        pytest.skip("no systemd-logind on this machine")
    for session in Logind().sessions():
        assert session.user
