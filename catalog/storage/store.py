"""Store: the durable state of catalogd, in one SQLite file; commit precedes publish.

    open ──▶ load (every topic once) ──▶ commit | delete_tombstones | mint_epoch … ──▶ close

Invariant: once ``commit`` has returned, its transactions survive ``kill -9`` at any instruction;
a commit that has not returned is stored as a whole or not at all. Used from one thread.
database.py says what its tables hold.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, Final

from ...topics.errors import StoreMoved
from ...topics.objects.names import pause_key, rules_key
from ...topics.topic import NAMESPACE, PREFIX, TOMBSTONE, Entry, is_topic, topic_ids
from ...topics.wire.messages.data import SOURCE_ORDERS
from ..model.folders import FolderRow, group_end
from ..model.lineage import EPOCH_MAX, StartRecord
from ..model.modes import pack_mode_state
from ..model.versions import Commit, LeaseRow, OrderRow, SweepRow, Transaction, WriteRow
from ..model.window_state import pack_state
from . import file_facts, folders, history
from .database import FILE_NAME, connect, explained, transaction
from .lock import FolderLock

LINEAGE_STARTS_MAX: Final = 1000
"""The starts of an epoch that the store keeps: three years at one restart a day. A peer whose last
start the store has deleted counts as ahead, so that catalogd begins a new epoch. With the largest
``num_topics`` they take 32 MB."""

CHANGES_BYTES_MAX: Final = 64 << 20  # about 600,000 changes: hours at 50 a second, months as usual
CHANGES_AGE_MAX_US: Final = 30 * 24 * 3600 * 1_000_000  # a month of history
CHANGE_OVERHEAD_BYTES: Final = 48  # of a row of ``changes``, without its two texts
TRIM_ROWS_MAX: Final = 50  # deleted with one commit, so that trimming never delays a publish

TOMBSTONES_BYTES_MAX: Final = 512 << 10
"""Of one topic. With 10 M partitions a topic's snapshot is about 1.3 MB: a peer that lacks much
more than this many deletions costs as little with a snapshot."""
TOMBSTONES_AGE_MAX_US: Final = 24 * 3600 * 1_000_000  # one night away: still a delta
TOMBSTONE_OVERHEAD_BYTES: Final = 32
READ_AT_ONCE: Final = 500  # keys in one query: SQLite may be built for 999 parameters
TOMBSTONES_STEP: Final = 500  # of one topic that are deleted at once: 1 ms

MOVED_REMEDY: Final = (
    "put the files back, or restart catalogd: it reads everything again from the metastore, as a "
    "new epoch, without the rules, the mode and the pause that operators have set"
)

UPSERT = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ADD_TOMBSTONE = "INSERT OR REPLACE INTO tombstones VALUES (?, ?, ?, ?, ?)"
DELETE = "DELETE FROM entries WHERE topic = ? AND key = ?"
DELETE_ALL_BUT = "DELETE FROM entries WHERE NOT (topic = ? AND key IN (?, ?))"
DELETE_GROUP = "DELETE FROM entries WHERE topic = ? AND key >= ? AND key < ?"
DELETE_TOMBSTONES = "DELETE FROM tombstones WHERE topic = ? AND version <= ?"
SET_VERSION = """INSERT INTO topics VALUES (?, ?, 0)
          ON CONFLICT (topic) DO UPDATE SET version = excluded.version"""
RAISE_FLOOR = """INSERT INTO topics VALUES (?, 0, ?)
                 ON CONFLICT (topic) DO UPDATE SET floor = excluded.floor"""
PUT_WRITE = "INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
DELETE_WRITE = "DELETE FROM writes WHERE driver = ? AND number = ?"
PUT_WRITER = "INSERT OR REPLACE INTO writers VALUES (?, ?, ?)"
DELETE_WRITERS = """DELETE FROM writers WHERE (topic, version) IN
                    (SELECT topic, version_after FROM changes WHERE id <= ?)"""
WRITES = "SELECT * FROM writes ORDER BY driver, number"
ADD_LEASE = "INSERT INTO leases VALUES (?, ?, ?, ?, ?)"
ADD_CHANGE = "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
VALUES_OF = f"SELECT {history.ENTRY} FROM entries WHERE topic = ? ORDER BY key"
HEADS_OF = """SELECT key, version, schema_version, data_version, size, NULL, kind
              FROM entries WHERE topic = ? ORDER BY key"""
ENTRIES_OF = f"SELECT {history.ENTRY} FROM entries WHERE topic = ? AND key IN"
TOMBSTONES_OF = """SELECT key, version, version, version, 0, NULL, kind
               FROM tombstones WHERE topic = ? ORDER BY version, key"""
FileId = tuple[int, int]  # the device and the inode; (0, 0): there is no such file
TOMBSTONES_BYTES = f"""SELECT total(length(key) + {TOMBSTONE_OVERHEAD_BYTES}) FROM tombstones
                         WHERE topic = ?"""
TOMBSTONES_OLDEST_FIRST = """SELECT version, length(key), at_us FROM tombstones
                         WHERE topic = ? ORDER BY version LIMIT ?"""


class Store:
    """The entries, versions, epoch, starts and history of one catalogd."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        lock: FolderLock,
        *,
        history_bytes_max: int,
        history_age_max_us: int,
    ) -> None:
        """Use ``open``."""
        self.path = path  # of the file
        self._db = db
        self._lock = lock
        self._history_bytes_max = history_bytes_max
        self._history_age_max_us = history_age_max_us
        self._changes_end = 0  # the largest id of ``changes``, in bytes
        self._images_end = 0  # likewise of ``images``
        self._versions: dict[int, int] = {}  # as committed, by topic
        self._floors: dict[int, int] = {}  # likewise
        self.num_topics = 0
        self.epoch = 0
        self.last_event_id: int | None = None
        self.window = b""  # see model/window_state
        self.mode_state = ""  # see model/modes
        self.start = 0  # the id of this start
        self._files: tuple[tuple[Path, FileId], ...] = ()  # that must stay where they are
        self.starts: tuple[StartRecord, ...] = ()  # of the epoch, oldest first, this one last

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        num_topics: int,
        now_us: int,
        new_id: int,
        history_bytes_max: int = history.BYTES_MAX_DEFAULT,
        history_age_max_us: int = history.AGE_MAX_US_DEFAULT,
    ) -> "Store":
        """Open the store in ``folder``, or create it, and record this start of catalogd.

        Args:
            folder: The state folder; locked until ``close``.
            num_topics: Must be what the store was made with.
            now_us: The time of this start, and the epoch of a store that is created.
            new_id: Random, above 0 and below 2**64: the id of this start.
            history_bytes_max: Bytes of former entries that are kept.
            history_age_max_us: How long they are kept.

        Raises:
            StoreError: the folder is taken or cannot be written; the file is damaged, of another
                ``num_topics`` or schema. Nothing was changed.
        """
        assert 0 < new_id < 1 << 64
        assert 0 < now_us <= EPOCH_MAX
        lock = FolderLock(folder)
        path = folder / FILE_NAME
        try:
            store = cls(
                path,
                connect(path, num_topics=num_topics, epoch=now_us),
                lock,
                history_bytes_max=history_bytes_max,
                history_age_max_us=history_age_max_us,
            )
        except BaseException:
            lock.release()
            raise
        try:
            with explained(path):
                store._read(now_us, new_id)  # it commits, so that there is a log from here on
            log = path.with_name(f"{path.name}-wal")
            store._files = tuple((one, _id_of(one)) for one in (lock.path, path, log))
        except BaseException:
            store.close()
            raise
        return store

    @property
    def versions(self) -> dict[int, int]:
        """The committed version of every topic."""
        return dict(self._versions)

    def check_files(self) -> None:
        """Check that the paths of the store still lead to the files that were opened. Cost: 5 µs.

        SQLite goes on with a file that was deleted, and its commits would end with the process.

        Raises:
            StoreMoved: a path leads to another file, or to none.
        """
        for path, opened in self._files:
            if _id_of(path) != opened:
                raise StoreMoved(str(path), "was deleted, moved or replaced", MOVED_REMEDY)

    def load(
        self, topics: Iterable[int], *, values: bool = True
    ) -> Iterator[tuple[int, int, int, list[Entry], list[Entry]]]:
        """Yield (topic, version, floor, entries, tombstones) of each of ``topics``.

        Entries are sorted by key, tombstones by version, as ``Topic.load`` requires; entries are
        without their values if ``values`` is false. Cost: 3 µs an entry, 1 µs without its value.
        Source: tests/bench/bench_restart.py.
        """
        with explained(self.path):
            for topic in topics:
                rows = self._db.execute(VALUES_OF if values else HEADS_OF, (topic,)).fetchall()
                gone = self._db.execute(TOMBSTONES_OF, (topic,)).fetchall()
                entries, tombstones = map(_as_entry, rows), map(_as_entry, gone)
                floor = self._floors[topic]
                yield topic, self._versions[topic], floor, list(entries), list(tombstones)

    def version(self, topic: int) -> int:
        """Return the committed version of ``topic``: up to it ``read`` has everything."""
        return self._versions[topic]

    def read(self, topic: int, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Return the entries of those of ``keys`` that exist. Cost: 6 µs each."""
        found: dict[bytes, Entry] = {}
        with explained(self.path):
            for begin in range(0, len(keys), READ_AT_ONCE):
                some = keys[begin : begin + READ_AT_ONCE]
                query = f"{ENTRIES_OF} ({','.join('?' * len(some))})"
                rows = self._db.execute(query, (topic, *some))
                found.update((row[0], Entry(*row)) for row in rows)
        return found

    def commit(self, commit: Commit) -> None:
        """Make ``commit`` durable, all or nothing.

        Cost: one fsync however many transactions there are; none if nothing differs from what is
        stored.

        Raises:
            StoreError: nothing of it was stored.
        """
        self.check_files()
        transactions, leases = commit.transactions, commit.leases
        mode_state = self.mode_state
        if commit.mode_state is not None:
            mode_state = pack_mode_state(commit.mode_state)
        last_event_id = commit.window.last_id if commit.window is not None else None
        state = (last_event_id, pack_state(commit.window), mode_state)
        changed = state != (self.last_event_id, self.window, self.mode_state)
        rows = transactions, commit.orders, commit.writes, commit.finished, commit.sweeps
        if not (changed or any(rows) or commit.folders) and leases is None:
            return
        ends = self._check_order(transactions)
        changes = self._change_rows(transactions, commit.orders, last_event_id)
        images_end = self._images_end
        with explained(self.path), transaction(self._db):
            for one in transactions:
                images_end = history.record(self._db, one, images_end)
                self._write(one)
            if commit.folders is not None:
                folders.write(self._db, commit.folders)
            if images_end > self._images_end:
                history.trim(
                    self._db,
                    end=images_end,
                    bytes_max=self._history_bytes_max,
                    oldest_us=transactions[-1].at_us - self._history_age_max_us,
                    added=images_end - self._images_end,
                )
            if changes:
                self._db.executemany(ADD_CHANGE, changes)
                self._trim((transactions or commit.orders)[-1].at_us, len(changes))
            self._db.executemany(PUT_WRITE, map(_packed, commit.writes))
            self._db.executemany(DELETE_WRITE, commit.finished)
            self._db.executemany(PUT_WRITER, commit.writers)
            if leases is not None:
                self._db.execute("DELETE FROM leases")
                held = ((*one.table, one.holder, one.owner, one.lease_s) for one in leases)
                self._db.executemany(ADD_LEASE, held)
            if commit.sweeps:
                file_facts.write(self._db, commit.sweeps)
            self._db.executemany(SET_VERSION, ends.items())
            self._db.execute("UPDATE state SET last_event_id = ?, window = ?, mode = ?", state)
        self._versions.update(ends)
        self._changes_end = changes[-1][0] if changes else self._changes_end
        self._images_end = images_end
        self.last_event_id, self.window, self.mode_state = state

    def load_writes(self) -> Iterator[WriteRow]:
        """Yield the writes of drivers, by driver and number."""
        with explained(self.path):
            for row in self._db.execute(WRITES).fetchall():
                yield _unpacked(row)

    def load_leases(self) -> Iterator[LeaseRow]:
        """Yield the leases of tables, by table."""
        with explained(self.path):
            for db, name, holder, owner, lease_s in self._db.execute("SELECT * FROM leases"):
                yield LeaseRow(table=(db, name), holder=holder, owner=owner, lease_s=lease_s)

    def load_sweeps(self) -> Iterator[SweepRow]:
        """Yield the revision of the known files of each table, without their facts."""
        with explained(self.path):
            yield from file_facts.load(self._db)

    def folders_at(self, locations: Sequence[str]) -> list[FolderRow]:
        """Return the folders of tables at any of ``locations``."""
        with explained(self.path):
            return folders.at(self._db, locations)

    def folders_in(self, location: str) -> Iterator[FolderRow]:
        """Yield the folders of tables below ``location``; commit nothing meanwhile."""
        with explained(self.path):
            yield from folders.below(self._db, location)

    def folders_of(self, first: bytes, end: bytes) -> list[FolderRow]:
        """Return the folders of the keys from ``first`` on, and before ``end``."""
        with explained(self.path):
            return folders.of(self._db, first, end)

    def floor_due(self, topic: int, now_us: int) -> int:
        """Return the floor to which ``topic`` is to be raised, as tombstones are old or many; or 0.

        The caller then calls ``delete_tombstones``, and ``Topic.raise_floor``, after which the
        floor may be published. One call covers TOMBSTONES_STEP tombstones at most, so it is to be
        called again until it returns 0. Cost: under 1 ms.
        """
        with explained(self.path):
            (held,) = self._db.execute(TOMBSTONES_BYTES, (topic,)).fetchone()
            oldest = self._db.execute(TOMBSTONES_OLDEST_FIRST, (topic, TOMBSTONES_STEP)).fetchall()
        floor = 0
        for version, key_bytes, at_us in oldest:
            if held > TOMBSTONES_BYTES_MAX or at_us < now_us - TOMBSTONES_AGE_MAX_US:
                floor = version
            held -= key_bytes + TOMBSTONE_OVERHEAD_BYTES
        return floor

    def delete_tombstones(self, topic: int, floor: int) -> None:
        """Raise the floor of ``topic`` to ``floor``, and delete the tombstones that are not above.

        A floor that is not above the present one changes nothing.
        """
        if floor <= self._floors[topic]:
            return
        with explained(self.path), transaction(self._db):
            self._db.execute(DELETE_TOMBSTONES, (topic, floor))
            self._db.execute(RAISE_FLOOR, (topic, floor))
        self._floors[topic] = floor

    def mint_epoch(self, now_us: int, *, at_least: int) -> int:
        """Begin a new epoch, above ours and above ``at_least``, the largest seen; return it.

        Versions, entries and incarnations go on as they are: positions are ordered by (epoch,
        version), so a peer of another epoch takes a snapshot, and nothing is rewritten.
        This start is the first of the new epoch. Cost: one commit.
        """
        record = self._first_record(now_us, at_least)
        with explained(self.path), transaction(self._db):
            self._begin_epoch(record, now_us)
        self.epoch, self.starts = record.epoch, (record,)
        return self.epoch

    def begin_anew(self, now_us: int, *, at_least: int) -> int:
        """Discard the content of the metastore, and begin a new epoch as ``mint_epoch`` does.

        Versions go on, so that no incarnation comes twice. The operators' rules, pause and mode,
        the writes of drivers and the list of changes stay; former entries do not. A peer that
        holds anything of a topic is below its floor, so it takes a snapshot. Cost: one commit,
        O(entries).
        """
        record = self._first_record(now_us, at_least)
        floors = {topic: version for topic, version in self._versions.items() if version}
        with explained(self.path), transaction(self._db):
            self._db.execute(DELETE_ALL_BUT, (NAMESPACE, rules_key(), pause_key()))
            self._db.execute("DELETE FROM tombstones")
            self._db.execute("DELETE FROM folders")
            self._db.executemany(RAISE_FLOOR, floors.items())
            history.begin_here(self._db)
            self._db.execute("UPDATE state SET last_event_id = NULL, window = ?", (b"",))
            self._begin_epoch(record, now_us)
        self._floors.update(floors)
        self.last_event_id, self.window = None, b""
        self.epoch, self.starts = record.epoch, (record,)
        return self.epoch

    def close(self) -> None:
        """Write the log into the file and unlock the folder."""
        try:
            with explained(self.path):
                self._db.close()
        finally:
            self._lock.release()

    def _first_record(self, now_us: int, at_least: int) -> StartRecord:
        """Return this start as the first of an epoch above ours and above ``at_least``."""
        epoch = max(now_us, self.epoch + 1, at_least + 1)
        assert epoch <= EPOCH_MAX + 1
        return StartRecord(start=self.start, epoch=epoch, versions=self._vector())

    def _begin_epoch(self, record: StartRecord, now_us: int) -> None:
        """Store ``record`` as the one start of its epoch, inside a transaction."""
        self._db.execute("UPDATE state SET epoch = ?", (record.epoch,))
        self._db.execute("DELETE FROM starts")
        self._record_start(record, now_us)

    def _read(self, now_us: int, new_id: int) -> None:
        state = "SELECT num_topics, epoch, last_event_id, window, mode FROM state"
        row = self._db.execute(state).fetchone()
        self.num_topics, self.epoch, self.last_event_id, self.window, self.mode_state = row
        ids = topic_ids(self.num_topics)
        self._versions, self._floors = dict.fromkeys(ids, 0), dict.fromkeys(ids, 0)
        for topic, version, floor in self._db.execute("SELECT topic, version, floor FROM topics"):
            self._versions[topic], self._floors[topic] = version, floor
        self._changes_end = self._db.execute("SELECT max(id) FROM changes").fetchone()[0] or 0
        self._images_end = self._db.execute("SELECT max(id) FROM images").fetchone()[0] or 0
        record = StartRecord(start=new_id, epoch=self.epoch, versions=self._vector())
        with transaction(self._db):
            self._record_start(record, now_us)
        rows = self._db.execute("SELECT start, epoch, versions FROM starts ORDER BY ordinal")
        self.start, self.starts = new_id, tuple(_start_record(*row) for row in rows)

    def _record_start(self, record: StartRecord, now_us: int) -> None:
        insert = "INSERT INTO starts (start, epoch, at_us, versions) VALUES (?, ?, ?, ?)"
        start = record.start.to_bytes(8, "big")
        versions = Struct(f">{len(record.versions)}Q").pack(*record.versions)
        done = self._db.execute(insert, (start, record.epoch, now_us, versions))
        oldest = (done.lastrowid or 0) - LINEAGE_STARTS_MAX
        self._db.execute("DELETE FROM starts WHERE ordinal <= ?", (oldest,))

    def _vector(self) -> Sequence[int]:
        return array("Q", (self._versions[topic] for topic in topic_ids(self.num_topics)))

    def _check_order(self, transactions: Sequence[Transaction]) -> dict[int, int]:
        ends: dict[int, int] = {}
        for one in transactions:
            one.check()
            assert is_topic(one.topic, self.num_topics), one.topic
            assert one.from_version == ends.get(one.topic, self._versions[one.topic]), one.topic
            ends[one.topic] = one.to_version
        return ends

    def _write(self, one: Transaction) -> None:
        topic = one.topic
        gone = [e for e in one.entries if e.kind in (TOMBSTONE, PREFIX)]
        for entry in gone:
            if entry.kind == PREFIX:
                self._db.execute(DELETE_GROUP, (topic, entry.key, group_end(entry.key)))
            else:
                self._db.execute(DELETE, (topic, entry.key))
        tombstones = ((topic, e.version, e.key, e.kind, one.at_us) for e in gone)
        self._db.executemany(ADD_TOMBSTONE, tombstones)
        rows = (
            (topic, e.key, e.version, e.schema_version, e.data_version, e.size, e.value, e.kind)
            for e in one.entries
            if e.kind not in (TOMBSTONE, PREFIX)
        )
        self._db.executemany(UPSERT, rows)

    def _change_rows(
        self,
        transactions: Sequence[Transaction],
        orders: Sequence[OrderRow],
        last_event_id: int | None,
    ) -> list[history.LogRow]:
        end = self._changes_end
        events = (self.last_event_id, last_event_id)
        rows: list[history.LogRow] = []
        for order in orders:
            end += len(order.object.encode()) + len(order.order) + CHANGE_OVERHEAD_BYTES
            fields = (
                SOURCE_ORDERS,
                -1,
                order.object,
                order.order,
                0,
                0,
                *events,
                f"{order.key} ({order.sender})",
            )
            rows.append((end, order.at_us, *fields))
        for one in transactions:
            for change in one.changes:
                end += len(change.object.encode()) + len(change.kind) + CHANGE_OVERHEAD_BYTES
                what = (one.topic, change.object, change.kind, change.before, one.to_version)
                rows.append((end, one.at_us, one.source, *what, *events, None))
        return rows

    def _trim(self, now_us: int, added: int) -> None:
        end = self._changes_end - CHANGES_BYTES_MAX
        oldest_us = now_us - CHANGES_AGE_MAX_US
        oldest_first = "SELECT id, at_us FROM changes ORDER BY id LIMIT ?"
        last = 0
        for row, at_us in self._db.execute(oldest_first, (max(TRIM_ROWS_MAX, 2 * added),)):
            if row > end and at_us >= oldest_us:
                break
            last = row
        self._db.execute(DELETE_WRITERS, (last,))
        self._db.execute("DELETE FROM changes WHERE id <= ?", (last,))


def _id_of(path: Path) -> FileId:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


_as_entry = partial(tuple.__new__, Entry)  # of a whole row, in a third of Entry's time


def _packed(one: WriteRow) -> tuple[object, ...]:
    rest = (one.open, one.at_us, one.topic, one.version)
    return (one.driver, one.number, one.object, "\n".join(one.partitions), *rest)


def _unpacked(row: tuple[Any, ...]) -> WriteRow:
    driver, number, wanted, partitions, is_open, at_us, topic, version = row
    return WriteRow(
        driver=driver,
        number=number,
        object=wanted,
        partitions=tuple(partitions.splitlines()),
        open=bool(is_open),
        at_us=at_us,
        topic=topic,
        version=version,
    )


def _start_record(start: bytes, epoch: int, versions: bytes) -> StartRecord:
    numbers = Struct(f">{len(versions) // 8}Q").unpack(versions)
    return StartRecord(
        start=int.from_bytes(start, "big"), epoch=epoch, versions=array("Q", numbers)
    )
