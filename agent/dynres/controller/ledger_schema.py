"""The tables of the SQLite ledger, their versions, and what goes in and out of them."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from dynres.controller.changes import Closed, LedgerState, Override
from dynres.controller.folding import Fold
from dynres.controller.lease import Lease
from dynres.controller.ledger_base import LedgerDamagedError, LedgerNewerError

if TYPE_CHECKING:
    from sqlite3 import Connection

APPLICATION: Final = 0x64796E72
"""`dynr`: marks the file as a ledger of dynres."""

STEPS: Final = (
    (
        "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL,"
        " folded INTEGER NOT NULL)",
        "INSERT INTO meta VALUES (1, 0, 0)",
        "CREATE TABLE journal (seq INTEGER PRIMARY KEY, at REAL NOT NULL, changes TEXT NOT NULL)",
        "CREATE TABLE lease (id TEXT PRIMARY KEY, lease TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE kept (kind TEXT NOT NULL, key TEXT NOT NULL, thing TEXT NOT NULL,"
        " PRIMARY KEY (kind, key)) WITHOUT ROWID",
    ),
    (
        "ALTER TABLE meta ADD COLUMN sum INTEGER",
        "UPDATE meta SET sum = checksum(epoch, folded)",
        "ALTER TABLE journal ADD COLUMN sum INTEGER",
        "UPDATE journal SET sum = checksum(seq, at, changes)",
        "ALTER TABLE lease ADD COLUMN sum INTEGER",
        "UPDATE lease SET sum = checksum(id, lease)",
        "ALTER TABLE kept ADD COLUMN sum INTEGER",
        "UPDATE kept SET sum = checksum(kind, key, thing)",
    ),
)
"""Statements that lead from each version to the next; version 0 is an empty file."""
VERSION: Final = len(STEPS)

APPEND: Final = (
    "INSERT INTO journal SELECT ?, ?, ?, ? WHERE (SELECT epoch FROM meta WHERE one = 1) = ?"
)
"""One row, unless another controller has taken a new epoch."""

_encode = msgspec.json.encode
_lease = msgspec.json.Decoder(Lease)
_override = msgspec.json.Decoder(Override)
_closed = msgspec.json.Decoder(Closed)


def checksum(*parts: float | str) -> int:
    """Of a row: SQLite has none, and hands out what a disk has changed as if it were written so."""
    number = 0
    for part in parts:
        number = zlib.crc32(f"{part}\0".encode(), number)
    return number


def check(sum_: int | None, *parts: float | str) -> None:
    """Raise LedgerDamagedError where a row does not fit its checksum."""
    if sum_ != checksum(*parts):
        raise LedgerDamagedError(f"the row of {str(parts[0])[:64]!r} does not fit its checksum")


def journal(
    db: "Connection", first: int, where: str = "", words: Sequence[str] = (), order: str = "ASC"
) -> Iterator[tuple[int, float, str]]:
    """Number, time and changes of each row from `first` on. Raises LedgerDamagedError."""
    select = f"SELECT seq, at, changes, sum FROM journal WHERE seq >= ?{where} ORDER BY seq {order}"
    for seq, at, text, sum_ in db.execute(select, (first, *words)):
        check(sum_, seq, at, text)
        yield seq, at, text


def begin(db: "Connection") -> tuple[int, int]:
    """Take the next epoch, in an open transaction: it, and the row up to which all is folded."""
    epoch, folded, sum_ = db.execute("SELECT epoch, folded, sum FROM meta WHERE one = 1").fetchone()
    check(sum_, epoch, folded)
    new = (epoch + 1, checksum(epoch + 1, folded))
    db.execute("UPDATE meta SET epoch = ?, sum = ? WHERE one = 1", new)
    return epoch + 1, folded


def migrate(db: "Connection", path: Path) -> None:
    """Bring the file to this version. Raises LedgerNewerError or LedgerDamagedError."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    application: int = db.execute("PRAGMA application_id").fetchone()[0]
    if version > VERSION:
        raise LedgerNewerError(
            f"{path}: written by a newer version of dynres (schema {version}, this one knows "
            f"{VERSION}): start that version again"
        )
    if application != (APPLICATION if version else 0):
        raise LedgerDamagedError("not a ledger of dynres")
    db.create_function("checksum", -1, checksum, deterministic=True)
    for step in STEPS[version:]:
        for statement in step:
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def read_tables(db: "Connection", state: LedgerState) -> None:
    """Everything that was folded."""
    for id_, text, sum_ in db.execute("SELECT id, lease, sum FROM lease"):
        check(sum_, id_, text)
        state.leases[id_] = _lease.decode(text)
    for kind, key, text, sum_ in db.execute("SELECT kind, key, thing, sum FROM kept"):
        check(sum_, kind, key, text)
        if kind == "override":
            state.overrides[key] = _override.decode(text)
        elif kind == "closed":
            state.closed[key] = _closed.decode(text)


def fold(db: "Connection", fold: Fold, epoch: int) -> bool:
    """Write what changes add up to, in an open transaction; False: another epoch is in force."""
    query = "UPDATE meta SET folded = ?, sum = ? WHERE one = 1 AND epoch = ?"
    if db.execute(query, (fold.seq, checksum(epoch, fold.seq), epoch)).rowcount != 1:
        return False
    leases = dict(fold.leases)
    for id_, updates in fold.updates.items():
        row = db.execute("SELECT lease, sum FROM lease WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            check(row[1], id_, row[0])
            lease = _lease.decode(row[0])
            for update in updates:
                lease = update.of(lease)
            leases[id_] = lease
    things: list[tuple[tuple[str, ...], Lease | None]] = [((k,), v) for k, v in leases.items()]
    _put(db, "lease (id, lease, sum)", ("id",), things)
    for kind, changed in (("override", fold.overrides), ("closed", fold.closed)):
        kept = [((kind, key), thing) for key, thing in changed.items()]
        _put(db, "kept (kind, key, thing, sum)", ("kind", "key"), kept)
    return True


def _put(
    db: "Connection",
    table: str,
    names: tuple[str, ...],
    things: Sequence[tuple[tuple[str, ...], Lease | Override | Closed | None]],
) -> None:
    marks = ", ".join("?" * (len(names) + 2))
    where = " AND ".join(f"{name} = ?" for name in names)
    gone = [key for key, thing in things if thing is None]
    rows = [(*key, _encode(thing).decode()) for key, thing in things if thing is not None]
    new = [(*row, checksum(*row)) for row in rows]
    db.executemany(f"DELETE FROM {table.split(maxsplit=1)[0]} WHERE {where}", gone)
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", new)
