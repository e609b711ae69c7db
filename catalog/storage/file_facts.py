"""The results of sweeps of the files of tables and partitions, in the store.

sweeps    of each table, as of which revision and of which of its incarnations its files are; as of
          which line of the log all of it is known, since when, and how far a sweep has got that has
          not ended
files     of each partition: fingerprint, count, bytes, small files, newest change, folder's time
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

from ...topics.objects.names import TableId, table_name
from ...topics.wire.messages.fields import Cell
from ...topics.wire.messages.reports import FileFacts
from ..model.versions import SweepRow

SCHEMA: Final = (
    """CREATE TABLE sweeps (
        db TEXT NOT NULL,
        name TEXT NOT NULL,
        incarnation INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        as_of INTEGER NOT NULL DEFAULT 0,
        swept_us INTEGER NOT NULL DEFAULT 0,
        open_as_of INTEGER NOT NULL DEFAULT 0,
        open_until TEXT NOT NULL DEFAULT '',
        whole INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (db, name)) WITHOUT ROWID""",
    """CREATE TABLE files (
        db TEXT NOT NULL,
        name TEXT NOT NULL,
        partition TEXT NOT NULL,
        fingerprint INTEGER NOT NULL,
        files INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        small INTEGER NOT NULL,
        newest_ms INTEGER NOT NULL,
        folder_ms INTEGER NOT NULL,
        PRIMARY KEY (db, name, partition)) WITHOUT ROWID""",
)
PUT_SWEEP: Final = """INSERT INTO sweeps (db, name, incarnation, revision) VALUES (?, ?, ?, ?)
    ON CONFLICT (db, name) DO UPDATE SET revision = excluded.revision"""
PUT_OPEN: Final = """UPDATE sweeps SET open_as_of = ?, open_until = ?, whole = ?
    WHERE db = ? AND name = ?"""
PUT_END: Final = """UPDATE sweeps
    SET as_of = ?, swept_us = ?, open_as_of = 0, open_until = '', whole = 0
    WHERE db = ? AND name = ?"""
PUT_FILES: Final = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
DELETE_SWEEP: Final = "DELETE FROM sweeps WHERE db = ? AND name = ?"
DELETE_ALL: Final = "DELETE FROM files WHERE db = ? AND name = ?"
DELETE_ONE: Final = "DELETE FROM files WHERE db = ? AND name = ? AND partition = ?"
SWEEPS: Final = "SELECT db, name, incarnation, revision FROM sweeps"
SWEEP: Final = "SELECT incarnation, revision, swept_us FROM sweeps WHERE db = ? AND name = ?"
TOTALS: Final = """SELECT incarnation, revision, as_of, swept_us, open_as_of, open_until, whole,
                          count(partition), sum(files), sum(bytes), sum(small), max(newest_ms)
                   FROM sweeps LEFT JOIN files USING (db, name)
                   WHERE db = ? AND name = ? GROUP BY db, name"""
PAGE: Final = """SELECT ?, ?, partition, fingerprint, files, bytes, small, newest_ms, folder_ms
                 FROM files
                 WHERE db = ? AND name = ? AND partition > ? ORDER BY partition LIMIT ?"""


def write(db: sqlite3.Connection, rows: Iterable[SweepRow]) -> None:
    """Store ``rows``, in their order, inside a transaction of the caller's."""
    for row in rows:
        if row.anew:
            db.execute(DELETE_ALL, row.table)
            db.execute(DELETE_SWEEP, row.table)
        db.execute(PUT_SWEEP, (*row.table, row.incarnation, row.revision))
        db.executemany(
            PUT_FILES, ((*row.table, one.partition, *numbers_of(one)) for one in row.facts)
        )
        db.executemany(DELETE_ONE, ((*row.table, name) for name in row.removed))
        if row.last:
            db.execute(PUT_END, (row.as_of, row.at_us, *row.table))
        elif row.as_of:
            db.execute(PUT_OPEN, (row.as_of, row.until, row.whole, *row.table))


def load(db: sqlite3.Connection) -> Iterator[SweepRow]:
    """Yield the revision of each table, without its facts."""
    for name, table, incarnation, revision in db.execute(SWEEPS):
        yield SweepRow(table=(name, table), incarnation=incarnation, revision=revision)


def read(
    db: sqlite3.Connection, table: TableId, incarnation: int, *, after: str | None, count: int
) -> list[tuple[Cell, ...]]:
    """Return ``count`` facts behind ``after``, by partition, in the order of PartitionFiles.

    Nothing if no sweep saw this ``incarnation`` of ``table``. ``after`` None: from the first.
    """
    sweep = db.execute(SWEEP, table).fetchone()
    if sweep is None or sweep[0] != incarnation:
        return []
    if after is None:
        return db.execute(PAGE.replace("> ?", ">= ?"), (*sweep[1:], *table, "", count)).fetchall()
    return db.execute(PAGE, (*sweep[1:], *table, after, count)).fetchall()


def totals(
    db: sqlite3.Connection, tables: Iterable[tuple[TableId, int]]
) -> Iterator[tuple[Cell, ...]]:
    """Yield of each of ``tables`` and its incarnation how far it is swept, and what was found."""
    for table, incarnation in tables:
        found = db.execute(TOTALS, table).fetchone()
        if found is not None and found[0] == incarnation:
            state, sums = found[1:7], found[7:]
            yield (table_name(*table), *state, *(int(one or 0) for one in sums))


def numbers_of(one: FileFacts) -> tuple[int, int, int, int, int, int]:
    """Return the numbers of one fact, in the order of its fields and of its row."""
    return one.fingerprint, one.files, one.bytes, one.small, one.newest_ms, one.folder_ms
