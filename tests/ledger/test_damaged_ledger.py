"""A ledger that a disk has changed is refused at the start, or is as it was; never another one."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_ledgers import commit, end, grant, lease

from dynres.controller import ledger_schema
from dynres.controller.changes import Closed, CloseHost, LedgerState, Override, SetOverride
from dynres.controller.ledger import FILE, SqliteLedger
from dynres.controller.ledger_base import LedgerDamagedError

LOG = f"{FILE}-wal"
PAGE = 4096
FRAME = 24 + PAGE


def load(folder: Path) -> LedgerState:
    opened = SqliteLedger(folder)
    try:
        return opened.load()
    finally:
        opened.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """What a killed controller leaves: a file of which some is folded, and a log."""
    ledger = SqliteLedger(tmp_path / "running")
    ledger.load()
    for n in range(24):
        commit(ledger, grant(lease(n), request=f"r{n}"))
        commit(ledger, CloseHost(f"h{n}", Closed("moved", "me", 1.0)))
        if n % 3:
            commit(ledger, end(lease(n)))
        if n == 12:
            commit(ledger, SetOverride("iris@h1", Override("iris", 3.0, "audit", "me", 1.0)))
            ledger._fold_now()
            ledger._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(tmp_path / "running", tmp_path / "left")
    ledger.close()
    yield tmp_path / "left"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()


def change(path: Path, at: int, how: Callable[[bytes], bytes], count: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(count)
        file.seek(at)
        file.write(how(old))


def frames(log: Path) -> int:
    """Frames up to the last commit."""
    data = log.read_bytes()
    salts, last = data[16:24], 0
    for n in range((len(data) - 32) // FRAME):
        head = data[32 + n * FRAME :][:24]
        last = n + 1 if head[8:16] == salts and any(head[4:8]) else last
    return last


def test_one_digit_of_one_row_is_noticed_in_every_table(running: Path):
    load(running)
    good = (running / FILE).read_bytes()
    for text in (b'"resource":"iris"', b'"reason":"audit"', b'"reason":"moved"', b'"t":"grant"'):
        for at in (good.find(text), good.rfind(text)):
            assert at > 0
            (running / FILE).write_bytes(good)
            change(running / FILE, at + len(text) - 2, lambda old: bytes([old[0] ^ 1]))
            with pytest.raises(LedgerDamagedError, match="put a backup in its place"):
                load(running)
    (running / FILE).write_bytes(good)
    with sqlite3.connect(running / FILE) as db:
        db.execute("UPDATE meta SET epoch = epoch - 1")
    db.close()
    with pytest.raises(LedgerDamagedError, match="does not fit its checksum"):
        load(running)


def test_a_row_of_the_journal_that_is_gone_is_noticed(running: Path):
    with sqlite3.connect(running / FILE) as db:
        (last,) = db.execute("SELECT max(seq) FROM journal").fetchone()
        db.execute("DELETE FROM journal WHERE seq = ?", (last - 1,))
    db.close()
    with pytest.raises(LedgerDamagedError, match="is missing"):
        load(running)


def test_a_bad_frame_in_the_log_is_damage_and_not_its_end(running: Path):
    log, good = running / LOG, (running / LOG).read_bytes()
    count = frames(log)
    assert count > 20
    for n in (0, 7, count - 5):
        for at, size in ((32 + n * FRAME + 900, 1), (32 + n * FRAME + 17, 1), (n * PAGE, PAGE)):
            log.write_bytes(good)
            change(log, at, lambda old: bytes(b ^ 0x41 for b in old), size)
            for _ in range(2):  # nothing that SQLite tidies makes it look well
                with pytest.raises(LedgerDamagedError, match="its log"):
                    SqliteLedger(running)


def test_a_log_that_a_crash_has_cut_is_read_up_to_there(running: Path):
    log, good = running / LOG, (running / LOG).read_bytes()
    whole = load_copy(running)
    count = frames(log)
    for n in range(3, count, 5):
        log.write_bytes(good[: 32 + n * FRAME - 7])
        assert set(load_copy(running).closed) <= set(whole.closed)
    log.write_bytes(good)
    change(log, 32 + (count - 1) * FRAME + 5000 - PAGE, lambda old: b"?")
    assert set(load_copy(running).requests) <= set(whole.requests)  # the last commit was torn
    log.write_bytes(b"")
    load_copy(running)
    log.write_bytes(bytes(9000))
    load_copy(running)


def load_copy(folder: Path) -> LedgerState:
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return load(copy)


def test_damage_at_random_places_is_refused_or_harmless(running: Path):
    good, chance = load_copy(running), random.Random(3)
    files = {name: (running / name).read_bytes() for name in (FILE, LOG)}
    refused = 0
    for n in range(24):
        name = (FILE, LOG)[n % 2]
        pages = len(files[name]) // PAGE if name == FILE else frames(running / LOG) - 4
        size = chance.choice((1, 6, PAGE))
        at = chance.randrange(pages) * PAGE + chance.randrange(PAGE - size + 1)
        noise = chance.randbytes(size)
        change(running / name, at, lambda old, noise=noise: noise[: len(old)], size)
        try:
            assert load_copy(running) == good
        except LedgerDamagedError:
            refused += 1
        (running / name).write_bytes(files[name])
    assert refused > 6


def test_a_ledger_of_the_first_version_gets_its_checksums(tmp_path: Path):
    path = tmp_path / "running" / FILE
    with sqlite3.connect(path) as db:
        for statement in ledger_schema.STEPS[0]:
            db.execute(statement)
        text = '[{"t":"close","host":"h1","closed":{"reason":"r","who":"w","since":1.5}}]'
        db.execute("INSERT INTO journal VALUES (1, 1764000000.25, ?)", (text,))
        db.execute(
            'INSERT INTO kept VALUES (\'closed\', \'h2\', \'{"reason":"é","who":"w","since":2}\')'
        )
        db.execute(f"PRAGMA application_id = {ledger_schema.APPLICATION}")
        db.execute("PRAGMA user_version = 1")
    db.close()
    for _ in range(2):
        assert sorted(load(tmp_path / "running").closed) == ["h1", "h2"]
