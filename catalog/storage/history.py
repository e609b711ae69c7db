"""History: what entries were before each transaction, in the store, bounded in bytes and age.

    commit ──▶ images of the entries that it replaces ──▶ trimmed, the oldest first
    state of a topic at a version = its entries now, with each later transaction undone

Invariant: of a topic, every version from its floor on can be read again; a version below it is
refused with HistoryGone. Images are written in the transaction that they undo. A reader has a
connection of its own, so reads of the history never wait for a commit, nor a commit for them.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...topics.errors import HistoryGone
from ...topics.objects.names import group_of
from ...topics.topic import PREFIX, TOMBSTONE, Entry
from ..model.versions import Transaction

BYTES_MAX_DEFAULT: Final = 256 << 20
AGE_MAX_US_DEFAULT: Final = 7 * 24 * 3600 * 1_000_000  # a week
DROP_BYTES_MAX: Final = 8 << 20  # a larger group is not kept when it is deleted, so no commit waits
IMAGE_OVERHEAD_BYTES: Final = 96  # of a row of ``images`` and its index, without key and value
TRIM_ROWS_MAX: Final = 1000  # deleted with one commit, so that trimming never delays a publish

SCHEMA_OF_HISTORY: Final = (
    """CREATE TABLE images (
        id INTEGER PRIMARY KEY,
        at_us INTEGER NOT NULL,
        source INTEGER NOT NULL,
        topic INTEGER NOT NULL,
        key BLOB NOT NULL,
        until INTEGER NOT NULL,
        version INTEGER NOT NULL,
        schema_version INTEGER NOT NULL,
        data_version INTEGER NOT NULL,
        size INTEGER NOT NULL,
        value BLOB,
        kind INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX images_of ON images (topic, key, until)",
    "CREATE TABLE history_floors (topic INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
)
"""A row's id is the byte offset of its end, so that a range of ids is a size. ``until`` is the
version of the transaction that replaced the entry. ``kind`` is the entry's, TOMBSTONE where there
was none, or PREFIX for a group that was deleted and is too large to keep."""

OF_KEY = """SELECT key, version, schema_version, data_version, size, value, kind
            FROM entries WHERE topic = ? AND key = ?"""
OF_GROUP = """SELECT key, version, schema_version, data_version, size, value, kind
              FROM entries WHERE topic = ? AND key >= ? AND key < ?"""
SIZE_OF_GROUP = """SELECT total(length(value)) + 100 * count(*)
                   FROM entries WHERE topic = ? AND key >= ? AND key < ?"""
ADD_IMAGE = "INSERT OR IGNORE INTO images VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
RAISE_FLOORS = """INSERT INTO history_floors
                  SELECT topic, max(until) FROM images WHERE id <= ? GROUP BY topic
                  ON CONFLICT (topic) DO UPDATE SET version = max(version, excluded.version)"""
BEGIN_HERE = """INSERT INTO history_floors SELECT topic, version FROM topics WHERE true
                ON CONFLICT (topic) DO UPDATE SET version = max(version, excluded.version)"""


def record(db: sqlite3.Connection, one: Transaction, end: int) -> int:
    """Keep what ``one`` is about to replace; return the byte offset behind the last image.

    To be called inside the store's transaction, before ``one`` is written. ``end`` is the offset
    behind the last image before. Cost: a look-up of each entry; of each deleted group a scan.
    """
    rows: list[tuple[object, ...]] = []
    for entry in one.entries:
        for before in _replaced(db, one.topic, entry):
            end += len(before.key) + len(before.value or b"") + IMAGE_OVERHEAD_BYTES
            of = (one.at_us, one.source, one.topic, before.key, one.to_version)
            rows.append((end, *of, *before[1:]))
    db.executemany(ADD_IMAGE, rows)
    return end


def trim(db: sqlite3.Connection, *, end: int, bytes_max: int, oldest_us: int, added: int) -> None:
    """Delete the oldest images beyond ``bytes_max`` or before ``oldest_us``, a bounded number."""
    last = 0
    oldest_first = "SELECT id, at_us FROM images ORDER BY id LIMIT ?"
    for row, at_us in db.execute(oldest_first, (max(TRIM_ROWS_MAX, 2 * added),)):
        if row > end - bytes_max and at_us >= oldest_us:
            break
        last = row
    if last:
        db.execute(RAISE_FLOORS, (last,))
        db.execute("DELETE FROM images WHERE id <= ?", (last,))


def begin_here(db: sqlite3.Connection) -> None:
    """Delete every image: what is read from now on is no older than the present."""
    db.execute(BEGIN_HERE)
    db.execute("DELETE FROM images")


def _replaced(db: sqlite3.Connection, topic: int, entry: Entry) -> list[Entry]:
    """Return what ``entry`` replaces: entries, a tombstone where there is none, or a PREFIX."""
    if entry.kind != PREFIX:
        row = db.execute(OF_KEY, (topic, entry.key)).fetchone()
        return [Entry(*row) if row else Entry(entry.key, 0, 0, 0, 0, None, TOMBSTONE)]
    group = (topic, entry.key, entry.key[:-1] + b"\x01")
    if db.execute(SIZE_OF_GROUP, group).fetchone()[0] > DROP_BYTES_MAX:
        return [Entry(entry.key, 0, 0, 0, 0, None, PREFIX)]
    return [Entry(*row) for row in db.execute(OF_GROUP, group)]


@dataclass(frozen=True, slots=True)
class Replacement:
    """What one transaction did to one entry. None: there is no entry of the key.

    ``lost``: the group was deleted at this version, and was too large to keep.
    """

    key: bytes
    version: int
    at_us: int
    source: int
    before: Entry | None
    after: Entry | None
    lost: bool = False


class HistoryReader:
    """Reads the store of a running catalogd, from any one thread; all of a ``moment`` agrees."""

    def __init__(self, path: Path) -> None:
        """Open the store's file at ``path``, for reading only."""
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Let every read inside see the store as it is at the first of them."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def versions(self) -> dict[int, int]:
        """Return the committed version of each topic that has one."""
        return dict(self._db.execute("SELECT topic, version FROM topics"))

    def floor(self, topic: int) -> int:
        """Return the oldest version of ``topic`` that can be read."""
        query = "SELECT version FROM history_floors WHERE topic = ?"
        row = self._db.execute(query, (topic,)).fetchone()
        return int(row[0]) if row else 0

    def present(self, topic: int, key: bytes) -> Entry | None:
        """Return the entry of ``key`` as it is now; None if there is none."""
        row = self._db.execute(OF_KEY, (topic, key)).fetchone()
        return Entry(*row) if row else None

    def entries_at(self, topic: int, version: int) -> list[Entry]:
        """Return the values and stubs of ``topic`` as of ``version``, sorted by key.

        Raises:
            HistoryGone: the history does not reach back so far.
        """
        self._demand(topic, version)
        query = """SELECT key, version, schema_version, data_version, size, value, kind
                   FROM entries WHERE topic = ? AND version <= ?"""
        found = {row[0]: Entry(*row) for row in self._db.execute(query, (topic, version))}
        query = """SELECT key, version, schema_version, data_version, size, value, kind, min(until)
                   FROM images WHERE topic = ? AND until > ? GROUP BY key"""
        for *row, until in self._db.execute(query, (topic, version)):
            image = Entry(*row)
            if image.kind == PREFIX:
                raise _too_large(image.key, until)
            if image.kind != TOMBSTONE:
                found[image.key] = image
        return [found[key] for key in sorted(found)]

    def replacements(self, topic: int, group: bytes, *, count: int) -> list[Replacement]:
        """Return the ``count`` newest replacements in a group, of one version in order of keys.

        They end at one that is ``lost``: what was there before it is not known.
        """
        last = group[:-1] + b"\x01"
        query = """SELECT until, at_us, source, key, version, schema_version, data_version, size,
                          value, kind
                   FROM images WHERE topic = ? AND key >= ? AND key < ?
                   ORDER BY until DESC, key LIMIT ?"""
        rows = self._db.execute(query, (topic, group, last, count)).fetchall()
        after = {row[0]: Entry(*row) for row in self._db.execute(OF_GROUP, (topic, group, last))}
        found: list[Replacement] = []
        for until, at_us, source, *row in rows:
            if found and found[-1].version != until and any(one.lost for one in found):
                break
            image = Entry(*row)
            lost = image.kind == PREFIX
            before = None if image.kind in (TOMBSTONE, PREFIX) else image
            now = None if lost else after.get(image.key)
            found.append(Replacement(image.key, until, at_us, source, before, now, lost=lost))
            if before is None:
                after.pop(image.key, None)
            else:
                after[image.key] = before
        return found

    def _demand(self, topic: int, version: int) -> None:
        floor = self.floor(topic)
        if version < floor:
            text = f"topic {topic} as of version {version}: the history begins at version {floor}"
            raise HistoryGone(text)


def _too_large(group: bytes, until: int) -> HistoryGone:
    db, table, _ = group_of(group).decode().split("\0")
    limit = f"{DROP_BYTES_MAX >> 20} MB"
    return HistoryGone(
        f"{db}.{table} before version {until}: it was dropped with more than {limit} of content, "
        "which are not kept"
    )
