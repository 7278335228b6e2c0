"""The mounts probe: the kernel's table, and file systems that do not answer."""

import os
import time
from pathlib import Path

import pytest
from hung_files import hung_files

from dynres.probe import NOT_HERE, ProbeError
from dynres_probes import mounts
from dynres_probes.mounts import Found, Mount, Mounts, Options, of_types, parse, tell

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /data rw shared:5 master:2 - nfs4 nas:/data rw,vers=4.2
31 22 0:27 / /my\\040data\\134x rw - fuse.sshfs host:/ rw
32 22 0:26 /sub /data rw - nfs4 nas:/data rw
nonsense
"""
FOUND = {"/a": Found("ok"), "/b": Found("hung", "did not answer"), "/c": Found("missing", "gone\n")}


def test_the_kernels_table_gives_every_mount_with_its_type():
    assert parse(TABLE) == [
        Mount("/", "ext4"),
        Mount("/data", "nfs4"),
        Mount("/my data\\x", "fuse.sshfs"),
        Mount("/data", "nfs4"),
    ]


def test_mounts_are_found_by_type_each_once():
    assert of_types(parse(TABLE), mounts.REMOTE) == ["/data", "/my data\\x"]
    assert of_types(parse(TABLE), ("ext*",)) == ["/"]


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("ok", False),
        ("bad", 2.0),
        ("hung", 1.0),
        ("missing", 1.0),
        ("mounts", 3.0),
        ("why", "/b: did not answer; /c: gone?"),
    ],
)
def test_each_value_tells_what_it_says(what, want):
    assert tell(FOUND, what) == want


def test_all_is_well_when_every_mount_answers():
    good = {"/a": Found("ok")}
    assert (tell(good, "ok"), tell(good, "bad"), tell(good, "why")) == (True, 0.0, "")


def test_why_is_never_longer_than_a_string_value_may_be():
    many = {f"/mnt/ü{i:03}": Found("hung", "did not answer") for i in range(100)}
    assert len(str(tell(many, "why")).encode()) <= 1024


def test_a_mount_that_answers_and_one_that_is_not_mounted(tmp_path):
    read = Mounts(Options(paths=("/", "/proc/", str(tmp_path)), what=("bad", "why"))).read()
    assert read == {"bad": 1.0, "why": f"{tmp_path}: not mounted"}


def test_a_host_without_such_mounts_is_not_here():
    assert Mounts(Options(types=("nosuchfs",))).read() == {"ok": NOT_HERE}


def test_relative_paths_and_empty_lists_are_refused():
    for options in ({"paths": ("data",)}, {"what": ()}, {"timeout": 0.0}):
        with pytest.raises(ValueError, match=r"paths|what|timeout"):
            Options(**options)


def test_a_table_that_cannot_be_read_is_a_failure(monkeypatch):
    monkeypatch.setattr(mounts, "MOUNTINFO", Path("/nowhere/mountinfo"))
    with pytest.raises(ProbeError, match="/nowhere/mountinfo: No such file"):
        Mounts(Options()).read()


def waiting_for(path: Path) -> int:
    """How many processes ask that file system."""
    found = 0
    for child in Path("/proc/self/task").glob("*/children"):
        for pid in child.read_text().split():
            try:
                found += str(path) in Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue
    return found


@pytest.mark.parametrize("unkillable", [False, True])
def test_a_mount_that_hangs_is_told_within_the_timeout_and_its_neighbours_are_not(
    tmp_path, unkillable
):
    folder = tmp_path / "dead"
    before = len(os.listdir("/proc/self/fd"))
    with hung_files(folder, unkillable=unkillable) as files:
        probe = Mounts(Options(paths=("/", str(folder)), what=("hung", "why"), timeout=0.3))
        for _ in range(3):
            began = time.monotonic()
            read = probe.read()
            assert time.monotonic() - began < 5
            assert read["hung"] == 1.0
            assert str(folder) in str(read["why"])
            assert "/:" not in str(read["why"]).replace(f"{folder}:", "")
            assert waiting_for(folder) <= 1, "a question that hangs must not pile up"
        files.let_go()
        deadline = time.monotonic() + 10
        while probe.read()["hung"] or len(os.listdir("/proc/self/fd")) > before:
            assert time.monotonic() < deadline
    assert waiting_for(folder) == 0


def test_a_question_that_hangs_survives_its_instance_and_is_still_not_asked_twice(tmp_path):
    folder = tmp_path / "dead"
    with hung_files(folder, unkillable=True) as files:
        for _ in range(3):
            again = Mounts(Options(paths=(str(folder),), what=("ok",), timeout=0.2))
            assert again.read() == {"ok": False}
            assert waiting_for(folder) <= 1
        files.let_go()
        while again.read() != {"ok": False} or waiting_for(folder):
            time.sleep(0.01)
