"""History: the entries before each transaction, in the store, bounded in bytes and age.

    commit ──▶ images of the entries that it replaces ──▶ trimmed, the oldest first
    state of a topic at a version = its entries now, with each later transaction undone

Invariant: of a topic, every version from its floor on can be read again; a version below it is
refused with HistoryGone. Images are written in the transaction that they undo. A reader has a
connection of its own, so reads of the history never wait for a commit, nor a commit for them.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ...topics.errors import HistoryGone
from ...topics.objects.names import TableId, group_of
from ...topics.topic import PREFIX, TOMBSTONE, Entry
from ...topics.wire.messages.fields import Cell
from ..model.folders import group_end
from ..model.versions import Transaction
from . import file_facts

BYTES_MAX_DEFAULT: Final = 256 << 20
AGE_MAX_US_DEFAULT: Final = 7 * 24 * 3600 * 1_000_000  # a week
DROP_BYTES_MAX: Final = 8 << 20  # a larger group is not kept when it is deleted, so no commit waits
IMAGE_OVERHEAD_BYTES: Final = 96  # of a row of ``images`` and its index, without key and value
TRIM_ROWS_MAX: Final = 50  # deleted with one commit, so that trimming never delays a publish

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

ENTRY: Final = "key, version, schema_version, data_version, size, value, kind"  # as Entry has them
OF_KEY = f"SELECT {ENTRY} FROM entries WHERE topic = ? AND key = ?"
OF_GROUP = f"SELECT {ENTRY} FROM entries WHERE topic = ? AND key >= ? AND key < ?"
PAGE = f"""SELECT {ENTRY}
           FROM entries WHERE topic = ? AND key > ? AND (? = x'' OR key < ?) ORDER BY key"""
IMAGES = f"""SELECT {ENTRY}, min(until)
             FROM images WHERE topic = ? AND key > ? AND (? = x'' OR key < ?)
                               AND (? = x'' OR key <= ?) AND until > ?
             GROUP BY key ORDER BY key"""
LOST = f"""SELECT key, until
           FROM images WHERE topic = ? AND key >= ? AND (? = x'' OR key < ?)
                             AND (? = x'' OR key <= ?) AND until > ? AND kind = {PREFIX}"""
REPLACED = f"""SELECT until, at_us, source, {ENTRY}
               FROM images WHERE topic = ? AND until > ? AND until <= ? ORDER BY until, key"""
IMAGE = f"SELECT at_us, source, {ENTRY} FROM images WHERE id = ?"
SIZES = """SELECT until, count(*) FROM images
           WHERE topic = ? AND until > ? GROUP BY until ORDER BY until"""
SIZES_BY_KEY = "SELECT key, size FROM entries WHERE topic = ? ORDER BY key"
LAST_LOST = f"""SELECT key, max(until) FROM images
                WHERE topic = ? AND until > ? AND kind = {PREFIX} GROUP BY key"""
NEXT_IMAGE = f"""SELECT {ENTRY}
                 FROM images WHERE topic = ? AND key = ? AND until > ? ORDER BY until LIMIT 1"""
SIZE_OF_GROUP = """SELECT total(length(value)) + 100 * count(*)
                   FROM entries WHERE topic = ? AND key >= ? AND key < ?"""
ADD_IMAGE = "INSERT OR IGNORE INTO images VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# By id: SQLite would walk the index of all images instead, for the sake of its order.
RAISE_FLOORS = """INSERT INTO history_floors
                  SELECT topic, max(until) FROM images NOT INDEXED
                  WHERE id <= ? GROUP BY topic
                  ON CONFLICT (topic) DO UPDATE SET version = max(version, excluded.version)"""
BEGIN_HERE = """INSERT INTO history_floors SELECT topic, version FROM topics WHERE true
                ON CONFLICT (topic) DO UPDATE SET version = max(version, excluded.version)"""


def record(db: sqlite3.Connection, one: Transaction, end: int) -> int:
    """Keep what ``one`` is about to replace; return the byte offset behind the last image.

    To be called inside the store's transaction, before ``one`` is written. ``end``: the offset
    behind the last image so far. Cost: a look-up for each entry, a scan for each deleted group.
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
    """Delete the oldest images beyond ``bytes_max`` or before ``oldest_us``, a bounded number.

    It is TRIM_ROWS_MAX, and more only for twice the bytes that were ``added``.
    """
    last = first = 0
    for number, (row, at_us) in enumerate(db.execute("SELECT id, at_us FROM images ORDER BY id")):
        first = first or row
        if row > end - bytes_max and at_us >= oldest_us:
            break
        if number >= TRIM_ROWS_MAX and row - first > 2 * added:
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
    group = (topic, entry.key, group_end(entry.key))
    if db.execute(SIZE_OF_GROUP, group).fetchone()[0] > DROP_BYTES_MAX:
        return [Entry(entry.key, 0, 0, 0, 0, None, PREFIX)]
    return [Entry(*row) for row in db.execute(OF_GROUP, group)]


LogRow = tuple[int, int, int, int, str, str, int, int, int | None, int | None, str | None]
"""A line of the log: its number, time, source, topic, object, kind, its version before and after,
the event up to which catalogd was complete before and after, and who gave the order it is of."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The change of one entry by one transaction. None: there is no entry of the key.

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
        """Return the committed version of each topic that was ever committed."""
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

    def files(
        self, table: TableId, incarnation: int, *, after: str | None, count: int
    ) -> list[tuple[Cell, ...]]:
        """Return what is known of the files of ``table``, as ``file_facts.read``."""
        return file_facts.read(self._db, table, incarnation, after=after, count=count)

    def sweeps(self, tables: Iterable[tuple[TableId, int]]) -> list[tuple[Cell, ...]]:
        """Return how far ``tables`` are swept, as ``file_facts.totals``."""
        return list(file_facts.totals(self._db, tables))

    def num_topics(self) -> int:
        """Return the number of table topics."""
        return int(self._db.execute("SELECT num_topics FROM state").fetchone()[0])

    def epoch(self) -> int:
        """Return the epoch that versions count in."""
        return int(self._db.execute("SELECT epoch FROM state").fetchone()[0])

    def demand_epoch(self, epoch: int) -> None:
        """Raise HistoryGone unless versions count in ``epoch``."""
        current = self.epoch()
        if epoch != current:
            raise HistoryGone(f"epoch {epoch}: the history is of epoch {current}")

    def page_at(
        self, topic: int, version: int, *, after: bytes, until: bytes, bytes_max: int
    ) -> tuple[list[Entry], bytes]:
        """Return values and stubs of ``topic`` as of ``version`` by key, and where they end.

        The second is the key behind which the next page begins; empty: nothing is left.

        Args:
            topic: Whose entries.
            version: At most the topic's.
            after: The page begins behind this key.
            until: It ends before this key; empty: at the end of the topic.
            bytes_max: Of keys and values; the entry that exceeds it is the last, and comes whole.

        Raises:
            HistoryGone: the history does not reach back so far.

        Cost: the entries of the page, and the images of keys from its first to its last.
        """
        self._demand(topic, version)
        rows = self._db.execute(PAGE, (topic, after, until, until))
        present, cut = _first(map(Entry._make, rows), bytes_max)
        last = present[-1].key if cut else b""
        images, cut = _first(self._images(topic, version, (after, until, last)), bytes_max)
        last = images[-1].key if cut else last
        found = {one.key: one for one in present if one.version <= version}
        found |= {one.key: one for one in images}
        page = [found[key] for key in sorted(found) if key <= last or not last]
        return [one for one in page if one.kind != TOMBSTONE], last

    def _images(
        self, topic: int, version: int, bounds: tuple[bytes, bytes, bytes]
    ) -> Iterator[Entry]:
        """Yield what transactions after ``version`` replaced, as of it, sorted by key.

        ``bounds``: keys are above the first, below the second and at most the third, where these
        are not empty.
        """
        after, until, last = bounds
        ends = (until, until, last, last, version)
        group = group_of(after) if after else b""  # a mark in front of the page is of its keys, too
        lost = self._db.execute(LOST, (topic, group, *ends)).fetchone()
        if lost is not None:
            raise _too_large(*lost)
        for *row, _ in self._db.execute(IMAGES, (topic, after, *ends)):
            yield Entry._make(row)

    def replacements(
        self, topic: int, group: bytes, *, count: int, after: int = 0
    ) -> Iterator[Replacement]:
        """Yield the replacements in a group, the newest version first, those of a version by key.

        Those of versions up to ``after`` are left out. There are ``count`` of them, and more to
        complete the last version. They end at a change that is ``lost``: what was there before it
        is not known.
        """
        end = group_end(group)
        of_group = "FROM images WHERE topic = ? AND key >= ? AND key < ?"
        query = f"SELECT until {of_group} AND until > ? ORDER BY until DESC LIMIT 1 OFFSET ?"
        bounds = (topic, group, end, after, count - 1)
        (oldest,) = self._db.execute(query, bounds).fetchone() or (after + 1,)
        query = f"SELECT id, until {of_group} AND until >= ? ORDER BY until DESC, key"
        later: dict[bytes, Entry | None] = {}  # what is known of the entries that came after
        lost_at = 0
        for number, until in self._db.execute(query, (topic, group, end, oldest)).fetchall():
            if lost_at and until < lost_at:
                return
            at_us, source, *row = self._db.execute(IMAGE, (number,)).fetchone()
            image = Entry(*row)
            lost = image.kind == PREFIX
            lost_at = until if lost else lost_at
            before = None if image.kind in (TOMBSTONE, PREFIX) else image
            if image.key not in later and not lost:
                later[image.key] = self.present(topic, image.key)
            now = None if lost else later[image.key]
            yield Replacement(image.key, until, at_us, source, before, now, lost=lost)
            later[image.key] = before

    def steps(self, topic: int, *, after: int, until: int) -> Iterator[list[Replacement]]:
        """Yield what each transaction in ``(after, until]`` did to each group that it touched.

        They come by version, then by key. What was done to a group before it was ``lost`` is left
        out: it is not known.

        Raises:
            HistoryGone: the history begins later.

        Cost: the images of the topic, and two look-ups for each of those that are yielded.
        """
        self._demand(topic, after)
        lost = dict(self._db.execute(LAST_LOST, (topic, after)))
        rows = self._db.execute(REPLACED, (topic, after, until))
        for (version, group), some in groupby(rows, key=lambda row: (row[0], group_of(row[3]))):
            if version >= lost.get(group, 0):
                yield [self._replacement(topic, row) for row in some]

    def sizes(self, topic: int, *, after: int) -> Iterator[tuple[int, int]]:
        """Yield the version of each transaction behind ``after``, and how many entries it replaced.

        Raises:
            HistoryGone: the history begins later.

        Cost: the index of the topic's images.
        """
        self._demand(topic, after)
        yield from self._db.execute(SIZES, (topic, after))

    def cuts(self, topic: int, *, every_bytes: int) -> Iterator[bytes]:
        """Yield keys of ``topic``, in order: about ``every_bytes`` of values lie between two.

        Cost: the rows of the topic, without large values.
        """
        size = 0
        for key, value_bytes in self._db.execute(SIZES_BY_KEY, (topic,)):
            size += value_bytes
            if size >= every_bytes:
                yield key
                size = 0

    def log_bounds(self) -> tuple[int, int]:
        """Return the numbers of the first and the last line of the log of changes; 0 for none."""
        first, last = self._db.execute("SELECT min(id), max(id) FROM changes").fetchone()
        return (first or 0, last or 0)

    def log(self, after: int) -> Iterator[LogRow]:
        """Yield the lines of the log of changes and orders behind the number ``after``."""
        yield from self._db.execute("SELECT * FROM changes WHERE id > ? ORDER BY id", (after,))

    def recent(self, since_us: int, pattern: str) -> Iterator[LogRow]:
        """Yield the lines since then, the newest first, of objects that ``pattern`` names.

        All orders are among them: an order for a database may have caused what a table shows.

        Cost: a scan of the log; the interpreter's lock is free meanwhile.
        """
        of_objects = (
            " AND (object GLOB ? OR object GLOB ? || '[./]*' OR who NOT NULL)" if pattern else ""
        )
        query = f"SELECT * FROM changes WHERE at_us >= ?{of_objects} ORDER BY id DESC"
        yield from self._db.execute(query, (since_us, *([pattern] * 2 if pattern else ())))

    def writer(self, topic: int, version: int) -> str | None:
        """Return which driver reported the write of ``version``; None: it came from no report."""
        query = "SELECT driver FROM writers WHERE topic = ? AND version = ?"
        found = self._db.execute(query, (topic, version)).fetchone()
        return None if found is None else found[0].hex()

    def entry_at(self, topic: int, key: bytes, version: int) -> Entry | None:
        """Return the entry of ``key`` as of ``version``; None: there was none.

        It is right for versions from the floor of the history on.
        """
        row = self._db.execute(NEXT_IMAGE, (topic, key, version)).fetchone()
        found = Entry(*row) if row is not None else self.present(topic, key)
        return None if found is None or found.kind in (TOMBSTONE, PREFIX) else found

    def _replacement(self, topic: int, row: Sequence[Any]) -> Replacement:
        until, at_us, source, *entry = row
        image = Entry(*entry)
        lost = image.kind == PREFIX
        before = None if image.kind in (TOMBSTONE, PREFIX) else image
        after = None if lost else self.entry_at(topic, image.key, until)
        return Replacement(image.key, until, at_us, source, before, after, lost=lost)

    def _demand(self, topic: int, version: int) -> None:
        floor = self.floor(topic)
        if version < floor:
            text = f"topic {topic} as of version {version}: the history begins at version {floor}"
            raise HistoryGone(text)


def _first(entries: Iterable[Entry], bytes_max: int) -> tuple[list[Entry], bool]:
    """Return the first of ``entries``, until they exceed ``bytes_max``; and if there are more."""
    found: list[Entry] = []
    size = 0
    for entry in entries:
        if size > bytes_max:
            return found, True
        found.append(entry)
        size += len(entry.key) + len(entry.value or b"")
    return found, False


def _too_large(group: bytes, until: int) -> HistoryGone:
    db, table, _ = group_of(group).decode().split("\0")
    limit = f"{DROP_BYTES_MAX >> 20} MB"
    return HistoryGone(
        f"{db}.{table} before version {until}: it was dropped with more than {limit} of content, "
        "which are not kept"
    )
