"""The disk probe: what it measures, in which unit, and how it fails."""

import os

import pytest

from dynres.probe import ProbeError
from dynres_probes.disk import DiskFree, Options, Room, measure

GB = 2**30
ROOM = Room(total=100 * GB, free=30 * GB, available=25 * GB, free_inodes=1234)


@pytest.mark.parametrize(
    ("what", "unit", "want"),
    [
        ("free", "GB", 25.0),
        ("used", "GB", 70.0),
        ("total", "GB", 100.0),
        ("free", "MB", 25 * 1024.0),
        ("total", "TB", 0.097),
        ("free", "bytes", 25.0 * GB),
        ("free_percent", "GB", 26.32),
        ("used_percent", "GB", 73.68),
        ("free_inodes", "GB", 1234.0),
    ],
)
def test_each_measure_is_what_it_says_in_the_unit_asked_for(what, unit, want):
    assert measure(ROOM, what, unit) == want


def test_free_is_what_ordinary_users_can_write_and_not_roots_reserve():
    assert measure(ROOM, "free", "GB") < (ROOM.total - ROOM.free) / GB
    stat = os.statvfs("/")
    want = stat.f_bavail * stat.f_frsize / GB
    assert DiskFree(Options(path="/")).read()["free"] == pytest.approx(want, rel=0.1)


def test_sizes_are_rounded_down_so_that_nobody_is_promised_too_much():
    room = Room(total=0, free=0, available=GB - 1, free_inodes=0)
    assert measure(room, "free", "GB") == 0.999


def test_the_value_is_named_after_what_is_measured(tmp_path):
    assert list(DiskFree(Options(path=str(tmp_path), what="free_inodes")).read()) == ["free_inodes"]


def test_a_missing_path_fails_with_words_and_not_with_0(tmp_path):
    with pytest.raises(ProbeError, match=r"/nowhere: No such file or directory"):
        DiskFree(Options(path=f"{tmp_path}/nowhere")).read()


def test_a_disk_that_is_not_mounted_fails_instead_of_telling_of_the_root_file_system(tmp_path):
    with pytest.raises(ProbeError, match="not a mount point"):
        DiskFree(Options(path=str(tmp_path), mounted=True)).read()
    assert DiskFree(Options(path="/", mounted=True)).read()


def test_a_file_system_without_a_size_has_no_percentage():
    with pytest.raises(ProbeError, match="no percentage"):
        DiskFree(Options(path="/proc", what="used_percent")).read()


def test_a_relative_path_is_refused_when_the_probe_is_made():
    with pytest.raises(ValueError, match="expected an absolute path, got 'scratch'"):
        Options(path="scratch")
