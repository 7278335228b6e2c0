"""The ledger in SQLite: a journal of changes, one row a commit, and what the older rows add up to.

A commit appends one row to the journal and nothing else, so that it dirties one page and waits for
one fdatasync. The journal is the history too. From time to time the newer rows are folded into
the tables of leases, overrides and closed hosts; a start reads those tables and replays the rest.
"""

import contextlib
import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import msgspec

from dynres.controller import ledger_schema as schema
from dynres.controller.changes import HISTORY_KEPT, REMEMBERED, AnyChange, LedgerState
from dynres.controller.folding import Fold
from dynres.controller.history import HistoryAsk, HistoryEntry, entries
from dynres.controller.ledger_base import (
    Done,
    LedgerDamagedError,
    LedgerError,
    LedgerFencedError,
    LedgerUnwritableError,
)
from dynres.controller.ledger_lock import Lock, refuse_network
from dynres.controller.ledger_log import log_damage

FILE: Final = "ledger.db"
MOST_TOGETHER: Final = 256
"""Requests that share one commit, at most."""
FOLD_AFTER: Final = 2000
"""Changes in the journal that are not in the tables yet, before they are folded."""
PRUNE_ROWS: Final = 500
PRUNE_EVERY: Final = 60.0
"""Seconds between two looks for history that is too old."""
CHECKPOINT_PAGES: Final = 1000
"""Pages of the write-ahead log (4 MB), after which it is copied into the file and begun again."""
ROOM: Final = 64 << 20
"""Free bytes on the disk below which the log's room is not taken in advance."""
SMALL: Final = 64 << 20
"""Bytes up to which a file is checked wholly at a start; of a larger one, all but the journal."""

log = logging.getLogger("dynres.controller.ledger")
Work = tuple[Sequence[AnyChange], bytes, Done]
"""Changes, the same as JSON, and who is to be told."""
NOTHING: Final = b"[]"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[AnyChange])


def decode(text: str) -> list[AnyChange]:
    """The changes of one row. Raises LedgerDamagedError."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise LedgerDamagedError(str(error)) from error


class SqliteLedger:
    """A ledger in `folder`, written by one thread of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        hand_over: Callable[[Callable[[], None]], object] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Open it or make it. Raises LedgerError.

        `hand_over` runs a function where `done` is to be called (`loop.call_soon_threadsafe`),
        once a commit; without it `done` is called in the writer's thread. `wall` is the time that
        history shows.
        """
        self.path = folder / FILE
        self._hand_over = hand_over
        self._wall = wall
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._pruned = float("-inf")
        self._cursor = 0  # journal rows up to here were looked at for pruning
        with contextlib.ExitStack() as opened:
            try:
                refuse_network(folder)
                self._lock = Lock(folder / "ledger.lock")
                opened.callback(self._lock.close)
                if (found := log_damage(self.path.with_name(f"{FILE}-wal"))) is not None:
                    raise LedgerDamagedError(found)
                self._db = self._connect()
                opened.callback(self._db.close)
                self._prepare()
                self._take_room()
            except OSError as error:
                raise LedgerUnwritableError(f"{self.path}: {error.strerror}") from error
            except (sqlite3.Error, LedgerDamagedError) as error:
                raise self._told(error) from error
            self._opened = opened.pop_all()
        self._thread: threading.Thread | None = None

    def _connect(self) -> sqlite3.Connection:
        # The log's index is in memory of ours, not in a mapped file: that one would end the process
        # with SIGBUS on a file system that takes no writes any more.
        address = f"file:{_quoted(self.path)}?vfs=unix-excl"
        db = sqlite3.connect(
            address, uri=True, isolation_level=None, check_same_thread=False, timeout=5
        )
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        return db

    def _prepare(self) -> None:
        db = self._db
        whole = self.path.stat().st_size <= SMALL
        for part in ("1",) if whole else ("meta", "lease", "kept"):
            found = [row[0] for row in db.execute(f"PRAGMA quick_check({part})")]
            if found not in (["ok"], []):
                raise LedgerDamagedError(found[0])
        with self._transaction():
            schema.migrate(db, self.path)
            self.epoch, folded = schema.begin(db)
        self._fold = Fold(folded)
        last: int = db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()[0]
        self._last = max(last, folded)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _take_room(self) -> None:
        """Let the log have its full size at once: a sync is dearer for a file that grows.

        A transaction larger than the cache is written to the log before it is rolled back.
        """
        if shutil.disk_usage(self.path.parent).free < ROOM:
            return
        execute = self._db.execute
        with contextlib.suppress(sqlite3.Error):
            execute("PRAGMA cache_size = 10")
            execute("BEGIN IMMEDIATE")
            execute("CREATE TABLE room (filler)")
            execute("INSERT INTO room VALUES (zeroblob(?))", (CHECKPOINT_PAGES * 4096,))
        self._recover()
        execute("PRAGMA cache_size = -8000")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # start

    def load(self) -> LedgerState:
        """See Ledger."""
        state = LedgerState()
        try:
            schema.read_tables(self._db, state)
            first = self._first_since(self._wall() - REMEMBERED)
            folded = self._fold.seq
            for seq, at, text in schema.journal(self._db, min(first, folded + 1)):
                changes = decode(text)
                if seq <= folded:
                    for change in changes:
                        state.remember(change, at)
                    continue
                if seq != self._fold.seq + 1:
                    raise LedgerDamagedError(f"row {self._fold.seq + 1} of its journal is missing")
                for change in changes:
                    state.apply(change, at)
                self._fold.add(seq, changes)
        except (sqlite3.Error, msgspec.MsgspecError, LedgerDamagedError) as error:
            raise self._told(error) from error
        self._thread = threading.Thread(target=self._write, name="ledger", daemon=True)
        self._thread.start()
        return state

    def _first_since(self, wall: float, db: sqlite3.Connection | None = None) -> int:
        """Number of the first row that is not older: rows are in order of time."""
        execute = (db or self._db).execute
        low, high = execute(
            "SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) + 1 FROM journal"
        ).fetchone()
        while low < high:
            middle = (low + high) // 2
            select = "SELECT at, seq, changes, sum FROM journal WHERE seq >= ? LIMIT 1"
            row = execute(select, (middle,)).fetchone()
            if row is not None:
                schema.check(row[3], row[1], row[0], row[2])
            if row is None or row[0] >= wall:
                high = middle
            else:
                low = middle + 1
        return int(low)

    # writing

    @property
    def threads(self) -> tuple[int, ...]:
        """See Ledger."""
        thread = self._thread
        return () if thread is None or thread.native_id is None else (thread.native_id,)

    def submit(self, changes: Sequence[AnyChange], done: Done) -> None:
        """See Ledger."""
        try:
            # Here and not for a whole group: what cannot be written fails who asked, nobody else.
            text = _encoder.encode(changes)
        except (ValueError, MemoryError) as error:  # no text, or none that there is room for
            fault = LedgerUnwritableError(f"{self.path}: this cannot be written: {error}")
            self._settle([(changes, b"", done)], fault)
            return
        self._queue.put((changes, text, done))

    def _write(self) -> None:
        """The writer's thread: whatever waits goes into one commit."""
        take, empty = self._queue.get, self._queue.empty
        work = take()
        while work is not None:
            group = [work]
            while len(group) < MOST_TOGETHER and not empty():
                work = take()
                if work is None:
                    break
                group.append(work)
            self._write_group(group)
            if work is not None:
                work = take()

    def _write_group(self, group: list[Work]) -> None:
        texts = [text[1:-1] for _, text, _ in group if text != NOTHING]
        error = self._commit(b",".join(texts)) if texts else None
        self._settle(group, error)  # first of all: somebody waits for it
        if error is None:
            for changes, _, _ in group:
                self._fold.add(self._last, changes)
            self._tend()

    def _settle(self, group: list[Work], error: LedgerError | None) -> None:
        def settle() -> None:
            for _, _, done in group:
                done(error)

        if self._hand_over is None:
            settle()
            return
        try:
            self._hand_over(settle)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            log.debug("nobody is left to hear of a commit")

    def _commit(self, changes: bytes) -> LedgerError | None:
        row = (self._last + 1, self._wall(), f"[{changes.decode()}]")
        values = (*row, schema.checksum(*row), self.epoch)
        try:
            written = self._db.execute(schema.APPEND, values).rowcount
        except sqlite3.Error as error:
            self._recover()
            return self._told(error)
        if written != 1:
            return LedgerFencedError(
                f"{self.path}: another controller has taken over this ledger; this one must stop"
            )
        self._last += 1
        return None

    def _recover(self) -> None:
        """No transaction is left open; the next commit starts afresh."""
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def _tend(self) -> None:
        """Between commits: fold what is new, drop what is old. What fails is done later."""
        now = self._wall()
        old = abs(now - self._pruned) >= PRUNE_EVERY
        if self._fold.size < FOLD_AFTER and not old:
            return
        try:
            if self._fold.size >= FOLD_AFTER:
                self._fold_now()
            if old:
                self._prune(now)
        except (sqlite3.Error, LedgerError) as error:
            self._recover()
            log.warning("the ledger could not be tidied, which is tried again: %s", error)
            self._fold.put_off()
            self._pruned = now

    def _fold_now(self) -> None:
        with self._transaction():
            if not schema.fold(self._db, self._fold, self.epoch):
                raise LedgerFencedError(f"{self.path}: another controller has taken over")
        self._fold = Fold(self._fold.seq)

    def _prune(self, now: float) -> None:
        """Drop a few of the rows that are too old; look on at once where there were many."""
        rows = self._db.execute(
            "SELECT seq, at FROM journal WHERE seq > ? ORDER BY seq LIMIT ?",
            (self._cursor, PRUNE_ROWS),
        ).fetchall()
        old = [(seq,) for seq, at in rows if at < now - HISTORY_KEPT and seq <= self._fold.folded]
        if old:
            with self._transaction():
                self._db.executemany("DELETE FROM journal WHERE seq = ?", old)
        full = len(old) == PRUNE_ROWS
        self._cursor = rows[-1][0] if full else 0
        self._pruned = float("-inf") if full else now

    # reading

    def history(self, ask: HistoryAsk) -> list[HistoryEntry]:
        """See Ledger."""
        found: list[list[HistoryEntry]] = []
        count = 0
        needles = [_encoder.encode(word).decode()[1:-1] for word in ask.words]
        where = "".join(" AND instr(changes, ?)" for _ in needles)
        try:
            address = f"file:{_quoted(self.path)}?mode=ro&vfs=unix-excl"
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=5)) as db:
                first = 0 if ask.since is None else self._first_since(ask.since, db)
                for _, at, text in schema.journal(db, first, where, needles, "DESC"):
                    found.append(entries(at, decode(text), ask))
                    count += len(found[-1])
                    if count >= ask.limit:
                        break
        except (sqlite3.Error, LedgerDamagedError) as error:
            raise self._told(error) from error
        told = [entry for group in reversed(found) for entry in group]
        return told[-ask.limit :]

    def close(self) -> None:
        """See Ledger."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            with contextlib.suppress(sqlite3.Error, LedgerError):
                self._fold_now()
            self._recover()
        self._opened.close()

    def _told(self, error: Exception) -> LedgerError:
        """An error of the engine, in words that help."""
        if isinstance(error, LedgerError) and not isinstance(error, LedgerDamagedError):
            return error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        text = str(error)
        if code == sqlite3.SQLITE_FULL:
            return LedgerUnwritableError(
                f"{self.path}: the disk is full; nothing can be granted or released until there is "
                "space again"
            )
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or not code:
            return LedgerDamagedError(_damaged(self.path, text))
        return LedgerUnwritableError(f"{self.path}: the ledger cannot be written: {text}")


def _damaged(path: Path, text: str) -> str:
    return (
        f"{path}: the ledger is damaged ({text}); move it and its -wal away, then put a backup in "
        "its place or record what jobs hold with acquire --running"
    )


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
