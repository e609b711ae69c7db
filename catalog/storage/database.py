"""The SQLite file of the store: its tables, how it is opened, and what its errors mean.

state    one row: num_topics, epoch, last event id, poll window, mode (ModeState)
topics   version and floor of each topic            starts   one row a start, of this epoch
entries  values and stubs                           tombstones   by version
changes  the log; a row's id is the byte offset of its end, so that a range of ids is a size;
         ``who`` is set for an operator's order, topic and versions are then -1 and 0
writes   the writes of drivers, by driver and number; open: an intent. Partitions: a line each
writers  the driver whose report has raised a version, as long as ``changes`` has that version
leases   who holds the lease of a table, see serve/leases
sweeps, files   what sweeps have found of the files of tables, see storage/file_facts
folders  where the data of tables lies, see storage/folders
images   what entries were before, see storage/history
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...topics.errors import StoreError, StoreFull
from . import file_facts, folders, history

FILE_NAME: Final = "catalog.sqlite3"
SCHEMA: Final = 1
APPLICATION_ID: Final = 0x746F7063  # "topc": distinguishes this file from other SQLite databases

PAGE_BYTES: Final = 8192
"""A row of ``entries`` up to 2 KB stays inside its leaf, so a topic is read in one sweep; with
4,096 blocks of 1 KB overflow (twice the file), with 16,384 a commit writes twice as much.
Measured with 100,000 tables and 10 M partitions: 1.7 s to read, against 3.1 s by rowid."""

WAL_BYTES_MAX: Final = 64 << 20  # the log is truncated to this after a burst
CHECKPOINT_PAGES: Final = 100  # of the log; then a commit moves them into the file: 0.5 ms
FREE_BYTES_MIN: Final = 64 << 10  # SQLite's index of its log grows by 32 KB
BUSY_S: Final = 5.0  # so long an operator's sqlite3 shell may hold a lock

TABLES: Final = (
    """CREATE TABLE state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        num_topics INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        last_event_id INTEGER,
        window BLOB NOT NULL,
        mode TEXT NOT NULL)""",
    """CREATE TABLE topics (
        topic INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        floor INTEGER NOT NULL)""",
    """CREATE TABLE starts (
        ordinal INTEGER PRIMARY KEY,
        start BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        versions BLOB NOT NULL)""",
    """CREATE TABLE entries (
        topic INTEGER NOT NULL,
        key BLOB NOT NULL,
        version INTEGER NOT NULL,
        schema_version INTEGER NOT NULL,
        data_version INTEGER NOT NULL,
        size INTEGER NOT NULL,
        value BLOB,
        kind INTEGER NOT NULL,
        PRIMARY KEY (topic, key)) WITHOUT ROWID""",
    """CREATE TABLE tombstones (
        topic INTEGER NOT NULL,
        version INTEGER NOT NULL,
        key BLOB NOT NULL,
        kind INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        PRIMARY KEY (topic, version, key, kind)) WITHOUT ROWID""",
    """CREATE TABLE changes (
        id INTEGER PRIMARY KEY,
        at_us INTEGER NOT NULL,
        source INTEGER NOT NULL,
        topic INTEGER NOT NULL,
        object TEXT NOT NULL,
        kind TEXT NOT NULL,
        version_before INTEGER NOT NULL,
        version_after INTEGER NOT NULL,
        event_before INTEGER,
        event_after INTEGER,
        who TEXT)""",
    """CREATE TABLE writes (
        driver BLOB NOT NULL,
        number INTEGER NOT NULL,
        object TEXT NOT NULL,
        partitions TEXT NOT NULL,
        open INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        topic INTEGER NOT NULL,
        version INTEGER NOT NULL,
        PRIMARY KEY (driver, number)) WITHOUT ROWID""",
    """CREATE TABLE writers (
        topic INTEGER NOT NULL,
        version INTEGER NOT NULL,
        driver BLOB NOT NULL,
        PRIMARY KEY (topic, version)) WITHOUT ROWID""",
    *history.SCHEMA_OF_HISTORY,
    """CREATE TABLE leases (
        db TEXT NOT NULL,
        name TEXT NOT NULL,
        holder BLOB NOT NULL,
        owner TEXT NOT NULL,
        lease_s INTEGER NOT NULL,
        PRIMARY KEY (db, name)) WITHOUT ROWID""",
    *file_facts.SCHEMA,
    *folders.SCHEMA,
)
_MADE: Final = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"  # by TABLES
_OTHER_RELEASE = "run that release, or name an empty folder (--state_dir): all is read again"
_BROKEN = (
    "is damaged",
    "put back a copy, or move the file away: all is read again from the metastore, as a new epoch",
)
_FULL = ("cannot grow", "free space on its disk")
_PROBLEMS = {  # by a part of SQLite's message: Python 3.10 gives no code
    "not a database": _BROKEN,
    "malformed": _BROKEN,
    "is full": _FULL,
    "readonly": ("cannot be written", "check its owner and mode"),
    "unable to open": ("cannot be opened", "check its owner and mode"),
    "permission denied": ("cannot be opened", "check its owner and mode"),
    "is locked": ("is locked by another program", "end that program, then start again"),
    "I/O error": ("cannot be read or written", "check its disk, then start again"),
}
_UNKNOWN = ("cannot be used", "check the file with the sqlite3 shell, or put back a copy")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about ``path`` into a StoreError that names the remedy."""
    try:
        yield
    except sqlite3.Error as exc:
        found = (known for part, known in _PROBLEMS.items() if part in str(exc))
        problem, remedy = next(found, _UNKNOWN)
        if _is_full(path.parent):  # SQLite calls it an I/O error where its index cannot grow
            problem, remedy = _FULL
        kind = StoreFull if (problem, remedy) == _FULL else StoreError
        raise kind(str(path), f"{problem} ({exc})", remedy) from exc


def _is_full(folder: Path) -> bool:
    """Return whether the disk of ``folder`` has no room for another page of a log."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN


def connect(path: Path, *, num_topics: int, epoch: int) -> sqlite3.Connection:
    """Open the store's file; a missing file is created with ``num_topics`` and ``epoch``.

    Raises:
        StoreError: no store, a store of another ``num_topics`` or schema, or a file that SQLite
            cannot read. Nothing was changed.
    """
    with explained(path):
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            if _is_new(db):
                _set_up(db)
                _create(db, num_topics=num_topics, epoch=epoch)
            else:
                _check(db, path, num_topics=num_topics)
                _set_up(db)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the statements inside, all of them or, after an error, none."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _set_up(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
    db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


def _is_new(db: sqlite3.Connection) -> bool:
    tables = int(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    return tables == 0 and _pragma(db, "user_version") == 0


def _create(db: sqlite3.Connection, *, num_topics: int, epoch: int) -> None:
    with transaction(db):
        for table in TABLES:
            db.execute(table)
        db.execute("INSERT INTO state VALUES (1, ?, ?, NULL, ?, '')", (num_topics, epoch, b""))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")


def _check(db: sqlite3.Connection, path: Path, *, num_topics: int) -> None:
    if _pragma(db, "application_id") != APPLICATION_ID:
        remedy = "move the file away, or name another folder (--state_dir)"
        raise StoreError(str(path), "is not a store of catalogd", remedy)
    schema = _pragma(db, "user_version")
    if schema != SCHEMA:
        problem = f"was written by another release (schema {schema}, {SCHEMA} understood here)"
        raise StoreError(str(path), problem, _OTHER_RELEASE)
    if set(map(_shape, TABLES)) != {_shape(sql) for (sql,) in db.execute(_MADE)}:
        problem = "was written by another release (it has other tables or columns)"
        raise StoreError(str(path), problem, _OTHER_RELEASE)
    theirs = int(db.execute("SELECT num_topics FROM state").fetchone()[0])
    if theirs != num_topics:
        problem = f"was made with --num_topics={theirs}, and --num_topics={num_topics} is given"
        remedy = f"start with --num_topics={theirs}, or name an empty folder (--state_dir)"
        raise StoreError(str(path), problem, remedy)


def _shape(sql: str) -> str:
    """Return the text that makes a table or an index, however its lines are broken."""
    return " ".join(sql.split())


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
