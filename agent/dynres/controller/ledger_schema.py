"""The tables of the SQLite ledger, their versions, and what goes in and out of them."""

from collections.abc import Sequence
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
)
"""Statements that lead from each version to the next; version 0 is an empty file."""
VERSION: Final = len(STEPS)

APPEND: Final = (
    "INSERT INTO journal SELECT ?, ?, ? WHERE (SELECT epoch FROM meta WHERE one = 1) = ?"
)
"""One row, unless another controller has taken a new epoch."""

_encode = msgspec.json.encode
_lease = msgspec.json.Decoder(Lease)
_override = msgspec.json.Decoder(Override)
_closed = msgspec.json.Decoder(Closed)


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
        raise LedgerDamagedError(f"{path}: not a ledger of dynres; move it away")
    for step in STEPS[version:]:
        for statement in step:
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def read_tables(db: "Connection", state: LedgerState) -> None:
    """Everything that was folded."""
    for id_, text in db.execute("SELECT id, lease FROM lease"):
        state.leases[id_] = _lease.decode(text)
    for kind, key, text in db.execute("SELECT kind, key, thing FROM kept"):
        if kind == "override":
            state.overrides[key] = _override.decode(text)
        elif kind == "closed":
            state.closed[key] = _closed.decode(text)


def fold(db: "Connection", fold: Fold, epoch: int) -> bool:
    """Write what changes add up to, in an open transaction; False: another epoch is in force."""
    query = "UPDATE meta SET folded = ? WHERE one = 1 AND epoch = ?"
    if db.execute(query, (fold.seq, epoch)).rowcount != 1:
        return False
    leases = dict(fold.leases)
    for id_, updates in fold.updates.items():
        row = db.execute("SELECT lease FROM lease WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            lease = _lease.decode(row[0])
            for update in updates:
                lease = update.of(lease)
            leases[id_] = lease
    things: list[tuple[tuple[str, ...], Lease | None]] = [((k,), v) for k, v in leases.items()]
    _put(db, "lease (id, lease)", ("id",), things)
    for kind, changed in (("override", fold.overrides), ("closed", fold.closed)):
        kept = [((kind, key), thing) for key, thing in changed.items()]
        _put(db, "kept (kind, key, thing)", ("kind", "key"), kept)
    return True


def _put(
    db: "Connection",
    table: str,
    names: tuple[str, ...],
    things: Sequence[tuple[tuple[str, ...], Lease | Override | Closed | None]],
) -> None:
    marks = ", ".join("?" * (len(names) + 1))
    where = " AND ".join(f"{name} = ?" for name in names)
    gone = [key for key, thing in things if thing is None]
    new = [(*key, _encode(thing).decode()) for key, thing in things if thing is not None]
    db.executemany(f"DELETE FROM {table.split(maxsplit=1)[0]} WHERE {where}", gone)
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", new)
