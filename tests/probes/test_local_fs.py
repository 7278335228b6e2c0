"""Which file systems are asked for their size without a thread."""

import os
import subprocess
import sys

import pytest

from dynres_probes.local_fs import LocalFs, kind_of

TABLE = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:28 / /tmp rw - tmpfs tmpfs rw
31 22 0:29 / /tm rw - nfs server:/tm rw
32 30 0:30 / /tmp/jobs rw - nfs4 server:/jobs rw
33 22 0:31 / /data rw master:1 propagate_from:2 - xfs /dev/sdb1 rw
34 33 0:32 / /data rw - fuse.sshfs host:/ rw
no line of a table
"""

SEEN = """\
import os, subprocess, sys
from dynres_probes.local_fs import LocalFs
fs = LocalFs(sys.argv[1])
said = [fs.sure(), fs.sure()]
for command in (["mount", "-t", "proc", "none"], ["umount"], ["mount", "-t", "tmpfs", "none"]):
    subprocess.run([*command, sys.argv[1]], check=True)
    said += [fs.sure(), fs.sure()]
print(*said)
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp", b"tmpfs"),
        ("/tmp/own", b"tmpfs"),
        ("/tmp/jobs/7", b"nfs4"),
        ("/tmpfiles", b"ext4"),
        ("/data", b"fuse.sshfs"),
        ("/", b"ext4"),
    ],
)
def test_a_path_lies_on_the_innermost_and_topmost_mount(path, kind):
    assert kind_of(path, TABLE) == kind


def test_without_a_table_nothing_is_known(monkeypatch):
    assert kind_of("/tmp", b"") == b""
    monkeypatch.setattr("dynres_probes.local_fs.MOUNTINFO", "/nowhere")
    assert not LocalFs("/").sure()


def test_a_link_may_lead_to_where_nothing_answers(tmp_path):
    (tmp_path / "link").symlink_to("/")
    assert not LocalFs(str(tmp_path / "link")).sure()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something, in a namespace of its own")
def test_a_change_of_the_mounts_is_seen_at_once(tmp_path):
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none "$0" && mkdir "$0/on" && exec "$@"',
    ]
    run = [*command, str(tmp_path), sys.executable, "-c", SEEN, str(tmp_path / "on")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["True"] * 2 + ["False"] * 2 + ["True"] * 4
