"""The SQLite ledger alone: one holder, epochs, faults of files and disks, crashes."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ledgers import NOW, Clock, commit, end, grant, lease

from dynres.controller import ledger as module
from dynres.controller import ledger_schema
from dynres.controller.changes import HISTORY_KEPT, Event
from dynres.controller.history import HistoryAsk
from dynres.controller.ledger import SqliteLedger
from dynres.controller.ledger_base import (
    LedgerDamagedError,
    LedgerError,
    LedgerFencedError,
    LedgerHeldError,
    LedgerNewerError,
    LedgerUnwritableError,
)
from dynres.controller.ledger_lock import FUSE, mounted_as, network_file_system

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parent / 'support'}"}


def python(script: str, *arguments: str, **keys: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=50, check=False, **keys,
    )  # fmt: skip


def submit(ledger: SqliteLedger, *changes: object) -> LedgerError | None:
    """The outcome of one commit."""
    told: list[LedgerError | None] = []
    done = module.threading.Event()
    ledger.submit(changes, lambda error: (told.append(error), done.set()))  # type: ignore[arg-type,func-returns-value]
    assert done.wait(20)
    return told[0]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger(tmp_path, wall=Clock())
    made.load()
    yield made
    made.close()


def test_a_second_controller_is_refused_and_told_who_is_active(ledger: SqliteLedger):
    with pytest.raises(LedgerHeldError, match=rf"pid {os.getpid()} on "):
        SqliteLedger(ledger.path.parent)
    other = python(
        "import sys, pathlib; from dynres.controller.ledger import SqliteLedger\n"
        "SqliteLedger(pathlib.Path(sys.argv[1]))",
        str(ledger.path.parent),
    )
    assert "another controller is active on this ledger (pid" in other.stderr
    commit(ledger, grant(lease(1)))


def test_the_lock_goes_with_its_process(tmp_path: Path):
    script = (
        "import os, sys, pathlib; from dynres.controller.ledger import SqliteLedger\n"
        "SqliteLedger(pathlib.Path(sys.argv[1])).load(); os.kill(os.getpid(), 9)"
    )
    assert python(script, str(tmp_path)).returncode == -signal.SIGKILL
    SqliteLedger(tmp_path).close()


def test_every_write_checks_the_epoch(ledger: SqliteLedger):
    with sqlite3.connect(ledger.path) as other:
        other.create_function("checksum", -1, ledger_schema.checksum)
        other.execute("UPDATE meta SET epoch = epoch + 1, sum = checksum(epoch + 1, folded)")
    other.close()
    assert isinstance(submit(ledger, grant(lease(1))), LedgerFencedError)
    with pytest.raises(LedgerFencedError):
        ledger._fold_now()
    ledger.close()
    again = SqliteLedger(ledger.path.parent)
    assert again.load().leases == {}
    again.close()


def test_a_ledger_of_a_newer_version_is_refused_and_left_as_it_is(ledger: SqliteLedger):
    commit(ledger, grant(lease(1)))
    ledger.close()
    newer = ledger_schema.VERSION + 1
    with sqlite3.connect(ledger.path) as other:
        other.execute(f"PRAGMA user_version = {newer}")
    other.close()
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerNewerError, match=f"schema {newer}, this one knows"):
        SqliteLedger(ledger.path.parent)
    assert ledger.path.read_bytes() == before


def test_an_older_ledger_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    old = SqliteLedger(tmp_path)
    old.load()
    commit(old, grant(lease(1)))
    old.close()
    steps = (*ledger_schema.STEPS, ("ALTER TABLE meta ADD COLUMN more TEXT",))
    monkeypatch.setattr(ledger_schema, "STEPS", steps)
    monkeypatch.setattr(ledger_schema, "VERSION", len(steps))
    new = SqliteLedger(tmp_path)
    assert list(new.load().leases) == ["1-1"]
    new.close()
    with sqlite3.connect(old.path) as db:
        assert db.execute("SELECT more FROM meta").fetchone() == (None,)
        assert db.execute("PRAGMA user_version").fetchone() == (len(steps),)
    db.close()


def test_a_damaged_file_is_refused_with_what_to_do(ledger: SqliteLedger):
    for n in range(300):
        ledger.submit((grant(lease(n)),), lambda error: None)
    commit(ledger)
    ledger.close()
    whole = ledger.path.read_bytes()
    for damaged in (
        b"not a database" * 400,
        whole[: len(whole) // 2],
        whole[:4200] + b"\xff" * 9000,
    ):
        ledger.path.write_bytes(damaged)
        with pytest.raises(LedgerDamagedError, match="put a backup in its place"):
            SqliteLedger(ledger.path.parent).load()


def test_someone_elses_database_is_refused(tmp_path: Path):
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("CREATE TABLE mine (x)")
        db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(LedgerDamagedError, match="not a ledger of dynres"):
        SqliteLedger(tmp_path)


def test_a_row_that_cannot_be_read_is_damage(ledger: SqliteLedger):
    commit(ledger, grant(lease(1)))
    with sqlite3.connect(ledger.path) as other:
        other.execute("UPDATE journal SET changes = '[{}]'")
    other.close()
    ledger.close()
    again = SqliteLedger(ledger.path.parent)
    with pytest.raises(LedgerDamagedError):
        again.load()
    with pytest.raises(LedgerDamagedError):
        again.history(HistoryAsk())
    again.close()


def test_what_nobody_expected_fails_those_who_wait_and_nobody_else(ledger: SqliteLedger):
    error = submit(ledger, Event("wait", detail="\ud800"))  # no text that can be written
    assert isinstance(error, LedgerUnwritableError)
    assert "surrogates" in str(error)
    assert submit(ledger, Event("wait", detail="fine")) is None


def test_the_folder_is_not_there(tmp_path: Path):
    with pytest.raises(LedgerUnwritableError, match="No such file"):
        SqliteLedger(tmp_path / "nowhere")


IN_NAMESPACE = """
import subprocess, sys, pathlib
from test_ledgers import commit, end, grant, lease
from test_sqlite_ledger import submit
from dynres.controller.history import HistoryAsk
from dynres.controller.ledger import SqliteLedger
from dynres.controller.ledger_base import LedgerUnwritableError
folder = pathlib.Path(sys.argv[1])
def mount(*words): subprocess.run(["mount", *words, str(folder)], check=True)
mount("-t", "tmpfs", "-o", "size=2m", "dynres-test")
ledger = SqliteLedger(folder)
assert ledger.load().leases == {}
held = {}
def fill():
    n = 2 * len(held)
    while True:
        one = lease(n, "x" * 2000)
        error = submit(ledger, grant(one))
        if error is not None:
            return error
        held[one.id] = one
        n += 1
"""

FULL = """
error = fill()
assert isinstance(error, LedgerUnwritableError), error
assert "the disk is full" in str(error)
for _ in range(2):
    assert isinstance(submit(ledger, end(held["1-0"])), LedgerUnwritableError)
assert len(ledger.history(HistoryAsk())) == len(held)
mount("-o", "remount,size=4m")
commit(ledger, end(held.pop("1-0")))
commit(ledger, grant(lease(9_000_000)))
held["1-9000000"] = lease(9_000_000)
assert isinstance(fill(), LedgerUnwritableError)
ledger.close()
try:
    SqliteLedger(folder).close()
except LedgerUnwritableError as error:
    assert "the disk is full" in str(error)
mount("-o", "remount,size=32m")
ledger = SqliteLedger(folder)
assert ledger.load().leases == held
commit(ledger, *map(end, held.values()))
ledger.close()
"""

READ_ONLY = """
one = lease(1)
commit(ledger, grant(one))
commit(ledger, grant(lease(2)))
ledger.close()
mount("-o", "remount,ro")
try:
    SqliteLedger(folder).close()
except LedgerUnwritableError as error:
    assert "Read-only file system" in str(error)
else:
    raise AssertionError
mount("-o", "remount,rw")
ledger = SqliteLedger(folder)
assert list(ledger.load().leases) == ["1-1", "1-2"]
ledger.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("script", [FULL, READ_ONLY], ids=["full", "read-only"])
def test_a_disk_that_takes_nothing_is_a_clear_error_and_all_goes_on_when_it_does(
    script: str, tmp_path: Path
):
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c"]
    done = subprocess.run(
        [*command, IN_NAMESPACE + script, str(tmp_path)],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("number", "kind", "name"),
    [
        (0x6969, "nfs4", "NFS"),
        (0xFE534D42, "cifs", "SMB2"),
        (0x0BD00BD0, "lustre", "Lustre"),
        (0x47504653, "gpfs", "GPFS"),
        (0x19830326, "beegfs", "BeeGFS"),
        (FUSE, "fuse.sshfs", "fuse.sshfs"),
        (FUSE, "fuse.glusterfs", "fuse.glusterfs"),
        (FUSE, None, "FUSE"),
        (FUSE, "fuseblk", None),
        (0xEF53, "ext4", None),
        (0x58465342, "xfs", None),
        (0x01021994, "tmpfs", None),
        (0x794C7630, "overlay", None),
    ],
)
def test_file_systems_that_several_machines_may_have_are_told_from_local_ones(
    number: int, kind: str | None, name: str | None
):
    assert network_file_system(number, kind) == name


def test_a_ledger_on_a_network_file_system_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("dynres.controller.ledger_lock._statfs_type", lambda path: 0x6969)
    with pytest.raises(LedgerError, match=r"network file system \(NFS\).*local disk"):
        SqliteLedger(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_mountinfo_tells_the_type_of_a_device():
    text = (
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "40 35 0:52 / /home rw - fuse.sshfs me@there:/ rw\n"
    )
    assert mounted_as(os.makedev(0, 52), text) == "fuse.sshfs"
    assert mounted_as(os.makedev(98, 0), text) == "ext3"
    assert mounted_as(os.makedev(1, 1), text) is None


def test_history_that_is_too_old_is_dropped_a_few_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(module, "PRUNE_ROWS", 10)
    clock = Clock()
    ledger = SqliteLedger(tmp_path, wall=clock)
    ledger.load()
    for n in range(35):
        commit(ledger, grant(lease(n)), end(lease(n)))
    commit(ledger, grant(lease(99)))
    clock.now = NOW + HISTORY_KEPT + 100
    ledger.close()
    ledger = SqliteLedger(tmp_path, wall=clock)
    assert list(ledger.load().leases) == ["1-99"]
    left = []
    for n in range(100, 106):
        commit(ledger, grant(lease(n)))
        commit(ledger)
        left.append(len(ledger.history(HistoryAsk(pool="iris"))))
    assert left[0] > left[-1] == 6
    ledger.close()
    ledger = SqliteLedger(tmp_path, wall=clock)
    assert len(ledger.load().leases) == 7
    ledger.close()


KILLED = """
import pathlib, sys
from test_ledgers import end, grant, lease
from dynres.controller.ledger import SqliteLedger
ledger = SqliteLedger(pathlib.Path(sys.argv[1]))
ledger.load()
def told(words):
    def done(error):
        assert error is None
        sys.stdout.write(words)
        sys.stdout.flush()
    return done
n = int(sys.argv[2])
while True:
    ledger.submit((grant(lease(n)),), told(f"+{n}\\n"))
    if n % 3 == 0:
        ledger.submit((end(lease(n)),), told(f"-{n}\\n"))
    n += 1
"""


def test_what_was_answered_survives_a_kill(tmp_path: Path):
    granted: set[int] = set()
    ended: set[int] = set()
    for round_ in range(4):
        arguments = [sys.executable, "-c", KILLED, str(tmp_path), str(round_ * 1_000_000)]
        process = subprocess.Popen(arguments, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        with process, process.stdout:
            for _ in range(400 * (round_ + 1)):
                line = process.stdout.readline()
                (granted if line[0] == "+" else ended).add(int(line[1:]))
            process.kill()
            rest = process.stdout.read()
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                (granted if line[0] == "+" else ended).add(int(line[1:]))
        ledger = SqliteLedger(tmp_path)
        held = {int(id_.partition("-")[2]) for id_ in ledger.load().leases}
        ledger.close()
        assert granted - ended <= held | {n for n in granted if n % 3 == 0}
        assert not held & ended
