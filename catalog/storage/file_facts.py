"""FileFacts: what sweeps have found of the files of tables and partitions, in the store.

sweeps    of each table, as of which revision and of which of its incarnations its files are
files     of each partition: fingerprint, count, bytes, small ones, newest change
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ...topics.objects.names import TableId
from ...topics.wire.messages import FileFacts
from ..model.versions import SweepRow

SCHEMA: Final = (
    """CREATE TABLE sweeps (
        db TEXT NOT NULL,
        name TEXT NOT NULL,
        incarnation INTEGER NOT NULL,
        revision INTEGER NOT NULL,
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
        PRIMARY KEY (db, name, partition)) WITHOUT ROWID""",
)
PUT_SWEEP: Final = "INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?, ?)"
PUT_FILES: Final = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
DELETE_ALL: Final = "DELETE FROM files WHERE db = ? AND name = ?"
DELETE_ONE: Final = "DELETE FROM files WHERE db = ? AND name = ? AND partition = ?"
SWEEPS: Final = "SELECT db, name, incarnation, revision FROM sweeps"
SWEEP: Final = "SELECT incarnation, revision FROM sweeps WHERE db = ? AND name = ?"
PAGE: Final = """SELECT partition, fingerprint, files, bytes, small, newest_ms FROM files
                 WHERE db = ? AND name = ? AND partition > ? ORDER BY partition LIMIT ?"""


def write(db: sqlite3.Connection, rows: Iterable[SweepRow]) -> None:
    """Store ``rows``, in their order, inside a transaction of the caller's."""
    for row in rows:
        if row.anew:
            db.execute(DELETE_ALL, row.table)
        db.execute(PUT_SWEEP, (*row.table, row.incarnation, row.revision))
        db.executemany(PUT_FILES, ((*row.table, *_packed(one)) for one in row.facts))
        db.executemany(DELETE_ONE, ((*row.table, name) for name in row.removed))


def load(db: sqlite3.Connection) -> Iterator[SweepRow]:
    """Yield the revision of each table, without its facts."""
    for name, table, incarnation, revision in db.execute(SWEEPS):
        yield SweepRow(table=(name, table), incarnation=incarnation, revision=revision)


def read(
    db: sqlite3.Connection, table: TableId, incarnation: int, *, after: str | None, count: int
) -> tuple[int, list[FileFacts]]:
    """Return a revision and ``count`` facts at most, by partition, behind ``after``.

    0 and nothing if no sweep saw this ``incarnation`` of ``table``. ``after`` None: from the first.
    """
    sweep = db.execute(SWEEP, table).fetchone()
    if sweep is None or sweep[0] != incarnation:
        return 0, []
    if after is None:
        rows = db.execute(PAGE.replace("> ?", ">= ?"), (*table, "", count))
    else:
        rows = db.execute(PAGE, (*table, after, count))
    return sweep[1], list(map(_unpacked, rows))


def _packed(one: FileFacts) -> tuple[str, int, int, int, int, int]:
    return (one.partition, one.fingerprint, one.files, one.bytes, one.small, one.newest_ms)


def _unpacked(row: Sequence[Any]) -> FileFacts:
    partition, fingerprint, files, size, small, newest_ms = row
    return FileFacts(
        partition=partition,
        fingerprint=fingerprint,
        files=files,
        bytes=size,
        small=small,
        newest_ms=newest_ms,
    )
